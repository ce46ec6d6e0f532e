//! The few measures that decide between policies, each with its change and whether the change is more than chance.

use serde::Serialize;

use super::common::{self, Options};
use super::ended;
use super::seeds::MIN_PAIRS;
use crate::catalogue::{Measure, deciding};
use crate::certificate::{Certified, Support};
use crate::run::Run;
use crate::run::policies::Policies;
use crate::statistics::paired::{self, PairedResult};
use crate::statistics::stats::Direction;
use crate::value::error::Error;
use crate::value::origin::Origin;

/// The share of false alarms that a summary allows over all its changes.
const LEVEL: f64 = 0.05;

/// The measures that decide, under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The workload or the recording, and the machine.
    pub subject: String,
    /// The policies.
    pub policies: Vec<String>,
    /// The policy that the others are compared with, from 0.
    pub baseline: usize,
    /// The number of seeds; 0 for replays, which have none.
    pub seeds: usize,
    /// A line for each policy with runs that did not finish.
    pub ended: Vec<String>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
    /// The measures, in the order of importance.
    pub measures: Vec<SummaryRow>,
}

/// One measure under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SummaryRow {
    /// The name of the measure in the catalogue.
    #[serde(skip)]
    pub id: &'static str,
    /// What is measured, with its unit in brackets.
    pub name: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// What the recording supports of it; `None` if it is not graded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// Whether it counts events whose unit is another under some of the policies.
    pub units_differ: bool,
    /// One cell for each policy.
    pub cells: Vec<SummaryCell>,
}

/// A measure under one policy.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SummaryCell {
    /// The mean over the seeds.
    pub mean: f64,
    /// The lowest and the highest value of a seed.
    pub range: (f64, f64),
    /// The change from the baseline as a share of it: the median of the paired changes, with fewer than
    /// [`MIN_PAIRS`] seeds that of the means. `None` in the baseline itself, if the baseline has 0, and if the
    /// values differ in meaning.
    pub change: Option<f64>,
    /// The 95 % interval of the change; `None` with fewer than [`MIN_PAIRS`] seeds.
    pub interval: Option<(f64, f64)>,
    /// The p of the exact Wilcoxon signed-rank test after Holm's correction for all changes of the summary.
    pub p: Option<f64>,
    /// What the change is.
    pub verdict: Judged,
}

/// What a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// There is no change to judge, or nothing to judge it by.
    Open,
    /// It can be chance; in a replay, the replay's own error.
    Chance,
    /// Better, by more than chance.
    Better,
    /// Worse, by more than chance.
    Worse,
}

impl Summary {
    /// Summarises runs that [`crate::compare::seeds::SeedComparison::of_runs`] accepts.
    ///
    /// # Errors
    /// If policies ran different numbers of seeds.
    pub fn of_runs(runs: &[Run], options: &Options) -> Result<Self, Error> {
        Self::of(&Policies::of(runs), options)
    }

    /// As [`of_runs`](Self::of_runs), of runs that are grouped already.
    pub(crate) fn of(policies: &Policies<'_>, options: &Options) -> Result<Self, Error> {
        let mut measures = Vec::new();
        for measure in deciding::measures() {
            measures.extend(SummaryRow::new(measure, policies, options)?);
        }
        correct(&mut measures);
        let first = &policies[0];
        let is_replay = first[0].origin == Origin::Replayed && first.len() == 1;
        let subject = match first[0].machine.as_str() {
            "" => first[0].workload.clone(),
            machine => format!("{} on {machine}", first[0].workload),
        };
        Ok(Self {
            subject,
            policies: policies.iter().map(|runs| runs[0].policy.clone()).collect(),
            baseline: options.baseline,
            ended: ended::notes(policies),
            certificate: common::certificate(policies.runs(), options),
            seeds: if is_replay { 0 } else { first.len() },
            measures,
        })
    }
}

impl SummaryRow {
    /// `None` if a run lacks it, or all have 0.
    fn new(
        measure: &'static Measure,
        policies: &[Vec<&Run>],
        options: &Options,
    ) -> Result<Option<Self>, Error> {
        let values = |runs: &Vec<&Run>| runs.iter().map(|run| measure.number(run)).collect();
        let values: Option<Vec<Vec<f64>>> = policies.iter().map(values).collect();
        let Some(values) = values.filter(|values| values.iter().flatten().any(|&v| v != 0.0))
        else {
            return Ok(None);
        };
        let graded = |part| options.supports.as_ref().and_then(|all| all.get(&part).copied());
        let support = measure.part.and_then(graded);
        let base = options.baseline;
        let mut units_differ = false;
        let mut cells = Vec::new();
        for (at, new) in values.iter().enumerate() {
            let mean = mean(new);
            let comparable = measure.comparable(policies[base][0], policies[at][0]);
            units_differ |= !comparable;
            let lowest = new.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = new.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut cell = SummaryCell {
                mean,
                range: (lowest, highest),
                change: None,
                interval: None,
                p: None,
                verdict: Judged::Open,
            };
            if at != base && comparable {
                let paired = policies[base][0].origin.is_paired_with(policies[at][0].origin);
                cell.judge((&values[base], new), paired, measure.direction, support)?;
            }
            cells.push(cell);
        }
        let Measure { id, label, direction, .. } = measure;
        Ok(Some(Self { id, name: label, direction: *direction, support, units_differ, cells }))
    }
}

impl SummaryCell {
    fn judge(
        &mut self,
        (base, new): (&[f64], &[f64]),
        paired: bool,
        direction: Direction,
        support: Option<Support>,
    ) -> Result<(), Error> {
        if paired && base.len() >= MIN_PAIRS {
            let PairedResult { median_ratio, interval, wilcoxon_p, .. } =
                paired::compare(base, new)?;
            self.change = Some(median_ratio - 1.0);
            self.interval = Some((interval.0 - 1.0, interval.1 - 1.0));
            self.p = Some(wilcoxon_p);
        } else {
            self.change = Some(paired::ratio(mean(base), self.mean) - 1.0);
        }
        self.change = self.change.filter(|change| change.is_finite());
        self.verdict = match (support, self.change) {
            (
                Some(
                    Support::Supported { margin_permyriad }
                    | Support::LargeChanges { margin_permyriad },
                ),
                Some(change),
            ) => {
                let large = change.abs() * 10_000.0 > margin_permyriad as f64;
                if large { way(mean(new) - mean(base), direction) } else { Judged::Chance }
            }
            _ => match self.p {
                // The final word is spoken after the correction.
                Some(_) => way(mean(new) - mean(base), direction),
                None => Judged::Open,
            },
        };
        Ok(())
    }
}

/// Corrects the p of all changes for their number, and takes back what may be chance.
fn correct(measures: &mut [SummaryRow]) {
    let cells = measures.iter_mut().flat_map(|measure| &mut measure.cells);
    let tested: Vec<&mut SummaryCell> = cells.filter(|cell| cell.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|cell| cell.p).collect();
    for (cell, p) in tested.into_iter().zip(paired::holm(&p)) {
        cell.p = Some(p);
        if p >= LEVEL {
            cell.verdict = Judged::Chance;
        }
    }
}

fn way(difference: f64, direction: Direction) -> Judged {
    let better = match direction {
        Direction::Lower => difference < 0.0,
        Direction::Higher => difference > 0.0,
        Direction::Neither => return Judged::Open,
    };
    match (difference == 0.0, better) {
        (true, _) => Judged::Chance,
        (false, true) => Judged::Better,
        (false, false) => Judged::Worse,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Part;
    use crate::value::names;
    use deciding::id;

    fn runs(policy: &str, stalls: &[u64], huge: u64) -> Vec<Run> {
        let run = |(seed, &stalls): (usize, &u64)| {
            let mut run = Run { policy: policy.into(), seed: seed as u64 + 1, ..Run::default() };
            run.counters.set("allocstall_normal", stalls);
            run.counters.set("thp_fault_alloc", huge);
            run.counters.set("thp_fault_fallback", 100 - huge);
            run
        };
        stalls.iter().enumerate().map(run).collect()
    }

    fn summary(a: Vec<Run>, b: Vec<Run>) -> Summary {
        Summary::of_runs(&[a, b].concat(), &Options::default()).unwrap()
    }

    #[track_caller]
    fn measure<'a>(summary: &'a Summary, id: &str) -> &'a SummaryRow {
        summary.measures.iter().find(|measure| measure.id == id).unwrap()
    }

    #[test]
    fn a_change_in_every_seed_is_told_apart_and_noise_is_not() {
        let a: Vec<u64> = (100..112).collect();
        let less: Vec<u64> = a.iter().map(|n| n / 2).collect();
        let noise: Vec<u64> = a.iter().map(|n| if n % 2 == 0 { n + 3 } else { n - 3 }).collect();
        let found = summary(runs("a", &a, 40), runs("b", &less, 40));
        let stalls = measure(&found, id::ALLOCATION_STALLS).cells[1];
        assert_eq!(stalls.verdict, Judged::Better);
        assert!(stalls.change.is_some_and(|c| (-0.51..-0.49).contains(&c)), "{stalls:?}");
        assert_eq!(measure(&found, id::HUGE_ON_FAULT).cells[1].verdict, Judged::Chance);
        let found = summary(runs("a", &a, 40), runs("b", &noise, 60));
        assert_eq!(measure(&found, id::ALLOCATION_STALLS).cells[1].verdict, Judged::Chance);
        assert_eq!(measure(&found, id::HUGE_ON_FAULT).cells[1].verdict, Judged::Better);
    }

    #[test]
    fn runs_that_share_no_seed_are_not_paired() {
        let a: Vec<u64> = (100..112).collect();
        let less: Vec<u64> = a.iter().take(8).map(|n| n / 2).collect();
        let real = |policy: &str, stalls: &[u64]| -> Vec<Run> {
            let of = |run| Run { origin: Origin::Real, ..run };
            runs(policy, stalls, 40).into_iter().map(of).collect()
        };
        for (base, new) in [
            (runs("a", &a, 40), real("b", &less)),
            (real("a", &a), real("b", &less)),
            (real("a", &a), runs("b", &less, 40)),
        ] {
            let stalls = measure(&summary(base, new), id::ALLOCATION_STALLS).cells[1];
            assert_eq!((stalls.p, stalls.interval, stalls.verdict), (None, None, Judged::Open));
            assert!(stalls.change.is_some_and(|c| (-0.6..-0.4).contains(&c)), "{stalls:?}");
        }
    }

    #[test]
    fn few_seeds_decide_nothing_and_zeros_are_left_out() {
        let found = summary(runs("a", &[0, 0], 10), runs("b", &[0, 0], 90));
        assert!(found.measures.iter().all(|measure| measure.id != id::ALLOCATION_STALLS));
        let huge = measure(&found, id::HUGE_ON_FAULT).cells[1];
        assert_eq!((huge.verdict, huge.change, huge.interval), (Judged::Open, Some(8.0), None));
    }

    #[test]
    fn a_replay_is_judged_by_its_own_error() {
        let mut base = runs("a", &[5], 10);
        let mut new = runs("b", &[5], 10);
        for (run, pages) in [(&mut base[0], 1000), (&mut new[0], 900)] {
            run.origin = Origin::Replayed;
            run.counters.set(names::TYPE_MISMATCH_PAGES, pages);
        }
        let verdict = |margin_permyriad| {
            let supports = [(Part::Mismatch, Support::Supported { margin_permyriad })];
            let options = Options { supports: Some(supports.into()), ..Options::default() };
            let runs = [base.clone(), new.clone()].concat();
            let summary = Summary::of_runs(&runs, &options).unwrap();
            assert_eq!(summary.seeds, 0);
            measure(&summary, id::MISMATCHED_PAGES).cells[1].verdict
        };
        assert_eq!(verdict(900), Judged::Better);
        assert_eq!(verdict(1100), Judged::Chance);
    }
}
