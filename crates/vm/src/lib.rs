//! What surrounds the page allocator in a kernel: page cache, reclaim, slab caches, compaction,
//! huge pages.
//!
//! [`Vm`] holds it all. Nothing here waits or knows the time: what takes long is a job that
//! is run step by step, and says after each step whether it worked, waits, or is done. Who runs it
//! (the laboratory's executor, or a test) charges time for the [`Work`](work::Work) that was done.
#![forbid(unsafe_code)]

pub mod age;
pub mod buffer;
pub mod cache;
pub mod check;
pub mod cil;
pub mod compact;
pub mod config;
mod direct;
pub mod extent;
pub mod hugetlb;
pub mod inject;
pub mod inode;
pub mod khugepaged;
pub mod kswapd;
mod list;
pub mod lru;
pub mod mthp;
pub mod node;
pub mod node_reclaim;
mod oom;
pub mod page;
pub mod placed;
pub mod process;
mod reclaim;
mod shrinker;
pub mod skb;
pub mod slab;
pub mod slow;
mod slowpath_orders;
pub mod space;
pub mod stalls;
pub mod stat;
pub mod swap;
pub mod swap_in;
pub mod thp;
pub mod vm;
pub mod work;
mod workingset;
pub mod writeback;
pub mod zram;
pub mod zsmalloc;

pub use vm::Vm;
