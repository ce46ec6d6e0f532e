//! The rules around the allocator, one file for each part of the kernel.

pub mod compaction;
pub mod huge;
pub mod kcompactd;
pub mod kswapd;
pub mod memory;
pub mod mglru;
pub mod pagecache;
pub mod reclaim;
pub mod scheduler;
pub mod shrinkers;
pub mod sysctl;
pub mod writeback;
