//! Pages that a program gives up for another (`madvise(MADV_PAGEOUT)`, `process_madvise`, from 5.4).
//!
//! Source: `madvise_cold_or_pageout_pte_range` (mm/madvise.c), `reclaim_pages` (mm/vmscan.c).

use std::ops::Range;

use pageblock::event::Observer;
use pageblock::layout::ZoneKind;

use super::{ScanControl, Seen};
use crate::page::space::{Slot, SpaceId};
use crate::page::table::{Owner, PageFlags};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Reclaims the pages of a mapping or file at these indexes, however young they are: clean ones
    /// are freed, dirty anonymous ones begin to be written to swap, and are freed when they are met
    /// after that. Gives the pages freed.
    pub fn page_out(&mut self, cpu: usize, space: SpaceId, indexes: Range<u32>) -> u64 {
        let mut sc = ScanControl {
            cpu,
            order: 0,
            priority: super::DEF_PRIORITY,
            nr_to_reclaim: u64::from(indexes.end.saturating_sub(indexes.start)),
            highest: ZoneKind::Movable,
            kswapd: false,
            may_swap: true,
            fs: true,
            nr_scanned: 0,
            nr_reclaimed: 0,
            enough: false,
            seen: Seen::default(),
        };
        let end = indexes.end.min(self.spaces.get(space).len());
        for index in indexes.start..end {
            let Slot::Page(pfn) = self.spaces.slot(space, index) else { continue };
            let page = &mut self.pages[pfn];
            let listed = page.has(PageFlags::LRU) && !page.has(PageFlags::UNEVICTABLE);
            // The rest of a huge page goes with its first.
            if page.kind() == Owner::None || !listed {
                continue;
            }
            page.clear(PageFlags::REFERENCED);
            self.lru.remove(&mut self.pages, pfn);
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
