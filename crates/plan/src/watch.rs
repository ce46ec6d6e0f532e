//! Who watches long work: sees how far it is, and may stop it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Watches long work.
pub trait Watch: Send + Sync {
    /// Begins a part of the work of `total` of a unit, such as events; 0 if the total is not known yet.
    fn bar(&self, what: &str, total: u64, unit: &str) -> Box<dyn Bar>;

    /// Begins a part whose progress is a share of a whole.
    fn shares(&self, what: &str) -> Box<dyn Bar>;

    /// Reports whether the work is to stop.
    fn stopped(&self) -> bool;

    /// Takes what is finished, in words: it is not lost if the work is stopped from now on.
    fn keep(&self, finished: String);

    /// Takes a warning.
    fn warn(&self, text: &str);

    /// Takes a word about what is done.
    fn note(&self, _text: &str) {}
}

/// How far a part of the work is.
pub trait Bar {
    /// Sets the total, if it was not known before.
    fn resize(&self, total: u64);

    /// Sets how many are done. Cheap, but not enough for every event.
    fn set(&self, done: u64);

    /// Sets the share that is done, from 0 to 1.
    fn set_share(&self, share: f64);

    /// Sets what is done now, in words.
    fn say(&self, what: String);
}

/// Shows nothing, keeps warnings, and stops the work when it is told to.
#[derive(Debug, Default)]
pub struct Quiet {
    stop: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Quiet {
    /// Stops the work as soon as it looks.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Returns the warnings so far, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut kept = self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut *kept)
    }
}

impl Watch for Quiet {
    fn bar(&self, _what: &str, _total: u64, _unit: &str) -> Box<dyn Bar> {
        Box::new(Nothing)
    }

    fn shares(&self, _what: &str) -> Box<dyn Bar> {
        Box::new(Nothing)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn keep(&self, _finished: String) {}

    fn warn(&self, text: &str) {
        let mut kept = self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.push(text.to_owned());
    }
}

struct Nothing;

impl Bar for Nothing {
    fn resize(&self, _total: u64) {}
    fn set(&self, _done: u64) {}
    fn set_share(&self, _share: f64) {}
    fn say(&self, _what: String) {}
}
