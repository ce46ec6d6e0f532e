//! Turns events into numbers: counters, matrices, indexes, saved runs, comparisons and statistics.
//!
//! Simulated, replayed and real runs arrive as [`pageblock::event::Event`]s and as plain counts; only [`Origin`] tells
//! them apart. Nothing here prints a table; the crate `pageblock-report` does.
//!
//! Each folder imports from itself and from those before it: `value`, `statistics`, `certificate`, `run`, `catalogue`,
//! `tables`, `compare`. A [`Run`] is plain data; what computes from runs stands above it.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod certificate;
pub mod compare;
pub mod run;
pub mod statistics;
pub mod tables;
pub mod value;

pub use certificate::verification::Verification;
pub use certificate::{Certificate, Grades, Judgement, Loop};
pub use run::Run;
pub use run::calibration::Calibration;
pub use value::counters::Counters;
pub use value::error::Error;
pub use value::event_unit::EventUnit;
pub use value::extfrag::{ExtfragKey, ExtfragMatrix, Harm};
pub use value::history::{History, HistoryBuilder};
pub use value::observer::Tally;
pub use value::origin::Origin;
