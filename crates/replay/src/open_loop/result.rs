//! The result of a replay.

use pageblock::frame::ORDER_LIMIT;
use pageblock_measure::certificate::Outcome;
use pageblock_measure::value::blocks::BlockCensus;
use pageblock_measure::value::names;
use pageblock_measure::{EventUnit, Origin, Run};

use super::Replay;
use crate::recorded::end_state;

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The run, for tables.
    pub run: Run,
    /// The figures that are compared with the recording.
    pub outcome: Outcome,
}

impl Replay<'_, '_> {
    /// Returns the result, after the last demand.
    #[must_use]
    pub fn finish(mut self, policy: &str, workload: &str, machine: &str) -> Replayed {
        let census = self.placement.census(self.allocator);
        let outcome = self.compared(&census);
        let history = self.finish_history();
        let mut run = Run { history, ..self.run(policy, workload, machine) };
        run.set_blocks(census);
        Replayed { run, outcome }
    }

    fn compared(&self, census: &BlockCensus) -> Outcome {
        let tally = &self.tally.tally;
        Outcome {
            extfrag: Some(tally.extfrag().clone()),
            fallbacks: self.tally.fallbacks.clone().unwrap_or_default(),
            mismatch: Some(self.mismatch.counters()),
            failed: (0..=ORDER_LIMIT).map(|order| tally.failed(order)).sum(),
            mixed: Some(census.mixed.total()),
            end: Some(end_state(self.allocator)),
        }
    }

    fn run(self, policy: &str, workload: &str, machine: &str) -> Run {
        let mut run = Run::from_tally(&self.tally.tally);
        run.policy = policy.to_owned();
        run.workload = workload.to_owned();
        run.machine = machine.to_owned();
        run.origin = Origin::Replayed;
        run.extfrag_unit = Some(EventUnit::of(self.allocator.policy()));
        run.pageblock_order = Some(self.allocator.geometry().pageblock_order);
        run.counters.extend(&self.mismatch.counters());
        let (mut locks, mut probes) = (0, 0);
        for zone in self.allocator.zones() {
            locks += zone.counters().lock_acquired;
            probes += zone.counters().list_probes;
            let orders = 0..=self.allocator.geometry().max_order;
            let free = orders.map(|order| zone.nr_free(order)).collect();
            run.set_free_blocks(
                &format!("Node {}, zone {}", zone.node(), zone.kind().name()),
                free,
            );
        }
        run.counters.set(names::ZONE_LOCK_ACQUIRED, locks);
        run.counters.set(names::LIST_PROBES, probes);
        run.counters.set(names::ALLOC_RECORDED_FRAME, self.outcome.same_frame);
        run.counters.set("alloc_slow", self.outcome.slow);
        run.counters.set("alloc_failed_then_served", self.outcome.rescued);
        run.counters.set("free_unknown", self.outcome.unknown_frees);
        run.counters.set("isolate_not_found", self.outcome.not_isolated);
        run
    }
}
