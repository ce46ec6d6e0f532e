//! The third stage: the numbers in a report.

pub(super) mod cgroup;
mod fields;
pub(super) mod held;
pub(super) mod mem_info;
mod nodes;
pub(super) mod proc;
mod rows;
mod samples;
pub(super) mod stack;
pub(super) mod state;
pub(super) mod tasks;
mod tools;
pub(super) mod vmalloc;

pub use self::cgroup::{Cgroup, Share, Victim};
pub use self::held::Held;
pub(crate) use self::mem_info::kind_name;
pub use self::mem_info::{FreeList, MemInfo, Zone};
pub use self::nodes::NodeMemory;
pub use self::samples::Growth;
pub use self::stack::{Caller, Purpose};
pub use self::tasks::{Named, Process, SlabCache};
pub use self::vmalloc::{Lack, Vmalloc};
