//! The result of a closed-loop replay, in the form of an open loop's.

use pageblock::frame::ORDER_LIMIT;
use pageblock::mobility::Migratetype;
use pageblock_measure::certificate::Outcome;
use pageblock_measure::value::blocks::{BlockCensus, BlockSummary, TypeCounts};
use pageblock_measure::value::names;
use pageblock_measure::{EventUnit, Origin, Run};
use pageblock_replay::end_state;
use pageblock_replay::open_loop::Replayed;

use crate::machine::Machine;

/// The prefixes of the counters of `/proc/vmstat` that this machine decides. It does not model faults and swap: their 0 would
/// be wrong.
const DECIDED: [&str; 7] =
    ["allocstall", "compact_", "kswapd_", "pageoutrun", "pgmigrate_", "pgscan_", "pgsteal_"];

impl Machine<'_> {
    /// Returns the result, after the last demand.
    pub(crate) fn finish(self, policy: &str, workload: &str, machine: &str) -> Replayed {
        let watch = &self.vm.observer;
        let census = self.census();
        let outcome = Outcome {
            extfrag: Some(watch.tally.extfrag().clone()),
            fallbacks: watch.fallbacks.clone().unwrap_or_default(),
            mismatch: Some(self.mismatch.counters()),
            failed: (0..=ORDER_LIMIT).map(|order| watch.tally.failed(order)).sum(),
            mixed: Some(census.mixed.total()),
            end: Some(end_state(self.vm.allocator())),
        };
        let mut run = Run::from_tally(&watch.tally);
        policy.clone_into(&mut run.policy);
        workload.clone_into(&mut run.workload);
        machine.clone_into(&mut run.machine);
        run.origin = Origin::Replayed;
        let allocator = self.vm.allocator();
        run.extfrag_unit = Some(EventUnit::of(allocator.policy()));
        run.pageblock_order = Some(allocator.geometry().pageblock_order);
        run.counters.extend(&self.mismatch.counters());
        let (mut locks, mut probes) = (0, 0);
        for zone in allocator.zones() {
            locks += zone.counters().lock_acquired;
            probes += zone.counters().list_probes;
            let orders = 0..=allocator.geometry().max_order;
            let free = orders.map(|order| zone.nr_free(order)).collect();
            let name = format!("Node {}, zone {}", zone.node(), zone.kind().name());
            run.set_free_blocks(&name, free);
        }
        for (name, count) in [
            (names::ZONE_LOCK_ACQUIRED, locks),
            (names::LIST_PROBES, probes),
            (names::ALLOC_RECORDED_FRAME, self.counts.same_frame),
            ("alloc_slow", self.counts.slow),
            ("alloc_failed_then_served", self.counts.rescued),
            ("free_unknown", self.counts.unknown_frees),
            ("file_reused", self.counts.reused),
        ] {
            run.counters.set(name, count);
        }
        let decided = |name: &str| DECIDED.iter().any(|start| name.starts_with(start));
        for (name, count) in self.vm.stat.iter().filter(|(name, _)| decided(name)) {
            run.counters.set(name, count);
        }
        self.vm.stalls.iter().for_each(|(name, count)| run.counters.set(name, count));
        run.set_blocks(census);
        Replayed { run, outcome }
    }

    /// Returns the pageblocks by type, and which of them are mixed.
    fn census(&self) -> BlockCensus {
        let blocks = self.vm.allocator().zones().iter().flat_map(|zone| {
            zone.pageblocks().map(move |(pfn, migratetype, _)| {
                let mut allocated = TypeCounts::default();
                let end = pfn.0 + zone.geometry().pageblock_pages();
                for frame in pfn.0..end.min(self.requested.len() as u64) {
                    if self.vm.pages()[frame as u32].kind().is_lru() {
                        allocated[Migratetype::Movable] += 1;
                    } else if let Some(mt) = self.requested[frame as usize].checked_sub(1)
                        && let Some(mt) = Migratetype::from_index(mt.into())
                    {
                        allocated[mt] += 1;
                    }
                }
                BlockSummary { migratetype, allocated }
            })
        });
        BlockCensus::of(blocks)
    }
}
