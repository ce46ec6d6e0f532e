//! Explains why the page allocator failed, from what a machine printed.
//!
//! [`explain`](explain::explain) takes a kernel's log. Nothing here reads a file or prints.
#![forbid(unsafe_code)]

pub mod advice;
pub mod class;
pub mod explain;
pub mod gfp;
pub mod log;
pub mod watermark;

pub use explain::{Explanation, explain};
