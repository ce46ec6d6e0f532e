//! When pages age, and the generation that they leave behind.
//!
//! Source: `should_run_aging`, `inc_max_seq`, `inc_min_seq`, `set_initial_priority`, `should_abort_scan` (mm/vmscan.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::{GenAgeing, GenUses};

use crate::page::MAX_GENS;
use crate::pagecache::lru::LruList;
use crate::pagecache::mglru::{Kind, MIN_BATCH, MIN_GENS};
use crate::reclaim::scan_control::{DEF_PRIORITY, ScanControl};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Returns the swappiness of a reclaimer: 0 if it may not swap or there is hardly any swap left (`get_swappiness`).
    pub(super) fn generations_swappiness(&self, sc: &ScanControl) -> u64 {
        if !sc.may_swap || self.swap_places().0 < MIN_BATCH {
            return 0;
        }
        u64::from(self.kernel.sysctl.swappiness)
    }

    /// Has kswapd begin at the priority at which inactive pages yield what it wants.
    pub(super) fn set_initial_priority(&self, vec: usize, sc: &mut ScanControl) {
        // Only a reclaimer that wants much begins lower, and only once.
        if sc.priority != DEF_PRIORITY || sc.nr_to_reclaim < MIN_BATCH {
            return;
        }
        let of = &self.lru().vecs()[vec];
        let mut reclaimable = of.size(LruList::InactiveFile);
        if self.has_free_swap() {
            reclaimable += of.size(LruList::InactiveAnon);
        }
        // The one is rounded down to a power of two, the other up.
        let bits = |n: u64| u64::BITS - n.leading_zeros();
        let priority = bits(reclaimable).saturating_sub(1 + bits(sc.nr_to_reclaim - 1));
        sc.priority = priority.clamp(DEF_PRIORITY / 2, DEF_PRIORITY);
    }

    /// Returns whether pages should age, and the number of pages that may be evicted: 0 if too few generations are left.
    pub(super) fn should_age(&self, vec: usize, swappiness: u64) -> (bool, u64) {
        let of = self.lru().generations(vec);
        let (oldest, youngest) = (of.oldest(swappiness), of.max_seq());
        // The two youngest generations are never evicted.
        if oldest + MIN_GENS > youngest {
            return (true, 0);
        }
        let pages = of.evictable(swappiness);
        if oldest + MIN_GENS < youngest {
            return (false, pages);
        }
        if self.kernel.mglru.gen_ageing == GenAgeing::ByNumber {
            return (true, pages);
        }
        // Each of three generations has between a quarter and half of the pages.
        let of_seq = |seq: u64| {
            let of_kind =
                |&kind: &Kind| if seq < of.min_seq(kind) { 0 } else { of.pages_of(kind, seq) };
            Kind::evictable(swappiness).iter().map(of_kind).sum::<u64>()
        };
        let (young, old) = (of_seq(youngest), of_seq(youngest - MIN_GENS));
        (young * MIN_GENS > pages || old * (MIN_GENS + 2) < pages, pages)
    }

    /// The same from 7.2 on: at the first priority only if nothing can be evicted.
    pub(super) fn should_age_at(&self, vec: usize, swappiness: u64, priority: u32) -> bool {
        let (ages, pages) = self.should_age(vec, swappiness);
        ages && (pages == 0 || priority != DEF_PRIORITY)
    }

    /// Returns whether enough was reclaimed, or all zones have what kswapd wants.
    pub(super) fn should_abort(&self, vec: usize, reclaimed: u64, sc: &ScanControl) -> bool {
        if reclaimed >= sc.nr_to_reclaim.max(self.kernel.compaction.gap(sc.order)) {
            return true;
        }
        // A task stops by its own target, and the watermark of single pages says nothing of a block.
        if !sc.kswapd || sc.order > 0 {
            return false;
        }
        let zones = self.allocator.zones().iter().enumerate();
        zones
            .filter(|&(at, zone)| {
                self.lru().of_zone(at) == vec && zone.kind() <= sc.highest && zone.managed() > 0
            })
            .all(|(_, zone)| {
                let mark = zone.boost() + zone.watermarks().high + MIN_BATCH;
                zone.watermark_ok(0, mark, sc.highest, AllocFlags(0))
            })
    }

    /// Begins a generation. A kind that has four gives its oldest up: up to 6.13 uses of its pages are forgotten without being
    /// counted as protection.
    pub(super) fn begin_generation(&mut self, vec: usize, swappiness: u64) {
        for kind in Kind::ALL {
            if self.lru().generations(vec).len(kind) == MAX_GENS as u64 {
                self.empty_oldest(vec, kind, swappiness);
                self.pagecache.generations(vec).drop_oldest(kind);
            }
        }
        let now_ms = self.pages.now_ms();
        self.pagecache.lru_mut().begin_generation(vec, now_ms);
    }

    /// Moves the pages of the oldest generation to the next one; without swappiness anonymous pages are left, to be among the
    /// youngest.
    fn empty_oldest(&mut self, vec: usize, kind: Kind, swappiness: u64) {
        if !Kind::evictable(swappiness).contains(&kind) {
            return;
        }
        for zone in 0..self.allocator.zones().len() {
            while let Some(pfn) = self.lru().generations(vec).oldest_folio(kind, zone) {
                let of = self.pagecache.generations(vec);
                let (uses, pages) = (of.uses(&self.pages[pfn]), 1 << self.pages[pfn].order());
                if of.rules().gen_uses == GenUses::Second && !uses.full {
                    of.tiers_mut(kind).note_protection(uses.tier, pages);
                }
                self.pagecache.lru_mut().advance(vec, &mut self.pages, pfn, false);
                self.work.rotated += pages;
            }
        }
    }
}
