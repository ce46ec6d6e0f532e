//! Trends of a series: whether repeated measurements rise or fall.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::statistics::stats;

/// The trend of a series.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Trend {
    /// Mann and Kendall's S: rising pairs minus falling pairs.
    pub s: i64,
    /// The two-sided probability of an S at least this far from 0 in a series without a trend, by the
    /// normal approximation with corrections for ties and continuity; 1 if all values are equal.
    pub p: f64,
    /// Theil and Sen's slope: the median of the slopes of all pairs, per step.
    pub slope: f64,
}

/// Returns the trend of a series of at least two values; `None` for a shorter one.
#[must_use]
pub fn trend(series: &[f64]) -> Option<Trend> {
    if series.len() < 2 {
        return None;
    }
    let pairs = || (0..series.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    let sign = |(i, j): (usize, usize)| match series[j].total_cmp(&series[i]) {
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
    };
    let s: i64 = pairs().map(sign).sum();
    let slopes: Vec<f64> = pairs().map(|(i, j)| (series[j] - series[i]) / (j - i) as f64).collect();
    Some(Trend { s, p: probability(s, variance(series)), slope: stats::median(&slopes) })
}

/// Returns the variance of S without a trend.
fn variance(series: &[f64]) -> f64 {
    let part = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tied| part(tied.len() as f64)).sum();
    (part(series.len() as f64) - ties) / 18.0
}

fn probability(s: i64, variance: f64) -> f64 {
    if variance <= 0.0 || s == 0 {
        return 1.0;
    }
    let z = (s.abs() - 1) as f64 / variance.sqrt();
    2.0 * Normal::standard().sf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    /// S and its variance by hand: n(n-1)(2n+5)/18 = 125 for 10 values; z = 44/sqrt(125) = 3.9355.
    #[test]
    fn a_series_that_always_rises() {
        let series: Vec<f64> = (0..10).map(|i| f64::from(3 * i)).collect();
        let found = trend(&series).unwrap();
        assert_eq!((found.s, found.slope), (45, 3.0));
        assert!((found.p - 8.303e-5).abs() < 1e-7, "{}", found.p);
    }

    /// Ties by hand: values 1 1 2 2 3: 8 rising pairs, variance (5*4*15 - 2*(2*1*9))/18 = 14.6667, z =
    /// 7/3.8297 = 1.8278.
    #[test]
    fn ties_reduce_the_variance() {
        let found = trend(&[1.0, 1.0, 2.0, 2.0, 3.0]).unwrap();
        assert_eq!(found.s, 8);
        assert!(close(found.p, 0.06758), "{}", found.p);
        assert_eq!(found.slope, 0.5);
    }

    #[test]
    fn an_outlier_moves_the_slope_little() {
        let found = trend(&[0.0, 1.0, 2.0, 100.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(found.slope, 1.0);
        assert_eq!(found.s, 21 - 2 * 3);
    }

    #[test]
    fn series_without_a_trend() {
        assert_eq!(trend(&[7.0; 9]), Some(Trend { s: 0, p: 1.0, slope: 0.0 }));
        assert_eq!(trend(&[7.0]), None);
        let falls = trend(&[2.0, 1.0]).unwrap();
        assert_eq!((falls.s, falls.p, falls.slope), (-1, 1.0, -1.0));
    }
}
