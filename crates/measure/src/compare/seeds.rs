//! The comparison of policies over seeds: every policy ran the same workload with every seed.
//!
//! The unit is the run of one seed. A cell has the mean over the seeds with mmtests' difference and star, and the change
//! with its interval. Nothing is paired: what a seed does under one policy says little of what it does under another.

use serde::Serialize;

use super::common::{self, Column, Options};
use super::verdict::LEVEL;
use crate::catalogue::{Measure, Value, sections};
use crate::certificate::Certified;
use crate::certificate::note::Note;
use crate::run::Run;
use crate::run::policies::{Policies, check_baseline};
use crate::statistics::multiops::StarRule;
use crate::statistics::rank_sum::{Change, Interval};
use crate::statistics::stats::{self, Direction};
use crate::value::error::Error;
use crate::value::origin::Origin;

/// Policies compared over the seeds that all of them ran.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedComparison {
    /// The policies, in the order in which they occur in the runs.
    pub columns: Vec<Column>,
    /// The column that the others are compared with, from 0.
    pub baseline: usize,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The rows, by subject.
    pub sections: Vec<SeedSection>,
    /// Notes that a reader needs to interpret the numbers.
    pub notes: Vec<Note>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
}

/// Rows of one subject.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedSection {
    /// What the rows measure, with its unit.
    pub title: String,
    /// Why some rows have no difference, and what to compare instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The rows.
    pub rows: Vec<SeedRow>,
}

/// One measure under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedRow {
    /// The first column of the table, common to related rows.
    pub group: String,
    /// The second column.
    pub label: String,
    /// Which way is better.
    pub direction: Direction,
    /// One cell per policy; `None` if a run of the policy lacks the measure.
    pub cells: Vec<Option<SeedCell>>,
}

/// One measure under one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedCell {
    /// The values in the order of the seeds.
    pub values: Vec<f64>,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The difference of the means in percent, as in mmtests; `None` if there is none, or if a run of
    /// one of the two policies did not finish.
    pub delta: Option<f64>,
    /// Whether mmtests' chosen rule puts a star; never with fewer than two seeds.
    pub star: bool,
    /// The change from the baseline, with the 95 % interval (none of so few runs that there is none) and the p of this row
    /// alone; `None` in the baseline itself, if the values differ in meaning or a run did not finish, and between runs of two
    /// origins.
    pub change: Option<Change>,
}

impl SeedComparison {
    /// Compares the policies of the runs. Rows without a value are omitted.
    ///
    /// # Errors
    /// [`Error::NoRuns`], [`Error::Baseline`] (of the policies), [`Error::Seeds`] if a policy ran other
    /// seeds than the first one, and [`Error::Twice`] if one ran a seed twice.
    pub fn of_runs(runs: &[Run], options: &Options) -> Result<Self, Error> {
        Self::of(&Policies::of(runs), options)
    }

    /// As [`of_runs`](Self::of_runs), of runs that are grouped already.
    pub(crate) fn of(policies: &Policies<'_>, options: &Options) -> Result<Self, Error> {
        check_baseline(options.baseline, policies.len())?;
        let drawn = policies.iter().filter(|policy| policy[0].origin != Origin::Real);
        let drawn: Vec<&Vec<&Run>> = drawn.collect();
        let seeds = seeds_of(drawn.first().copied().unwrap_or(&policies[0]));
        if let Some(twice) = policies.iter().find_map(|policy| given_twice(policy)) {
            return Err(Error::Twice { policy: twice.policy.clone(), seed: twice.seed });
        }
        // Real runs are numbered, and each policy may have another number of them.
        for policy in &drawn {
            if seeds_of(policy) != seeds {
                return Err(Error::Seeds {
                    policy: policy[0].policy.clone(),
                    first: drawn[0][0].policy.clone(),
                });
            }
        }
        let notes = common::notes(policies.runs(), options);
        Ok(Self {
            columns: policies.iter().map(|runs| Column::of_policy(&runs[0].policy)).collect(),
            baseline: options.baseline,
            seeds,
            sections: all_sections(policies, options),
            notes,
            certificate: common::certificate(policies.runs(), options),
        })
    }

    /// Returns the row with this group and label.
    #[must_use]
    pub fn row(&self, group: &str, label: &str) -> Option<&SeedRow> {
        let mut rows = self.sections.iter().flat_map(|section| &section.rows);
        rows.find(|row| row.group == group && row.label == label)
    }
}

/// Returns a run with the same seed as the one before it, from runs sorted by seed.
fn given_twice<'r>(policy: &[&'r Run]) -> Option<&'r Run> {
    policy.windows(2).find(|pair| pair[0].seed == pair[1].seed).map(|pair| pair[1])
}

fn seeds_of(policy: &[&Run]) -> Vec<u64> {
    policy.iter().map(|run| run.seed).collect()
}

fn all_sections(policies: &Policies<'_>, options: &Options) -> Vec<SeedSection> {
    let runs = policies.runs();
    let base = policies[options.baseline].len();
    // All rows have the same runs.
    let intervals: Vec<Interval> =
        policies.iter().map(|policy| Interval::of(base, policy.len(), LEVEL)).collect();
    let mut found = Vec::new();
    for subject in sections::of_runs(runs) {
        let row = |measure| row(measure, policies, &intervals, options);
        let rows: Vec<SeedRow> = subject.measures.iter().filter_map(row).collect();
        if !rows.is_empty() {
            let note = common::note(&subject, runs);
            found.push(SeedSection { title: subject.title, note, rows });
        }
    }
    found
}

fn row(
    measure: &Measure,
    policies: &[Vec<&Run>],
    intervals: &[Interval],
    options: &Options,
) -> Option<SeedRow> {
    let baseline = options.baseline;
    let read = |policy: &Vec<&Run>| policy.iter().map(|run| measure.value(run)).collect::<Vec<_>>();
    let values: Vec<Vec<Option<Value>>> = policies.iter().map(read).collect();
    if !measure.is_shown(&values.concat()) {
        return None;
    }
    let complete = |values: Vec<Option<Value>>| -> Option<Vec<f64>> {
        values.into_iter().map(|value| value.map(Value::as_f64)).collect()
    };
    let columns: Vec<Option<Vec<f64>>> = values.into_iter().map(complete).collect();
    let finished = |at: usize| policies[at].iter().all(|run| run.ended.is_none());
    let base = columns[baseline].clone().filter(|_| finished(baseline));
    let origin = |at: usize| policies[at][0].origin;
    let mut cells = Vec::with_capacity(columns.len());
    for (column, values) in columns.into_iter().enumerate() {
        cells.push(match (values, base.as_deref()) {
            (None, _) => None,
            (Some(values), Some(_))
                if !measure.comparable(policies[baseline][0], policies[column][0]) =>
            {
                Some(single_cell(values, None))
            }
            (Some(values), Some(base)) if column != baseline && finished(column) => {
                let alike = origin(baseline) == origin(column);
                let interval = alike.then_some(&intervals[column]);
                let stars = (options.stars, interval);
                Some(compared_cell(measure.direction, stars, base, values))
            }
            (Some(values), base) => {
                let itself = base.is_some() && column == baseline;
                Some(single_cell(values, itself.then_some(0.0)))
            }
        });
    }
    let (group, label) = (measure.group.clone().into_owned(), measure.label.clone().into_owned());
    Some(SeedRow { group, label, direction: measure.direction, cells })
}

fn single_cell(values: Vec<f64>, delta: Option<f64>) -> SeedCell {
    SeedCell { mean: stats::amean(&values), delta, star: false, change: None, values }
}

fn compared_cell(
    direction: Direction,
    (stars, interval): (StarRule, Option<&Interval>),
    base: &[f64],
    values: Vec<f64>,
) -> SeedCell {
    let (base_mean, mean) = (stats::amean(base), stats::amean(&values));
    let star = match stars {
        StarRule::Off => false,
        StarRule::Classic => stats::classic_star(base, &values, (base_mean, mean)),
        StarRule::Modern => {
            stats::modern_star((base_mean, mean), (stats::stddev(base), stats::stddev(&values)))
        }
    };
    SeedCell {
        mean,
        delta: Some(direction.delta(base_mean, mean)).filter(|delta| delta.is_finite()),
        star: star && values.len() > 1,
        change: interval.and_then(|interval| interval.change(base, &values)),
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_runs_may_be_of_another_number_and_are_no_draws_of_a_simulation() {
        let mut runs: Vec<Run> = (1..=6).map(|seed| run("a", seed, 100)).collect();
        runs.extend((4..=8).map(|seed| Run { origin: Origin::Real, ..run("b", seed, 50) }));
        let compared = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        assert_eq!(compared.seeds, [1, 2, 3, 4, 5, 6]);
        let cell = compared.row("Work", "list-probes").unwrap().cells[1].clone().unwrap();
        assert_eq!((cell.values.len(), cell.change), (5, None));
        assert_eq!(cell.delta, Some(50.0));
    }
    use crate::catalogue::deciding;
    use crate::compare::summary::{Summary, SummaryRow};
    use crate::statistics::rank_sum;
    use crate::value::ended::{EndReason, Ended};
    use crate::value::event_unit::EventUnit;

    fn run(policy: &str, seed: u64, probes: u64) -> Run {
        let mut run = Run { policy: policy.into(), seed, ..Run::default() };
        run.counters.set("list_probes", probes);
        run
    }

    #[test]
    fn a_cell_has_the_change_and_its_interval() {
        let runs: Vec<Run> =
            (1..=6).flat_map(|seed| [run("a", seed, 100 + seed), run("b", seed, 50)]).collect();
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        assert_eq!(comparison.seeds, [1, 2, 3, 4, 5, 6]);
        let row = comparison.row("Work", "list-probes").unwrap();
        let base = row.cells[0].as_ref().unwrap();
        assert_eq!((base.delta, base.change), (Some(0.0), None));
        let change = row.cells[1].as_ref().unwrap().change.unwrap();
        assert!((0.47..0.50).contains(&change.ratio), "{change:?}");
        // 2 / C(12, 6).
        assert!((change.p - 2.0 / 924.0).abs() < 1e-9 && change.interval.is_some());
        let two = SeedComparison::of_runs(&runs[..4], &Options::default()).unwrap();
        let change = two.row("Work", "list-probes").unwrap().cells[1].clone().unwrap().change;
        assert_eq!(change.map(|change| change.interval), Some(None));
        let one = SeedComparison::of_runs(&runs[..2], &Options::default()).unwrap();
        let change = one.row("Work", "list-probes").unwrap().cells[1].clone().unwrap().change;
        assert_eq!(change.map(|change| (change.interval, change.p)), Some((None, 1.0)));
    }

    /// The median of the ratios of all pairs of runs, whatever their number is: of one the ratio, and never that of the means.
    #[test]
    fn a_change_is_one_thing_in_every_comparison() {
        let values = [[100, 103, 108, 90, 400, 101], [50, 61, 20, 52, 55, 3000]];
        let all: Vec<Run> = (0..6)
            .flat_map(|at| ["a", "b"].map(|policy| (at, policy)))
            .map(|(at, policy)| {
                let stalls = values[usize::from(policy == "b")][at];
                let mut run = Run { policy: policy.into(), seed: at as u64, ..Run::default() };
                run.counters.set("allocstall_normal", stalls);
                run
            })
            .collect();
        for seeds in 1..=6 {
            let (runs, options) = (&all[..2 * seeds], Options::default());
            let policies = Policies::of(runs);
            let summary = Summary::of(&policies, &options).unwrap();
            let row = |m: &&SummaryRow| m.id == deciding::id::ALLOCATION_STALLS;
            let shown = summary.measures.iter().find(row).unwrap().cells[1].change.unwrap();
            let sides = values.map(|of| of[..seeds].iter().map(|&v| v as f64).collect::<Vec<_>>());
            let expect = rank_sum::compare(&sides[0], &sides[1], LEVEL).unwrap().ratio;
            let compared = SeedComparison::of(&policies, &options).unwrap();
            let rows = compared.sections.iter().flat_map(|section| &section.rows);
            let cells = rows.filter_map(|row| row.cells[1].as_ref());
            let found = cells.filter(|cell| cell.values == sides[1]).filter_map(|cell| cell.change);
            assert!(found.clone().count() > 0, "{compared:?}");
            assert!(found.map(|change| change.ratio).all(|ratio| ratio == expect), "{seeds}");
            assert!((shown - (expect - 1.0)).abs() < 1e-12, "{seeds}: {shown} {expect}");
        }
    }

    #[test]
    fn counts_of_events_have_no_difference_across_6_10() {
        let mut runs: Vec<Run> =
            (1..=5).flat_map(|seed| [run("a", seed, 100), run("b", seed, 5)]).collect();
        for run in &mut runs {
            let old = run.policy == "a";
            run.extfrag_unit = Some(if old { EventUnit::Block } else { EventUnit::Page });
        }
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let cell = |group, label| comparison.row(group, label).unwrap().cells[1].clone().unwrap();
        let events = cell("Extfrag", "total");
        assert_eq!((events.delta, events.star, events.change), (None, false, None));
        assert!(cell("Work", "list-probes").change.is_some());
        assert!(comparison.sections[0].note.is_some());
    }

    #[test]
    fn runs_that_did_not_finish_are_counted_and_not_compared() {
        let ended = |mut run: Run| {
            run.ended = Some(Ended {
                why: EndReason::Livelock,
                task: "user".into(),
                request: String::new(),
                since_ms: 1000,
                at_ms: 121_000,
            });
            run
        };
        let runs = [run("a", 1, 100), run("b", 1, 5), run("a", 2, 100), ended(run("b", 2, 5))];
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let cells = |group, label| -> Vec<(f64, Option<f64>, bool)> {
            let cells = &comparison.row(group, label).unwrap().cells;
            let cells = cells.iter().map(|cell| cell.as_ref().unwrap());
            cells.map(|cell| (cell.mean, cell.delta, cell.change.is_some())).collect()
        };
        assert_eq!(cells("Ended", "livelock"), [(0.0, Some(0.0), false), (0.5, None, false)]);
        assert_eq!(cells("Work", "list-probes"), [(100.0, Some(0.0), false), (5.0, None, false)]);
        // A baseline that did not finish is not compared with.
        let runs = [ended(run("a", 1, 100)), run("b", 1, 5)];
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let row = comparison.row("Work", "list-probes").unwrap();
        assert!(row.cells.iter().flatten().all(|cell| cell.delta.is_none()));
        assert!(
            SeedComparison::of_runs(&[run("a", 1, 1)], &Options::default())
                .unwrap()
                .row("Ended", "livelock")
                .is_none()
        );
    }

    #[test]
    fn one_seed_is_never_significant() {
        let runs = [run("a", 1, 100), run("b", 1, 5)];
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let row = comparison.row("Work", "list-probes").unwrap();
        assert!(!row.cells[1].as_ref().unwrap().star);
    }

    #[test]
    fn a_seed_is_run_once() {
        let runs = [run("a", 2, 1), run("a", 1, 1), run("a", 2, 1)];
        let error = SeedComparison::of_runs(&runs, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), "policy a has two runs with seed 2");
    }

    #[test]
    fn the_rule_decides_the_stars() {
        let runs: Vec<Run> = (0..20)
            .flat_map(|seed| [run("a", seed, 100 + seed), run("b", seed, 110 + seed)])
            .collect();
        let star = |stars| {
            let options = Options { stars, ..Options::default() };
            let comparison = SeedComparison::of_runs(&runs, &options).unwrap();
            comparison.row("Work", "list-probes").unwrap().cells[1].as_ref().unwrap().star
        };
        assert!(star(StarRule::Classic));
        // 10 is less than 1.96 times the sum of the two deviations of 5.9.
        assert!(!star(StarRule::Modern) && !star(StarRule::Off));
    }

    #[test]
    fn policies_must_have_run_the_same_seeds() {
        let runs = [run("a", 1, 1), run("b", 2, 1)];
        let error = SeedComparison::of_runs(&runs, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), "policy b did not run the same seeds as a");
    }

    #[test]
    fn a_policy_that_lacks_a_measure_in_one_run_has_no_cell() {
        let mut runs = [run("a", 1, 1), run("b", 1, 2), run("a", 2, 1), run("b", 2, 2)];
        runs[1].counters = crate::Counters::new();
        let comparison = SeedComparison::of_runs(&runs, &Options::default()).unwrap();
        let row = comparison.row("Work", "list-probes").unwrap();
        assert_eq!(row.cells[1], None);
        // No comparison either if the baseline lacks the measure.
        let options = Options { baseline: 1, ..Options::default() };
        let comparison = SeedComparison::of_runs(&runs, &options).unwrap();
        let cells = &comparison.row("Work", "list-probes").unwrap().cells;
        assert_eq!(cells[0].as_ref().map(|cell| (cell.mean, cell.delta)), Some((1.0, None)));
    }
}
