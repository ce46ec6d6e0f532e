//! What surrounds the page allocator in a kernel: page cache, reclaim, slab caches, compaction,
//! huge pages.
//!
//! [`Vm`] holds it all. Nothing here waits or knows the time: what takes long is a job that
//! is run step by step, and says after each step whether it worked, waits, or is done. Who runs it
//! (the laboratory's executor, or a test) charges time for the [`Work`](work::Work) that was done.
#![forbid(unsafe_code)]

mod base;
pub mod check;
pub mod compact;
pub mod config;
mod fs;
mod huge;
pub mod node;
pub mod page;
mod pagecache;
mod reclaim;
pub mod slab;
mod slowpath;
mod swap;
pub mod vm;

pub use base::{daemon, inject, stalls, stat, work};
pub use fs::{buffer, cil, extent, inode};
pub use huge::{hugetlb, khugepaged, mthp, thp};
pub use page::{age, placed, space};
pub use pagecache::{filemap as cache, lru, writeback};
pub use reclaim::{kswapd, node_reclaim};
pub use slab::{process, skb};
pub use slowpath::slow;
pub use swap::{zram, zsmalloc};
pub use vm::Vm;
