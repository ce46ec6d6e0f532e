//! Compares a free replay under the recorded policy with the recorded kernel's events, which shows how
//! far a what-if replay of the same recording can be trusted.

use pageblock::frame::ORDER_LIMIT;
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};

use crate::run::Run;
use crate::run::calibration::{Calibration, CalibrationRow};
use crate::value::extfrag::{ExtfragKey, ExtfragMatrix, Harm};
use crate::value::names;

/// Compares the recorded fallbacks with those of free replays under the recorded policy; the first replay has the
/// recorded start. `None` if there are none.
#[must_use]
pub fn calibrate(recorded: &ExtfragMatrix, replays: &[&Run]) -> Option<Calibration> {
    let replayed = *replays.first()?;
    let totals = replays.iter().map(|run| run.extfrag.fragmenting(run.pageblock_order()));
    let range = totals.clone().min().zip(totals.max()).filter(|_| replays.len() > 1);
    let (order, types) = (replayed.pageblock_order(), [Unmovable, Movable, Reclaimable]);
    let mut rows = Vec::new();
    let mut row = |label: String, which: &dyn Fn(&ExtfragKey) -> bool| {
        let sum = |matrix: &ExtfragMatrix| matrix.sum(|key| key.fragmenting(order) && which(key));
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
    let failed = |order| counter(&names::alloc_failed(order));
    let failed: u64 = (0..=ORDER_LIMIT).map(failed).sum();
    let requests = counter(names::MM_PAGE_ALLOC).saturating_sub(failed);
    Some(Calibration {
        policy: replayed.policy.clone(),
        rows,
        range,
        requests,
        same_frame: counter(names::ALLOC_RECORDED_FRAME),
    })
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
        run.counters.set(names::ALLOC_RECORDED_FRAME, 7);
        let calibration = calibrate(&recorded, &[&run]).unwrap();
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
