//! Reads the measures that data files write.

use crate::run::Run;
use crate::run::formula::{Formula, Statistic};
use crate::statistics::stats;

impl Formula {
    /// Reads it from a run, and divides it. Without samples, sums and counts are 0 and other statistics
    /// are `None`; a row is `None`, as it needs a comparison.
    #[must_use]
    pub fn divided(&self, run: &Run, divide: u64) -> Option<f64> {
        let counter = |name: &str| run.counters.get(name).map(|count| count as f64);
        match self {
            Self::Row(_) => None,
            Self::Counter(name) => Some(counter(name)? / divide as f64),
            Self::Ratio(a, b) => Some(counter(a)? / (divide as f64 * counter(b)?)),
            Self::Share(a, b) => {
                let count = |name| run.samples.get(name).map_or(0, Vec::len) as f64;
                let both = count(a) + count(b);
                Some(if both == 0.0 { 0.0 } else { 100.0 * count(a) / both / divide as f64 })
            }
            Self::Samples(statistic, name) => match (statistic, run.samples.get(name)) {
                (Statistic::Sum | Statistic::Count, None) => Some(0.0),
                (_, None) => None,
                (statistic, Some(samples)) => Some(statistic.of(samples, divide)),
            },
        }
    }
}

impl Statistic {
    /// Computes it from samples, each divided; 0 without samples.
    pub(crate) fn of(self, samples: &[u64], divide: u64) -> f64 {
        let values = || samples.iter().map(|&sample| sample as f64 / divide as f64);
        match self {
            Self::Count => samples.len() as f64,
            Self::Sum => {
                samples.iter().map(|&n| u128::from(n)).sum::<u128>() as f64 / divide as f64
            }
            _ if samples.is_empty() => 0.0,
            Self::Amean => stats::amean(&values().collect::<Vec<_>>()),
            Self::Hmean => stats::hmean(&values().collect::<Vec<_>>()),
            Self::Median => stats::median(&values().collect::<Vec<_>>()),
            Self::Stddev => stats::stddev(&values().collect::<Vec<_>>()),
            Self::Percentile(percent) => {
                stats::nearest_rank(&values().collect::<Vec<_>>(), percent.into())
            }
        }
    }
}
