//! The mutexes of `std`, for programs that have it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::locks::Locks;

/// The mutexes of `std`. A panic of a thread that holds one leaves the zone as it was then.
#[derive(Debug)]
pub struct Std;

impl Locks for Std {
    type Mutex<T> = Mutex<T>;
    type Guard<'a, T: 'a> = MutexGuard<'a, T>;

    fn mutex<T>(value: T) -> Self::Mutex<T> {
        Mutex::new(value)
    }
    fn lock<T>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn get_mut<T>(mutex: &mut Self::Mutex<T>) -> &mut T {
        mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
