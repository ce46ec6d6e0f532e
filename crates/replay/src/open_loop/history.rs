//! The history of a machine's memory in a free replay.

use pageblock::alloc::Allocator;
use pageblock_measure::{History, HistoryBuilder};
use pageblock_recording::{Columnar, Snapshot};

use super::Replay;
use super::placement::Placement;
use crate::history::{Moments, builder};
use crate::watch::Watch;

/// The name of all causes of fallbacks: demands do not say whose they are.
const ANYONE: &str = "(a free replay does not know)";

/// A history under construction.
pub(super) struct FreeHistory {
    builder: HistoryBuilder,
    moments: Moments,
}

impl FreeHistory {
    fn sample(
        &mut self,
        at_us: u64,
        allocator: &Allocator<'_>,
        placement: &Placement,
        watch: &mut Watch,
    ) {
        for fallback in watch.tally.take_fallbacks() {
            self.builder.fallback(&fallback, ANYONE, None);
        }
        let counters = watch.tally.counters();
        let at = self.moments.since_first(at_us);
        let requested = |pfn, block| placement.requested(pfn, block);
        self.builder.sample(at, allocator, requested, counters.iter());
    }
}

impl Replay<'_, '_> {
    /// Starts to keep the history of the machine's memory.
    pub(super) fn record_history(&mut self, columnar: &Columnar, start: &Snapshot) {
        self.tally.tally.record_fallbacks();
        let builder = builder(self.allocator, start);
        let moments = Moments::of(columnar, builder.samples());
        self.history = Some(Box::new(FreeHistory { builder, moments }));
    }

    /// Takes the samples that are due before a time.
    #[inline]
    pub(super) fn watch_history(&mut self, t_ms: u32) {
        if let Some(history) = &mut self.history {
            while let Some(at) = history.moments.before(u64::from(t_ms) * 1000) {
                history.sample(at, self.allocator, &self.placement, &mut self.tally);
            }
        }
    }

    /// Returns the history, after the last demand; `None` if none was kept.
    pub(super) fn finish_history(&mut self) -> Option<History> {
        let mut history = self.history.take()?;
        while let Some(at) = history.moments.rest() {
            history.sample(at, self.allocator, &self.placement, &mut self.tally);
        }
        Some(history.builder.finish())
    }
}
