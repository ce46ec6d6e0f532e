//! The subsystems around the page allocator in a kernel: page cache, reclaim, slab caches, compaction, huge pages.
//!
//! [`Vm`] holds all of them. Nothing here waits or has a clock: a long operation is a job that is run step by step and
//! says after each step whether it worked, waits, or is done. Its caller (the executor of a simulation, or a test)
//! charges time for the [`Work`](work::Work) that was done.
//!
//! Each folder is a subsystem. It owns the fields of its part of [`Vm`] and imports only from the folders before it, in
//! this order: `base`, `page`, `slab`, `pagecache`, `swap`, `fs`, `huge`, `compact`, `reclaim`, `slowpath`
//! (`tests/it/rings.rs`).
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
pub use page::{age, placed};
pub use pagecache::{filemap as cache, lru, space, writeback};
pub use reclaim::{kswapd, node_reclaim};
pub use slab::{process, skb};
pub use slowpath::slow;
pub use swap::{zram, zsmalloc};
pub use vm::Vm;
