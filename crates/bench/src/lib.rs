//! Patterns of page allocation, and the allocators that they are run on.
//!
//! The bench `pages` times every pattern on every allocator in one run; the tests here run each of
//! them small, so that none can rot.
#![forbid(unsafe_code)]

pub mod pattern;
pub mod subject;
