//! What thpfioscale reports of its faults: latencies, and the share of huge ones.
//!
//! As mmtests does, samples are single faults; those of all seeds are pooled.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::Error;
use crate::multiops::{self, Operation, Options, StarRule, StatCell, StatRow, Statistics};
use crate::run::Run;
use crate::seeds::by_policy;
use crate::stats::Direction;

const NANOS_PER_MICRO: u64 = 1000;

/// The two tables of thpfioscale, one cell for each policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Faults {
    /// Latencies in microseconds, simulated unless a recording has them: each statistic of
    /// `fault-base-T` and `fault-huge-T`, faults of T threads.
    pub latencies: Vec<StatRow>,
    /// Huge faults of 100.
    pub percentage_huge: Vec<StatRow>,
}

impl Faults {
    /// The tables of some runs; `None` where none has samples of faults.
    ///
    /// # Errors
    /// [`Error::Baseline`] (of the policies).
    pub fn of_runs(runs: &[Run], baseline: usize, stars: StarRule) -> Result<Option<Self>, Error> {
        let policies = by_policy(runs);
        let names: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.samples.keys()).map(String::as_str).collect();
        let mut threads =
            names.iter().filter_map(|name| name.strip_prefix("fault-")?.split_once('-'));
        let Some((_, threads)) = threads.next() else { return Ok(None) };
        let samples = |kind: &str| -> Operation {
            let name = format!("fault-{kind}-{threads}");
            let of_policy = |runs: &Vec<&Run>| {
                let samples = runs.iter().filter_map(|run| run.samples.get(&name)).flatten();
                samples.map(|&ns| (ns / NANOS_PER_MICRO) as f64).collect()
            };
            Operation { samples: policies.iter().map(of_policy).collect(), name }
        };
        let operations = [samples("base"), samples("huge")];
        let options = Options {
            direction: Direction::Lower,
            statistics: Statistics::Years2018To2025,
            stars,
            baseline,
        };
        let latencies = multiops::rows(&operations, &options)?;
        let [base, huge] = &operations;
        let shares = base.samples.iter().zip(&huge.samples);
        let shares: Vec<f64> = shares.map(|(b, h)| percent_huge(b.len(), h.len())).collect();
        let cell = |&share: &f64| StatCell {
            value: share,
            delta: Direction::Higher.delta(shares[baseline], share),
            star: false,
        };
        let row = StatRow {
            statistic: "Percentage".to_owned(),
            operation: format!("huge-{threads}"),
            cells: shares.iter().map(cell).collect(),
        };
        Ok(Some(Self { latencies, percentage_huge: vec![row] }))
    }
}

fn percent_huge(base: usize, huge: usize) -> f64 {
    if base + huge == 0 { 0.0 } else { huge as f64 * 100.0 / (base + huge) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, seed: u64, base: &[u64], huge: &[u64]) -> Run {
        let mut run = Run { policy: policy.into(), seed, ..Run::default() };
        for (kind, samples) in [("base", base), ("huge", huge)] {
            run.samples.insert(format!("fault-{kind}-5"), samples.to_vec());
        }
        run
    }

    #[test]
    fn faults_of_all_seeds_are_pooled() {
        let runs = [
            run("a", 1, &[600_000, 610_999], &[]),
            run("a", 2, &[620_000], &[]),
            run("b", 1, &[600_000], &[100_000]),
            run("b", 2, &[], &[130_000, 130_000]),
        ];
        let faults = Faults::of_runs(&runs, 0, StarRule::Classic).unwrap().unwrap();
        let mean = &faults.latencies[2];
        assert_eq!((mean.statistic.as_str(), mean.operation.as_str()), ("Amean", "fault-base-5"));
        assert_eq!((mean.cells[0].value, mean.cells[1].value), (610.0, 600.0));
        let share = &faults.percentage_huge[0];
        assert_eq!(share.operation, "huge-5");
        assert_eq!((share.cells[1].value, share.cells[1].delta), (75.0, 100.0));
    }

    #[test]
    fn the_rule_decides_the_stars() {
        let base: Vec<u64> = (0..30).map(|i| 600_000 + i * 1000).collect();
        let new: Vec<u64> = base.iter().map(|ns| ns - 20_000).collect();
        let runs = [run("a", 1, &base, &[]), run("b", 1, &new, &[])];
        let star = |rule| {
            let faults = Faults::of_runs(&runs, 0, rule).unwrap().unwrap();
            faults.latencies[2].cells[1].star
        };
        assert!(star(StarRule::Classic));
        // 20 us are less than 1.96 times the two deviations of 8.8 us.
        assert!(!star(StarRule::Modern));
        assert!(!star(StarRule::Off));
    }

    #[test]
    fn other_runs_have_none() {
        let runs = [Run { policy: "a".into(), ..Run::default() }];
        assert_eq!(Faults::of_runs(&runs, 0, StarRule::Classic).unwrap(), None);
    }
}
