//! Records the page allocator of the machine it runs on: every event of the tracepoints that the replay needs, and the
//! state of memory at the start and at the end.
//!
//! [`Session::start`] switches tracing on in an instance of its own, [`Session::finish`] switches everything off
//! and leaves a recording that `pageblock_recording::Recording::open` reads: one file, or a folder. While it runs, and after it was
//! killed, there is a folder with `.partial` at the end of its name; [`salvage`] makes a recording of one that was left behind.
#![forbid(unsafe_code)]

mod cost;
mod drain;
mod error;
mod fallbacks;
mod finish;
mod frames;
mod open_files;
mod owner;
mod probes;
mod ring;
mod salvage;
mod session;
mod state;
mod stop;
mod trace_dat;
mod tracefs;

pub use cost::Cost;
pub use error::Error;
pub use fallbacks::{FallbackEvents, SeenFallback, SeenFallbacks};
pub use finish::Progress;
pub use probes::Probes;
pub use ring::RingPlan;
pub use salvage::salvage;
pub use session::{Plan, Preview, Session, Summary};
pub use stop::Stop;
pub use tracefs::{Group, Left, Tracefs, Tracepoints};
