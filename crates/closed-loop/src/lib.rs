//! Closed-loop replay: a machine that decides reclaim and compaction itself serves the demand of a recording.
//!
//! Demand is what tasks asked for and how long they needed it: requests, and frees by the owner of the memory. It
//! does not include what the recorded kernel's reclaim freed and its compaction moved. Here file pages wait on LRU
//! lists until kswapd or a task in direct reclaim takes them, and compaction moves movable pages: `pageblock-vm`'s
//! code decides, under the rules of the kernel in question. `pageblock_replay`'s open loop takes both from the
//! recording instead.
//!
//! Where a recording has no events, this machine is simpler than a kernel: pages of files that reclaim passed over are
//! used again as soon as they are there, all others once; nothing is swapped; shrinkers empty the recorded slab pages;
//! bulk requests are as recorded; tasks reclaim and compact in no time, kswapd and kcompactd at the speed of the
//! recorded kswapd.
#![forbid(unsafe_code)]

mod content;
mod daemons;
mod flusher;
mod machine;
mod names;
mod pace;
mod result;
mod run;

pub use run::{obstacle, replay};
