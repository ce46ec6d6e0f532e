//! Replay of recorded kernels: under the policy that they ran, where each decision is compared with the recorded
//! one ([`verify()`]), and under any other ([`open_loop`]).
#![forbid(unsafe_code)]

pub mod call_sites;
mod census;
pub mod certify;
pub mod contents;
pub mod demand;
pub mod error;
mod gaps;
pub mod guided;
pub mod history;
mod holes;
pub mod infer;
pub mod look_ahead;
pub mod machine;
pub mod open_loop;
mod recorded;
pub mod settings;
pub mod verify;
pub mod watch;

pub use error::Error;
pub use recorded::end_state;
pub use verify::{VerifyOptions, verify};
