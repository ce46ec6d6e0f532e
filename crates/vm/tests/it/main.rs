//! The machine under pressure: whatever happens, no page is lost.

mod compaction;
mod early;
mod huge;
mod machine;
mod pressure;
mod scenarios;
mod zram;
