//! The lock of each zone: a spin lock.
//!
//! It is not a mutex of the caller's behind callbacks: a value of a size known only at run time has no place in a
//! zone's tables, an indirect call would cost more than the lock, and a kernel has no mutex yet when its
//! page allocator starts. A zone's lock is held for a batch of a few microseconds at most, and its holder never
//! waits. If a holder can be preempted (threads of a process), a waiter should yield its processor: that is
//! [`pb_set_relax`].

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use lock_api::{GuardSend, Mutex, MutexGuard, RawMutex};

/// Polls of the lock between two calls of the hook.
const SPINS: u32 = 100;

/// Called while waiting.
static RELAX: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// A spin lock.
pub struct SpinLock {
    held: AtomicBool,
}

impl SpinLock {
    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        while self.held.load(Ordering::Relaxed) {
            core::hint::spin_loop();
            spins += 1;
            if spins == SPINS {
                spins = 0;
                relax();
            }
        }
    }
}

fn relax() {
    let hook = RELAX.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: a pointer that is not null was made from such a function pointer by `pb_set_relax`.
        let hook = unsafe { core::mem::transmute::<*mut (), extern "C" fn()>(hook) };
        hook();
    }
}

// SAFETY: `held` goes from false to true for one caller, which alone makes it false again; acquire and release
// order the accesses in between.
unsafe impl RawMutex for SpinLock {
    const INIT: Self = Self { held: AtomicBool::new(false) };
    type GuardMarker = GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            self.wait();
        }
    }

    fn try_lock(&self) -> bool {
        !self.held.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.held.store(false, Ordering::Release);
    }
}

pageblock::locks! {
    /// The locks of zones.
    pub struct SpinLocks = Mutex<SpinLock, T>, MutexGuard<'a, SpinLock, T>;
}

/// Sets what a thread calls now and then while it waits for a lock, such as `sched_yield`, for all allocators
/// of the program. NULL, the initial value, means to spin only, as in a kernel.
#[unsafe(no_mangle)]
pub extern "C" fn pb_set_relax(relax: Option<extern "C" fn()>) {
    let hook = relax.map_or(core::ptr::null_mut(), |hook| hook as *mut ());
    RELAX.store(hook, Ordering::Release);
}
