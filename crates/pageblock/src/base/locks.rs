//! The locks of the embedder, behind which CPUs share zones.

use core::ops::DerefMut;

#[cfg(feature = "std")]
pub use crate::base::std_locks::Std;

/// The mutexes that the embedder brings, named by a type that stands for them: any that excludes, of a crate of any
/// version, of `std` (`Std`, with the feature of that name), or the kernel's own.
///
/// A zone's lock is held for a batch, without waiting for anything, and no CPU holds two.
pub trait Locks: 'static {
    /// A mutex around a value.
    type Mutex<T>;

    /// Exclusive access to the value, until it is dropped.
    type Guard<'a, T: 'a>: DerefMut<Target = T>;

    /// Makes a mutex, unlocked.
    fn mutex<T>(value: T) -> Self::Mutex<T>;

    /// Waits until nobody holds the mutex, and locks it.
    fn lock<T>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;

    /// Returns the value of a mutex that nobody else can reach.
    fn get_mut<T>(mutex: &mut Self::Mutex<T>) -> &mut T;
}

/// Makes a type that stands for mutexes with the methods `new`, `lock` and `get_mut` of `lock_api`'s, in any version:
/// those of the crates `parking_lot`, `spin`, `lock_api` itself.
///
/// ```
/// pageblock::locks! {
///     /// Sleeping locks.
///     pub struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
/// }
/// ```
#[macro_export]
macro_rules! locks {
    ($(#[$doc:meta])* $vis:vis struct $name:ident = $mutex:ty, $guard:ty;) => {
        $(#[$doc])*
        $vis struct $name;

        impl $crate::locks::Locks for $name {
            type Mutex<T> = $mutex;
            type Guard<'a, T: 'a> = $guard;

            #[inline]
            fn mutex<T>(value: T) -> Self::Mutex<T> {
                <$mutex>::new(value)
            }

            #[inline]
            fn lock<T>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T> {
                mutex.lock()
            }

            #[inline]
            fn get_mut<T>(mutex: &mut Self::Mutex<T>) -> &mut T {
                mutex.get_mut()
            }
        }
    };
}
