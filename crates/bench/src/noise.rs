//! The noise of the machine: a fixed piece of work, timed repeatedly between the samples.

use std::hint::black_box;
use std::time::Instant;

/// The times of the fixed work, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Noise {
    times: Vec<f64>,
}

impl Noise {
    /// Does the fixed work once: about 0.1 ms of arithmetic without memory accesses.
    pub fn sample(&mut self) {
        let start = Instant::now();
        let mut x = 1u64;
        for _ in 0..60_000 {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        self.times.push(start.elapsed().as_nanos() as f64);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.times.len()
    }

    /// Returns the slowdown of the work relative to its fastest sample, in the median and in the ninth decile:
    /// 1 on an idle machine. `None` without samples.
    #[must_use]
    pub fn slowdown(&self) -> Option<(f64, f64)> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        let fastest = sorted.first()?.max(1.0);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize] / fastest;
        Some((at(0.5), at(0.9)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_is_relative_to_the_fastest() {
        assert_eq!(Noise::default().slowdown(), None);
        let mut times: Vec<f64> = (10..=20).map(f64::from).collect();
        times.reverse();
        assert_eq!(Noise { times }.slowdown(), Some((1.5, 1.9)));
    }
}
