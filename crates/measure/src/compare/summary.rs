//! The answer of a comparison: the primary measures, each with its change and what it is; and what else moved.

use serde::Serialize;

use super::common::{self, Options};
use super::draws;
use super::ended;
use super::placement::{self, Placement};
use super::verdict::{self, Judged, LEVEL, Looks, Stopped, Test};
use crate::catalogue::{Measure, deciding, primary};
use crate::certificate::across::{Limit, WhatIf};
use crate::certificate::note::Note;
use crate::certificate::{Certified, Support};
use crate::run::Run;
use crate::run::policies::Policies;
use crate::statistics::multiple;
use crate::statistics::rank_sum::{self, Change};
use crate::statistics::stats::{self, Direction};
use crate::value::error::Error;
use crate::value::origin::Origin;

/// The measures that decide, under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The workload or the recording, and the machine.
    pub subject: String,
    /// The policies.
    pub policies: Vec<String>,
    /// The policy that the others are compared with, from 0.
    pub baseline: usize,
    /// The draws of each policy: its runs, but replays that are alike are one.
    pub runs: Vec<usize>,
    /// Whether a policy has more runs than draws.
    #[serde(skip)]
    pub alike: Vec<bool>,
    /// What runs are called: `seed`, `draw` or `run`.
    pub each: &'static str,
    /// The numbers of runs at which a sequential comparison is looked at; empty for one whose number was chosen before.
    pub looks: Vec<usize>,
    /// What ended a sequential comparison.
    pub stopped: Option<Stopped>,
    /// Whether the runs of a policy are of a real kernel.
    #[serde(skip)]
    pub real: Vec<bool>,
    /// Whether a policy is the baseline, event by event.
    pub identical: Vec<bool>,
    /// A line for each policy with runs that did not finish.
    pub ended: Vec<String>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
    /// Notes that a reader needs to interpret the numbers; the comparison has them too.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// The measures: the primary ones, and the others in the order of importance.
    pub measures: Vec<SummaryRow>,
}

/// One measure under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SummaryRow {
    /// The name of the measure in the catalogue.
    #[serde(skip)]
    pub id: String,
    /// Its column in a table of runs.
    #[serde(skip)]
    pub column: String,
    /// The name of its unit.
    #[serde(skip)]
    pub unit: &'static str,
    /// What is measured, with its unit in brackets.
    pub name: String,
    /// Whether the workload names it as one that decides.
    pub primary: bool,
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
    /// The mean over the runs.
    pub mean: f64,
    /// The lowest and the highest value of a run.
    pub range: (f64, f64),
    /// The change from the baseline as a share of it: the median of the ratios of all pairs of runs, less 1. `None` in the
    /// baseline itself, where it is not finite, and if the values differ in meaning.
    pub change: Option<f64>,
    /// The interval of the change at the level that decides (exploratory measures: 95 %); `None` where so few runs have none.
    pub interval: Option<(f64, f64)>,
    /// The p of the rank-sum test; of an exploratory measure adjusted for the rate of false discoveries.
    pub p: Option<f64>,
    /// The p at or below which a primary measure is decided, by Holm's procedure and the look.
    pub level: Option<f64>,
    /// What the change is.
    pub verdict: Judged,
    /// In a replay, the ratio that a change exceeds to be marked; `None` where what-ifs of the measure were not shown to be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_ratio: Option<f64>,
    /// Where the real runs lie among the simulations, if the one is compared with the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

impl Summary {
    /// Summarises runs that [`crate::compare::seeds::SeedComparison::of_runs`] accepts.
    ///
    /// # Errors
    /// If there are no runs, or the baseline is none of the policies.
    pub fn of_runs(runs: &[Run], options: &Options) -> Result<Self, Error> {
        Self::of(&Policies::of(runs), options)
    }

    /// As [`of_runs`](Self::of_runs), of runs that are grouped already.
    pub(crate) fn of(policies: &Policies<'_>, options: &Options) -> Result<Self, Error> {
        crate::run::policies::check_baseline(options.baseline, policies.len())?;
        let family = primary::measures(policies.runs());
        let others =
            deciding::measures().iter().filter(|m| family.iter().all(|own| own.id != m.id));
        let named = family.iter().map(|m| (m, true)).chain(others.map(|m| (m, false)));
        let identical = identical(policies, options.baseline);
        let drawn: Vec<Vec<&Run>> = policies.iter().map(|runs| draws::distinct(runs)).collect();
        let mut values = Vec::new();
        let mut measures = Vec::new();
        for (measure, primary) in named {
            let Some(of_policies) = read(measure, &drawn) else { continue };
            measures.push(SummaryRow::new(measure, primary, &drawn, &of_policies, options));
            values.push(of_policies);
        }
        let judged = Judge { drawn: &drawn, options, identical: &identical };
        judged.primary(&mut measures, &values);
        judged.exploratory(&mut measures, &values);
        let first = &policies[0];
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
            notes: own_notes(policies.runs(), options),
            each: first[0].origin.each(),
            looks: match &options.looks {
                Looks::Once => Vec::new(),
                Looks::At(looks) => looks.clone(),
            },
            stopped: options.stopped,
            alike: policies.iter().zip(&drawn).map(|(all, own)| all.len() > own.len()).collect(),
            runs: drawn.iter().map(Vec::len).collect(),
            real: policies.iter().map(|runs| runs[0].origin == Origin::Real).collect(),
            identical,
            measures,
        })
    }

    /// Reports whether every primary measure that can be judged is decided, or within 5 % of nothing.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        let primary = self.measures.iter().filter(|measure| measure.primary);
        !primary.flat_map(|measure| &measure.cells).any(|cell| cell.verdict == Judged::Undecided)
    }

    /// Returns the number of tests of the primary family.
    #[must_use]
    pub fn tests(&self) -> usize {
        let primary = self.measures.iter().filter(|measure| measure.primary);
        primary.flat_map(|measure| &measure.cells).filter(|cell| cell.level.is_some()).count()
    }
}

/// Returns the notes of the comparison, and those of its runs but what workloads say of each.
fn own_notes(runs: &[Run], options: &Options) -> Vec<Note> {
    let mut notes = common::notes(runs, options);
    notes.retain(|note| options.notes.contains(note) || !matches!(note, Note::Words(_)));
    notes
}

/// Returns the values of a measure, policy by policy; `None` if a run lacks it, or all have 0.
fn read(measure: &Measure, policies: &[Vec<&Run>]) -> Option<Vec<Vec<f64>>> {
    let of = |runs: &Vec<&Run>| runs.iter().map(|run| measure.number(run)).collect();
    let values: Option<Vec<Vec<f64>>> = policies.iter().map(of).collect();
    values.filter(|values| values.iter().flatten().any(|&value| value != 0.0))
}

/// Reports for each policy whether its runs are the baseline's, event by event.
fn identical(policies: &[Vec<&Run>], baseline: usize) -> Vec<bool> {
    let base = &policies[baseline];
    let same = |(at, runs): (usize, &Vec<&Run>)| {
        let hashes = base.iter().zip(runs).all(|(base, run)| {
            base.seed == run.seed && base.event_hash == run.event_hash && !run.event_hash.is_empty()
        });
        at != baseline && base.len() == runs.len() && hashes
    };
    policies.iter().enumerate().map(same).collect()
}

impl SummaryRow {
    fn new(
        measure: &Measure,
        primary: bool,
        policies: &[Vec<&Run>],
        values: &[Vec<f64>],
        options: &Options,
    ) -> Self {
        let of_runs = || policies.iter().flatten().find_map(|run| run.certificate.as_ref());
        let certificate = options.certificate.as_ref().or_else(of_runs);
        let base = options.baseline;
        let limit = |at: usize| {
            let [base, policy] = [base, at].map(|at| policies[at][0].policy.as_str());
            Limit::of(WhatIf::between(base, policy), certificate, (&measure.id, measure.part))
        };
        let comparable = |at: usize| measure.comparable(policies[base][0], policies[at][0]);
        let placed = |at: usize, new: &[f64]| {
            let origins = [base, at].map(|at| policies[at][0].origin);
            match origins {
                [Origin::Simulated, Origin::Real] => placement::place(&values[base], new),
                [Origin::Real, Origin::Simulated] => placement::place(new, &values[base]),
                _ => None,
            }
        };
        let cell = |(at, new): (usize, &Vec<f64>)| {
            let change = (at != base && comparable(at))
                .then(|| rank_sum::compare(&values[base], new, LEVEL))
                .flatten();
            SummaryCell {
                mean: stats::amean(new),
                range: (stats::min(new), stats::max(new)),
                change: change.map(|change| change.ratio - 1.0).filter(|change| change.is_finite()),
                interval: None,
                p: None,
                level: None,
                verdict: Judged::Open,
                least_ratio: (at != base).then(|| limit(at).least_ratio).flatten(),
                placement: comparable(at).then(|| placed(at, new)).flatten(),
            }
        };
        Self {
            id: measure.id.to_string(),
            column: measure.column(),
            unit: measure.unit.name(),
            name: measure.full_label(),
            primary,
            direction: measure.direction,
            support: limit(base).support,
            units_differ: !(0..policies.len()).all(comparable),
            cells: values.iter().enumerate().map(cell).collect(),
        }
    }
}

impl SummaryCell {
    fn take(&mut self, change: &Change) {
        self.interval = change.interval.map(|(low, high)| (low - 1.0, high - 1.0));
        self.p = Some(change.p);
    }
}

/// What the cells of a summary are judged by.
struct Judge<'a> {
    drawn: &'a [Vec<&'a Run>],
    options: &'a Options,
    identical: &'a [bool],
}

impl Judge<'_> {
    /// Reports whether a cell can be tested: several draws of both, of the same kind, that can be compared.
    fn is_tested(&self, row: &SummaryRow, at: usize) -> bool {
        let base = self.options.baseline;
        let origin = |at: usize| self.drawn[at][0].origin;
        let several = self.drawn[base].len() > 1 && self.drawn[at].len() > 1;
        let finished = |at: usize| self.drawn[at].iter().all(|run| run.ended.is_none());
        let comparable = row.id == deciding::id::UNFINISHED || (finished(base) && finished(at));
        at != base
            && several
            && origin(base) == origin(at)
            && !self.identical[at]
            && comparable
            && !self.units_differ(row, at)
    }

    fn units_differ(&self, row: &SummaryRow, at: usize) -> bool {
        row.units_differ
            && !crate::run::policies::units_agree(
                self.drawn[self.options.baseline][0],
                self.drawn[at][0],
            )
    }

    /// Returns the places of the cells that can be tested: row and policy.
    fn tested(&self, rows: &[SummaryRow], primary: bool) -> Vec<(usize, usize)> {
        let own = rows.iter().enumerate().filter(|(_, row)| row.primary == primary);
        own.flat_map(|(row_at, row)| {
            (0..row.cells.len()).filter(|&at| self.is_tested(row, at)).map(move |at| (row_at, at))
        })
        .collect()
    }

    fn primary(&self, rows: &mut [SummaryRow], values: &[Vec<Vec<f64>>]) {
        let places = self.tested(rows, true);
        let test = |&(row, at): &(usize, usize)| Test {
            base: &values[row][self.options.baseline],
            new: &values[row][at],
            direction: rows[row].direction,
        };
        let tests: Vec<Test<'_>> = places.iter().map(test).collect();
        let found = verdict::judge(&tests, &self.options.looks);
        for (&(row, at), found) in places.iter().zip(found) {
            let support = rows[row].support;
            let cell = &mut rows[row].cells[at];
            cell.take(&found.change);
            cell.level = Some(found.level);
            let replayed = self.drawn[at][0].origin == Origin::Replayed;
            cell.verdict = found.verdict;
            let is_one = matches!(found.verdict, Judged::Better | Judged::Worse);
            let limit = Limit { support, least_ratio: cell.least_ratio };
            if replayed && is_one && !limit.is_exceeded(cell.change.unwrap_or(f64::INFINITY)) {
                cell.verdict = Judged::Undecided;
            }
        }
        for row in rows {
            for (cell, _) in row.cells.iter_mut().zip(self.identical).filter(|(_, same)| **same) {
                cell.verdict = Judged::Identical;
            }
        }
    }

    fn exploratory(&self, rows: &mut [SummaryRow], values: &[Vec<Vec<f64>>]) {
        let places = self.tested(rows, false);
        for &(row, at) in &places {
            let (base, new) = (&values[row][self.options.baseline], &values[row][at]);
            if let Some(change) = rank_sum::compare(base, new, LEVEL) {
                rows[row].cells[at].take(&change);
            }
        }
        let p: Vec<f64> =
            places.iter().map(|&(row, at)| rows[row].cells[at].p.unwrap_or(1.0)).collect();
        for (&(row, at), p) in places.iter().zip(multiple::false_discovery(&p)) {
            rows[row].cells[at].p = Some(p);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{Loop, Part, Reproduced, Taken};
    use crate::value::names;
    use deciding::id;

    fn runs(policy: &str, stalls: &[u64], huge: u64) -> Vec<Run> {
        let run = |(seed, &stalls): (usize, &u64)| {
            let mut run = Run { policy: policy.into(), seed: seed as u64 + 1, ..Run::default() };
            run.event_hash = format!("{policy} {seed}");
            run.counters.set("allocstall_normal", stalls);
            run.counters.set("pgsteal_kswapd", stalls / 2);
            run.counters.set("thp_fault_alloc", huge);
            run.counters.set("thp_fault_fallback", 100 - huge);
            run
        };
        stalls.iter().enumerate().map(run).collect()
    }

    fn summary(all: &[Vec<Run>], options: &Options) -> Summary {
        Summary::of_runs(&all.concat(), options).unwrap()
    }

    #[track_caller]
    fn cell(summary: &Summary, id: &str) -> SummaryCell {
        summary.measures.iter().find(|measure| measure.id == id).unwrap().cells[1]
    }

    const STALLS: [u64; 8] = [100, 101, 102, 103, 104, 105, 106, 107];

    #[test]
    fn primary_measures_decide_and_others_are_shown() {
        let less = STALLS.map(|n| n / 2);
        let found = summary(&[runs("a", &STALLS, 40), runs("b", &less, 40)], &Options::default());
        let stalls = cell(&found, id::ALLOCATION_STALLS);
        assert_eq!((stalls.verdict, stalls.level), (Judged::Better, Some(LEVEL / 2.0)));
        assert!(stalls.change.is_some_and(|c| (-0.51..-0.49).contains(&c)), "{stalls:?}");
        assert_eq!(cell(&found, id::HUGE_ON_FAULT).verdict, Judged::Unchanged);
        let steals = cell(&found, id::PAGES_RECLAIMED);
        assert_eq!((steals.verdict, steals.level), (Judged::Open, None));
        assert!(steals.p.is_some_and(|p| p < 0.001) && steals.interval.is_some());
        assert_eq!((found.runs.as_slice(), found.each, found.tests()), (&[8, 8][..], "seed", 2));
        assert!(found.is_decided());
    }

    #[test]
    fn what_is_identical_is_not_tested() {
        let base = runs("a", &STALLS, 40);
        let same: Vec<Run> =
            base.iter().map(|run| Run { policy: "b".into(), ..run.clone() }).collect();
        let found = summary(
            &[base.clone(), same, runs("c", &STALLS.map(|n| n + 4), 40)],
            &Options::default(),
        );
        assert_eq!(found.identical, [false, true, false]);
        assert_eq!(cell(&found, id::ALLOCATION_STALLS).verdict, Judged::Identical);
        // The third policy has the level for itself.
        assert_eq!(found.tests(), 2);
        let row = found.measures.iter().find(|m| m.id == id::ALLOCATION_STALLS).unwrap();
        assert!(row.cells[2].level.is_some_and(|level| level >= LEVEL / 2.0));
    }

    #[test]
    fn few_runs_decide_nothing_and_zeros_are_left_out() {
        let found = summary(&[runs("a", &[0, 0], 10), runs("b", &[0, 0], 90)], &Options::default());
        assert!(found.measures.iter().all(|measure| measure.id != id::ALLOCATION_STALLS));
        let huge = cell(&found, id::HUGE_ON_FAULT);
        assert_eq!(
            (huge.verdict, huge.change, huge.interval),
            (Judged::Undecided, Some(8.0), None)
        );
        let found = summary(&[runs("a", &[5], 10), runs("b", &[5], 90)], &Options::default());
        assert_eq!(cell(&found, id::HUGE_ON_FAULT).verdict, Judged::Open);
    }

    #[test]
    fn runs_of_two_origins_are_not_tested_against_each_other() {
        let real = |runs: Vec<Run>| -> Vec<Run> {
            runs.into_iter().map(|run| Run { origin: Origin::Real, ..run }).collect()
        };
        let half: Vec<u64> = STALLS.iter().take(6).map(|n| n / 2).collect();
        let mixed =
            summary(&[runs("a", &STALLS, 40), real(runs("b", &half, 40))], &Options::default());
        let stalls = cell(&mixed, id::ALLOCATION_STALLS);
        assert_eq!((stalls.p, stalls.verdict), (None, Judged::Open));
        let both = summary(
            &[real(runs("a", &STALLS, 40)), real(runs("b", &half, 40))],
            &Options::default(),
        );
        assert_eq!(cell(&both, id::ALLOCATION_STALLS).verdict, Judged::Better);
        assert_eq!((both.runs.as_slice(), both.each), (&[8, 6][..], "run"));
    }

    #[test]
    fn what_ifs_have_limits_by_the_names_of_measures() {
        for id in [id::UNMOVABLE_FALLBACKS, id::MISMATCHED_PAGES, id::MIXED_PAGEBLOCKS] {
            assert!(WhatIf::Setting.least_ratio(Loop::Closed, id).is_some(), "{id}");
        }
    }

    #[test]
    fn a_replay_is_judged_by_draws_and_by_its_own_error() {
        let replays = |policy: &str, pages: &[u64], deterministic: bool| -> Vec<Run> {
            let mut all = runs(policy, &STALLS, 10);
            for (run, &page) in all.iter_mut().zip(pages) {
                run.origin = Origin::Replayed;
                run.counters.set(names::TYPE_MISMATCH_PAGES, page);
                if deterministic {
                    // Another order of free lists, and nothing else.
                    run.counters = runs(policy, &[100], 10)[0].counters.clone();
                    run.counters.set(names::TYPE_MISMATCH_PAGES, pages[0]);
                }
            }
            all
        };
        let base = [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007];
        let less = |by: u64| base.map(|pages| pages / by);
        let verdict = |margin_permyriad, [from, to]: [&str; 2], by, deterministic| {
            let parts = [(Part::Mismatch, Support::Supported { margin_permyriad })].into();
            let taken = Taken { taken: Loop::Closed, as_asked: false, grade: None, other: None };
            let reproduced = Reproduced { parts, taken: Some(taken), ..Reproduced::default() };
            let certificate = Some(Certified::Reproduced(Box::new(reproduced)));
            let options = Options { certificate, ..Options::default() };
            let runs = [replays(from, &base, deterministic), replays(to, &less(by), deterministic)];
            cell(&summary(&runs, &options), id::MISMATCHED_PAGES).verdict
        };
        let settings = ["a", "a,watermark_boost_factor=0"];
        assert_eq!(verdict(900, settings, 10, false), Judged::Better);
        // Within the replay's own error, and within that of what-ifs.
        assert_eq!(verdict(9500, settings, 10, false), Judged::Undecided);
        assert_eq!(verdict(900, settings, 6, false), Judged::Undecided);
        // No what-if of another kernel was right enough.
        assert_eq!(verdict(900, ["a", "b"], 10, false), Judged::Undecided);
        // The same values under every seed are one draw, which decides nothing.
        assert_eq!(verdict(900, settings, 10, true), Judged::Open);
    }
}
