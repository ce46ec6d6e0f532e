//! Group-sequential tests: when to look, and how small a p must be at each look, so that all looks together give false
//! alarms as rarely as one.
//!
//! The level is spent over the looks by the spending function of Pocock's type, `level * ln(1 + (e - 1) t)`, where `t` is the
//! share of the runs that there can be at most. Effects of policies are large or small, seldom in between, so that what
//! is spent early ends most comparisons early.
//!
//! Sources: Lan and DeMets, *Discrete sequential boundaries for clinical trials*, 1983; Armitage, McPherson and Rowe 1969
//! for the recursion; Maurer and Bretz 2013 for passing on the level of what is decided.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// The numbers of runs of each side at which a comparison is looked at.
pub const LOOKS: [usize; 6] = [5, 8, 12, 20, 30, 40];

/// The looks of a comparison that may take so many runs of each side: those of [`LOOKS`] up to there, and the last.
#[must_use]
pub fn looks(most: usize) -> Vec<usize> {
    let mut looks: Vec<usize> = LOOKS.into_iter().filter(|&look| look < most).collect();
    // Beyond the list each look has half as many runs again.
    while let Some(&last) = looks.last().filter(|&&last| last >= 40 && last * 3 / 2 < most) {
        looks.push(last * 3 / 2);
    }
    looks.push(most);
    looks
}

/// Returns for each look the p at or below which it decides, so that the probability of any false decision is at most
/// `level`. A thread keeps what it computed: it takes milliseconds, and comparisons ask for the same again.
#[must_use]
pub fn levels(looks: &[usize], level: f64) -> Rc<[f64]> {
    thread_local! {
        static KNOWN: RefCell<Levels> = const { RefCell::new(Levels::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        let of = (looks.to_vec(), level.to_bits());
        Rc::clone(known.entry(of).or_insert_with(|| levels_of(looks, level).into()))
    })
}

/// The levels by looks and the bits of the level.
type Levels = BTreeMap<(Vec<usize>, u64), Rc<[f64]>>;

fn levels_of(looks: &[usize], level: f64) -> Vec<f64> {
    let most = looks.last().copied().unwrap_or(1).max(1) as f64;
    let normal = Normal::standard();
    let mut density: Option<Density> = None;
    let (mut before, mut spent) = (0.0, 0.0);
    let mut levels = Vec::with_capacity(looks.len());
    for &look in looks {
        let time = look as f64 / most;
        let all = spending(time, level);
        let step = (time - before).sqrt();
        let leaves = |bound: f64| match &density {
            None => 2.0 * normal.sf(bound / step),
            Some(density) => density.leaving(bound, step),
        };
        let bound = solve(|bound| leaves(bound) - (all - spent), 9.0 * time.sqrt());
        density = Some(Density::after(density.as_ref(), bound, step));
        levels.push(2.0 * normal.sf(bound / time.sqrt()));
        (before, spent) = (time, all);
    }
    levels
}

/// Returns the level that is spent up to a time, from 0 to 1.
fn spending(time: f64, level: f64) -> f64 {
    level * (1.0 + (std::f64::consts::E - 1.0) * time).ln()
}

/// Returns where a falling function has 0, between 0 and a bound.
fn solve(falling: impl Fn(f64) -> f64, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if falling(middle) > 0.0 { low = middle } else { high = middle }
    }
    high
}

/// The density of a Brownian motion at a look, where no look has decided: at the points from `-bound` to `bound`.
struct Density {
    bound: f64,
    at: Vec<f64>,
}

/// The intervals of Simpson's rule, an even number.
const STEPS: usize = 200;

impl Density {
    fn point(bound: f64, at: usize) -> f64 {
        bound * (2.0 * at as f64 / STEPS as f64 - 1.0)
    }

    /// Integrates a function of the place over the density.
    fn integral(&self, of: impl Fn(f64) -> f64) -> f64 {
        let weight = |at: usize| match at {
            0 | STEPS => 1.0,
            at if at % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let terms = self
            .at
            .iter()
            .enumerate()
            .map(|(at, d)| weight(at) * d * of(Self::point(self.bound, at)));
        terms.sum::<f64>() * 2.0 * self.bound / STEPS as f64 / 3.0
    }

    /// Returns the probability of being outside a bound after a step of this deviation.
    fn leaving(&self, bound: f64, step: f64) -> f64 {
        let normal = Normal::standard();
        self.integral(|from| normal.sf((bound - from) / step) + normal.cdf((-bound - from) / step))
    }

    /// Returns the density after a step, within a bound.
    fn after(before: Option<&Self>, bound: f64, step: f64) -> Self {
        let normal = Normal::standard();
        let density = |to: f64| match before {
            None => normal.pdf(to / step) / step,
            Some(before) => before.integral(|from| normal.pdf((to - from) / step) / step),
        };
        Self { bound, at: (0..=STEPS).map(|at| density(Self::point(bound, at))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_end_at_the_most() {
        assert_eq!(looks(40), [5, 8, 12, 20, 30, 40]);
        assert_eq!(looks(12), [5, 8, 12]);
        assert_eq!(looks(3), [3]);
        assert_eq!(looks(100), [5, 8, 12, 20, 30, 40, 60, 90, 100]);
    }

    /// The bounds of five equal looks at 0.05, as tables of this spending function give them: 2.438, 2.427, 2.410, 2.397
    /// and 2.386.
    #[test]
    fn bounds_are_those_of_the_tables() {
        let found = levels(&[1, 2, 3, 4, 5], 0.05);
        let normal = Normal::standard();
        for (level, bound) in found.iter().zip([2.438, 2.427, 2.410, 2.397, 2.386]) {
            let found = normal.inverse_cdf(1.0 - level / 2.0);
            assert!((found - bound).abs() < 0.002, "{found} {bound}");
        }
        let one = levels(&[40], 0.05);
        assert!((one[0] - 0.05).abs() < 1e-9);
    }

    /// What is decided passes its level on, which needs levels that rise with it at every look.
    #[test]
    fn levels_rise_with_the_level() {
        let few = levels(&LOOKS, 0.05 / 6.0);
        let more = levels(&LOOKS, 0.05);
        assert!(few.iter().zip(more.iter()).all(|(few, more)| few < more), "{few:?} {more:?}");
        assert!(more.iter().sum::<f64>() > 0.05 && more.iter().all(|&level| level < 0.05));
    }
}
