//! Atomics: the machine's, or those of a model checker.
//!
//! All that CPUs share without a lock goes through these types, so that a build with `--cfg loom` or
//! `--cfg shuttle` explores how their accesses may interleave.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic;
#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;

pub(crate) use atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize};
pub(crate) use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
