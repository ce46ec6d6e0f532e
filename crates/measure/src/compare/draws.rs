//! The draws that runs are.

use crate::catalogue::deciding;
use crate::run::Run;
use crate::value::origin::Origin;

/// Returns the runs of a policy that are draws of their own. Every simulation and every real run is one. Replays begin with other
/// orders of the free lists: those that end with the same values tell of one order, however often it was drawn.
pub(crate) fn distinct<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    let values = |run: &Run| -> Vec<Option<f64>> {
        deciding::measures().iter().map(|measure| measure.number(run)).collect()
    };
    let mut found: Vec<(Vec<Option<f64>>, &Run)> = Vec::new();
    for &run in runs {
        let own = values(run);
        let is_new = || found.iter().all(|(of_other, _)| *of_other != own);
        if run.origin != Origin::Replayed || is_new() {
            found.push((own, run));
        }
    }
    found.into_iter().map(|(_, run)| run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::names;

    #[test]
    fn replays_with_the_same_values_are_one_draw() {
        let of = |origin| -> Vec<u64> {
            let run = |(seed, pages)| {
                let mut run = Run { origin, seed, ..Run::default() };
                run.counters.set(names::TYPE_MISMATCH_PAGES, pages);
                run
            };
            let runs: Vec<Run> = [(0, 7), (1, 8), (2, 7), (3, 8), (4, 9)].map(run).into();
            distinct(&runs.iter().collect::<Vec<_>>()).iter().map(|run| run.seed).collect()
        };
        assert_eq!(of(Origin::Replayed), [0, 1, 4]);
        assert_eq!(of(Origin::Simulated), [0, 1, 2, 3, 4]);
        assert_eq!(of(Origin::Real), [0, 1, 2, 3, 4]);
    }
}
