//! The folios of the oldest generation, one by one: which of them are taken.
//!
//! Source: `scan_folios`, `sort_folio`, `isolate_folio` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::{GenBatch, GenUses};

use crate::page::PageFlags;
use crate::pagecache::mglru::{Kind, MIN_BATCH, MIN_GENS, slot};
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

/// What a scan found, in pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// The folios that were taken off their lists, in order.
    pub(super) folios: Vec<u32>,
    pub(super) isolated: u64,
    /// All that were looked at.
    pub(super) scanned: u64,
    /// Those that went to another generation.
    pub(super) sorted: u64,
}

impl<O: Observer> Vm<'_, O> {
    /// Takes folios of the oldest generation of a kind, of tiers up to `last`, until there are 64 pages or `looks` folios were
    /// looked at. Zones that the request may use come first, from the highest down.
    pub(super) fn take_oldest(
        &mut self,
        (vec, kind): (usize, Kind),
        last: usize,
        looks: u64,
        sc: &ScanControl,
    ) -> Taken {
        let mut taken = Taken::default();
        // The two youngest generations are not evicted.
        if self.lru().generations(vec).len(kind) == MIN_GENS {
            return taken;
        }
        let mut left = looks;
        for zone in self.zones_in_order(vec, sc) {
            let eligible = self.allocator.zones()[zone].kind() <= sc.highest;
            while left > 0
                && taken.isolated < MIN_BATCH
                && let Some(pfn) = self.lru().generations(vec).oldest_folio(kind, zone)
            {
                left -= 1;
                let pages = 1 << self.pages[pfn].order();
                taken.scanned += pages;
                if self.is_spared(vec, pfn, last, eligible) {
                    taken.sorted += pages;
                } else {
                    self.take_folio(vec, pfn);
                    taken.isolated += pages;
                    taken.folios.push(pfn);
                }
            }
        }
        self.count_taken(vec, &taken, sc);
        // Nothing was taken of zones that the request may use: whoever asks stops rather than look on.
        let whole = self.kernel.mglru.gen_batch == GenBatch::Whole;
        if whole && taken.isolated == 0 && left > 0 {
            taken.scanned = 0;
        }
        taken
    }

    /// Returns the zones of a lruvec in the order in which they are scanned.
    fn zones_in_order(&self, vec: usize, sc: &ScanControl) -> Vec<usize> {
        let zones = self.allocator.zones();
        let mut order: Vec<usize> =
            (0..zones.len()).filter(|&zone| self.lru().of_zone(zone) == vec).collect();
        order.reverse();
        order.sort_by_key(|&zone| zones[zone].kind() > sc.highest);
        order
    }

    /// Moves a folio that is not to be evicted to the list of its generation or the next one: one that was promoted, one of a
    /// tier that is protected, and one of a zone that the request may not use. Returns whether it is one.
    fn is_spared(&mut self, vec: usize, pfn: u32, last: usize, eligible: bool) -> bool {
        let page = self.pages[pfn];
        let kind = Kind::of(&page);
        let of = self.pagecache.generations(vec);
        if page.generation() != slot(of.min_seq(kind)) {
            self.pagecache.lru_mut().move_to_its_list(&mut self.pages, pfn, true);
            return true;
        }
        let (uses, first) = (of.uses(&page), of.rules().gen_uses == GenUses::First);
        if uses.tier > last || uses.full {
            // Pages of the working set that are promoted now and then do not count.
            if first || !uses.full {
                of.tiers_mut(kind).note_protection(uses.tier, 1 << page.order());
            }
            self.pagecache.lru_mut().advance(vec, &mut self.pages, pfn, !first);
            return true;
        }
        if !eligible {
            self.pagecache.lru_mut().advance(vec, &mut self.pages, pfn, false);
        }
        !eligible
    }

    /// Takes a folio off its list to evict it.
    fn take_folio(&mut self, vec: usize, pfn: u32) {
        let of = self.pagecache.generations(vec);
        let first = of.rules().gen_uses == GenUses::First;
        let page = &mut self.pages[pfn];
        if !page.has(PageFlags::REFERENCED) && first {
            of.forget_uses(page);
        } else if !page.has(PageFlags::REFERENCED) {
            page.set_counted_uses(0);
        }
        if first {
            page.clear(PageFlags::REFERENCED);
        }
        self.pagecache.take_for_reclaim(&mut self.pages, pfn);
    }

    fn count_taken(&mut self, vec: usize, taken: &Taken, sc: &ScanControl) {
        if sc.kswapd {
            self.stat.pgscan_kswapd += taken.isolated;
        } else {
            self.stat.pgscan_direct += taken.isolated;
        }
        self.stat.pgrefill += taken.sorted;
        self.work.scanned += taken.isolated;
        self.work.rotated += taken.sorted;
        self.pagecache.lruvec(vec).scanned += taken.isolated;
    }
}
