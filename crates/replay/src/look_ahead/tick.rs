//! Finds when the limits of CPU lists decay: once a second, at the same time on all CPUs (`vmstat_update`, whose
//! timer is rounded to full seconds). This raises an event only if it makes a list drain: a worker's drain without
//! a free before it.

use std::collections::{BTreeMap, BTreeSet};

use pageblock_recording::{Record, What};

/// A second, in microseconds of the recorder's clock.
pub const PERIOD_US: u64 = 1_000_000;

/// A worker that drains further from the common time does something else.
const MOST_APART_US: u64 = 100_000;

/// The number of drains that are considered.
const MOST: usize = 4096;

#[derive(Default)]
pub(super) struct TickFinder {
    workers: BTreeSet<u32>,
    /// The task of each CPU's last event, if that was not a free.
    last: BTreeMap<u16, u32>,
    /// When lists of a CPU were seen to decay.
    seen: Vec<(u16, u64)>,
}

/// When the limits of CPU lists decay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ticks {
    /// The time within each second; `None` if it is not known.
    phase: Option<u64>,
    /// Times when a CPU was seen to be early or late, by second.
    seen: BTreeMap<(u16, u64), u64>,
    workers: BTreeSet<u32>,
}

impl Ticks {
    /// Returns whether the times are known.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.phase.is_some()
    }

    /// Returns whether a task works for one CPU, as the one does that decays the CPU's lists.
    #[must_use]
    pub fn is_worker(&self, pid: u32) -> bool {
        self.workers.contains(&pid)
    }

    /// Returns the number of the second in which a CPU's lists last decayed before a time; `None` if the times are
    /// not known.
    #[must_use]
    pub fn second(&self, cpu: u16, now: u64) -> Option<u64> {
        let phase = self.phase?;
        let nearest = (now + PERIOD_US + PERIOD_US / 2 - phase) / PERIOD_US;
        let usual = (nearest * PERIOD_US + phase).saturating_sub(PERIOD_US);
        let at = self.seen.get(&(cpu, nearest)).copied().unwrap_or(usual);
        Some(if now >= at { nearest } else { nearest - 1 })
    }
}

impl TickFinder {
    /// Creates a finder. `workers`: the tasks that work for one CPU.
    pub(super) fn new(workers: BTreeSet<u32>) -> Self {
        Self { workers, ..Self::default() }
    }

    pub(super) fn event(&mut self, record: &Record) {
        let last = self.last.insert(record.cpu, record.pid);
        let drains = matches!(record.what, What::Drain { .. });
        if drains
            && last != Some(record.pid)
            && self.seen.len() < MOST
            && self.workers.contains(&record.pid)
        {
            self.seen.push((record.cpu, record.t_us));
        }
    }

    /// Returns the times of all ticks. The time within the second is the one to which the others are nearest.
    pub(super) fn finish(&self) -> Ticks {
        let apart = |a: u64, b: u64| {
            let d = (a % PERIOD_US).abs_diff(b % PERIOD_US);
            d.min(PERIOD_US - d)
        };
        let sum = |&at: &u64| self.seen.iter().map(|&(_, other)| apart(at, other)).sum::<u64>();
        let times = self.seen.iter().map(|&(_, at)| at);
        let Some(phase) = times.min_by_key(sum).map(|at| at % PERIOD_US) else {
            return Ticks { workers: self.workers.clone(), ..Ticks::default() };
        };
        let mut seen = BTreeMap::new();
        for &(cpu, at) in self.seen.iter().filter(|&&(_, at)| apart(at, phase) < MOST_APART_US) {
            let second = (at + PERIOD_US + PERIOD_US / 2 - phase) / PERIOD_US;
            seen.entry((cpu, second)).or_insert(at);
        }
        Ticks { phase: Some(phase), seen, workers: self.workers.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::frame::Pfn;
    use pageblock::mobility::Migratetype::Movable;

    #[test]
    fn limits_decay_once_a_second_where_a_worker_drains() {
        let mut finder = TickFinder::new(BTreeSet::from([9]));
        for (t_us, pid) in [(100, 1), (3_780_000, 9), (3_900_000, 1), (5_790_000, 9)] {
            let what = What::Drain { pfn: Pfn(1), order: 0, mt: Movable };
            finder.event(&Record { t_us, cpu: 0, pid, what });
        }
        let ticks = finder.finish();
        let second = |t_us| ticks.second(0, t_us).unwrap();
        assert_eq!(second(4_779_999) + 1, second(4_780_000));
        // Seen late in this second.
        assert_eq!(second(5_789_999) + 1, second(5_790_000));
        assert_eq!(second(5_790_000), second(6_779_999));
    }

    #[test]
    fn without_a_worker_no_time_is_known() {
        assert_eq!(TickFinder::new(BTreeSet::new()).finish().second(0, 5), None);
    }
}
