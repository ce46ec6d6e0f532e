//! Named counts, under the kernel's names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of `/proc/vmstat` whose names begin as those of levels do.
const COUNTED: [&str; 5] = [
    "nr_vmscan_write",
    "nr_vmscan_immediate_reclaim",
    "nr_dirtied",
    "nr_written",
    "nr_throttled_written",
];

/// Counts by name, sorted by name.
///
/// The names are those of `/proc/vmstat`, of tracepoints, or of [`crate::value::names`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Makes an empty set of counters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a count; `None` if it was not measured, which differs from 0.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Sets a count, new or not.
    pub fn set(&mut self, name: impl Into<String>, count: u64) {
        self.0.insert(name.into(), count);
    }

    /// Adds to a count, which starts at 0.
    pub fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    /// Copies every count of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (name, count) in other.iter() {
            self.set(name, count);
        }
    }

    /// Iterates over names and counts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether there are no counters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the difference between two readings of the same source. Names that only one reading has
    /// are omitted, and so are values that decreased, which are levels rather than counts.
    #[must_use]
    pub fn since(&self, start: &Self) -> Self {
        let between = |(name, end): (&String, &u64)| {
            let begin = start.get(name)?;
            Some((name.clone(), end.checked_sub(begin)?))
        };
        Self(self.0.iter().filter_map(between).collect())
    }

    /// Keeps what `/proc/vmstat` counts, and drops its levels, such as `nr_free_pages`, which say nothing of a time.
    #[must_use]
    pub fn without_levels(mut self) -> Self {
        self.0.retain(|name, _| !name.starts_with("nr_") || COUNTED.contains(&name.as_str()));
        self
    }
}

impl<N: Into<String>> FromIterator<(N, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(counts: I) -> Self {
        Self(counts.into_iter().map(|(name, count)| (name.into(), count)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn decreasing_levels_are_omitted_between_readings() {
        let start = Counters::from_iter([("nr_free_pages", 90), ("pgfault", 5), ("old", 1)]);
        let end = Counters::from_iter([("nr_free_pages", 80), ("pgfault", 12), ("new", 1)]);
        assert_eq!(end.since(&start), Counters::from_iter([("pgfault", 7)]));
    }

    #[test]
    fn levels_are_told_from_counts() {
        let all = Counters::from_iter([("nr_dirty", 3), ("nr_dirtied", 9), ("pgfault", 7)]);
        let counts = Counters::from_iter([("nr_dirtied", 9), ("pgfault", 7)]);
        assert_eq!(all.without_levels(), counts);
    }
}
