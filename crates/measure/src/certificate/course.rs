//! How often something happened over a stretch of time.

use serde::{Deserialize, Serialize};

/// The bins of a course; their width doubles when time exceeds them.
const BINS: usize = 512;

/// Counts over time, in bins of equal width, of bounded size however long it takes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Course {
    start_ms: u64,
    width_ms: u64,
    counts: Vec<u64>,
}

impl Default for Course {
    fn default() -> Self {
        Self::starting(0)
    }
}

impl Course {
    /// Makes an empty course that starts at a time in milliseconds. What happened before counts as at the start.
    #[must_use]
    pub const fn starting(start_ms: u64) -> Self {
        Self { start_ms, width_ms: 1, counts: Vec::new() }
    }

    /// Counts something at a time in milliseconds.
    pub fn push(&mut self, t_ms: u64) {
        let since = t_ms.saturating_sub(self.start_ms);
        while since / self.width_ms >= BINS as u64 {
            self.widen();
        }
        let bin = (since / self.width_ms) as usize;
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
    }

    fn widen(&mut self) {
        self.width_ms *= 2;
        self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// Returns how often it happened.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the largest difference between the shares of two courses that have happened by the same moment
    /// (the distance of Kolmogorov and Smirnov, 0 to 1); `None` if one of them is empty.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Option<f64> {
        let (mut a, mut b) = (self.clone(), other.clone());
        while a.width_ms < b.width_ms {
            a.widen();
        }
        while b.width_ms < a.width_ms {
            b.widen();
        }
        let (all_a, all_b) = (a.total(), b.total());
        if all_a == 0 || all_b == 0 {
            return None;
        }
        let (mut so_far_a, mut so_far_b, mut largest) = (0, 0, 0.0_f64);
        for bin in 0..a.counts.len().max(b.counts.len()) {
            so_far_a += a.counts.get(bin).copied().unwrap_or(0);
            so_far_b += b.counts.get(bin).copied().unwrap_or(0);
            let gap = so_far_a as f64 / all_a as f64 - so_far_b as f64 / all_b as f64;
            largest = largest.max(gap.abs());
        }
        Some(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(times: impl IntoIterator<Item = u64>) -> Course {
        let mut course = Course::starting(1000);
        times.into_iter().for_each(|t| course.push(t));
        course
    }

    #[test]
    fn courses_of_one_shape_have_no_distance_however_often_it_happened() {
        let (a, b) = (course(1000..1100), course((1000..1100).flat_map(|t| [t, t, t])));
        assert_eq!((a.total(), b.total(), a.distance(&b)), (100, 300, Some(0.0)));
    }

    #[test]
    fn what_happens_later_is_far_away() {
        let (early, late) = (course(1000..1100), course(900_000..900_100));
        assert_eq!(early.distance(&late), Some(1.0));
        let half = course((1000..1050).chain(900_000..900_050));
        assert_eq!(half.distance(&late), Some(0.5));
        assert_eq!(course([]).distance(&late), None);
    }

    #[test]
    fn a_long_course_stays_small() {
        let long = course((0..100_000).map(|i| i * 3_600_000));
        assert!(long.counts.len() <= BINS && long.total() == 100_000, "{}", long.counts.len());
    }
}
