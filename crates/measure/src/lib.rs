//! Turns events into numbers: counters, matrices, indexes, saved runs, comparisons and statistics.
//!
//! Simulated, replayed and real runs arrive as [`pageblock::event::Event`]s and as plain counts; only [`Origin`] tells
//! them apart. Nothing here prints a table; the crate `pageblock-report` does.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod calibration;
pub mod call_sites;
pub mod catalogue;
pub mod certificate;
pub mod clock;
pub mod comparable;
pub mod compare;
pub mod contents;
pub mod counters;
pub mod ended;
pub mod error;
pub mod event_unit;
pub mod extfrag;
pub mod file;
pub mod full;
pub mod hash;
pub mod history;
pub mod index;
mod limits;
pub mod mismatch;
pub mod monitors;
pub mod multiops;
pub mod names;
pub mod observer;
pub mod origin;
pub mod paired;
mod parse_words;
pub mod prediction;
pub mod published;
pub mod run;
pub mod seeds;
pub mod setup;
pub mod stats;
pub mod summary;
pub mod tables;
pub mod trend;
pub mod uninitialised;
pub mod verification;

pub use calibration::Calibration;
pub use certificate::{Certificate, Grades, Judgement, Loop};
pub use counters::Counters;
pub use error::Error;
pub use event_unit::EventUnit;
pub use extfrag::{ExtfragKey, ExtfragMatrix, Harm};
pub use history::{History, HistoryBuilder};
pub use observer::Tally;
pub use origin::Origin;
pub use run::Run;
pub use verification::Verification;
