//! Simulation of whole machines: a kernel, a machine on virtual time, and a workload on it.
#![forbid(unsafe_code)]

pub mod error;
pub mod scaled;
pub mod sim;
pub mod simulate;
mod toml_file;
pub mod workload;

pub use error::Error;
