//! Plain values: what events add up to, what a run is said to be, and the files that hold them.

pub mod blocks;
pub mod call_sites;
pub mod clock;
pub mod counters;
pub mod ended;
pub mod error;
pub mod event_unit;
pub mod extfrag;
pub mod file;
pub mod hash;
pub mod history;
pub mod index;
pub mod mismatch;
pub mod names;
pub mod observer;
pub mod origin;
mod parse_words;
pub mod setup;
pub mod uninitialised;
