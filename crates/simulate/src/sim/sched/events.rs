//! What happens next: the ends of charged CPU time, the timeouts of waits, the completions of writes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::TaskId;
use crate::sim::Nanos;

/// The time of an event and its sequence number, so that simultaneous events happen in the order in which they
/// were queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct When(u128);

impl When {
    const NEVER: Self = Self(u128::MAX);

    fn new(time: Nanos, seq: u64) -> Self {
        Self(u128::from(time) << 64 | u128::from(seq))
    }

    fn time(self) -> Nanos {
        (self.0 >> 64) as Nanos
    }

    fn seq(self) -> u64 {
        self.0 as u64
    }
}

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The CPU time that a task charged has passed.
    Resume(TaskId),
    /// A task's wait timed out.
    Timer(TaskId),
    /// A write, by its number, completed.
    Written(usize),
}

/// Pending events.
#[derive(Debug, Default)]
pub(super) struct Events {
    seq: u64,
    /// Continuations of tasks on CPUs: so few that a linear search is faster than keeping them sorted.
    resumes: Vec<(When, TaskId)>,
    timers: BinaryHeap<Reverse<(When, TaskId)>>,
    /// The timer of each task that ends its wait; 0 if there is none.
    waits: Vec<u64>,
    /// Timers whose waits already ended.
    stale: usize,
    /// Completions of writes, which are in order.
    writes: VecDeque<(When, usize)>,
}

impl Events {
    /// Adds a task, which has the next number.
    pub(super) fn add_task(&mut self) {
        self.waits.push(0);
    }

    fn when(&mut self, time: Nanos) -> When {
        self.seq += 1;
        When::new(time, self.seq)
    }

    /// Takes the next event and its time.
    pub(super) fn next(&mut self) -> Option<(Nanos, Event)> {
        let timer = self.next_timer();
        let write = self.writes.front().map_or(When::NEVER, |&(when, _)| when);
        let resume = (0..).zip(&self.resumes).min_by_key(|(_, (when, _))| *when);
        let (when, what) = match resume {
            Some((at, &(when, task))) if when < timer.min(write) => {
                self.resumes.swap_remove(at);
                (when, Event::Resume(task))
            }
            _ if write < timer => {
                let (when, write) = self.writes.pop_front()?;
                (when, Event::Written(write))
            }
            _ => {
                let Reverse((when, task)) = self.timers.pop()?;
                self.waits[task] = 0;
                (when, Event::Timer(task))
            }
        };
        Some((when.time(), what))
    }

    /// Returns the expiry of the next timer whose task still waits; drops stale timers before it.
    fn next_timer(&mut self) -> When {
        while let Some(&Reverse((when, task))) = self.timers.peek() {
            if self.waits[task] == when.seq() {
                return when;
            }
            self.timers.pop();
            self.stale -= 1;
        }
        When::NEVER
    }

    /// Schedules a task to resume at a time.
    pub(super) fn resume_at(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.resumes.push((when, task));
    }

    /// Schedules the completion of a write, not before that of the previous write.
    pub(super) fn written_at(&mut self, time: Nanos, write: usize) {
        let when = self.when(time);
        debug_assert!(self.writes.back().is_none_or(|&(last, _)| last < when));
        self.writes.push_back((when, write));
    }

    /// Schedules the end of a task's wait at a time, unless it is woken first.
    pub(super) fn wait_until(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.timers.push(Reverse((when, task)));
        self.waits[task] = when.seq();
    }

    /// Cancels the task's timer, if it has one. Stale timers are removed when there are too many, as each slows
    /// down all others.
    pub(super) fn drop_timer(&mut self, task: TaskId) {
        if std::mem::take(&mut self.waits[task]) == 0 {
            return;
        }
        self.stale += 1;
        if self.stale > self.timers.len() / 2 {
            let waits = &self.waits;
            self.timers.retain(|&Reverse((when, task))| waits[task] == when.seq());
            self.stale = 0;
        }
    }

    /// Returns the number of timers, with those whose waits ended.
    #[cfg(test)]
    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }
}
