//! The allocator for C. `include/pageblock.h` is generated from these files by cbindgen, including its
//! documentation; `tests/header.rs` checks that it is up to date.
//!
//! Every function that can fail returns a [`Status`](status::Status). No function uses a heap or creates
//! threads; the only wait is for a spin lock ([`lock`]).
//!
//! *Panics.* No detectable error of the caller makes the library panic. If a defect of the library does, the
//! panic is not propagated into C: a panic in an `extern "C"` function ends the process.
//!
//! *Unsafe code* is confined to [`memory`], where C's pointers become references, and to [`lock`].
//!
//! *Without an operating system:* the feature `std`, on by default, is needed only by panics. Without it (and
//! with `panic = "abort"`) a panic calls C's `abort`.
#![no_std]

#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(not(any(test, feature = "std")))]
mod freestanding;

pub mod bulk;
pub mod check;
pub mod contig;
pub mod counters;
pub mod cpu;
pub mod drain;
pub mod dump;
pub mod extent;
pub mod gfp;
pub mod lock;
pub mod memory;
pub mod place;
pub mod setup;
pub mod status;
