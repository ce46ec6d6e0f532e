//! Distinguishes a livelocked machine from a slow one.
//!
//! A run ends as a livelock when a request circles in the slow path, or when programs touch hardly a page
//! however much the machine works. The report names the task and the time since when it made no progress.

use std::collections::BTreeMap;

use pageblock::request::Request;
use pageblock_measure::value::ended::{EndReason, Ended};

use super::sched::TaskId;
use super::world::World;
use super::{MILLISECOND, Nanos, SECOND};

/// The longest time that a request may spend in the slow path (`hung_task_timeout_secs`). In the runs of all
/// workloads at 1/64 under 3.10, 4.20 and 6.18 no request spends more than 32 ms there.
pub const REQUEST_LIMIT: Nanos = 120 * SECOND;
/// In each window of this many steps of tasks...
pub const STEPS: u64 = 1 << 21;
/// ... programs must touch this many pages, or do as many steps of their workload.
pub const PROGRESS: u64 = 1024;
/// The longest time in which programs may touch no page; their longest sleep is ten seconds.
pub const IDLE_LIMIT: Nanos = 600 * SECOND;
/// Steps between two checks while the clock does not advance.
const LOOK_EVERY: u64 = 1 << 16;

/// A task in the slow path.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    since: Nanos,
}

/// The progress of programs at a time.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    /// Pages that programs touched, plus the steps that workloads count ([`World::steps`]).
    done: u64,
    time: Nanos,
    /// Steps of tasks.
    steps: u64,
}

/// The progress of a simulation so far.
#[derive(Debug, Default)]
pub(crate) struct LivelockWatch {
    waiting: BTreeMap<TaskId, Waiting>,
    /// The names of the tasks, by number.
    pub(crate) names: Vec<&'static str>,
    next_look: Nanos,
    /// The last time at which a page was seen to be touched.
    last: Mark,
    /// The start of the current window of steps.
    window: Mark,
}

impl World<'_> {
    /// Notes that a task enters the slow path.
    pub(crate) fn begin_slow(&mut self, task: TaskId, request: Request) {
        let since = self.now();
        self.watch.waiting.insert(task, Waiting { request, since });
    }

    /// Notes that a task leaves the slow path, with its block or without.
    pub(crate) fn end_slow(&mut self, task: TaskId) {
        self.watch.waiting.remove(&task);
    }

    /// Checks for progress about once a second; ends the run if there is none.
    #[inline]
    pub(crate) fn watch_progress(&mut self) {
        if self.sched.now >= self.watch.next_look || self.task_steps.is_multiple_of(LOOK_EVERY) {
            self.look_for_livelock();
        }
    }

    fn look_for_livelock(&mut self) {
        let done = self.progress + self.steps;
        let now = Mark { done, time: self.sched.now, steps: self.task_steps };
        self.watch.next_look = now.time + SECOND;
        let LivelockWatch { last, window, .. } = &mut self.watch;
        if now.done != last.done {
            *last = now;
        }
        let (idle_since, busy_since) = (last.time, window.time);
        let slow = now.steps - window.steps >= STEPS && now.done - window.done < PROGRESS;
        if now.steps - window.steps >= STEPS {
            *window = now;
        }
        let waiting = self.longest_waiting();
        if let Some((_, Waiting { since, .. })) = waiting
            && now.time.saturating_sub(since) >= REQUEST_LIMIT
        {
            self.end_early(EndReason::Livelock, waiting, since);
        } else if slow {
            self.end_early(EndReason::Livelock, waiting, busy_since);
        } else if now.time - idle_since >= IDLE_LIMIT {
            self.end_early(EndReason::Livelock, waiting, idle_since);
        }
    }

    fn longest_waiting(&self) -> Option<(TaskId, Waiting)> {
        let waiting = self.watch.waiting.iter().map(|(&task, &waiting)| (task, waiting));
        waiting.min_by_key(|&(task, waiting)| (waiting.since, task))
    }

    fn end_early(&mut self, why: EndReason, who: Option<(TaskId, Waiting)>, since: Nanos) {
        let request = |Request { order, gfp, .. }: Request| format!("order {order}, {gfp}");
        self.stopping = true;
        let at_ms = self.sched.now / MILLISECOND;
        self.ended.get_or_insert_with(|| Ended {
            why,
            task: who.map_or_else(String::new, |(task, _)| self.watch.names[task].to_owned()),
            request: who.map_or_else(String::new, |(_, waiting)| request(waiting.request)),
            since_ms: since / MILLISECOND,
            at_ms,
        });
    }

    /// Ends the run: a task that the machine cannot do without got no memory. A kernel panics in this case.
    pub(crate) fn panic_without_memory(&mut self, task: TaskId) {
        let name = self.watch.names[task].to_owned();
        self.stopping = true;
        let at_ms = self.now() / MILLISECOND;
        self.ended.get_or_insert_with(|| Ended {
            why: EndReason::OutOfMemory,
            task: name,
            request: String::new(),
            since_ms: at_ms,
            at_ms,
        });
    }
}
