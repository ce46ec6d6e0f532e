//! A lock for CPUs that have nothing else to do than to wait for it.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardSend, Mutex, MutexGuard, RawMutex};

pageblock::locks! {
    /// The locks of the allocator's zones.
    pub struct SpinLocks = Mutex<SpinLock, T>, MutexGuard<'a, SpinLock, T>;
}

/// The lock, for `lock_api::Mutex`.
pub struct SpinLock(AtomicBool);

// SAFETY: only who changes the flag from false to true has the lock, until it stores false; what is
// written meanwhile is seen by the next, by the order of release and acquire.
unsafe impl RawMutex for SpinLock {
    // A constant that is copied into each lock is what `RawMutex` asks for.
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            while self.0.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    fn try_lock(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}
