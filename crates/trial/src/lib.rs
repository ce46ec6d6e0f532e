//! Tries remedies for fragmented memory on the state of a machine, before they are advised.
//!
//! [`State`] is the use of every frame of a machine, from which allocators are built. [`remedies()`] tries common
//! advice on such allocators, with the allocator's own code and its own compaction, never by counting alone. A
//! state shows no demand: effects that depend on it are reported as unknown, and [`demand`] judges them by a
//! recording.
#![forbid(unsafe_code)]

pub mod demand;
mod error;
mod machine;
mod remedies;
mod remedy;
mod state;
mod types;

pub use error::Error;
pub use remedies::{Trials, remedies};
pub use remedy::{Confidence, Cost, Effect, OrderGain, Remedy, Span, Verdict};
pub use state::State;
