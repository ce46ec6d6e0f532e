//! Memory pressure (PSI): the time that tasks lose because memory is short.
//!
//! Each CPU knows how many of its tasks are runnable, and how many are stalled for memory: in reclaim or
//! compaction, or waiting for a refaulted page of the workingset. *Some* is the time in which at least one task
//! was stalled, *full* the time in which no other task ran either. Every two seconds the CPUs' times are
//! averaged, weighted by their non-idle time. A working kswapd counts as stalled, and so does kcompactd.
//! Source: kernel/sched/psi.c of 5.13 and later.

use super::{Nanos, SECOND};

/// The interval at which the CPUs' times are averaged (`PSI_FREQ`).
const WINDOW: Nanos = 2 * SECOND;

/// A task's contribution to the pressure on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) cpu: usize,
    /// Whether it is runnable.
    pub(crate) running: bool,
    /// Whether it is stalled for memory.
    pub(crate) stalled: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Cpu {
    running: u32,
    stalled: u32,
    /// The stalled tasks that run.
    stalled_running: u32,
    /// The time of the last update.
    since: Nanos,
    /// The times in this window.
    some: Nanos,
    full: Nanos,
    busy: Nanos,
}

/// The pressure on all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Psi {
    cpus: Vec<Cpu>,
    window_start: Nanos,
    some: Nanos,
    full: Nanos,
}

impl Cpu {
    fn advance(&mut self, now: Nanos) {
        if self.since == now {
            return;
        }
        let time = now - std::mem::replace(&mut self.since, now);
        if self.stalled > 0 {
            self.some += time;
            self.full += if self.running == self.stalled_running { time } else { 0 };
        }
        self.busy += if self.running > 0 || self.stalled > 0 { time } else { 0 };
    }

    fn count(&mut self, share: Share, by: i32) {
        let add = |count: &mut u32, counts: bool| {
            *count = count.wrapping_add_signed(if counts { by } else { 0 });
        };
        add(&mut self.running, share.running);
        add(&mut self.stalled, share.stalled);
        add(&mut self.stalled_running, share.running && share.stalled);
    }
}

impl Psi {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { cpus: vec![Cpu::default(); cpus], window_start: 0, some: 0, full: 0 }
    }

    /// Changes a task's share.
    pub(crate) fn change(&mut self, now: Nanos, before: Share, after: Share) {
        if before == after {
            return;
        }
        for (share, by) in [(before, -1), (after, 1)] {
            self.cpus[share.cpu].advance(now);
            self.cpus[share.cpu].count(share, by);
        }
    }

    /// Averages over the CPUs, once per window.
    pub(crate) fn collect(&mut self, now: Nanos) {
        if now - self.window_start >= WINDOW {
            self.weigh(now);
        }
    }

    fn weigh(&mut self, now: Nanos) {
        self.window_start = now;
        let (mut some, mut full, mut busy) = (0u128, 0u128, 0u128);
        for cpu in &mut self.cpus {
            cpu.advance(now);
            some += u128::from(cpu.some) * u128::from(cpu.busy);
            full += u128::from(cpu.full) * u128::from(cpu.busy);
            busy += u128::from(cpu.busy);
            (cpu.some, cpu.full, cpu.busy) = (0, 0, 0);
        }
        self.some += (some / busy.max(1)) as Nanos;
        self.full += (full / busy.max(1)) as Nanos;
    }

    /// Returns the time under pressure so far: some, full.
    pub(crate) fn totals(&mut self, now: Nanos) -> (Nanos, Nanos) {
        self.weigh(now);
        (self.some, self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Share = Share { cpu: 0, running: false, stalled: false };

    const RUNS: Share = Share { running: true, ..IDLE };
    const STALLED: Share = Share { stalled: true, ..IDLE };
    const RUNS_STALLED: Share = Share { stalled: true, ..RUNS };

    #[test]
    fn full_is_when_no_task_runs() {
        let mut psi = Psi::new(1);
        psi.change(0, IDLE, RUNS);
        psi.change(100, IDLE, RUNS_STALLED);
        // Both run from 100 to 300: some, but not full. Then only the stalled one.
        psi.change(300, RUNS, IDLE);
        psi.change(350, RUNS_STALLED, STALLED);
        assert_eq!(psi.totals(400), (300, 100));
        psi.change(500, STALLED, IDLE);
        assert_eq!(psi.totals(1000), (400, 200));
    }

    #[test]
    fn cpus_are_weighted_by_their_busy_time() {
        let mut psi = Psi::new(2);
        psi.change(0, IDLE, RUNS_STALLED);
        psi.change(0, Share { cpu: 1, ..IDLE }, Share { cpu: 1, ..RUNS });
        psi.change(100, RUNS_STALLED, IDLE);
        // 100 of 100 busy on one, none of 300 on the other.
        assert_eq!(psi.totals(300), (100 * 100 / 400, 100 * 100 / 400));
    }

    #[test]
    fn a_window_is_two_seconds() {
        let mut psi = Psi::new(1);
        psi.change(0, IDLE, RUNS_STALLED);
        psi.collect(SECOND);
        assert_eq!(psi.some, 0);
        psi.collect(2 * SECOND);
        assert_eq!(psi.some, 2 * SECOND);
    }
}
