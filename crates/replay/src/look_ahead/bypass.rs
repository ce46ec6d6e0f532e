//! Pages of a batch that bypassed a CPU list because its trylock failed (`free_unref_folios`). A batch first
//! reports all its pages as freed, then each page that reaches the list. A page that does not goes to the buddy
//! lists at that point, without a report.
//!
//! A page that was freed just before a batch, but not in it, looks the same until it is seen to leave a CPU list.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock_recording::{Record, What};

/// The most pages of a batch (`PAGEVEC_SIZE`).
const BATCH: usize = 31;

/// A page that a task freed.
type Freed = (u64, Pfn, Order);

/// The pages that a task freed in a row.
#[derive(Default)]
struct Row {
    /// The pages freed before the first one reaches a list.
    freed: Vec<Freed>,
    /// The event at which the last one reached a list.
    reached: Option<u64>,
}

/// A page that may have bypassed the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PossibleBypass {
    /// The event of its free.
    pub(super) freed: u64,
    /// The event before which it reached the buddy lists.
    pub(super) before: u64,
    pub(super) order: Order,
}

/// Finds pages that may have bypassed a list.
#[derive(Default)]
pub(super) struct BypassFinder {
    rows: BTreeMap<u32, Row>,
    doubts: BTreeMap<Pfn, PossibleBypass>,
}

impl BypassFinder {
    /// Follows any event.
    pub(super) fn event(&mut self, event: u64, record: &Record) {
        match record.what {
            What::Free { pfn, order } => {
                let row = self.rows.entry(record.pid).or_default();
                if row.reached.take().is_some() {
                    row.freed.clear();
                }
                row.freed.push((event, pfn, order));
                if row.freed.len() > BATCH {
                    row.freed.remove(0);
                }
            }
            What::FreeBatched { pfn } => {
                let Some(row) = self.rows.get_mut(&record.pid) else { return };
                if row.reached.replace(event).is_some() {
                    self.doubts.remove(&pfn);
                    return;
                }
                // The rest of the batch may follow much later, or be taken before that.
                for (freed, page, order) in row.freed.drain(..).filter(|freed| freed.1 != pfn) {
                    self.doubts.insert(page, PossibleBypass { freed, before: event, order });
                }
            }
            _ => {
                self.rows.remove(&record.pid);
            }
        }
    }

    /// Removes the doubt about a page, and returns it.
    pub(super) fn settle(&mut self, pfn: Pfn) -> Option<PossibleBypass> {
        if self.doubts.is_empty() { None } else { self.doubts.remove(&pfn) }
    }

    /// Returns the pages that are still in doubt.
    pub(super) fn rest(&mut self) -> BTreeMap<Pfn, PossibleBypass> {
        std::mem::take(&mut self.doubts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_reported_with_its_batch_may_have_gone_past_the_list() {
        let mut finder = BypassFinder::default();
        let free = |pfn| What::Free { pfn: Pfn(pfn), order: 0 };
        let whats = [
            free(7),
            free(8),
            What::FreeBatched { pfn: Pfn(8) },
            What::Marker(String::new().into()),
        ];
        for (event, what) in whats.into_iter().enumerate() {
            finder.event(event as u64, &Record { t_us: 0, cpu: 0, pid: 1, what });
        }
        assert_eq!(finder.settle(Pfn(7)), Some(PossibleBypass { freed: 0, before: 2, order: 0 }));
        assert_eq!(finder.settle(Pfn(8)), None);
    }

    #[test]
    fn a_page_is_in_doubt_as_soon_as_its_batch_begins_to_reach_the_list() {
        let mut finder = BypassFinder::default();
        let mut push = |event, what| finder.event(event, &Record { t_us: 0, cpu: 0, pid: 1, what });
        for pfn in 7..10 {
            push(pfn, What::Free { pfn: Pfn(pfn), order: 0 });
        }
        push(20, What::FreeBatched { pfn: Pfn(8) });
        let doubt = |freed| Some(PossibleBypass { freed, before: 20, order: 0 });
        assert_eq!(finder.settle(Pfn(7)), doubt(7));
        assert_eq!((finder.settle(Pfn(8)), finder.settle(Pfn(9))), (None, doubt(9)));
    }
}
