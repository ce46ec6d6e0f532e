//! Which pages of files were used again. No event tells that a page that is in the cache is read; but reclaim takes the oldest first
//! and leaves what was used since, so a page that outlives younger ones was used.
//!
//! Source: `shrink_inactive_list`, `folio_mark_accessed` (mm/vmscan.c, mm/swap.c).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pageblock::frame::Pfn;
use pageblock_recording::{Record, What};

use crate::demand::is_file;

/// Reclaim leaves the order of ages by so much: pages reach the LRU lists in batches, by CPU.
const SLACK_US: u64 = 1_000_000;

/// When a page was allocated, or last found to have been used.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Since {
    t_us: u64,
    event: u64,
    /// It is the page's allocation.
    first: bool,
}

/// Finds uses in one pass.
#[derive(Default)]
pub(super) struct UseFinder {
    reclaiming: BTreeSet<u32>,
    kswapd: BTreeSet<u32>,
    since: BTreeMap<Pfn, Since>,
    /// The same pages, the oldest first; some are gone.
    ages: VecDeque<(Pfn, Since)>,
    uses: Vec<(u64, Pfn)>,
}

impl UseFinder {
    pub(super) fn event(&mut self, event: u64, record: &Record) {
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } if is_file(*order, *gfp) => {
                self.stamp(*pfn, Since { t_us: record.t_us, event, first: true });
            }
            What::Alloc { pfn: Some(pfn), .. } => {
                self.since.remove(pfn);
            }
            What::Free { pfn, .. } => {
                let Some(since) = self.since.remove(pfn) else { return };
                if self.reclaiming.contains(&record.pid) || self.kswapd.contains(&record.pid) {
                    self.reclaimed(event, record.t_us, since);
                }
            }
            What::Other(other) => match &*other.name {
                "mm_vmscan_kswapd_wake" => {
                    self.kswapd.insert(record.pid);
                }
                "mm_vmscan_direct_reclaim_begin" => {
                    self.reclaiming.insert(record.pid);
                }
                "mm_vmscan_direct_reclaim_end" => {
                    self.reclaiming.remove(&record.pid);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn stamp(&mut self, pfn: Pfn, since: Since) {
        self.since.insert(pfn, since);
        self.ages.push_back((pfn, since));
    }

    /// A page was reclaimed: what is older and still there was used. A use between two rounds of reclaim is put at their later one, the
    /// first at the page's allocation.
    fn reclaimed(&mut self, event: u64, now: u64, of: Since) {
        while let Some(&(pfn, since)) = self.ages.front()
            && since.t_us + SLACK_US < of.t_us
        {
            self.ages.pop_front();
            if self.since.get(&pfn) == Some(&since) {
                self.uses.push((if since.first { since.event } else { event }, pfn));
                self.stamp(pfn, Since { t_us: now, event, first: false });
            }
        }
    }

    /// Returns the events after which pages are used, and the pages, in order.
    pub(super) fn finish(mut self) -> Vec<(u64, Pfn)> {
        self.uses.sort_unstable();
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::mobility::Migratetype;
    use pageblock::request::Gfp;
    use pageblock_recording::Other;

    #[test]
    fn a_page_that_outlives_younger_ones_was_used() {
        let mut finder = UseFinder::default();
        let gfp = Gfp::parse("GFP_HIGHUSER_MOVABLE|__GFP_WRITE").unwrap();
        let alloc =
            |pfn| What::Alloc { pfn: Some(Pfn(pfn)), order: 0, gfp, mt: Migratetype::Movable };
        let free = |pfn| What::Free { pfn: Pfn(pfn), order: 0 };
        let wake = Other { name: "mm_vmscan_kswapd_wake".into(), args: "nid=0 order=0".into() };
        let events = [
            (0, 5, alloc(1)),
            (0, 5, alloc(2)),
            (2, 5, alloc(3)),
            (2, 5, alloc(4)),
            (9, 7, What::Other(Box::new(wake))),
            // The owner's free says nothing.
            (9, 5, free(4)),
            (9, 7, free(1)),
            (9, 7, free(3)),
            (12, 5, alloc(5)),
            (20, 7, free(5)),
        ];
        for (event, (t, pid, what)) in (0..).zip(events) {
            finder.event(event, &Record { t_us: t * 1_000_000, cpu: 0, pid, what });
        }
        assert_eq!(finder.finish(), [(1, Pfn(2)), (9, Pfn(2))]);
    }
}
