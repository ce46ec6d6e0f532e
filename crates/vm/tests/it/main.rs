//! The machine under pressure: whatever happens, no page is lost. And the structure of the crate.

mod compaction;
mod early;
mod huge;
mod machine;
mod pressure;
mod rings;
mod scenarios;
mod swarm;
mod zram;
