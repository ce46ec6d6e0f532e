//! The allocator for C. `include/pageblock.h` is made from these files by cbindgen, documentation
//! included; `tests/header.rs` sees to it that it is up to date.
//!
//! Every function that can fail gives a [`Status`](status::Status). None has a heap or knows of
//! threads; where one waits, it is for a spin lock ([`lock`]).
//!
//! *Panics.* No mistake that can be told makes the library panic. A defect of the library that does is
//! not carried into C: a panic in an `extern "C"` function ends the process.
//!
//! *Unsafe code* stands in [`memory`], where C's pointers become references, and in [`lock`].
//!
//! *Without an operating system:* the feature `std`, on by default, brings nothing but what a panic
//! needs. Without it (and with `panic = "abort"`) a panic calls C's `abort`.
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
