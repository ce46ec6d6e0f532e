//! News for a CPU of what only it can do, as its caches are its own: give its pages back, and take new
//! limits.
//!
//! Whoever has news raises a number, and the CPU looks at it whenever it is about to work: one plain load
//! of a line that rarely changes. Drains have numbers of their own beside it: when the CPU has given its
//! pages back, it says up to which drain.

use crate::base::sync::{Acquire, AtomicU32, Relaxed, Release};

/// What one CPU was told and asked for, and what of it is done.
pub(crate) struct News {
    told: AtomicU32,
    drains: AtomicU32,
    drained: AtomicU32,
}

impl News {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self { told: zero(), drains: zero(), drained: zero() }
    }

    /// Has the CPU look for what is new. What the caller did before, the CPU sees then.
    pub(crate) fn tell(&self) {
        self.told.fetch_add(1, Release);
    }

    /// Asks for a drain; gives the number to wait for.
    pub(crate) fn ask(&self) -> u32 {
        let number = self.drains.fetch_add(1, Release).wrapping_add(1);
        self.tell();
        number
    }

    /// How often the CPU was told, to compare with what it has [taken](Self::take).
    #[inline(always)]
    pub(crate) fn last(&self) -> u32 {
        self.told.load(Relaxed)
    }

    /// How often the CPU was told; what was done before is seen from here on.
    pub(crate) fn take(&self) -> u32 {
        self.told.load(Acquire)
    }

    /// The number of the last drain that was asked for, if it is still to be done. Only who has the CPU
    /// asks this.
    pub(crate) fn due(&self) -> Option<u32> {
        let number = self.drains.load(Acquire);
        (number != self.drained.load(Relaxed)).then_some(number)
    }

    /// Says that drains up to a number are done. Whoever sees that, sees what was done.
    pub(crate) fn answer(&self, number: u32) {
        self.drained.store(number, Release);
    }

    /// Whether the drain of a number is done.
    pub(crate) fn is_done(&self, number: u32) -> bool {
        // The distance, as numbers wrap.
        self.drained.load(Acquire).wrapping_sub(number) < u32::MAX / 2
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Word;

    /// The owner looks twice, and drains if it was asked to.
    fn owner(news: &News, drained: &Word) -> u32 {
        let mut seen = 0;
        for _ in 0..2 {
            if news.last() != seen {
                seen = news.take();
                if let Some(number) = news.due() {
                    drained.store(1, Relaxed);
                    news.answer(number);
                }
            }
        }
        seen
    }

    /// What was done before an answer is seen by whoever sees the answer, and a drain that was asked for
    /// when the owner looks is done.
    #[test]
    fn answer_publishes_what_was_done() {
        loom::model(|| {
            let news = Arc::new((News::new(), Word::new(0)));
            let owner = {
                let news = news.clone();
                loom::thread::spawn(move || owner(&news.0, &news.1))
            };
            let (there, drained) = &*news;
            let number = there.ask();
            if there.is_done(number) {
                assert_eq!(drained.load(Relaxed), 1);
            }
            let seen = owner.join().unwrap();
            assert!(seen == 0 || there.is_done(number), "seen and not done");
        });
    }

    /// News without a drain are seen with what was done before, whether a drain is asked for beside them
    /// or not; the drain is not lost.
    #[test]
    fn news_and_a_drain_are_both_seen() {
        loom::model(|| {
            let news = Arc::new((News::new(), Word::new(0), Word::new(0)));
            let teller = {
                let news = news.clone();
                loom::thread::spawn(move || {
                    news.2.store(1, Relaxed);
                    news.0.tell();
                })
            };
            let asker = {
                let news = news.clone();
                loom::thread::spawn(move || news.0.ask())
            };
            let (there, drained, limits) = &*news;
            let seen = owner(there, drained);
            let (_, number) = (teller.join().unwrap(), asker.join().unwrap());
            if seen == 2 {
                assert_eq!(limits.load(Relaxed), 1);
                assert!(there.is_done(number));
            }
            // What the owner has not seen, it is told at its next look.
            assert!(there.is_done(number) || there.last() != seen);
        });
    }

    /// Two drains asked for at once have numbers of their own, and one answer may be for both.
    #[test]
    fn requests_have_their_own_numbers() {
        loom::model(|| {
            let news = Arc::new(News::new());
            let other = {
                let news = news.clone();
                loom::thread::spawn(move || news.ask())
            };
            let (a, b) = (news.ask(), other.join().unwrap());
            assert_ne!(a, b);
            news.answer(news.due().unwrap());
            assert!(news.is_done(a) && news.is_done(b));
        });
    }
}
