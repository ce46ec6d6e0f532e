//! What an embedder calls to allocate and to free, for `run.sh`, which measures the text that is reachable from it.
#![no_std]

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(policy = "chosen")]
use pageblock::policy::Chosen;
#[cfg(not(policy = "chosen"))]
use pageblock::policy::Fixed;
#[cfg(policy = "linked")]
use pageblock::policy::preset;
use pageblock::policy::{FixedPolicy, Policy};
use pageblock::prelude::{Allocator, Cpu, CpuId, Locks, Order, Pfn, Request};

/// Does not return: the build aborts.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A lock that spins.
pub struct Spin;

/// A value behind it.
pub struct Mutex<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: who has the guard is alone.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Access to the value until it is dropped.
pub struct Guard<'a, T>(&'a Mutex<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: there is one guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl Locks for Spin {
    type Mutex<T> = Mutex<T>;
    type Guard<'a, T: 'a> = Guard<'a, T>;
    fn mutex<T>(value: T) -> Mutex<T> {
        Mutex { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }
    fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
        while mutex.held.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        Guard(mutex)
    }
    fn get_mut<T>(mutex: &mut Mutex<T>) -> &mut T {
        mutex.value.get_mut()
    }
}

/// The policy that the compiler is to know.
#[derive(Clone, Copy, Debug)]
pub struct Known;

impl FixedPolicy for Known {
    #[cfg(not(policy = "linked"))]
    const POLICY: Policy = Policy::EMBEDDED;
    #[cfg(policy = "linked")]
    const POLICY: Policy = match preset::find("linux-6.12") {
        Some(preset) => preset.policy,
        None => panic!("no such preset"),
    };
}

#[cfg(policy = "chosen")]
type Source = Chosen;
#[cfg(not(policy = "chosen"))]
type Source = Fixed<Known>;

/// Allocates a block by an owner.
#[unsafe(no_mangle)]
pub extern "C" fn owner_alloc(owner: &mut Allocator<'static, Source>, order: Order) -> u64 {
    owner.alloc(CpuId(0), &Request::movable(order), &mut ()).map_or(u64::MAX, |pfn| pfn.0)
}

/// Frees a block by an owner.
#[unsafe(no_mangle)]
pub extern "C" fn owner_free(
    owner: &mut Allocator<'static, Source>,
    pfn: u64,
    order: Order,
) -> bool {
    owner.free(CpuId(0), Pfn(pfn), order, &mut ()).is_ok()
}

/// A CPU's handle.
type Handle = Cpu<'static, 'static, Spin, (), Source>;

/// Allocates a block by a CPU's handle.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_alloc(cpu: &mut Handle, order: Order) -> u64 {
    cpu.alloc(&Request::movable(order), &mut ()).map_or(u64::MAX, |pfn| pfn.0)
}

/// Frees a block by a CPU's handle.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_free(cpu: &mut Handle, pfn: u64, order: Order) -> bool {
    cpu.free(Pfn(pfn), order, &mut ()).is_ok()
}
