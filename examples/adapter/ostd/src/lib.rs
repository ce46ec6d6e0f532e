//! The part of Asterinas' `ostd` (0.19) that frame allocators use, for a host's programs: its names and signatures, on
//! memory that nobody has. A thread is the CPU that it [says](host::be_cpu) it is; interrupts do not happen.
#![no_std]

extern crate std;

pub mod cpu;
pub mod host;
pub mod mm;

/// Interrupts, which are always off here.
pub mod irq {
    /// Proof that no interrupt comes.
    pub struct DisabledLocalIrqGuard(());

    /// Returns the proof.
    pub fn disable_local() -> DisabledLocalIrqGuard {
        DisabledLocalIrqGuard(())
    }
}

/// Locks.
pub mod sync {
    use core::marker::PhantomData;

    /// What a lock's holder turns off.
    pub struct LocalIrqDisabled;

    /// What a lock's holder can turn off.
    pub trait SpinGuardian {}
    impl SpinGuardian for LocalIrqDisabled {}

    /// A spin lock.
    pub struct SpinLock<T, G = LocalIrqDisabled>(spin::Mutex<T>, PhantomData<G>);

    /// A lock that is held.
    pub type SpinLockGuard<'a, T, G> = <G as Guarded>::Guard<'a, T>;

    /// Which guard a guardian's locks have.
    pub trait Guarded: SpinGuardian {
        /// The guard.
        type Guard<'a, T: 'a>;
    }
    impl Guarded for LocalIrqDisabled {
        type Guard<'a, T: 'a> = spin::MutexGuard<'a, T>;
    }

    impl<T, G> SpinLock<T, G> {
        /// Returns a lock that is free.
        pub const fn new(value: T) -> Self {
            Self(spin::Mutex::new(value), PhantomData)
        }
        /// Waits for the lock.
        pub fn lock(&self) -> spin::MutexGuard<'_, T> {
            self.0.lock()
        }
        /// Looks inside, as nobody else can.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }
}
