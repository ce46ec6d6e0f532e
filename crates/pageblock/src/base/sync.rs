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

/// Adds to a counter; returns what it was.
#[inline(always)]
pub(crate) fn fetch_add(counter: &AtomicU32, n: u32) -> u32 {
    count();
    counter.fetch_add(n, Release)
}

/// Changes bits of a byte.
#[inline(always)]
pub(crate) fn xor(byte: &AtomicU8, bits: u8) {
    count();
    byte.fetch_xor(bits, Relaxed);
}

/// Counts an atomic read-modify-write.
#[cfg(not(feature = "rmw"))]
#[inline(always)]
fn count() {}

#[cfg(feature = "rmw")]
use counted::count;

/// How many atomic read-modify-writes a thread has made.
#[cfg(feature = "rmw")]
pub mod counted {
    use core::cell::Cell;

    std::thread_local! {
        static MADE: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        MADE.set(MADE.get() + 1);
    }

    /// Returns the number for this thread.
    #[must_use]
    pub fn read_modify_writes() -> u64 {
        MADE.get()
    }
}
