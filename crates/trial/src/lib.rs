//! Remedies for fragmented memory, tried on the state of a machine before they are advised.
//!
//! [`State`] is what every frame of a machine is used for, from which allocators are built. [`remedies()`] tries what is
//! often advised on such allocators: by the allocator's own code and its own compaction, never by counting alone. What a
//! state cannot tell, as it shows no demand, is said to be unknown; [`demand`] judges it by a recording.
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
