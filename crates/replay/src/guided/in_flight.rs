//! The operations that tasks and CPUs are in the middle of.

use pageblock::fallback::Fallback;
use pageblock::frame::{Order, Pfn};
use pageblock_recording::{Record, What};

use super::alloc::Promise;
use super::drain::Draining;
use super::refill::Refill;
use crate::look_ahead::Destination;

/// A block that a task reported free before it put it on a list.
#[derive(Clone, Copy)]
pub(super) struct Delayed {
    pub(super) cpu: usize,
    pub(super) pid: u32,
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// Its destination.
    pub(super) destination: Destination,
}

impl Delayed {
    /// Returns whether the block is on its way to a list of this CPU.
    pub(super) fn is_for(&self, cpu: usize) -> bool {
        self.cpu == cpu && self.destination == Destination::Listed
    }
}

/// The last event of a task, and its place.
#[derive(Clone, Copy)]
pub(super) struct LastSeen {
    pub(super) cpu: usize,
    pub(super) t_us: u64,
    /// The event ended a compaction.
    pub(super) compacted: bool,
}

impl LastSeen {
    pub(super) fn of(record: &Record) -> Self {
        let compacted = matches!(&record.what, What::Other(o) if &*o.name == "mm_compaction_end");
        Self { cpu: usize::from(record.cpu), t_us: record.t_us, compacted }
    }
}

/// The operations that a CPU is in the middle of.
#[derive(Clone, Default)]
pub(super) struct Cpu {
    pub(super) refill: Option<Refill>,
    pub(super) drains: Vec<Draining>,
    /// The claim that came with the last block taken. Its event is still to come (6.10 and later).
    pub(super) claim: Option<(Option<Fallback>, bool)>,
    /// Blocks taken from the zone for a request, bypassing the CPU lists.
    pub(super) in_flight: Vec<Pfn>,
    /// Blocks that a list yielded to a request that is not yet reported.
    pub(super) promised: Vec<Promise>,
    /// The number of blocks that came to this CPU's lists since it last took one.
    pub(super) pushed: u32,
    /// The block at a list's end that the kernel skipped last.
    pub(super) skipped: Option<Pfn>,
    /// The second in which the limits of its lists decayed last; 0 before its first event.
    pub(super) second: u64,
    /// Pages that the bulk allocator took before a refill, and has not yet reported.
    pub(super) taken_unseen: u32,
}
