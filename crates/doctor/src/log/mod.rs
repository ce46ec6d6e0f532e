//! Reads a kernel's log in three stages: unwraps it, finds the reports in it, and parses each of them.

mod find;
mod literals;
mod read;
mod scan;
mod unwrap;

pub(crate) use self::find::begins;
pub use self::find::{About, Kind, MUCH_KB, Notice, Report, Slab, Told};
pub(crate) use self::read::kind_name;
pub use self::read::{
    Caller, Cgroup, FreeList, Growth, Held, Lack, MemInfo, Named, NodeMemory, Process, Purpose,
    Share, SlabCache, Victim, Vmalloc, Zone,
};
pub use self::scan::{Logged, read};
pub use self::unwrap::{Date, Moment, Prefix, Stamp};

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// Its number in the log, from 1.
    pub number: usize,
    /// What the kernel printed.
    pub text: String,
    /// The prefix of the line.
    pub prefix: Prefix,
}
