//! The laboratory: recorded kernels replayed, under their own policy or any other, and whole
//! machines simulated.
#![forbid(unsafe_code)]

pub mod demand;
pub mod error;
pub mod fate;
mod gaps;
pub mod guided;
pub mod infer;
pub mod machine;
pub mod replay;
pub mod scaled;
pub mod sim;
pub mod simulate;
mod toml_file;
pub mod verify;
pub mod workload;

pub use error::Error;
pub use verify::{VerifyOptions, verify};
