//! What users ask for, checked and carried out: the plans that the program and the Python package share.
//!
//! A module for each thing that can be asked for: it turns words (names of policies, machines, workloads, paths) into
//! values, and says in one line what is wrong with them. Long work shows how far it is to a [`Watch`], which may stop it.
//! Nothing here prints.
#![forbid(unsafe_code)]

#[cfg(feature = "full")]
pub mod bisect;
mod by_name;
mod cache;
#[cfg(feature = "full")]
pub mod columns;
pub mod compare;
pub mod doctor;
pub mod error;
#[cfg(feature = "full")]
pub mod fleet;
pub mod grade;
#[cfg(feature = "full")]
pub mod guest;
pub mod jobs;
pub mod log;
pub mod logs;
pub mod machines;
pub mod mmtests;
pub mod own;
pub mod policy;
pub mod program;
pub mod published;
pub mod recording;
pub mod replays;
pub mod run;
pub mod sequential;
pub mod session;
#[cfg(feature = "full")]
pub mod shipped;
#[cfg(feature = "full")]
pub mod subjects;
#[cfg(feature = "full")]
pub mod sweep;
pub mod text;
#[cfg(feature = "full")]
pub mod verdicts;
pub mod verify;
pub mod watch;

pub use error::{Error, Result};
pub use policy::NamedPolicy;
pub use session::Session;
pub use watch::Watch;
