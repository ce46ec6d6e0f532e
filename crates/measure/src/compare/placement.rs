//! Where real runs lie among simulated ones. Both are draws of two distributions, not of one seed: the median of the real
//! runs is looked for among the simulations, and its place is tested by the precedence test (Nelson 1963): how likely at
//! most so many simulations are below it, or above it, if both distributions are one.

use serde::Serialize;
use statrs::function::factorial::ln_binomial;

use super::verdict::LEVEL;

/// The place of the median of some real runs among simulations.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Placement {
    /// The median of the real runs.
    pub real_median: f64,
    /// How many simulations are below it.
    pub below: usize,
    /// How many simulations are above it.
    pub above: usize,
    /// The p of its place, on both sides.
    pub p: f64,
    /// What that is.
    pub place: Place,
}

/// Where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Nothing speaks against both being one: p is above 0.05.
    Within,
    /// It is lower than simulations are.
    Below,
    /// It is higher.
    Above,
    /// There are too few runs to tell wherever it lies.
    Unknown,
}

/// Returns the place of real runs among simulations; `None` if there are none of either.
#[must_use]
pub fn place(simulated: &[f64], real: &[f64]) -> Option<Placement> {
    let (&first, n, m) = (real.first()?, simulated.len(), real.len());
    if n == 0 {
        return None;
    }
    let mut real = real.to_vec();
    real.sort_by(f64::total_cmp);
    // Both are the median of an odd number; of an even one each side is tested by the one that is less extreme.
    let (low, high) = (real[(m - 1) / 2], real[m / 2]);
    let real_median = if m == 1 { first } else { low.midpoint(high) };
    let count = |is: &dyn Fn(f64) -> bool| simulated.iter().filter(|&&value| is(value)).count();
    let at_most_high = count(&|value| value <= high);
    let at_least_low = count(&|value| value >= low);
    let is_low = tail(n, m, at_most_high);
    // What is above the median is below it from the other end.
    let is_high = tail(n, m, at_least_low);
    let p = (2.0 * is_low.min(is_high)).min(1.0);
    let place = match decides(p) {
        _ if most_beyond(n, m).is_none() => Place::Unknown,
        false => Place::Within,
        true if is_low < is_high => Place::Below,
        true => Place::Above,
    };
    let below = count(&|value| value < real_median);
    let above = count(&|value| value > real_median);
    Some(Placement { real_median, below, above, p, place })
}

/// Returns how many simulations may be beyond the median of so many real runs where it is still outside: what the number of
/// runs can tell. `None` if it is outside nowhere.
#[must_use]
pub fn most_beyond(simulations: usize, real: usize) -> Option<usize> {
    (0..simulations).take_while(|&beyond| decides(2.0 * tail(simulations, real, beyond))).last()
}

/// Returns the least number of simulations with which the place of so many real runs can be outside.
#[must_use]
pub fn simulations_needed(real: usize) -> usize {
    (1..).find(|&n| most_beyond(n, real).is_some()).unwrap_or(1)
}

/// Reports whether a p is at most the level, which 39 simulations and one real run just meet: sums of shares are not exact.
fn decides(p: f64) -> bool {
    p <= LEVEL * (1.0 + 1e-9)
}

/// Returns how likely at most `most` of `n` draws are below the median of `m` others of the same distribution, the upper one of
/// an even number.
fn tail(n: usize, m: usize, most: usize) -> f64 {
    let k = m / 2 + 1;
    let ln_choose = |n: usize, k: usize| ln_binomial(n as u64, k as u64);
    let all = ln_choose(n + m, n);
    let exactly = |t: usize| ln_choose(t + k - 1, t) + ln_choose(n - t + m - k, n - t) - all;
    (0..=most.min(n)).map(|t| exactly(t).exp()).sum()
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::Rng;

    use super::*;

    #[test]
    fn one_real_run_needs_39_simulations() {
        assert_eq!([1, 3, 5].map(simulations_needed), [39, 13, 10]);
        // C(23, 3) is 1771: 2 * 21 / 1771 with none beyond, 2 * 61 / 1771 with one.
        assert_eq!(
            [most_beyond(20, 3), most_beyond(12, 3), most_beyond(79, 1)],
            [Some(0), None, Some(1)]
        );
        let simulated: Vec<f64> = (0..39).map(f64::from).collect();
        let of = |real: &[f64], n: usize| place(&simulated[..n], real).unwrap();
        let outside = of(&[-1.0], 39);
        assert_eq!((outside.place, outside.below, outside.above), (Place::Below, 0, 39));
        assert!((outside.p - 0.05).abs() < 1e-9, "{}", outside.p);
        assert_eq!(of(&[40.0], 39).place, Place::Above);
        assert_eq!(of(&[0.5], 39).place, Place::Within);
        assert_eq!(of(&[-1.0], 38).place, Place::Unknown);
        assert_eq!(of(&[-1.0, 50.0], 39).place, Place::Within);
        assert_eq!(place(&[], &[1.0]), None);
    }

    /// Draws of one distribution are outside in at most 5 % of cases, and in not many fewer.
    #[test]
    fn the_error_rate_is_the_stated_one() {
        let mut random = Pcg64Mcg::new(7);
        let mut draw = |n: usize| -> Vec<f64> {
            (0..n).map(|_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64).collect()
        };
        for (n, m) in [(10, 5), (40, 1), (20, 4), (30, 3)] {
            let outside = (0..4000)
                .filter(|_| place(&draw(n), &draw(m)).unwrap().place != Place::Within)
                .count();
            let share = outside as f64 / 4000.0;
            assert!((0.005..0.058).contains(&share), "{n} and {m}: {share}");
        }
    }

    /// Ties are on no side.
    #[test]
    fn equal_values_are_within() {
        let found = place(&[3.0; 50], &[3.0; 5]).unwrap();
        assert_eq!((found.place, found.below, found.above, found.p), (Place::Within, 0, 0, 1.0));
    }
}
