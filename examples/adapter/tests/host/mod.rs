//! What ArceOS' locks ask of a kernel, for a host's program: to spin.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use ax_sync::interface::{AcquireResult, ContextState, LockMetadata, SpinOps};

struct Host;

const NONE: ContextState = ContextState::new(0, 0);

#[ax_crate_interface::impl_interface]
impl SpinOps for Host {
    fn acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _address: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> ContextState {
        while locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        NONE
    }

    fn try_acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _address: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> AcquireResult {
        AcquireResult::new(!locked.swap(true, Ordering::Acquire), NONE)
    }

    fn release(locked: &AtomicBool, _address: usize, _context: u8, _state: ContextState) {
        locked.store(false, Ordering::Release);
    }

    fn force_release(locked: &AtomicBool, _address: usize, _context: u8) {
        locked.store(false, Ordering::Release);
    }

    fn is_locked(locked: &AtomicBool) -> bool {
        locked.load(Ordering::Relaxed)
    }
}
