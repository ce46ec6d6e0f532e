//! The progress of a run, for display. Nothing in a run depends on it.

use super::Nanos;
use super::world::World;

/// The measure of a phase's progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// This many pages are written, read or faulted.
    Pages(u64),
    /// The phase lasts this long in virtual time.
    Time(Nanos),
    /// The workload counts this many steps ([`World::steps`]).
    Steps(u64),
}

/// The current phase of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PhaseProgress {
    /// The share of the run that was done when the phase began.
    before: f64,
    /// The phase's share of the run.
    share: f64,
    pace: Pace,
    /// The measure's value when the phase began.
    start: u64,
}

impl Default for PhaseProgress {
    fn default() -> Self {
        Self { before: 0.0, share: 0.0, pace: Pace::Steps(0), start: 0 }
    }
}

impl World<'_> {
    /// Begins a phase that takes this share of the run's real time, from 0 to 1. The shares of all phases of a
    /// run add up to 1.
    pub fn begin_phase(&mut self, share: f64, pace: Pace) {
        let PhaseProgress { before, share: last, .. } = self.phase;
        self.phase =
            PhaseProgress { before: before + last, share, pace, start: self.reading(pace) };
    }

    /// Returns the share of the run that is done, from 0 to 1. It never decreases.
    #[must_use]
    pub fn share_done(&self) -> f64 {
        let PhaseProgress { before, share, pace, start } = self.phase;
        let (Pace::Pages(whole) | Pace::Time(whole) | Pace::Steps(whole)) = pace;
        let done = self.reading(pace).saturating_sub(start) as f64;
        let part = if whole == 0 { 0.0 } else { (done / whole as f64).min(1.0) };
        (before + share * part).min(1.0)
    }

    fn reading(&self, pace: Pace) -> u64 {
        match pace {
            Pace::Pages(_) => self.progress,
            Pace::Time(_) => self.now(),
            Pace::Steps(_) => self.steps,
        }
    }
}
