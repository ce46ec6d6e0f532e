//! How often verdicts are wrong: comparisons of a kernel with itself, and with changes of a known size.
//!
//! The runs of a pool of seeds under one kernel are split at random into two sides, which are judged as two policies are. What is
//! called changed is a false alarm. One side multiplied by a share is a change of that size; the smallest that is found in 80 % of
//! the splits is the power.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::verdict::{Judged, Looks, Test, judge};
use crate::statistics::rank_sum::doubled_ranks;
use crate::statistics::resampling::below;
use crate::statistics::sequential;
use crate::statistics::stats::{self, Direction};

/// The numbers of seeds that are tried.
pub const SIZES: [usize; 6] = sequential::LOOKS;
/// The decreases that are tried, in percent.
pub const CHANGES: [u32; 14] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 65, 80, 90];
/// The share of comparisons that may be false alarms.
pub const ALLOWED: f64 = 0.05;
/// The share of changes that have to be found.
pub const POWER: f64 = 0.8;

/// A primary measure over the seeds of a pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Pooled {
    /// Its name, with the unit.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// The value of each seed.
    pub values: Vec<f64>,
    /// The values of the same seeds under another kernel, as far as it ran them.
    pub other: Vec<f64>,
}

/// How many splits are judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Splits {
    /// For a rate of false alarms.
    pub alarms: usize,
    /// For the power of a change.
    pub power: usize,
}

/// What comes of one number of seeds, or of as many as are needed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AtSize {
    /// The number of seeds of each side; the mean where it is as many as needed.
    pub seeds: f64,
    /// Whether it is as many as needed.
    pub auto: bool,
    /// The share of the splits in which any measure was called changed.
    pub false_alarms: f64,
    /// The same of a kernel beside two copies of itself; `None` where the pool is too small.
    pub of_three: Option<f64>,
}

/// What is known of a measure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Power {
    /// Its name.
    pub measure: String,
    /// The mean of the pool.
    pub mean: f64,
    /// The standard deviation as a share of the mean.
    pub spread: f64,
    /// The correlation of ranks with the same seeds under another kernel; `None` where all are equal.
    pub correlation: Option<f64>,
    /// For each of [`SIZES`], and then for as many seeds as needed, the smallest decrease in percent that is found in 80 % of the
    /// splits; `None` where not even the largest is.
    pub found: Vec<Option<u32>>,
}

/// The error rates of a workload's verdicts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ErrorRates {
    /// The workload, and the machine.
    pub subject: String,
    /// The seeds of the pool.
    pub pool: usize,
    /// The splits behind each rate of false alarms.
    pub splits: usize,
    /// By number of seeds.
    pub sizes: Vec<AtSize>,
    /// By measure.
    pub measures: Vec<Power>,
}

/// Returns the rate that the highest of some rates of false alarms exceeds with a chance of 5 %, if each is [`ALLOWED`] and comes
/// from this many splits.
#[must_use]
pub fn highest_by_chance(rates: usize, splits: usize) -> f64 {
    let (Ok(alarms), false) = (Binomial::new(ALLOWED, splits as u64), rates == 0) else {
        return 1.0;
    };
    let none_above = |most: &u64| alarms.cdf(*most).powf(rates as f64) >= 0.95;
    let most = (0..=splits as u64).find(none_above).unwrap_or(splits as u64);
    most as f64 / splits.max(1) as f64
}

/// Measures the error rates of verdicts on a pool.
#[must_use]
pub fn measure(subject: String, pool: &[Pooled], splits: Splits) -> ErrorRates {
    let runs = pool.first().map_or(0, |first| first.values.len());
    debug_assert!(pool.iter().all(|of| of.values.len() == runs));
    let fixed = SIZES.into_iter().filter(|size| 2 * size <= runs);
    let most = fixed.clone().next_back().unwrap_or(0);
    let auto = (most > 0).then(|| Looks::At(sequential::looks(most)));
    let plans: Vec<(usize, Looks)> =
        fixed.map(|size| (size, Looks::Once)).chain(auto.map(|looks| (most, looks))).collect();
    let at_size = |(size, looks): &(usize, Looks)| {
        let one = Family { pool, others: 1, size: *size, looks };
        let three = Family { others: 2, ..one };
        let (false_alarms, seeds) = one.alarms(splits.alarms);
        let of_three = (3 * size <= runs).then(|| three.alarms(splits.alarms).0);
        AtSize { seeds, auto: *looks != Looks::Once, false_alarms, of_three }
    };
    let power = |(at, of): (usize, &Pooled)| Power {
        measure: of.name.clone(),
        mean: stats::amean(&of.values),
        spread: stats::stddev(&of.values) / stats::amean(&of.values),
        correlation: correlation(&of.values, &of.other),
        found: plans
            .iter()
            .map(|(size, looks)| {
                Family { pool, others: 1, size: *size, looks }.found(at, splits.power)
            })
            .collect(),
    };
    ErrorRates {
        subject,
        pool: runs,
        splits: splits.alarms,
        sizes: plans.iter().map(at_size).collect(),
        measures: pool.iter().enumerate().map(power).collect(),
    }
}

/// Comparisons of one size: a baseline and others, drawn from a pool.
#[derive(Clone, Copy)]
struct Family<'p> {
    pool: &'p [Pooled],
    others: usize,
    size: usize,
    looks: &'p Looks,
}

impl Family<'_> {
    /// Returns the share of splits with a false alarm, and the mean number of seeds.
    fn alarms(&self, splits: usize) -> (f64, f64) {
        let (mut alarms, mut seeds) = (0, 0);
        self.each_split(splits, |order| {
            let (verdicts, used) = self.verdicts(order, None);
            alarms += usize::from(verdicts.iter().any(|verdict| is_change(*verdict)));
            seeds += used;
        });
        (alarms as f64 / splits as f64, seeds as f64 / splits as f64)
    }

    /// Returns the smallest decrease of a measure that is found.
    fn found(&self, measure: usize, splits: usize) -> Option<u32> {
        let expect = match self.pool[measure].direction {
            Direction::Higher => Judged::Worse,
            _ => Judged::Better,
        };
        // The larger a change, the more often it is found.
        let first = CHANGES.partition_point(|&percent| {
            let mut found = 0;
            self.each_split(splits, |order| {
                let (verdicts, _) = self.verdicts(order, Some((measure, percent)));
                found += usize::from(verdicts[measure] == expect);
            });
            (found as f64) < POWER * splits as f64
        });
        CHANGES.get(first).copied()
    }

    fn each_split(&self, splits: usize, mut judge: impl FnMut(&[usize])) {
        let runs = self.pool[0].values.len();
        let mut random = Pcg64Mcg::seed_from_u64(SEED + self.size as u64);
        let mut order: Vec<usize> = (0..runs).collect();
        for _ in 0..splits {
            // Each time as many places from the front as are needed are drawn again.
            for at in 0..(self.others + 1) * self.size {
                order.swap(at, at + below(&mut random, runs - at));
            }
            judge(&order);
        }
    }

    /// Judges one split, with a decrease of one measure on the other side; returns the verdicts, measure by measure within each other
    /// side, and how many seeds it took.
    fn verdicts(&self, order: &[usize], decrease: Option<(usize, u32)>) -> (Vec<Judged>, usize) {
        let once = [self.size];
        let looks: &[usize] = match self.looks {
            Looks::Once => &once,
            Looks::At(looks) => looks,
        };
        let side = |side: usize, of: &Pooled| -> Vec<f64> {
            order[side * self.size..][..self.size].iter().map(|&run| of.values[run]).collect()
        };
        let sides: Vec<Vec<Vec<f64>>> =
            (0..=self.others).map(|at| self.pool.iter().map(|of| side(at, of)).collect()).collect();
        let changed: Vec<Vec<f64>> = match decrease {
            Some((measure, percent)) => self.decreased(&sides[1], measure, percent),
            None => sides[1].clone(),
        };
        let mut verdicts = Vec::new();
        for &look in looks {
            let test = |other: usize, measure: usize| Test {
                base: &sides[0][measure][..look],
                new: if other == 1 {
                    &changed[measure][..look]
                } else {
                    &sides[other][measure][..look]
                },
                direction: self.pool[measure].direction,
            };
            let tests: Vec<Test<'_>> = (1..=self.others)
                .flat_map(|other| (0..self.pool.len()).map(move |measure| (other, measure)))
                .map(|(other, measure)| test(other, measure))
                .collect();
            verdicts = judge(&tests, self.looks).iter().map(|found| found.verdict).collect();
            if !verdicts.contains(&Judged::Undecided) {
                return (verdicts, look);
            }
        }
        (verdicts, looks.last().copied().unwrap_or(0))
    }

    fn decreased(&self, side: &[Vec<f64>], measure: usize, percent: u32) -> Vec<Vec<f64>> {
        let mut changed = side.to_vec();
        // Counts stay counts.
        let whole = self.pool[measure].values.iter().all(|value| value.fract() == 0.0);
        for value in &mut changed[measure] {
            *value *= 1.0 - f64::from(percent) / 100.0;
            if whole {
                *value = value.round();
            }
        }
        changed
    }
}

/// The generator's seed, fixed so that a rate depends on the pool alone.
const SEED: u64 = 0x5eed;

const fn is_change(verdict: Judged) -> bool {
    matches!(verdict, Judged::Better | Judged::Worse)
}

/// Returns Spearman's correlation of the first values of two lists, those that both have; `None` where one side is constant.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let pairs = a.len().min(b.len());
    let ranks =
        |of: &[f64]| -> Vec<f64> { doubled_ranks(of).iter().map(|&rank| rank as f64).collect() };
    let (a, b) = (ranks(&a[..pairs]), ranks(&b[..pairs]));
    let (mean_a, mean_b) = (stats::amean(&a), stats::amean(&b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        a.iter().zip(&b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum::<f64>()
    };
    let spread = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (spread > 0.0).then(|| sum(&|a, b| a * b) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that spread by a tenth.
    fn pool(name: &str, runs: usize) -> Pooled {
        let values: Vec<f64> =
            (0..runs).map(|at| 900.0 + (at * 617 % runs) as f64 * 200.0 / runs as f64).collect();
        Pooled { name: name.to_owned(), direction: Direction::Lower, other: values.clone(), values }
    }

    #[test]
    fn a_kernel_beside_itself_is_seldom_called_changed() {
        let splits = Splits { alarms: 400, power: 20 };
        let found = measure("w".to_owned(), &[pool("a", 100), pool("b", 100)], splits);
        assert_eq!(found.sizes.len(), SIZES.len() + 1);
        for size in &found.sizes {
            // Three standard errors above 5 %.
            assert!(size.false_alarms <= 0.083, "{size:?}");
            assert!(size.of_three.is_none_or(|share| share <= 0.083), "{size:?}");
        }
        assert!(found.sizes.last().is_some_and(|auto| auto.auto && auto.seeds >= 5.0));
    }

    /// P(X <= 15) = 0.956 and P(X <= 14) = 0.922 for 200 trials of 5 %.
    #[test]
    fn the_highest_of_more_rates_is_higher_by_chance() {
        assert_eq!(highest_by_chance(1, 200), 0.075);
        let of_more: Vec<f64> = [1, 5, 25, 125].map(|rates| highest_by_chance(rates, 200)).into();
        assert!(of_more.is_sorted() && of_more[2] > 0.09 && of_more[3] < 0.13, "{of_more:?}");
        assert!(highest_by_chance(25, 2000) < 0.07);
    }

    #[test]
    fn more_seeds_find_smaller_changes() {
        let found = measure("w".to_owned(), &[pool("a", 100)], Splits { alarms: 10, power: 100 });
        let sizes = &found.measures[0].found[..SIZES.len()];
        assert!(
            sizes.iter().all(Option::is_some) && sizes.is_sorted_by(|a, b| a >= b),
            "{sizes:?}"
        );
        // Eight and eight values with a spread of 6 %: 10 % is found, 3 % is not.
        assert!(sizes[1].is_some_and(|percent| (5..=15).contains(&percent)), "{sizes:?}");
        assert!(sizes[5].is_some_and(|percent| percent <= 5), "{sizes:?}");
    }

    #[test]
    fn correlations_are_of_ranks() {
        let close = |found: Option<f64>, expect: f64| {
            assert!((found.unwrap() - expect).abs() < 1e-12, "{found:?}");
        };
        close(correlation(&[1.0, 2.0, 30.0], &[10.0, 20.0, 21.0]), 1.0);
        close(correlation(&[1.0, 2.0, 30.0], &[3.0, 2.0, 1.0, 9.0]), -1.0);
        // With ties 1.5, 1.5, 3 and 1, 2, 3: 1.5 / sqrt(1.5 * 2).
        close(correlation(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]), 1.5 / 3.0_f64.sqrt());
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
