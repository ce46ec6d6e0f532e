//! What a search for settings can look for: sums of measures that decide.

use super::{Measure, deciding};
use crate::statistics::stats::Direction;
use deciding::id;

/// Something to improve.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// The name that a user gives: `huge-pages`.
    pub id: &'static str,
    /// What it is, for a list of them.
    pub help: &'static str,
    /// What tables print; `None` for the label of its only measure.
    label: Option<&'static str>,
    /// The measures whose sum it is; one that a run lacks is left out. All have the same better direction.
    measures: &'static [&'static str],
    /// What was counted to measure it, in words: `huge page faults`; empty if it is no count.
    pub events: &'static str,
    /// The counters of it where these are not the measures themselves.
    pub counters: &'static [&'static str],
}

/// The objectives, in the order in which they are listed.
pub const OBJECTIVES: [Objective; 6] = [
    Objective {
        id: "huge-pages",
        help: "Huge pages that page faults get, percent",
        label: None,
        measures: &[id::HUGE_ON_FAULT],
        events: "huge page faults",
        counters: &["thp_fault_alloc", "thp_fault_fallback"],
    },
    Objective {
        id: "stalls",
        help: "Allocation stalls",
        label: None,
        measures: &[id::ALLOCATION_STALLS],
        events: "stalls",
        counters: &[],
    },
    Objective {
        id: "work",
        help: "Pages reclaimed, and scanned by compaction",
        label: Some("Pages reclaimed and scanned"),
        measures: &[id::PAGES_RECLAIMED, id::PAGES_SCANNED],
        events: "pages",
        counters: &[],
    },
    Objective {
        id: "spread",
        help: "Pageblocks that hold pages of another type at the end",
        label: None,
        measures: &[id::MIXED_PAGEBLOCKS],
        events: "mixed pageblocks",
        counters: &[],
    },
    Objective {
        id: "unmovable",
        help: "Unmovable requests that are served from blocks of another type and fragment them",
        label: Some("Unmovable fallbacks"),
        measures: &[id::UNMOVABLE_FALLBACKS],
        events: "fallbacks",
        counters: &[],
    },
    Objective {
        id: "small-blocks",
        help: "Free memory in blocks below a pageblock at the end, percent",
        label: None,
        measures: &[id::FREE_IN_SMALL_BLOCKS],
        events: "",
        counters: &[],
    },
];

impl Objective {
    /// Returns the measures whose sum it is.
    pub fn measures(&self) -> impl Iterator<Item = &'static Measure> {
        self.measures.iter().filter_map(|id| deciding::by_id(id))
    }

    /// Returns what tables print.
    #[must_use]
    pub fn label(&self) -> &'static str {
        let of_measure = || self.measures().next().map_or("", |measure| &*measure.label);
        self.label.unwrap_or_else(of_measure)
    }

    /// Reports whether more is better.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        self.measures().all(|measure| measure.direction == Direction::Higher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_sums_of_measures_with_one_better_direction() {
        for objective in OBJECTIVES {
            let directions: Vec<Direction> =
                objective.measures().map(|measure| measure.direction).collect();
            assert_eq!(directions.len(), objective.measures.len(), "{objective:?}");
            assert!(directions.iter().all(|of| *of == directions[0]), "{objective:?}");
            assert!(objective.label.is_some() || objective.measures.len() == 1, "{objective:?}");
        }
    }
}
