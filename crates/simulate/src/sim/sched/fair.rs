//! Who of the tasks that share a CPU runs, and for how long: the virtual run times of kernel/sched/fair.c.
//! All tasks weigh the same, so that virtual time is CPU time.

use pageblock_kernel::rules::scheduler::Scheduler;

use super::super::{MILLISECOND, Nanos};

/// The time between two looks of the scheduler at a running task, with `CONFIG_HZ=250`.
pub(super) const TICK: Nanos = 4 * MILLISECOND;

/// A virtual run time, or a difference of two [ns].
pub(super) type Virtual = i64;

/// What a scheduler knows of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entity {
    pub(super) vruntime: Virtual,
    /// Where its slice ends (EEVDF).
    deadline: Virtual,
    /// How far it was behind the average when it left its queue (EEVDF).
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

/// The runnable tasks of a CPU, as a task that comes or goes finds them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    pub(super) count: Virtual,
    /// The mean of their virtual run times; the queue's own if there are none.
    pub(super) average: Virtual,
    /// The queue's virtual time, which never goes back (`min_vruntime`).
    pub(super) least: Virtual,
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

    /// The time in which each of up to eight tasks runs once (CFS).
    fn latency(self) -> Virtual {
        6_000_000 * self.factor
    }

    /// What one of some tasks runs at a time (`sched_slice`, `sysctl_sched_base_slice`).
    fn slice(self, count: Virtual) -> Virtual {
        let least = 750_000 * self.factor;
        match self.scheduler {
            Scheduler::Cfs => (self.latency() / count.max(1)).max(least),
            Scheduler::Eevdf | Scheduler::EevdfDelayed => least,
        }
    }

    /// Places a new task (`place_entity`): its first slice is over with CFS, half over with EEVDF.
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
            // One that was ahead stayed in its queue until the others had caught up (`DELAY_DEQUEUE`).
            Scheduler::EevdfDelayed if entity.lag < 0 => {
                let caught_up = slept as Virtual / (others.count + 1);
                self.place_behind(entity, others, (entity.lag + caught_up).min(0));
            }
            Scheduler::EevdfDelayed => self.place_behind(entity, others, entity.lag),
        }
    }

    /// Places a task that comes from another CPU's queue, whose virtual time is given.
    pub(super) fn place_moved(self, entity: &mut Entity, others: Others, from: Virtual) {
        match self.scheduler {
            Scheduler::Cfs => entity.vruntime += others.least - from,
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                self.place_behind(entity, others, entity.lag);
            }
        }
    }

    /// Places a task so that it lags as far behind the average with it as it did when it left.
    fn place_behind(self, entity: &mut Entity, others: Others, lag: Virtual) {
        let lag = if others.count == 0 { 0 } else { lag * (others.count + 1) / others.count };
        entity.vruntime = others.average - lag;
        entity.deadline = entity.vruntime + self.slice(1);
    }

    /// Notes how far a task that leaves its queue is behind (`update_entity_lag`).
    pub(super) fn leave(self, entity: &mut Entity, average: Virtual) {
        let most = (2 * self.slice(1)).max(TICK as Virtual);
        entity.lag = (average - entity.vruntime).clamp(-most, most);
    }

    /// Begins the turn of a task that was picked.
    pub(super) fn picked(self, entity: &mut Entity) {
        entity.ran = 0;
    }

    /// Reports whether the running task has to give way at a tick or when another wakes, if it is not the one to
    /// run then; its next slice begins where one ended (`update_deadline`).
    pub(super) fn slice_is_over(self, entity: &mut Entity, now: Virtual) -> bool {
        if self.scheduler == Scheduler::Cfs || now < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + self.slice(1);
        true
    }

    /// Reports whether the running task has to give way at a tick (`check_preempt_tick`, `entity_tick`).
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

    /// Reports whether a woken task runs before the running one, whose virtual run time is given (CFS).
    pub(super) fn is_far_behind(self, woken: &Entity, running: Virtual) -> bool {
        running - woken.vruntime > 1_000_000 * self.factor
    }

    /// Returns the place of the task to run among some (`pick_next_entity`, `pick_eevdf`).
    pub(super) fn pick(self, entities: impl Iterator<Item = Entity> + Clone) -> Option<usize> {
        match self.scheduler {
            Scheduler::Cfs => {
                entities.enumerate().min_by_key(|(_, entity)| entity.vruntime).map(|(at, _)| at)
            }
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                let average = mean(entities.clone().map(|entity| entity.vruntime))?;
                // Who has had more than others is not eligible.
                let eligible = entities.enumerate().filter(|(_, e)| e.vruntime <= average);
                eligible.min_by_key(|(_, entity)| entity.deadline).map(|(at, _)| at)
            }
        }
    }
}

/// Returns the mean of virtual run times, rounded down; nothing of none.
pub(super) fn mean(times: impl Iterator<Item = Virtual>) -> Option<Virtual> {
    let (sum, count) = times.fold((0, 0), |(sum, count), time| (sum + i128::from(time), count + 1));
    (count > 0).then(|| sum.div_euclid(count) as Virtual)
}
