//! Pages that `madvise(MADV_PAGEOUT)` or `process_madvise` names for reclaim (from 5.4).
//!
//! Source: `madvise_cold_or_pageout_pte_range` (mm/madvise.c), `reclaim_pages` (mm/vmscan.c).

use std::ops::Range;

use pageblock::event::Observer;
use pageblock::layout::ZoneKind;

use super::scan_control::ScanControl;
use crate::page::{Owner, PageFlags};
use crate::pagecache::space::{Slot, SpaceId};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Reclaims the pages of a mapping or file at these indexes, however recently they were used: clean pages are
    /// freed; dirty anonymous pages are written to swap, and freed when reclaim meets them after that. Returns the
    /// number of pages freed.
    pub fn page_out(&mut self, cpu: usize, space: SpaceId, indexes: Range<u32>) -> u64 {
        let wanted = u64::from(indexes.end.saturating_sub(indexes.start));
        let mut sc = ScanControl::new(cpu, 0, ZoneKind::Movable, wanted);
        let end = indexes.end.min(self.spaces().get(space).len());
        for index in indexes.start..end {
            let Slot::Page(pfn) = self.spaces().slot(space, index) else { continue };
            let page = &mut self.pages[pfn];
            let listed = page.has(PageFlags::LRU) && !page.has(PageFlags::UNEVICTABLE);
            // The tail pages of a huge page are reclaimed with its head.
            if page.kind() == Owner::None || !listed {
                continue;
            }
            page.clear(PageFlags::REFERENCED);
            page.clear(PageFlags::YOUNG);
            self.isolate(pfn);
            self.pages[pfn].clear(PageFlags::ACTIVE);
            let pages = 1 << self.pages[pfn].order();
            sc.nr_scanned += pages;
            sc.nr_reclaimed += self.reclaim_isolated(pfn, &mut sc).freed;
        }
        self.work.scanned += sc.nr_scanned;
        self.work.reclaimed += sc.nr_reclaimed;
        self.stat.pgscan_direct += sc.nr_scanned;
        self.stat.pgsteal_direct += sc.nr_reclaimed;
        sc.nr_reclaimed
    }
}
