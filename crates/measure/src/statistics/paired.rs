//! Paired statistics of runs that differ in one respect only.
//!
//! Two policies run the same workload with the same seeds, so sample i of one is paired with sample i
//! of the other. The unit is the seed: one whole run. Samples are counts or times, 0 or more.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::statistics::stats::{median, median_of_sorted};
use crate::value::error::Error;

/// The number of resamples for an interval.
pub const RESAMPLES: usize = 10_000;

/// The generator's seed, fixed so that an interval depends on the samples alone.
const SEED: u64 = 0x9a6e_b10c;

/// The ratio of paired samples, new to baseline, and its significance.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PairedResult {
    /// The number of pairs.
    pub pairs: usize,
    /// The median of the ratios: below 1 if the new side is smaller.
    pub median_ratio: f64,
    /// The 95 % bootstrap interval of the median (percentiles 2.5 and 97.5 of [`RESAMPLES`]). With
    /// fewer than 6 pairs it means little.
    pub interval: (f64, f64),
    /// Two-sided p of the exact sign test.
    pub sign_p: f64,
    /// Two-sided p of the exact Wilcoxon signed-rank test of the differences.
    pub wilcoxon_p: f64,
}

/// Compares paired samples.
///
/// # Errors
/// [`Error::Unpaired`] if the lengths differ, [`Error::NoRuns`] if there are no pairs.
pub fn compare(base: &[f64], new: &[f64]) -> Result<PairedResult, Error> {
    if base.len() != new.len() {
        return Err(Error::Unpaired { base: base.len(), new: new.len() });
    }
    if base.is_empty() {
        return Err(Error::NoRuns);
    }
    let ratios: Vec<f64> = base.iter().zip(new).map(|(b, n)| ratio(*b, *n)).collect();
    let differences: Vec<f64> = base.iter().zip(new).map(|(b, n)| n - b).collect();
    Ok(PairedResult {
        pairs: base.len(),
        median_ratio: median(&ratios),
        interval: bootstrap_median(&ratios),
        sign_p: sign_test(&differences),
        wilcoxon_p: wilcoxon(&differences),
    })
}

/// Returns the ratio of a pair: 1 if both are 0, infinite if only the baseline is.
#[must_use]
pub fn ratio(base: f64, new: f64) -> f64 {
    if base == 0.0 && new == 0.0 { 1.0 } else { new / base }
}

/// Returns the bootstrap interval of the median: the percentiles 2.5 and 97.5 of the medians of
/// [`RESAMPLES`] samples drawn with replacement, by PCG (MCG XSL RR 128/64) from a fixed seed. NaN
/// without samples.
#[must_use]
pub fn bootstrap_median(samples: &[f64]) -> (f64, f64) {
    if samples.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    percentiles(samples.len(), |generator| samples[below(generator, samples.len())])
}

/// Returns the interval in which 95 % of the medians lie of the ratios of `runs` other runs of each side, which are
/// not paired: those of [`RESAMPLES`] samples of so many ratios of a run of one side and a run of the other. NaN
/// without runs.
#[must_use]
pub fn median_of_others(base: &[f64], new: &[f64], runs: usize) -> (f64, f64) {
    if base.is_empty() || new.is_empty() || runs == 0 {
        return (f64::NAN, f64::NAN);
    }
    percentiles(runs, |generator| {
        ratio(base[below(generator, base.len())], new[below(generator, new.len())])
    })
}

/// Returns the percentiles 2.5 and 97.5 of the medians of [`RESAMPLES`] samples of a size.
fn percentiles(size: usize, mut draw: impl FnMut(&mut Pcg64Mcg) -> f64) -> (f64, f64) {
    let mut generator = Pcg64Mcg::seed_from_u64(SEED);
    let mut drawn = vec![0.0; size];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| draw(&mut generator));
            drawn.sort_by(f64::total_cmp);
            median_of_sorted(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = RESAMPLES * 25 / 1000;
    (medians[tail], medians[RESAMPLES - 1 - tail])
}

/// Returns a number below `n`, from the high half of a product; its bias is below n / 2^64.
fn below(generator: &mut Pcg64Mcg, n: usize) -> usize {
    ((u128::from(generator.next_u64()) * n as u128) >> 64) as usize
}

/// Returns the p of the exact two-sided sign test: the probability of a split of the nonzero
/// differences at least as uneven, if both signs were equally likely. 1 if there are none.
#[must_use]
pub fn sign_test(differences: &[f64]) -> f64 {
    let positive = differences.iter().filter(|d| **d > 0.0).count();
    let negative = differences.iter().filter(|d| **d < 0.0).count();
    two_sided(&vec![1; positive + negative], positive)
}

/// Returns the p of the exact two-sided Wilcoxon signed-rank test. Differences of 0 are dropped, ties
/// get the mean of their ranks, and the distribution is over all 2^n choices of signs of these ranks.
/// Takes cubic time in the number of differences. 1 if there are none.
#[must_use]
pub fn wilcoxon(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // The ranks are doubled so that the ranks of ties are integers.
    let mut ranks = Vec::with_capacity(sorted.len());
    for tied in sorted.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let doubled = 2 * ranks.len() + tied.len() + 1;
        ranks.extend(std::iter::repeat_n(doubled, tied.len()));
    }
    let signed = sorted.iter().zip(&ranks);
    let positive: usize = signed.filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    two_sided(&ranks, positive)
}

/// Returns the probability that random signs of these weights give a sum of the positive ones at least
/// as far from the middle as `positive` is. Exact for up to 52 weights, whose probabilities a
/// floating-point number can represent.
fn two_sided(weights: &[usize], positive: usize) -> f64 {
    let total: usize = weights.iter().sum();
    // probability[s]: of the weights with a positive sign adding up to s.
    let mut probability = vec![0.0; total + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for &weight in weights {
        reached += weight;
        for sum in (0..=reached).rev() {
            let with = if sum >= weight { probability[sum - weight] } else { 0.0 };
            probability[sum] = f64::midpoint(probability[sum], with);
        }
    }
    // The distribution is symmetric: the smaller side is enough.
    let smaller = positive.min(total - positive);
    let tail: f64 = probability[..=smaller].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Applies Holm's correction for multiple tests: returns the adjusted p of each, in the given order.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max((p[at] * (p.len() - rank) as f64).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(actual: f64, expect: f64) {
        assert!((actual - expect).abs() < 1e-9, "{actual} {expect}");
    }

    fn signs(positive: usize, negative: usize) -> Vec<f64> {
        [vec![1.0; positive], vec![-1.0; negative]].concat()
    }

    #[test]
    fn sign_test_is_the_binomial() {
        close(sign_test(&signs(9, 1)), 22.0 / 1024.0);
        close(sign_test(&signs(0, 5)), 2.0 / 32.0);
        close(sign_test(&signs(3, 3)), 1.0);
        close(sign_test(&[0.0, 0.0]), 1.0);
        close(sign_test(&[]), 1.0);
    }

    /// Enumerates all choices of signs.
    fn wilcoxon_by_enumeration(differences: &[f64]) -> f64 {
        let kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
        let rank = |x: f64| {
            let below = kept.iter().filter(|d| d.abs() < x.abs()).count();
            let tied = kept.iter().filter(|d| d.abs() == x.abs()).count();
            2 * below + tied + 1
        };
        let ranks: Vec<usize> = kept.iter().map(|d| rank(*d)).collect();
        let total: usize = ranks.iter().sum();
        let observed: usize = (0..kept.len()).filter(|i| kept[*i] > 0.0).map(|i| ranks[i]).sum();
        let extreme = |w: usize| w.min(total - w) <= observed.min(total - observed);
        let sum =
            |mask: u32| (0..kept.len()).filter(|i| mask >> i & 1 == 1).map(|i| ranks[i]).sum();
        let hits = (0..1_u32 << kept.len()).filter(|mask| extreme(sum(*mask))).count();
        hits as f64 / f64::from(1_u32 << kept.len())
    }

    #[test]
    fn wilcoxon_is_exact() {
        // Table values: n = 10, W = 0, 8 and 10.
        let n10 = |negative: &[usize]| -> Vec<f64> {
            (1..=10).map(|i| if negative.contains(&i) { -(i as f64) } else { i as f64 }).collect()
        };
        close(wilcoxon(&n10(&[])), 2.0 / 1024.0);
        close(wilcoxon(&n10(&[8])), 50.0 / 1024.0);
        close(wilcoxon(&n10(&[1, 9])), 86.0 / 1024.0);
        close(wilcoxon(&[0.0]), 1.0);
        for differences in [
            &[1.0, -1.0, 2.0, 2.0, -3.0, 0.0, 5.0][..],
            &[4.0, 4.0, 4.0, -4.0],
            &[-1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 7.0, 7.0, 8.0, 9.0, -9.0],
        ] {
            close(wilcoxon(differences), wilcoxon_by_enumeration(differences));
        }
    }

    #[test]
    fn the_interval_holds_the_median_and_is_the_same_every_time() {
        let samples: Vec<f64> = (0..30).map(|i| 0.5 + f64::from(i * 7 % 30) / 100.0).collect();
        let (low, high) = bootstrap_median(&samples);
        assert!(low < median(&samples) && median(&samples) < high, "{low} {high}");
        assert!(low > 0.5 && high < 0.79);
        assert_eq!(bootstrap_median(&samples), (low, high));
        assert_eq!(bootstrap_median(&[2.0]), (2.0, 2.0));
    }

    #[test]
    fn pairs_of_zeros_are_equal() {
        let result = compare(&[0.0, 4.0, 0.0], &[0.0, 1.0, 3.0]).unwrap();
        assert_eq!((result.pairs, result.median_ratio), (3, 1.0));
        assert_eq!(result.interval, (0.25, f64::INFINITY));
        assert!(compare(&[1.0], &[1.0, 2.0]).is_err());
        assert!(compare(&[], &[]).is_err());
    }

    #[test]
    fn holm_keeps_the_order_and_never_falls() {
        assert_eq!(holm(&[0.04, 0.01, 0.03, 0.5]), [0.09, 0.04, 0.09, 0.5]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
