//! The third stage: the numbers in a report.

pub(super) mod cgroup;
pub(super) mod mem_info;
pub(super) mod vmalloc;

pub use self::cgroup::{Cgroup, Victim};
pub(crate) use self::mem_info::kind_name;
pub use self::mem_info::{FreeList, MemInfo, Zone};
pub use self::vmalloc::{Lack, Vmalloc};
