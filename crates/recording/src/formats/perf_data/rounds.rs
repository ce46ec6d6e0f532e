//! Puts the records of a `perf.data` in the order of time, in bounded memory.
//!
//! perf empties the buffers of all CPUs in rounds. A record of a round is not older than those of the round before
//! the last, so that after each round those of the round before are complete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of items after which the older half is given out without waiting for the end of a round, as perf
/// does when its queue is full.
const LIMIT: usize = 1 << 20;

/// Items that wait for their turn.
pub(super) struct Rounds<T> {
    waiting: BinaryHeap<Reverse<Item<T>>>,
    count: u64,
    newest: u64,
    /// Items up to this time are complete.
    complete: Option<u64>,
    /// The newest item when the last round ended.
    last_round: Option<u64>,
    /// How many may be given out since the queue was full.
    surplus: usize,
    done: bool,
}

struct Item<T> {
    at: (u64, u64),
    item: T,
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl<T> Eq for Item<T> {}
impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            waiting: BinaryHeap::new(),
            count: 0,
            newest: 0,
            complete: None,
            last_round: None,
            surplus: 0,
            done: false,
        }
    }
}

impl<T> Rounds<T> {
    /// Adds an item; those of one time keep their order.
    pub(super) fn push(&mut self, t_ns: u64, item: T) {
        self.newest = self.newest.max(t_ns);
        self.waiting.push(Reverse(Item { at: (t_ns, self.count), item }));
        self.count += 1;
        if self.waiting.len() >= LIMIT {
            self.surplus = LIMIT / 2;
        }
    }

    /// Ends a round.
    pub(super) fn end_round(&mut self) {
        self.complete = self.last_round;
        self.last_round = Some(self.newest);
    }

    /// Ends the stream: everything is complete.
    pub(super) fn end(&mut self) {
        self.done = true;
    }

    /// Returns the next item whose turn has come.
    pub(super) fn next(&mut self) -> Option<T> {
        let Reverse(first) = self.waiting.peek()?;
        let complete = self.complete.is_some_and(|time| first.at.0 <= time);
        if !complete && !self.done {
            self.surplus = self.surplus.checked_sub(1)?;
        }
        self.waiting.pop().map(|Reverse(item)| item.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_given_out_when_no_older_one_can_follow() {
        let mut rounds = Rounds::default();
        let all =
            |rounds: &mut Rounds<u64>| std::iter::from_fn(|| rounds.next()).collect::<Vec<_>>();
        for t in [5, 9, 2] {
            rounds.push(t, t);
        }
        rounds.end_round();
        assert_eq!(all(&mut rounds), [0; 0]);
        for t in [7, 12] {
            rounds.push(t, t);
        }
        rounds.end_round();
        assert_eq!(all(&mut rounds), [2, 5, 7, 9]);
        rounds.push(11, 11);
        rounds.end();
        assert_eq!(all(&mut rounds), [11, 12]);
    }

    #[test]
    fn a_file_without_rounds_takes_bounded_memory() {
        let mut rounds = Rounds::default();
        let mut taken = 0;
        for t in 0..3 * LIMIT as u64 {
            rounds.push(t, t);
            while let Some(item) = rounds.next() {
                assert_eq!(item, taken);
                taken += 1;
            }
            assert!(rounds.waiting.len() <= LIMIT);
        }
    }
}
