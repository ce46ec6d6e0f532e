//! The measures that a comparison of a workload decides, named before it runs.

use super::{Measure, deciding, gigabytes, sections};
use crate::run::Run;
use crate::run::policies::of_workloads;
use crate::value::origin::Origin;

/// The measures of replays: what a recording is asked for.
const OF_REPLAYS: [&str; 3] = [
    deciding::id::UNMOVABLE_FALLBACKS,
    deciding::id::MISMATCHED_PAGES,
    deciding::id::MIXED_PAGEBLOCKS,
];
/// The measures of workloads that name none.
const BY_DEFAULT: [&str; 3] =
    [deciding::id::HUGE_ON_FAULT, deciding::id::MISMATCHED_PAGES, deciding::id::ALLOCATION_STALLS];

/// Returns the primary measures of the runs' workloads, in their order.
#[must_use]
pub fn measures(runs: &[Run]) -> Vec<Measure> {
    let mut named: Vec<&str> = of_workloads(runs)
        .flat_map(|tables| &tables.primary)
        .map(|primary| primary.measure.as_str())
        .collect();
    if named.is_empty() {
        let replayed = runs.iter().any(|run| run.origin == Origin::Replayed);
        named.extend(if replayed { OF_REPLAYS } else { BY_DEFAULT });
    }
    let rows = || sections::of_runs(runs).into_iter().flat_map(|subject| subject.measures);
    let whole = || gigabytes::measures().iter().cloned();
    let find = |id: &str| {
        deciding::by_id(id).cloned().or_else(|| whole().chain(rows()).find(|m| m.id == id))
    };
    named.into_iter().filter_map(find).collect()
}
