//! What a program on a host says instead of firmware.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) static CPUS: AtomicUsize = AtomicUsize::new(1);

std::thread_local! {
    pub(crate) static CPU: Cell<usize> = const { Cell::new(0) };
}

/// The machine has so many bytes of memory and CPUs. To be called once, before anything else.
pub fn boot(bytes: usize, cpus: usize) {
    assert!(cpus <= crate::cpu::local::MAX_CPUS, "too many CPUs");
    CPUS.store(cpus, Ordering::Relaxed);
    crate::mm::frame::boot(bytes / crate::mm::PAGE_SIZE);
}

/// This thread is a CPU, which no other thread is meanwhile.
pub fn be_cpu(cpu: usize) {
    CPU.set(cpu);
}
