//! The history of a machine's memory, if it was asked for.

use pageblock::frame::Pfn;
use pageblock::mobility::Migratetype;
use pageblock_measure::value::names;
use pageblock_measure::{Counters, History, HistoryBuilder, Tally};
use pageblock_vm::Vm;
use pageblock_vm::page::Owner;

use super::MICROSECOND;
use super::observed::Observed;
use super::sched::TaskId;
use super::world::World;

/// Steps of tasks between two looks at whether a sample is due.
const LOOK_EVERY: u64 = 1 << 8;

/// A history being made.
pub(crate) struct HistoryWatch {
    builder: HistoryBuilder,
    /// How many samples the whole run should have.
    samples: usize,
    taken: usize,
    /// The counts of the tallies before the present one.
    tallied: Counters,
}

/// Returns the migratetype of a request for a page of this owner.
pub(crate) fn content_type(vm: &Vm<'_, Observed>, pfn: Pfn) -> Migratetype {
    let page = vm.pages().get(pfn);
    match page.kind() {
        Owner::Anon | Owner::File | Owner::Compaction => Migratetype::Movable,
        Owner::Zsmalloc if vm.kernel().memory.zsmalloc_movable => Migratetype::Movable,
        Owner::Slab if vm.slabs().caches()[page.owner as usize].spec.reclaimable => {
            Migratetype::Reclaimable
        }
        _ => Migratetype::Unmovable,
    }
}

impl World<'_> {
    /// Records the history of this machine from now on.
    pub(crate) fn record_history(&mut self) {
        let builder = HistoryBuilder::new(self.vm.allocator());
        let samples = builder.samples();
        self.vm.observer.record_fallbacks();
        let watch = HistoryWatch { builder, samples, taken: 0, tallied: Counters::new() };
        self.history = Some(Box::new(watch));
        self.sample_history();
    }

    /// Starts a new tally; what the last one counted stays in the history.
    pub(crate) fn restart_tally(&mut self) {
        let mut tally = Tally::new();
        if let Some(history) = &mut self.history {
            tally.record_fallbacks();
            for (name, count) in self.vm.observer.counters().iter() {
                history.tallied.add(name, count);
            }
        }
        self.vm.observer.tally = tally;
    }

    /// Takes a sample if one is due: at equal shares of the run, so that runs of one workload have the same
    /// sample at the same point of their work.
    #[inline]
    pub(crate) fn watch_history(&mut self) {
        if let Some(history) = &self.history
            && self.task_steps.is_multiple_of(LOOK_EVERY)
            && self.share_done() * history.samples as f64 >= history.taken as f64
            && history.taken < history.samples
        {
            self.sample_history();
        }
    }

    /// Gives the fallbacks since the last call to the task that ran.
    #[inline]
    pub(crate) fn blame(&mut self, task: TaskId) {
        if let Some(history) = &mut self.history {
            for fallback in self.vm.observer.take_fallbacks() {
                history.builder.fallback(&fallback, self.watch.names[task], None);
            }
        }
    }

    fn sample_history(&mut self) {
        let Some(mut history) = self.history.take() else { return };
        let mut counters = self.counters_since_boot();
        let (some, full) = self.pressure();
        counters.set(names::PSI_SOME_US, some / MICROSECOND);
        counters.set(names::PSI_FULL_US, full / MICROSECOND);
        for tally in [&history.tallied, &self.vm.observer.counters()] {
            tally.iter().for_each(|(name, count)| counters.add(name, count));
        }
        let vm = &self.vm;
        history.builder.sample(
            self.sched.now / MICROSECOND,
            vm.allocator(),
            |pfn, _| content_type(vm, pfn),
            counters.iter(),
        );
        history.taken += 1;
        self.history = Some(history);
    }

    /// Returns the history up to now, with a last sample; `None` if none was asked for.
    pub(crate) fn finish_history(&mut self) -> Option<History> {
        self.sample_history();
        self.history.take().map(|history| history.builder.finish())
    }
}
