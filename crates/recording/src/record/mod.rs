//! One event, and what is needed to understand it.

pub(crate) mod decoding;
pub(crate) mod event;
pub mod gfp;
pub(crate) mod kernel;
pub(crate) mod losses;
