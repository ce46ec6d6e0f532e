//! The change between two samples that are not paired: the rank-sum test, and the ratio with the interval that the
//! same test gives it.
//!
//! Policies draw from the same distribution of seeds, but what one seed does under one policy says little of what it does
//! under another (`pageblock bench verdicts` prints the correlations), so nothing is paired. The unit is one whole run.
//! Samples are counts, times or shares, 0 or more; changes are ratios, since counts span decades.
//!
//! Sources: Mann and Whitney 1947; Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, *Nonparametric Statistical
//! Methods*, 3rd edition, sections 4.1 to 4.3.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// The change from a baseline's sample to another.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The runs of the baseline and of the other side.
    pub runs: (usize, usize),
    /// The median of the ratios of all pairs of a run of each side (Hodges and Lehmann), below 1 if the new side is smaller;
    /// 0 to 0 counts as 1.
    pub ratio: f64,
    /// The ratios that the test does not reject at the level that was asked for; `None` if so few runs reject nothing.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p of the rank-sum test.
    pub p: f64,
}

/// The runs of both sides multiplied, up to which distributions are exact: 20 on each side. The normal approximation, with
/// corrections for ties and continuity, is within 0.001 from there on.
const EXACT: usize = 400;

/// Compares two samples. The interval holds the ratio in `1 - level` of cases. `None` if a side has no run.
#[must_use]
pub fn compare(base: &[f64], new: &[f64], level: f64) -> Option<Change> {
    Interval::of(base.len(), new.len(), level).change(base, new)
}

/// Which ratios an interval has, for two numbers of runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    runs: (usize, usize),
    /// The places among the sorted ratios; `None` if the test can reject none.
    kept: Option<Range<usize>>,
}

impl Interval {
    /// Returns that of so many runs of each side at a level.
    #[must_use]
    pub fn of(base: usize, new: usize, level: f64) -> Self {
        Self { runs: (base, new), kept: not_rejected(base, new, level) }
    }

    /// Compares two samples of these sizes. `None` if a side has no run.
    #[must_use]
    pub fn change(&self, base: &[f64], new: &[f64]) -> Option<Change> {
        debug_assert_eq!(self.runs, (base.len(), new.len()));
        let ratios = Ratios::of(base, new)?;
        let kept = self.kept.clone();
        Some(Change {
            runs: self.runs,
            ratio: ratios.middle(),
            interval: kept.map(|kept| (ratios.at(kept.start), ratios.at(kept.end - 1))),
            p: p(base, new),
        })
    }
}

/// Returns the ratio of a run to one of the baseline: 1 if both have 0, infinite if only the baseline has.
#[must_use]
pub fn ratio(base: f64, new: f64) -> f64 {
    if base == 0.0 && new == 0.0 { 1.0 } else { new / base }
}

/// Up to so many ratios are sorted; of more the few that are asked for are found without storing any.
const SORTED: usize = 4096;

/// The ratios of all pairs in their order: there are as many as runs of the two sides multiplied.
struct Ratios {
    /// All of them where they are few, else none.
    sorted: Vec<f64>,
    /// Falling, so that a ratio grows with both places.
    base: Vec<f64>,
    /// Rising.
    new: Vec<f64>,
}

impl Ratios {
    /// Returns those of two samples; `None` if a side has no run.
    fn of(base: &[f64], new: &[f64]) -> Option<Self> {
        debug_assert!(base.iter().chain(new).all(|&value| value >= 0.0), "{base:?} {new:?}");
        let (mut base, mut new) = (base.to_vec(), new.to_vec());
        base.sort_by(|a, b| b.total_cmp(a));
        new.sort_by(f64::total_cmp);
        if base.is_empty() || new.is_empty() {
            return None;
        }
        let mut sorted = Vec::new();
        if base.len() * new.len() <= SORTED {
            sorted.extend(new.iter().flat_map(|new| base.iter().map(|base| ratio(*base, *new))));
            sorted.sort_by(f64::total_cmp);
        }
        Some(Self { sorted, base, new })
    }

    fn count(&self) -> usize {
        self.base.len() * self.new.len()
    }

    /// Returns how many are at most this one: a walk along the border, as a row has no more of them than the row before.
    fn at_most(&self, most: f64) -> usize {
        let (mut count, mut row) = (0, self.new.len());
        for &base in &self.base {
            while row > 0 && ratio(base, self.new[row - 1]) > most {
                row -= 1;
            }
            count += row;
        }
        count
    }

    /// Returns the one with this place in their order.
    fn at(&self, place: usize) -> f64 {
        match self.sorted.get(place) {
            Some(ratio) => *ratio,
            None => self.found(place),
        }
    }

    /// Finds it by bisection: the least ratio such that more than `place` ratios are at most as large.
    fn found(&self, place: usize) -> f64 {
        // Numbers from 0 to infinity are in the order of their bits.
        let (mut below, mut found) = (0, f64::INFINITY.to_bits());
        while below < found {
            let middle = below.midpoint(found);
            if self.at_most(f64::from_bits(middle)) > place {
                found = middle;
            } else {
                below = middle + 1;
            }
        }
        f64::from_bits(found)
    }

    /// Returns the median: between two, their geometric mean.
    fn middle(&self) -> f64 {
        let count = self.count();
        let (low, high) = (self.at((count - 1) / 2), self.at(count / 2));
        let both = low > 0.0 && high.is_finite();
        if both { (low * high).sqrt() } else { f64::midpoint(low, high) }
    }
}

/// Returns the p of the two-sided rank-sum test: the probability, if all runs were drawn alike, of a sum of ranks at least
/// as far from its mean. Ties have the mean of their ranks, and the distribution is that of these ranks.
#[must_use]
pub fn p(base: &[f64], new: &[f64]) -> f64 {
    if base.is_empty() || new.is_empty() {
        return 1.0;
    }
    let mut ranks = doubled_ranks(&[base, new].concat());
    let observed: usize = ranks[base.len()..].iter().sum();
    ranks.sort_unstable();
    let all = ranks.len();
    // Doubled ranks have the mean `all + 1`.
    let mean = new.len() * (all + 1);
    let off = observed.abs_diff(mean);
    if off == 0 {
        return 1.0;
    }
    if base.len() * new.len() <= EXACT {
        let is_untied = ranks.iter().enumerate().all(|(at, &rank)| rank == 2 * (at + 1));
        let (sums, unit) = match is_untied {
            true => (sums_untied(all, new.len()), 2),
            false => (Rc::from(sums_of(&ranks, new.len())), 1),
        };
        let is_far = |sum: usize| (sum * unit).abs_diff(mean) >= off;
        let far = |(sum, share): (usize, &f64)| is_far(sum).then_some(*share);
        return sums.iter().enumerate().filter_map(far).sum::<f64>().min(1.0);
    }
    let squares: f64 = ranks.iter().map(|&rank| (rank as f64 - (all + 1) as f64).powi(2)).sum();
    let (n, m) = (base.len() as f64, new.len() as f64);
    let variance = n * m * squares / (all * (all - 1)) as f64;
    if variance == 0.0 {
        return 1.0;
    }
    // Sums of doubled ranks are two apart.
    2.0 * Normal::standard().sf((off as f64 - 1.0).max(0.0) / variance.sqrt())
}

/// Returns the least p that so many runs of each side can give.
#[must_use]
pub fn least_p(base: usize, new: usize) -> f64 {
    // 2 over the number of ways to choose one side.
    let ways = (1..=new).fold(1.0, |ways, k| ways * (base + k) as f64 / k as f64);
    if base == 0 || new == 0 { 1.0 } else { (2.0 / ways).min(1.0) }
}

/// Returns twice the rank of each value, which is whole: ties have the mean of theirs.
pub(crate) fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let (mut ranks, mut below) = (vec![0; values.len()], 0);
    for tied in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        tied.iter().for_each(|&at| ranks[at] = 2 * below + tied.len() + 1);
        below += tied.len();
    }
    ranks
}

/// The shares of the sums, by the number of all ranks and of those that are chosen.
type Sums = BTreeMap<(usize, usize), Rc<[f64]>>;

/// Returns as [`sums_of`] for the ranks from 1 to `all`. They hang on the two numbers alone, and a thread keeps what it
/// computed: error rates need the same ones tens of thousands of times.
fn sums_untied(all: usize, count: usize) -> Rc<[f64]> {
    thread_local! {
        static KNOWN: RefCell<Sums> = const { RefCell::new(Sums::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        let sums = known.entry((all, count)).or_insert_with(|| {
            let ranks: Vec<usize> = (1..=all).collect();
            Rc::from(sums_of(&ranks, count))
        });
        Rc::clone(sums)
    })
}

/// Returns for each sum of `count` of the ranks its share among all choices.
fn sums_of(ranks: &[usize], count: usize) -> Vec<f64> {
    let most: usize = ranks.iter().rev().take(count).sum();
    // ways[k][s]: choices of k ranks with the sum s. Exact: C(40, 20) is below 2^53.
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for (seen, &rank) in ranks.iter().enumerate() {
        for k in (0..count.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k + 1);
            for sum in rank..=most {
                more[0][sum] += fewer[k][sum - rank];
            }
        }
    }
    let sums = ways.pop().unwrap_or_default();
    let all: f64 = sums.iter().sum();
    sums.into_iter().map(|ways| ways / all).collect()
}

/// Returns which of the sorted ratios of all pairs are in the interval; `None` if the test can reject none.
fn not_rejected(base: usize, new: usize, level: f64) -> Option<Range<usize>> {
    let pairs = base * new;
    if pairs == 0 || level <= 0.0 {
        return None;
    }
    let cut = if pairs <= EXACT {
        // The number of pairs in which the new run is larger has the distribution of the rank sum without ties.
        let least: usize = (1..=new).sum();
        let mut tail = 0.0;
        let sums = sums_untied(base + new, new);
        let within = |share: &&f64| {
            tail += **share;
            2.0 * tail <= level
        };
        sums[least..].iter().take_while(within).count()
    } else {
        let (n, m) = (base as f64, new as f64);
        let z = Normal::standard().inverse_cdf(1.0 - level / 2.0);
        let spread = z * (n * m * (n + m + 1.0) / 12.0).sqrt();
        (n * m / 2.0 - spread).max(0.0).floor() as usize
    };
    (cut > 0).then(|| cut - 1..pairs + 1 - cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(actual: f64, expect: f64) {
        assert!((actual - expect).abs() < 1e-9, "{actual} {expect}");
    }

    /// All ways to choose the new runs.
    fn by_enumeration(base: &[f64], new: &[f64]) -> f64 {
        let ranks = doubled_ranks(&[base, new].concat());
        let observed: usize = ranks[base.len()..].iter().sum();
        let mean = new.len() * (ranks.len() + 1);
        let (mut far, mut all) = (0, 0);
        for mask in 0..1_u32 << ranks.len() {
            if mask.count_ones() as usize == new.len() {
                let chosen = (0..ranks.len()).filter(|at| mask >> at & 1 == 1);
                let sum: usize = chosen.map(|at| ranks[at]).sum();
                all += 1;
                far += u32::from(sum.abs_diff(mean) >= observed.abs_diff(mean));
            }
        }
        f64::from(far) / f64::from(all)
    }

    #[test]
    fn p_is_exact_with_and_without_ties() {
        // Hollander, Wolfe and Chicken, table A.6: W = 15 of 5 and 5 has a one-sided p of 1/252.
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        close(p(&[6.0, 7.0, 8.0, 9.0, 10.0], &low), 2.0 / 252.0);
        close(least_p(5, 5), 2.0 / 252.0);
        close(least_p(8, 8), 2.0 / 12_870.0);
        for (base, new) in [
            (&[0.0, 0.0, 1.0, 3.0][..], &[0.0, 2.0, 2.0, 9.0, 9.0][..]),
            (&[5.0, 1.0, 4.0], &[2.0, 3.0, 7.0, 8.0, 6.0, 0.5]),
            (&[1.0, 1.0], &[1.0, 1.0, 2.0]),
        ] {
            close(p(base, new), by_enumeration(base, new));
        }
        close(p(&[0.0; 9], &[0.0; 9]), 1.0);
        close(p(&[1.0], &[]), 1.0);
    }

    #[test]
    fn the_approximation_joins_the_exact_distribution() {
        let base: Vec<f64> = (0..20).map(f64::from).collect();
        for shift in [3.0, 5.5, 8.5] {
            let new: Vec<f64> = base.iter().map(|x| x + shift + 0.25).collect();
            let exact = p(&base, &new);
            let (more, base): (Vec<f64>, Vec<f64>) = (new.clone(), base.clone());
            let near = p(&base, &[more, vec![base[10] + shift]].concat());
            assert!((exact - near).abs() < 0.02, "{exact} {near}");
        }
    }

    #[test]
    fn ratios_have_the_order_of_all_pairs() {
        for (base, new) in [
            (&[3.0, 0.0, 7.0, 7.0, 0.1][..], &[0.0, 2.0, 0.0, 9.5, 1e-300, 1e300][..]),
            (&[0.0, 0.0], &[0.0, 1.0]),
            (&[5.0], &[2.5]),
        ] {
            let mut sorted: Vec<f64> =
                new.iter().flat_map(|new| base.iter().map(|base| ratio(*base, *new))).collect();
            sorted.sort_by(f64::total_cmp);
            let ratios = Ratios::of(base, new).unwrap();
            let found: Vec<f64> = (0..ratios.count()).map(|place| ratios.found(place)).collect();
            assert_eq!(found, sorted);
            assert_eq!(ratios.sorted, sorted);
        }
        assert!(Ratios::of(&[], &[1.0]).is_none());
    }

    /// For 5 and 5 runs 2 P(U <= 2) = 8/252 is below 0.05 and 2 P(U <= 3) = 14/252 above: two ratios go at each end.
    #[test]
    fn the_interval_has_the_ratios_that_are_not_rejected() {
        let base = [1.0, 1.0, 1.0, 1.0, 1.0];
        let new = [2.0, 3.0, 4.0, 5.0, 6.0];
        let change = compare(&base, &new, 0.05).unwrap();
        assert_eq!((change.ratio, change.interval), (4.0, Some((2.0, 6.0))));
        assert_eq!(not_rejected(5, 5, 0.05), Some(2..23));
        assert_eq!(not_rejected(3, 3, 0.05), None);
        let wide = not_rejected(30, 30, 0.05).unwrap();
        // 450 - 1.96 sqrt(30 * 30 * 61 / 12) = 317.4.
        assert_eq!((wide.start, 900 - wide.end), (316, 316));
    }

    #[test]
    fn zeros_have_ratios_too() {
        let change = compare(&[0.0; 8], &[3.0; 8], 0.05).unwrap();
        assert_eq!(
            (change.ratio, change.interval),
            (f64::INFINITY, Some((f64::INFINITY, f64::INFINITY)))
        );
        assert!(change.p < 0.001);
        let same = compare(&[0.0; 8], &[0.0; 8], 0.05).unwrap();
        assert_eq!((same.ratio, same.p), (1.0, 1.0));
        assert_eq!(compare(&[], &[1.0], 0.05), None);
    }
}
