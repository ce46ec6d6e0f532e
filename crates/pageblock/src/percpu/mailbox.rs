//! Pending requests for a CPU. Only the CPU itself can drain its caches or adopt new limits, as it owns them.
//!
//! Posting a request increments a number that the CPU reads at the start of each call: one plain load of a line
//! that rarely changes. Drains have numbers of their own: a CPU that has drained its caches publishes the number of
//! the last drain request that this served.

use crate::base::sync::{self, Acquire, AtomicU32, Relaxed, Release};

/// The requests to one CPU, and which of them are done.
pub(crate) struct Mailbox {
    posted: AtomicU32,
    drains: AtomicU32,
    drained: AtomicU32,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self { posted: zero(), drains: zero(), drained: zero() }
    }

    /// Posts a request without a number, such as new limits. The CPU that receives it sees what the caller wrote
    /// before.
    pub(crate) fn notify(&self) {
        sync::fetch_add(&self.posted, 1);
    }

    /// Requests a drain, and returns the number to wait for.
    pub(crate) fn request_drain(&self) -> u32 {
        let number = sync::fetch_add(&self.drains, 1).wrapping_add(1);
        self.notify();
        number
    }

    /// Returns the number of requests so far, to compare with the number that the CPU has
    /// [received](Self::receive).
    #[inline(always)]
    pub(crate) fn posted(&self) -> u32 {
        self.posted.load(Relaxed)
    }

    /// Returns the number of requests so far. What their callers wrote before is visible from here on.
    pub(crate) fn receive(&self) -> u32 {
        self.posted.load(Acquire)
    }

    /// Returns the number of the last drain request, if it is still pending. Only the owner of the CPU's caches may
    /// call this.
    pub(crate) fn pending_drain(&self) -> Option<u32> {
        let number = self.drains.load(Acquire);
        (number != self.drained.load(Relaxed)).then_some(number)
    }

    /// Publishes that drain requests up to a number are done. A reader of the number sees what the drain did.
    pub(crate) fn complete_drain(&self, number: u32) {
        debug_assert!(
            self.drains.load(Relaxed).wrapping_sub(number) < u32::MAX / 2,
            "drain {number} was not requested"
        );
        self.drained.store(number, Release);
    }

    /// Returns whether the drain request with a number is done.
    pub(crate) fn is_done(&self, number: u32) -> bool {
        // Numbers wrap, so their distance is compared.
        self.drained.load(Acquire).wrapping_sub(number) < u32::MAX / 2
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Word;

    /// The owner looks twice, and drains if it was asked to.
    fn owner(mailbox: &Mailbox, drained: &Word) -> u32 {
        let mut seen = 0;
        for _ in 0..2 {
            if mailbox.posted() != seen {
                seen = mailbox.receive();
                if let Some(number) = mailbox.pending_drain() {
                    drained.store(1, Relaxed);
                    mailbox.complete_drain(number);
                }
            }
        }
        seen
    }

    /// A reader that sees a drain as complete sees what the drain did, and a drain requested before the owner looks
    /// is done.
    #[test]
    fn completion_publishes_what_was_done() {
        loom::model(|| {
            let mailbox = Arc::new((Mailbox::new(), Word::new(0)));
            let owner = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || owner(&mailbox.0, &mailbox.1))
            };
            let (there, drained) = &*mailbox;
            let number = there.request_drain();
            if there.is_done(number) {
                assert_eq!(drained.load(Relaxed), 1);
            }
            let seen = owner.join().unwrap();
            assert!(seen == 0 || there.is_done(number), "seen and not done");
        });
    }

    /// A request without a number is seen together with what its poster wrote before, whether or not a drain is
    /// requested at the same time; the drain is not lost.
    #[test]
    fn a_notification_and_a_drain_are_both_seen() {
        loom::model(|| {
            let mailbox = Arc::new((Mailbox::new(), Word::new(0), Word::new(0)));
            let notifier = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || {
                    mailbox.2.store(1, Relaxed);
                    mailbox.0.notify();
                })
            };
            let requester = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || mailbox.0.request_drain())
            };
            let (there, drained, limits) = &*mailbox;
            let seen = owner(there, drained);
            let (_, number) = (notifier.join().unwrap(), requester.join().unwrap());
            if seen == 2 {
                assert_eq!(limits.load(Relaxed), 1);
                assert!(there.is_done(number));
            }
            // What the owner has not seen yet is still posted for its next look.
            assert!(there.is_done(number) || there.posted() != seen);
        });
    }

    /// Two drains requested at once have different numbers, and one completion may serve both.
    #[test]
    fn requests_have_their_own_numbers() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new());
            let other = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || mailbox.request_drain())
            };
            let (a, b) = (mailbox.request_drain(), other.join().unwrap());
            assert_ne!(a, b);
            mailbox.complete_drain(mailbox.pending_drain().unwrap());
            assert!(mailbox.is_done(a) && mailbox.is_done(b));
        });
    }
}
