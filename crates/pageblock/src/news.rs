//! Requests to a CPU that only it can fulfil, as its caches are its own: to give its pages back.
//!
//! Whoever asks raises a number, and the CPU looks at it whenever it is about to work: one plain load
//! of a line that rarely changes. When it has done what was asked for, it says up to which number.

use crate::sync::{Acquire, AtomicU32, Release};

/// What one CPU was asked for, and what of it is done.
pub(crate) struct News {
    asked: AtomicU32,
    done: AtomicU32,
}

impl News {
    pub(crate) fn new() -> Self {
        Self { asked: AtomicU32::new(0), done: AtomicU32::new(0) }
    }

    /// Asks; gives the number to wait for. What the caller did before, the CPU sees when it answers.
    pub(crate) fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Release).wrapping_add(1)
    }

    /// The number of the last request, to compare with the last one answered.
    #[inline(always)]
    pub(crate) fn last(&self) -> u32 {
        self.asked.load(crate::sync::Relaxed)
    }

    /// The number of the last request; what was done before it was asked is seen from here on.
    pub(crate) fn take(&self) -> u32 {
        self.asked.load(Acquire)
    }

    /// Says that requests up to a number are done. Whoever sees that, sees what was done.
    pub(crate) fn answer(&self, number: u32) {
        self.done.store(number, Release);
    }

    /// The number of the last request that is done.
    pub(crate) fn answered(&self) -> u32 {
        self.done.load(Acquire)
    }

    /// Whether the request of a number is done.
    pub(crate) fn is_done(&self, number: u32) -> bool {
        // The distance, as numbers wrap.
        self.answered().wrapping_sub(number) < u32::MAX / 2
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32 as Word, Ordering::Relaxed};

    /// What was done before an answer is seen by whoever sees the answer, and a request that is
    /// pending when the owner looks is answered.
    #[test]
    fn answer_publishes_what_was_done() {
        loom::model(|| {
            let news = Arc::new((News::new(), Word::new(0)));
            let owner = {
                let news = news.clone();
                loom::thread::spawn(move || {
                    let (news, drained) = &*news;
                    let mut seen = 0;
                    for _ in 0..2 {
                        if news.last() != seen {
                            let number = news.take();
                            drained.store(1, Relaxed);
                            seen = number;
                            news.answer(number);
                        }
                    }
                    seen
                })
            };
            let (there, drained) = &*news;
            let number = there.ask();
            if there.is_done(number) {
                assert_eq!(drained.load(Relaxed), 1);
            }
            let seen = owner.join().unwrap();
            assert_eq!(there.answered(), seen);
            assert_eq!(there.is_done(number), seen == number);
        });
    }

    /// Two requests at once have numbers of their own, and one answer may be for both.
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
            news.answer(news.take());
            assert!(news.is_done(a) && news.is_done(b));
        });
    }
}
