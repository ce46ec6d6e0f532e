//! Patterns of page allocation, and the allocators on which they are run.
//!
//! `pageblock bench native` and the bench `pages` time them; the tests here run each of them at a small size,
//! so that none breaks unnoticed.
#![deny(unsafe_code)]

pub mod native;
pub mod need;
pub mod noise;
pub mod packing;
pub mod pattern;
pub mod peers;
pub mod subject;
pub mod threads;
