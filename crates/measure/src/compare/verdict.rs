//! What a change is: how it is tested, and when a test decides.
//!
//! The primary measures of a workload are one family with all policies: a family decides by Holm's step-down test, and in a
//! sequential comparison at each look by the level that the look may spend ([`sequential`]). Every other measure is
//! exploratory: it has an interval and a p adjusted for the rate of false discoveries, and decides nothing.

use serde::Serialize;

use crate::statistics::rank_sum::{self, Change};
use crate::statistics::sequential;
use crate::statistics::stats::Direction;

/// The share of comparisons without any difference in which a primary measure may be called changed.
pub const LEVEL: f64 = 0.05;
/// A change whose whole interval is within this share of nothing is none.
pub const NOTHING: f64 = 0.05;

/// What a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// There is no change to judge, or nothing to judge it by; also every change of an exploratory measure.
    Open,
    /// The runs are the baseline's, event by event.
    Identical,
    /// It can be chance, and can be a change; in a replay, the replay's own error.
    Undecided,
    /// Its interval is within 5 % of nothing.
    Unchanged,
    /// Better.
    Better,
    /// Worse.
    Worse,
}

/// When the runs of a comparison are looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Looks {
    /// Once: the number of runs was chosen before.
    #[default]
    Once,
    /// At these numbers of runs of each policy; the last is the most that there may be.
    At(Vec<usize>),
}

impl Looks {
    /// Returns the p that decides one test of a family of `tests`, at the look that has this many runs.
    #[must_use]
    pub fn level(&self, runs: usize, tests: usize) -> f64 {
        let level = LEVEL / tests.max(1) as f64;
        match self {
            Self::Once => level,
            Self::At(looks) => {
                // What was interrupted is as far as the last look.
                let look = looks.iter().rposition(|&look| look <= runs);
                look.map_or(0.0, |look| sequential::levels(looks, level)[look])
            }
        }
    }
}

/// What ended a sequential comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// Every primary measure is decided, or its interval is within 5 % of nothing.
    Decided,
    /// There may be no more runs.
    Budget,
    /// It was interrupted.
    Interrupted,
}

/// A test of a family: the values under the baseline and under a policy, which way is better, and what is found.
#[derive(Clone, Debug)]
pub struct Test<'v> {
    /// The baseline's values.
    pub base: &'v [f64],
    /// The policy's.
    pub new: &'v [f64],
    /// Which way is better.
    pub direction: Direction,
}

/// The result of a test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// The change, with the interval at the level that decides.
    pub change: Change,
    /// The p at or below which it decides.
    pub level: f64,
    /// What it is.
    pub verdict: Judged,
}

/// Judges a family of tests at the look that their runs make. Where one decides, those that are left share its level.
#[must_use]
pub fn judge(tests: &[Test<'_>], looks: &Looks) -> Vec<Found> {
    let p: Vec<f64> = tests.iter().map(|test| rank_sum::p(test.base, test.new)).collect();
    let runs = tests.iter().map(|test| test.base.len().min(test.new.len())).min().unwrap_or(0);
    // The smallest p first: each may take the level that those after it share with it.
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut levels = vec![0.0; tests.len()];
    let mut decided = 0;
    for (rank, &at) in order.iter().enumerate() {
        levels[at] = match rank == decided {
            true => looks.level(runs, tests.len() - rank),
            false => levels[order[decided]],
        };
        decided += usize::from(rank == decided && p[at] <= levels[at]);
    }
    let found = |(at, test): (usize, &Test<'_>)| {
        let change = rank_sum::compare(test.base, test.new, levels[at])?;
        let within = |ratio: f64| (1.0 - NOTHING..=1.0 + NOTHING).contains(&ratio);
        let is_none = change.interval.is_some_and(|(low, high)| within(low) && within(high));
        let verdict = match p[at] <= levels[at] {
            true => way(change.ratio, test),
            false if is_none => Judged::Unchanged,
            false => Judged::Undecided,
        };
        Some(Found { change, level: levels[at], verdict })
    };
    tests.iter().enumerate().filter_map(found).collect()
}

/// Returns whether a change that is one is better or worse.
fn way(ratio: f64, test: &Test<'_>) -> Judged {
    // Where more than half of both sides are equal the ratio is 1; the ranks say which way it goes.
    let sum = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let grows = if ratio == 1.0 { sum(test.new) > sum(test.base) } else { ratio > 1.0 };
    match test.direction {
        Direction::Lower if grows => Judged::Worse,
        Direction::Higher if !grows => Judged::Worse,
        Direction::Neither => Judged::Open,
        Direction::Lower | Direction::Higher => Judged::Better,
    }
}

/// Returns the least number of runs of each policy with which a family of so many tests can decide anything.
#[must_use]
pub fn runs_needed(tests: usize) -> usize {
    let level = LEVEL / tests.max(1) as f64;
    (1..).find(|&runs| rank_sum::least_p(runs, runs) <= level).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test<'v>(base: &'v [f64], new: &'v [f64]) -> Test<'v> {
        Test { base, new, direction: Direction::Lower }
    }

    #[test]
    fn a_family_decides_by_steps() {
        let base: Vec<f64> = (100..108).map(f64::from).collect();
        let half: Vec<f64> = base.iter().map(|x| x / 2.0).collect();
        let near: Vec<f64> = base.iter().map(|x| x + 3.0).collect();
        // p of the second is 0.03: too much for one of two tests, enough when the other is decided.
        let p = rank_sum::p(&base, &near);
        assert!(p > LEVEL / 2.0 && p < LEVEL, "{p}");
        let found = judge(&[test(&base, &half), test(&base, &near)], &Looks::Once);
        assert_eq!([found[0].verdict, found[1].verdict], [Judged::Better, Judged::Worse]);
        let found = judge(&[test(&base, &base), test(&base, &near)], &Looks::Once);
        assert_eq!([found[0].verdict, found[1].verdict], [Judged::Unchanged, Judged::Undecided]);
    }

    #[test]
    fn an_early_look_asks_for_more() {
        let looks = Looks::At(sequential::looks(40));
        assert!(looks.level(5, 1) < LEVEL / 3.0 && looks.level(40, 1) < LEVEL);
        assert_eq!((looks.level(4, 1), looks.level(9, 2)), (0.0, looks.level(8, 2)));
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        // Four runs are before the first look, and decide at once if they are all.
        assert_eq!(judge(&[test(&low, &high)], &looks)[0].verdict, Judged::Undecided);
        assert_eq!(judge(&[test(&low, &high)], &Looks::Once)[0].verdict, Judged::Worse);
    }

    #[test]
    fn what_seeds_can_decide() {
        // 2 / C(8, 4) = 0.029, 2 / C(10, 5) = 0.0079.
        assert_eq!((runs_needed(1), runs_needed(6), runs_needed(7)), (4, 5, 6));
    }
}
