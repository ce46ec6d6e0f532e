//! The fair class (kernel/sched/fair.c): CFS and EEVDF. All tasks weigh the same, so that vruntime is CPU time.

use pageblock_kernel::rules::scheduler::Scheduler;

use super::super::{MILLISECOND, Nanos};

/// The time between two looks of the scheduler at a running task, with `CONFIG_HZ=250`.
pub(super) const TICK: Nanos = 4 * MILLISECOND;

/// A vruntime, or a difference of two [ns].
pub(super) type Virtual = i64;

/// The scheduling entity of a task (`sched_entity`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entity {
    pub(super) vruntime: Virtual,
    /// The vruntime at which its slice ends (EEVDF).
    deadline: Virtual,
    /// Its lag when it was dequeued: the average less its own vruntime (EEVDF).
    lag: Virtual,
    /// The time since it was picked.
    ran: Virtual,
}

impl Entity {
    /// Accounts for CPU time.
    pub(super) fn charge(&mut self, ns: Nanos) {
        self.vruntime += ns as Virtual;
        self.ran += ns as Virtual;
    }
}

/// The runnable tasks of a CPU when a task is enqueued or dequeued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    pub(super) count: Virtual,
    /// The mean of their vruntimes (`avg_vruntime`); `min_vruntime` if there are none.
    pub(super) average: Virtual,
    /// `min_vruntime`.
    pub(super) least: Virtual,
}

impl Others {
    /// Returns what tasks with these vruntimes are, and advances a `min_vruntime`.
    pub(super) fn of(vruntimes: impl Iterator<Item = Virtual>, least: Virtual) -> Self {
        // Differences from `min_vruntime` do not overflow.
        let (count, sum, first) = vruntimes
            .fold((0, 0, Virtual::MAX), |(count, sum, first), time| {
                (count + 1, sum + (time - least), first.min(time))
            });
        if count == 0 {
            return Self { count, average: least, least };
        }
        Self { count, average: least + mean(sum, count), least: first.max(least) }
    }
}

/// Returns a mean, rounded down. A task is nearly always alone on its CPU.
fn mean(sum: Virtual, count: Virtual) -> Virtual {
    if count == 1 { sum } else { sum.div_euclid(count) }
}

/// A scheduler's rules on a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fair {
    pub(super) scheduler: Scheduler,
    /// `1 + ilog2(CPUs)`, of at most eight (`SCHED_TUNABLESCALING_LOG`).
    factor: Virtual,
}

impl Fair {
    pub(super) fn new(scheduler: Scheduler, cpus: usize) -> Self {
        Self { scheduler, factor: 1 + Virtual::from(cpus.clamp(1, 8).ilog2()) }
    }

    /// `sysctl_sched_latency`: the period of up to eight tasks (CFS).
    fn latency(self) -> Virtual {
        6_000_000 * self.factor
    }

    /// Returns the slice of one of some tasks (`sched_slice`, `sysctl_sched_base_slice`).
    fn slice(self, count: Virtual) -> Virtual {
        let least = 750_000 * self.factor;
        match self.scheduler {
            Scheduler::Cfs => (self.latency() / count.max(1)).max(least),
            Scheduler::Eevdf | Scheduler::EevdfDelayed => least,
        }
    }

    /// Places a new task (`place_entity`): a slice behind with CFS (`START_DEBIT`), with half a slice with EEVDF
    /// (`PLACE_DEADLINE_INITIAL`).
    pub(super) fn place_new(self, entity: &mut Entity, others: Others) {
        let slice = self.slice(others.count + 1);
        *entity = match self.scheduler {
            Scheduler::Cfs => Entity { vruntime: others.least + slice, ..Entity::default() },
            Scheduler::Eevdf | Scheduler::EevdfDelayed => Entity {
                vruntime: others.average,
                deadline: others.average + slice / 2,
                ..Entity::default()
            },
        };
    }

    /// Places a task that slept for a time (`place_entity`).
    pub(super) fn place_woken(self, entity: &mut Entity, others: Others, slept: Nanos) {
        match self.scheduler {
            // A sleeper gets half a period's credit (`GENTLE_FAIR_SLEEPERS`).
            Scheduler::Cfs => {
                entity.vruntime = entity.vruntime.max(others.least - self.latency() / 2);
            }
            Scheduler::Eevdf => self.place_behind(entity, others, entity.lag),
            // With negative lag it stayed queued while it slept, until the lag was gone (`DELAY_DEQUEUE`).
            Scheduler::EevdfDelayed if entity.lag < 0 => {
                let caught_up = slept as Virtual / (others.count + 1);
                self.place_behind(entity, others, (entity.lag + caught_up).min(0));
            }
            Scheduler::EevdfDelayed => self.place_behind(entity, others, entity.lag),
        }
    }

    /// Places a task that migrates from another CPU, whose `min_vruntime` is given.
    pub(super) fn place_moved(self, entity: &mut Entity, others: Others, from: Virtual) {
        match self.scheduler {
            Scheduler::Cfs => entity.vruntime += others.least - from,
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                self.place_behind(entity, others, entity.lag);
            }
        }
    }

    /// Places a task with its lag: the average changes when it is enqueued (`PLACE_LAG`).
    fn place_behind(self, entity: &mut Entity, others: Others, lag: Virtual) {
        let lag = if others.count == 0 { 0 } else { lag * (others.count + 1) / others.count };
        entity.vruntime = others.average - lag;
        entity.deadline = entity.vruntime + self.slice(1);
    }

    /// Saves the lag of a task that is dequeued (`update_entity_lag`).
    pub(super) fn leave(self, entity: &mut Entity, average: Virtual) {
        let most = (2 * self.slice(1)).max(TICK as Virtual);
        entity.lag = (average - entity.vruntime).clamp(-most, most);
    }

    /// Begins the turn of a task that was picked.
    pub(super) fn picked(self, entity: &mut Entity) {
        entity.ran = 0;
    }

    /// Reports whether the running task's slice has ended; if so, it gets the next deadline (`update_deadline`, EEVDF).
    pub(super) fn slice_is_over(self, entity: &mut Entity, now: Virtual) -> bool {
        if self.scheduler == Scheduler::Cfs || now < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + self.slice(1);
        true
    }

    /// Reports whether a tick preempts the running task (`check_preempt_tick`, `entity_tick`).
    pub(super) fn ticks(self, running: &mut Entity, count: Virtual, first: Virtual) -> bool {
        match self.scheduler {
            Scheduler::Cfs => {
                let ideal = self.slice(count).min(self.latency());
                running.ran > ideal
                    || running.ran >= 750_000 * self.factor && running.vruntime - first > ideal
            }
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                self.slice_is_over(running, running.vruntime)
            }
        }
    }

    /// Reports whether a woken task preempts the running one, whose vruntime is given (`wakeup_preempt_entity`, CFS).
    pub(super) fn is_far_behind(self, woken: &Entity, running: Virtual) -> bool {
        running - woken.vruntime > 1_000_000 * self.factor
    }

    /// Returns the index of the task to run (`pick_next_entity`, `pick_eevdf`).
    pub(super) fn pick(self, entities: impl Iterator<Item = Entity> + Clone) -> Option<usize> {
        match self.scheduler {
            Scheduler::Cfs => {
                entities.enumerate().min_by_key(|(_, entity)| entity.vruntime).map(|(at, _)| at)
            }
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                let vruntimes = entities.clone().map(|entity| entity.vruntime);
                let Others { average, .. } =
                    Others::of(vruntimes, entities.clone().next()?.vruntime);
                // A task with negative lag is not eligible (`entity_eligible`).
                let eligible = entities.enumerate().filter(|(_, e)| e.vruntime <= average);
                eligible.min_by_key(|(_, entity)| entity.deadline).map(|(at, _)| at)
            }
        }
    }
}
