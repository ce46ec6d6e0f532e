//! Long work that ends early where the caller asks for it.

use std::io::{self, Read};

use crate::error::Error;

/// Answers whether the caller wants the work to stop.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// A reader that fails as soon as the work is to stop.
pub(crate) struct Stoppable<'a, R> {
    inner: R,
    stop: Stop<'a>,
}

impl<'a, R> Stoppable<'a, R> {
    pub(crate) fn new(inner: R, stop: Stop<'a>) -> Self {
        Self { inner, stop }
    }
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        self.inner.read(buffer)
    }
}

/// Returns the error to show: whatever failed after a request to stop failed because of it.
pub(crate) fn reason(error: Error, stop: Stop<'_>) -> Error {
    if stop() { Error::Stopped } else { error }
}
