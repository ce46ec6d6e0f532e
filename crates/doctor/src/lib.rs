//! Explains why the page allocator failed, from the files and logs of a machine.
//!
//! [`explain`](explain::explain) takes a kernel's log, [`checkup`](checkup::checkup) samples of a machine's files, and
//! [`forecast`](forecast::forecast) reads the use of every frame, and [`flight`] records a machine for weeks. Nothing here
//! prints.
#![forbid(unsafe_code)]

pub mod advice;
mod boost;
pub mod checkup;
pub mod class;
mod error;
pub mod explain;
pub mod fleet;
pub mod flight;
pub mod forecast;
pub mod gfp;
pub mod group;
pub mod holders;
pub mod interfaces;
pub mod log;
pub mod proc;
mod unite;
pub mod watermark;
pub mod window;

pub use error::Error;
pub use explain::{Explained, Explanation, explain, explain_log, is_at_boot, is_of_initramfs};
pub use unite::unite;
