//! Closed-loop replay: the demand of a recording, served by a machine that decides reclaim and compaction itself.
//!
//! Demand is what tasks asked for, and how long they needed it: requests, and frees by whoever owned the memory. What the
//! recorded kernel's reclaim freed and what its compaction moved is not: here pages of files wait on LRU lists until kswapd or a
//! task in direct reclaim takes them, and movable pages go where compaction moves them, by `pageblock-vm`'s code under the rules
//! of the kernel that is asked about. `pageblock_replay`'s open loop takes both from the recording instead.
//!
//! What no event of a recording tells is simpler than in a kernel: pages of files are used once; nothing is swapped;
//! the slab pages that shrinkers empty, and bulk requests, are as recorded; tasks reclaim and compact in no time, kswapd and
//! kcompactd at the speed that the recorded kswapd had.
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
