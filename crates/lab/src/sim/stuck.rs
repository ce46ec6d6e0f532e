//! Tells a machine that gets nowhere from one that is slow.
//!
//! A request for memory that circles in the slow path, and programs that touch no page however much the
//! machine works, end a run: it is reported as a livelock, by whom and since when. The bounds are far above
//! what runs that finish come to (`stated` in the tests).

use std::collections::BTreeMap;

use pageblock::request::Request;
use pageblock_measure::ended::{Ended, Why};

use super::sched::TaskId;
use super::world::World;
use super::{MILLISECOND, Nanos, SECOND};

/// The longest that a request may be in the slow path (`hung_task_timeout_secs`).
pub const REQUEST_LIMIT: Nanos = 120 * SECOND;
/// The most steps of tasks between two pages that programs touch.
pub const STEP_LIMIT: u64 = 1 << 22;
/// The longest time between two pages that programs touch; the longest sleep of one is ten seconds.
pub const IDLE_LIMIT: Nanos = 600 * SECOND;

/// A task in the slow path.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    since: Nanos,
}

/// What is known of the progress of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    waiting: BTreeMap<TaskId, Waiting>,
    /// The names of the tasks, by number.
    pub(crate) names: Vec<&'static str>,
    next_look: Nanos,
    /// The pages that programs had touched, when, and after how many steps.
    progress: (u64, Nanos, u64),
    pub(crate) stat: (Nanos, Nanos, u64, u64),
}

impl World<'_> {
    /// A task enters the slow path.
    pub(crate) fn begin_slow(&mut self, task: TaskId, request: Request) {
        let since = self.now();
        self.watch.waiting.insert(task, Waiting { request, since });
    }

    /// It has its block, or gets none.
    pub(crate) fn end_slow(&mut self, task: TaskId) {
        let n = self.now();
        if let Some(w) = self.watch.waiting.remove(&task) {
            self.watch.stat.0 = self.watch.stat.0.max(n - w.since);
        }
    }

    /// Looks, about once a second, whether the machine gets anywhere; ends the run where it does not.
    #[inline]
    pub(crate) fn watch_progress(&mut self) {
        if self.sched.now >= self.watch.next_look || self.happenings.is_multiple_of(LOOK_EVERY) {
            self.look_for_livelock();
        }
    }

    fn look_for_livelock(&mut self) {
        let (now, steps) = (self.sched.now, self.happenings);
        self.watch.next_look = now + SECOND;
        let (pages, at, step) = self.watch.progress;
        if std::env::var_os("PB_LOOK").is_some() {
            eprintln!(
                "{} s, {steps} steps, progress {}, waiting {:?}, samples {}, writes {} waiters {} {}, deaths {}, spaces {}",
                now / SECOND,
                self.progress,
                self.watch
                    .waiting
                    .iter()
                    .map(|(t, w)| (
                        self.watch.names[*t],
                        (now - w.since.min(now)) / MILLISECOND,
                        w.request.order
                    ))
                    .collect::<Vec<_>>(),
                self.samples.values().map(Vec::len).sum::<usize>(),
                self.disk.outstanding,
                self.write_waiters.len(),
                self.congestion_waiters.len(),
                self.deaths.len(),
                self.vm.spaces().iter().count()
            );
        }
        if pages != self.progress || steps == 0 {
            self.watch.stat.1 = self.watch.stat.1.max(now - at);
            self.watch.stat.2 = self.watch.stat.2.max(steps - step);
            self.watch.progress = (self.progress, now, steps);
        } else if steps - step >= STEP_LIMIT || now - at >= IDLE_LIMIT {
            self.end_early(Why::Livelock, self.longest_waiting(), at);
            return;
        }
        if let Some((task, waiting)) = self.longest_waiting()
            && now.saturating_sub(waiting.since) >= REQUEST_LIMIT
        {
            self.end_early(Why::Livelock, Some((task, waiting)), waiting.since);
        }
    }

    fn longest_waiting(&self) -> Option<(TaskId, Waiting)> {
        let waiting = self.watch.waiting.iter().map(|(&task, &waiting)| (task, waiting));
        waiting.min_by_key(|&(task, waiting)| (waiting.since, task))
    }

    fn end_early(&mut self, why: Why, who: Option<(TaskId, Waiting)>, since: Nanos) {
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

    /// A task that the machine cannot do without got no memory: a kernel panics.
    pub(crate) fn panic_without_memory(&mut self, task: TaskId) {
        let name = self.watch.names[task].to_owned();
        self.stopping = true;
        let at_ms = self.now() / MILLISECOND;
        self.ended.get_or_insert_with(|| Ended {
            why: Why::OutOfMemory,
            task: name,
            request: String::new(),
            since_ms: at_ms,
            at_ms,
        });
    }
}

/// Steps between two looks at a clock that stands still.
const LOOK_EVERY: u64 = 1 << 16;
