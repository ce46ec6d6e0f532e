//! Compares a free replay under the recorded policy with the recorded kernel's events, which shows how
//! far a what-if replay of the same recording can be trusted.

use pageblock::frame::ORDER_LIMIT;
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use serde::{Deserialize, Serialize};

use crate::extfrag::{ExtfragKey, ExtfragMatrix, Harm};
use crate::run::Run;

/// Recorded counts beside those of the free replay under the recorded policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The recorded kernel's policy.
    pub policy: String,
    /// Fragmentation events by requested type, by fallback type and by effect, and their total.
    pub rows: Vec<CalibrationRow>,
    /// The fewest and the most fragmentation events over the seeds, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// Requests of the free replay that were served.
    pub requests: u64,
    /// Served requests that got the same frame as in the recording.
    pub same_frame: u64,
}

/// One count, recorded and replayed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// The name of the count: `total`, `for-Movable`, `from-Unmovable`, `claims`.
    pub label: String,
    /// The count in the recording.
    pub recorded: u64,
    /// The count in the free replay.
    pub replayed: u64,
}

impl Calibration {
    /// Returns all fragmentation events: recorded, and replayed.
    #[must_use]
    pub fn total(&self) -> (u64, u64) {
        self.rows.first().map_or((0, 0), |total| (total.recorded, total.replayed))
    }

    /// Returns the share of requests that got the recorded frame, in hundredths of a percent, rounded
    /// down; `None` if there are no requests.
    #[must_use]
    pub fn same_frame_permyriad(&self) -> Option<u64> {
        (self.same_frame * 10_000).checked_div(self.requests)
    }

    /// Compares the recorded fallbacks with those of free replays under the recorded policy, of which the first has the
    /// recorded start; `None` if there are none.
    #[must_use]
    pub fn of(recorded: &ExtfragMatrix, replays: &[&Run]) -> Option<Self> {
        let replayed = *replays.first()?;
        let totals = replays.iter().map(|run| run.extfrag.fragmenting(run.pageblock_order()));
        let range = totals.clone().min().zip(totals.max()).filter(|_| replays.len() > 1);
        let (order, types) = (replayed.pageblock_order(), [Unmovable, Movable, Reclaimable]);
        let mut rows = Vec::new();
        let mut row = |label: String, which: &dyn Fn(&ExtfragKey) -> bool| {
            let sum =
                |matrix: &ExtfragMatrix| matrix.sum(|key| key.fragmenting(order) && which(key));
            let (recorded, replayed) = (sum(recorded), sum(&replayed.extfrag));
            rows.push(CalibrationRow { label, recorded, replayed });
        };
        let name = |what: &str, mt: Migratetype| format!("{what}-{}", mt.name());
        row("total".to_owned(), &|_| true);
        for mt in types {
            row(name("for", mt), &|key| key.alloc_mt == mt);
        }
        for mt in types {
            row(name("from", mt), &|key| key.fallback_mt == mt);
        }
        for harm in Harm::ALL {
            row(harm.name().to_owned(), &|key| key.harm() == harm);
        }
        let counter = |name: &str| replayed.counters.get(name).unwrap_or(0);
        let failed = |order| counter(&crate::names::alloc_failed(order));
        let failed: u64 = (0..=ORDER_LIMIT).map(failed).sum();
        let requests = counter(crate::names::MM_PAGE_ALLOC).saturating_sub(failed);
        Some(Self {
            policy: replayed.policy.clone(),
            rows,
            range,
            requests,
            same_frame: counter(crate::names::ALLOC_RECORDED_FRAME),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_and_replayed_events_stand_side_by_side() {
        let key = |alloc_mt, fallback_mt, fallback_order, owned| ExtfragKey {
            alloc_mt,
            fallback_mt,
            alloc_order: 0,
            fallback_order,
            owned,
        };
        let mut recorded = ExtfragMatrix::new();
        recorded.add(key(Movable, Unmovable, 3, false), 5);
        recorded.add(key(Movable, Unmovable, 9, true), 100);
        let mut run = Run { policy: "linux-6.12".into(), ..Run::default() };
        run.extfrag.add(key(Movable, Unmovable, 2, false), 4);
        run.extfrag.add(key(Unmovable, Reclaimable, 4, true), 2);
        run.counters.set("mm_page_alloc", 12);
        run.counters.set("alloc_failed_order_9", 2);
        run.counters.set(crate::names::ALLOC_RECORDED_FRAME, 7);
        let calibration = Calibration::of(&recorded, &[&run]).unwrap();
        let row = |label: &str| {
            let row = calibration.rows.iter().find(|row| row.label == label).expect(label);
            (row.recorded, row.replayed)
        };
        assert_eq!(row("total"), (5, 6));
        assert_eq!(row("for-Movable"), (5, 4));
        assert_eq!(row("for-Unmovable"), (0, 2));
        assert_eq!(row("from-Unmovable"), (5, 4));
        assert_eq!(row("from-Reclaimable"), (0, 2));
        assert_eq!((row("claims"), row("steals"), row("pollutions")), ((0, 2), (5, 4), (0, 0)));
        assert_eq!((calibration.total(), calibration.same_frame_permyriad()), ((5, 6), Some(7000)));
    }
}
