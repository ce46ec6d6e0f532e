//! The statistics of mmtests, as its comparison tables print them.
//!
//! Means and deviations are those of one row's samples. Every function takes the samples in any order.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The better direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Lower is better: latencies, faults, events.
    Lower,
    /// Higher is better: throughput, successes.
    Higher,
    /// Neither: the change is printed with its natural sign.
    Neither,
}

/// Returns the difference in percent if more is better: positive is an improvement.
///
/// As in mmtests, a new value of 0 is 0 %, and a baseline of 0 yields 100 %. Two missing values (NaN)
/// are equal.
#[must_use]
pub fn pdiff(base: f64, new: f64) -> f64 {
    if equal(base, new) || new == 0.0 {
        0.0
    } else if base == 0.0 {
        100.0
    } else {
        new * 100.0 / base - 100.0
    }
}

/// Returns the difference in percent if less is better: positive is an improvement.
///
/// As in mmtests, a new value of 0 is 100 %, and a baseline of 0 yields -99 %. Two missing values (NaN)
/// are equal.
#[must_use]
pub fn pndiff(base: f64, new: f64) -> f64 {
    if equal(base, new) {
        0.0
    } else if new == 0.0 {
        100.0
    } else if base == 0.0 {
        -99.0
    } else {
        100.0 - new * 100.0 / base
    }
}

/// Returns the natural change in percent, without mmtests' special cases: -100 for a new value of 0,
/// NaN for a change from a baseline of 0.
#[must_use]
pub fn change(base: f64, new: f64) -> f64 {
    if equal(base, new) {
        0.0
    } else if base == 0.0 {
        f64::NAN
    } else {
        new * 100.0 / base - 100.0
    }
}

/// Returns the change in percent as in Weiner's tables: natural sign, with 1 added to the denominator,
/// so that a baseline of 0 has a value too.
#[must_use]
pub fn weiner_diff(base: f64, new: f64) -> f64 {
    (new - base) / (base + 1.0) * 100.0
}

impl Direction {
    /// Returns the difference in percent for this direction.
    #[must_use]
    pub fn delta(self, base: f64, new: f64) -> f64 {
        match self {
            Self::Lower => pndiff(base, new),
            Self::Higher => pdiff(base, new),
            Self::Neither => change(base, new),
        }
    }
}

// Tests measured values for equality, not results of arithmetic.
#[allow(clippy::float_cmp)]
fn equal(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Returns the arithmetic mean; NaN without samples.
#[must_use]
pub fn amean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Returns the harmonic mean; NaN without samples, 0 if a sample is 0.
#[must_use]
pub fn hmean(samples: &[f64]) -> f64 {
    samples.len() as f64 / samples.iter().map(|x| 1.0 / x).sum::<f64>()
}

/// Returns the standard deviation around the arithmetic mean (n-1); NaN with fewer than two samples.
#[must_use]
pub fn stddev(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return f64::NAN;
    }
    let mean = amean(samples);
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// Returns the deviation around the harmonic mean (mmtests since 2024-11); NaN without samples.
#[must_use]
pub fn hstddev(samples: &[f64]) -> f64 {
    let mean = hmean(samples);
    let squares: f64 = samples.iter().map(|x| (1.0 / x - 1.0 / mean).powi(2)).sum();
    (squares * mean.powi(4) / samples.len() as f64).sqrt()
}

/// Returns a deviation in percent of its mean; 0 if the mean is 0.
#[must_use]
pub fn coeffvar(deviation: f64, mean: f64) -> f64 {
    if mean == 0.0 { 0.0 } else { deviation * 100.0 / mean }
}

/// Returns the smallest sample; NaN without samples.
#[must_use]
pub fn min(samples: &[f64]) -> f64 {
    samples.iter().copied().reduce(f64::min).unwrap_or(f64::NAN)
}

/// Returns the largest sample; NaN without samples.
#[must_use]
pub fn max(samples: &[f64]) -> f64 {
    samples.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

/// Returns the best `percent` of the samples, best first: at least one, if there are any.
#[must_use]
pub fn best(samples: &[f64], percent: usize, direction: Direction) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    if direction == Direction::Higher {
        sorted.reverse();
    }
    sorted.truncate((samples.len() * percent / 100).max(1));
    sorted
}

/// Returns the smallest sample at or below which `percent` of the samples lie (nearest rank); NaN without
/// samples.
#[must_use]
pub fn nearest_rank(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the median; NaN without samples.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[sorted.len() / 2],
        _ => f64::midpoint(sorted[sorted.len() / 2 - 1], sorted[sorted.len() / 2]),
    }
}

/// The p below which mmtests put a star, from 2018-10 to 2024-11.
pub const CLASSIC_LEVEL: f64 = 0.10;

/// Returns the probability of a difference of means this large between samples of the same
/// distribution, as mmtests computed it from 2018-10 to 2024-11: Student's t, two-sided, with n1+n2-2
/// degrees of freedom and an unpooled standard error. `means` are the means that the row prints,
/// arithmetic or harmonic. A single sample is treated as a sample without deviation.
///
/// Without any deviation the probability is 0 for different means and 1 for equal ones. `None` if there
/// are no degrees of freedom, or no samples on one side.
#[must_use]
pub fn classic_p(base: &[f64], new: &[f64], means: (f64, f64)) -> Option<f64> {
    let freedom = (base.len() + new.len()).checked_sub(2).filter(|&freedom| freedom > 0)?;
    if base.is_empty() || new.is_empty() {
        return None;
    }
    let variance_of_mean = |samples: &[f64]| match samples.len() {
        1 => 0.0,
        n => stddev(samples).powi(2) / n as f64,
    };
    let error = (variance_of_mean(base) + variance_of_mean(new)).sqrt();
    let difference = (means.0 - means.1).abs();
    if error == 0.0 {
        return Some(if difference == 0.0 { 1.0 } else { 0.0 });
    }
    let student = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    Some(2.0 * student.sf(difference / error))
}

/// Reports whether the classic rule puts a star: p below [`CLASSIC_LEVEL`].
#[must_use]
pub fn classic_star(base: &[f64], new: &[f64], means: (f64, f64)) -> bool {
    classic_p(base, new, means).is_some_and(|p| p < CLASSIC_LEVEL)
}

/// The 97.5 % quantile of the normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;

/// Returns the distance of two means in units of the interval halves between them, mmtests' criterion
/// since 2024-11: each interval is the mean and 1.96 deviations *of the samples*. It does not grow with
/// more samples, which makes it a poor test: print it, but do not decide by it.
///
/// 0 for equal means; infinite for different means without deviation.
#[must_use]
pub fn modern_distance(means: (f64, f64), deviations: (f64, f64)) -> f64 {
    let difference = (means.0 - means.1).abs();
    if difference == 0.0 { 0.0 } else { difference / (Z_975 * (deviations.0 + deviations.1)) }
}

/// Reports whether the modern rule puts a star: a distance above 1.
#[must_use]
pub fn modern_star(means: (f64, f64), deviations: (f64, f64)) -> bool {
    modern_distance(means, deviations) > 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(actual: f64, expect: f64) {
        assert!((actual - expect).abs() <= 5e-6 * expect.abs().max(1.0), "{actual} {expect}");
    }

    #[test]
    fn published_differences() {
        // thpfioscale, 2018.
        close((pndiff(662.92, 653.58) * 100.0).round(), 141.0);
        close((pndiff(2294.28, 3163.33) * 100.0).round(), -3788.0);
        close(pndiff(0.0, 178.93), -99.0);
        close(pdiff(0.0, 5.12), 100.0);
        // netperf, 2021.
        close((pdiff(261.46, 266.30) * 100.0).round(), 185.0);
        // Weiner.
        close((weiner_diff(20.0, 304.0) * 100.0).round(), 135_238.0);
        close((weiner_diff(1328.0, 1.0) * 100.0).round(), -9_985.0);
        close((weiner_diff(7.15, 57.10) * 100.0).round(), 61_288.0); // of rounded inputs; printed 612.90
    }

    #[test]
    fn quirks_of_zero() {
        assert_eq!(pdiff(5.0, 0.0), 0.0);
        assert_eq!(pndiff(5.0, 0.0), 100.0);
        assert_eq!((pdiff(0.0, 0.0), pndiff(0.0, 0.0)), (0.0, 0.0));
        assert_eq!(pndiff(f64::NAN, f64::NAN), 0.0);
        assert!(pndiff(f64::NAN, 26.38).is_nan());
        assert_eq!(change(5.0, 0.0), -100.0);
        assert!(change(0.0, 5.0).is_nan());
    }

    #[test]
    fn means_and_deviations() {
        let x = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        close(amean(&x), 5.0);
        close(stddev(&x), (32.0_f64 / 7.0).sqrt());
        close(coeffvar(stddev(&x), amean(&x)), 42.761_80);
        close(hmean(&[1.0, 4.0, 4.0]), 2.0);
        // 1/x - 1/H = 1/2, -1/4, -1/4: sum of squares 3/8, times 16, over 3.
        close(hstddev(&[1.0, 4.0, 4.0]), 2.0_f64.sqrt());
        assert!(stddev(&[3.0]).is_nan());
        assert_eq!(coeffvar(f64::NAN, 0.0), 0.0);
        assert_eq!((min(&x), max(&x)), (2.0, 9.0));
        assert_eq!((median(&x), median(&x[..3])), (4.5, 4.0));
    }

    #[test]
    fn the_best_are_the_lowest_or_the_highest() {
        let x = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(best(&x, 50, Direction::Lower), [1.0, 2.0]);
        assert_eq!(best(&x, 50, Direction::Higher), [5.0, 4.0]);
        assert_eq!(best(&x, 99, Direction::Lower), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(best(&x, 1, Direction::Lower), [1.0]);
    }

    #[test]
    fn classic_rule_is_students_t_at_ten_percent() {
        // Means 3 and 5, variances 2.5, n = 5: t = 2, 8 degrees of freedom, p = 0.080516.
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let b = [3.0, 4.0, 5.0, 6.0, 7.0];
        close(classic_p(&a, &b, (3.0, 5.0)).unwrap(), 0.080_516_2);
        assert!(classic_star(&a, &b, (3.0, 5.0)));
        let c = [2.8, 3.8, 4.8, 5.8, 6.8]; // t = 1.8, p = 0.1095
        assert!(!classic_star(&a, &c, (3.0, 4.8)));
    }

    #[test]
    fn classic_rule_without_deviation() {
        assert!(classic_star(&[0.0], &[178.0, 180.0], (0.0, 179.0)));
        assert!(classic_star(&[1.0, 1.0], &[2.0, 2.0], (1.0, 2.0)));
        assert!(!classic_star(&[1.0, 1.0], &[1.0, 1.0], (1.0, 1.0)));
        assert_eq!(classic_p(&[1.0], &[2.0], (1.0, 2.0)), None);
        assert_eq!(classic_p(&[], &[2.0, 1.0, 3.0], (0.0, 2.0)), None);
    }

    #[test]
    fn modern_rule_is_the_overlap_of_intervals_of_samples() {
        // The rows of the 2026 golden table: printed 1.12s and 1.93s.
        close((modern_distance((261.81, 265.87), (0.95, 0.90)) * 100.0).round(), 112.0);
        close((modern_distance((31893.19, 32645.28), (82.14, 116.87)) * 100.0).round(), 193.0);
        assert!(modern_star((261.81, 265.87), (0.95, 0.90)));
        assert!(!modern_star((0.0, 1.9), (0.5, 0.5)));
        assert!(!modern_star((1.0, 1.0), (0.0, 0.0)));
        assert!(modern_star((1.0, 2.0), (0.0, 0.0)));
    }
}
