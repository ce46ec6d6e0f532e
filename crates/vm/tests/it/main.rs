//! The machine under memory pressure, in which no page may be lost, and the structure of the crate.

mod compaction;
mod early;
#[path = "../../../pageblock/tests/it/folders.rs"]
mod folders;
mod generations;
mod huge;
mod kswapd;
mod machine;
mod pressure;
mod rings;
mod scenarios;
#[path = "../../../pageblock/tests/it/source.rs"]
mod source;
mod swarm;
mod zram;
