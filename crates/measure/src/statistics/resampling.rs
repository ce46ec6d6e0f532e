//! Intervals by resampling: of a median, and of what other runs of the same kind would give.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::statistics::rank_sum::ratio;
use crate::statistics::stats::median_of_sorted;

/// The number of resamples for an interval.
pub const RESAMPLES: usize = 10_000;

/// The generator's seed, fixed so that an interval depends on the samples alone.
const SEED: u64 = 0x9a6e_b10c;

/// Where the median of the ratios of other runs lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// The percentiles 2.5 and 97.5.
    pub range: (f64, f64),
    /// The share of medians below 1; half of those that are 1 count.
    pub below: f64,
}

/// Returns the bootstrap interval of the median: the percentiles 2.5 and 97.5 of the medians of [`RESAMPLES`] samples drawn
/// with replacement, by PCG (MCG XSL RR 128/64) from a fixed seed. NaN without samples.
#[must_use]
pub fn bootstrap_median(samples: &[f64]) -> (f64, f64) {
    if samples.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    middle(&medians(samples.len(), |generator| samples[below(generator, samples.len())]))
}

/// Returns where the medians lie of the ratios of `runs` other runs of each side: those of [`RESAMPLES`] samples of so many
/// ratios of a run of one side and a run of the other, each times a draw of the noise, whose logarithm is normal with this
/// standard deviation. NaN without runs.
#[must_use]
pub fn expected(base: &[f64], new: &[f64], runs: usize, noise: f64) -> Expected {
    if base.is_empty() || new.is_empty() || runs == 0 {
        return Expected { range: (f64::NAN, f64::NAN), below: f64::NAN };
    }
    let mut medians = medians(runs, |generator| {
        let from = base[below(generator, base.len())];
        ratio(from, new[below(generator, new.len())])
    });
    // Another stream than the one that drew the medians.
    let mut generator = Pcg64Mcg::seed_from_u64(SEED + 1);
    for median in &mut medians {
        *median *= (noise * normal(&mut generator)).exp();
    }
    medians.sort_by(f64::total_cmp);
    let less = medians.partition_point(|&median| median < 1.0);
    let up_to = medians.partition_point(|&median| median <= 1.0);
    let below = (less + up_to) as f64 / (2 * RESAMPLES) as f64;
    Expected { range: middle(&medians), below }
}

/// Returns the sorted medians of [`RESAMPLES`] samples of a size.
fn medians(size: usize, mut draw: impl FnMut(&mut Pcg64Mcg) -> f64) -> Vec<f64> {
    let mut generator = Pcg64Mcg::seed_from_u64(SEED);
    let mut drawn = vec![0.0; size];
    let mut median = |_| {
        drawn.fill_with(|| draw(&mut generator));
        drawn.sort_by(f64::total_cmp);
        median_of_sorted(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(&mut median).collect();
    medians.sort_by(f64::total_cmp);
    medians
}

/// Returns the percentiles 2.5 and 97.5 of sorted medians.
fn middle(medians: &[f64]) -> (f64, f64) {
    let tail = RESAMPLES * 25 / 1000;
    (medians[tail], medians[RESAMPLES - 1 - tail])
}

/// Returns a draw of the standard normal distribution, by its quantiles.
fn normal(generator: &mut Pcg64Mcg) -> f64 {
    // 53 bits, none of them 0 or 1.
    let share = ((generator.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    Normal::standard().inverse_cdf(share)
}

/// Returns a number below `n`, from the high half of a product; its bias is below n / 2^64.
pub(crate) fn below(generator: &mut Pcg64Mcg, n: usize) -> usize {
    ((u128::from(generator.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_is_the_same_every_time() {
        let base: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i * 7 % 30)).collect();
        let new: Vec<f64> = base.iter().map(|x| 2.0 * x).collect();
        let found = expected(&base, &new, 10, 0.0);
        let (low, high) = found.range;
        assert!(low < 2.0 && 2.0 < high && high - low < 0.5, "{low} {high}");
        assert_eq!((expected(&base, &new, 10, 0.0), found.below), (found, 0.0));
        assert!((0.4..0.6).contains(&expected(&base, &base, 10, 0.0).below));
        assert!(expected(&base, &[], 10, 0.0).below.is_nan());
    }
    /// 95 % of a normal distribution with the deviation 0.5 are within 0.98 of the middle.
    #[test]
    fn noise_widens_on_both_sides_alike() {
        let (low, high) = expected(&[100.0; 9], &[200.0; 9], 5, 0.5).range;
        assert!((high.ln() - 2_f64.ln() - 0.98).abs() < 0.03, "{high}");
        assert!((2_f64.ln() - low.ln() - 0.98).abs() < 0.03, "{low}");
        assert_eq!(expected(&[100.0; 9], &[200.0; 9], 5, 0.0).range, (2.0, 2.0));
        assert!((0.48..0.52).contains(&expected(&[7.0; 9], &[7.0; 9], 5, 0.5).below));
        assert_eq!(expected(&[0.0; 9], &[7.0; 9], 5, 0.5).range, (f64::INFINITY, f64::INFINITY));
    }
}
