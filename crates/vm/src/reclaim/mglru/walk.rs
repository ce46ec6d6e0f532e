//! The walk of page tables before a new generation: pages that were used since the last join the youngest one.
//!
//! Reclaimers share a walk: each takes the next tables, and the one that comes to the end begins the generation.
//!
//! Source: `try_to_inc_max_seq`, `iterate_mm_list`, `walk_pte_range` (mm/vmscan.c), on x86, where the hardware sets accessed
//! bits.

use pageblock::event::Observer;

use crate::page::PageFlags;
use crate::pagecache::mglru::{MAX_BATCH, TABLE_ORDER, is_dense};
use crate::pagecache::space::{Slot, SpaceId, SpaceKind};
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

/// A walk for the generation after `seq`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) vec: usize,
    pub(super) seq: u64,
    pub(super) swappiness: u64,
}

impl Walk {
    /// Looks at some thousand entries. Returns whether the walk is over.
    pub(super) fn step<O: Observer>(self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> bool {
        sc.walks = true;
        // Another reclaimer ended it.
        if vm.lru().generations(self.vec).walked.is_done(self.seq) {
            return true;
        }
        let (mut space, mut table) = vm.pagecache.generations(self.vec).walked.resume(self.seq);
        // Nothing maps files, and without swappiness anonymous memory cannot be evicted.
        let end = if self.swappiness > 0 { vm.spaces().end() } else { 0 };
        let mut entries = 0;
        while space < end {
            let of = vm.spaces().get(space);
            let tables = match of.kind {
                SpaceKind::Anon => of.len().div_ceil(1 << TABLE_ORDER),
                SpaceKind::File => 0,
            };
            if table >= tables {
                if tables > 0 {
                    vm.pagecache.generations(self.vec).walked.learn(space);
                }
                (space, table) = (space + 1, 0);
                continue;
            }
            // Others run in between, and another reclaimer may go on from here.
            if entries >= MAX_BATCH {
                vm.pagecache.generations(self.vec).walked.set_next(space, table);
                vm.work.ptes += entries;
                return false;
            }
            entries += self.table(vm, space, table);
            table += 1;
        }
        vm.work.ptes += entries;
        vm.pagecache.generations(self.vec).walked.end();
        vm.begin_generation(self.vec, self.swappiness);
        true
    }

    /// Looks at a page table, unless nothing was used through it or it was found not worth it. Returns the number of entries
    /// looked at.
    fn table<O: Observer>(self, vm: &mut Vm<'_, O>, space: SpaceId, table: u32) -> u64 {
        let first = table << TABLE_ORDER;
        let last = vm.spaces().get(space).len().min(first + (1 << TABLE_ORDER));
        if let Slot::Page(pfn) = vm.spaces().slot(space, first)
            && u32::from(vm.pages[pfn].order()) >= TABLE_ORDER
        {
            self.look_at(vm, pfn);
            return 1;
        }
        // A mapping that is walked for the first time is walked whole.
        let seq = self.seq;
        let of = &vm.lru().generations(self.vec).walked;
        let (new, worth) = (!of.knows(space), of.is_worth(seq, space, table));
        let looks = new || (vm.pagecache.used_tables().take(space, table) && worth);
        if !looks {
            return 1;
        }
        let (mut young, mut at) = (0, first);
        while at < last {
            let Slot::Page(pfn) = vm.spaces().slot(space, at) else {
                at += 1;
                continue;
            };
            let next = (at + (1 << vm.pages[pfn].order())).min(last);
            if self.look_at(vm, pfn) {
                young += u64::from(next - at);
            }
            at = next;
        }
        let entries = u64::from(last - first);
        if is_dense(entries, young) {
            vm.pagecache.generations(self.vec).walked.recommend(seq + 1, space, table);
        }
        entries
    }

    /// Looks at a folio, and promotes it if it was used. Returns whether it was.
    fn look_at<O: Observer>(self, vm: &mut Vm<'_, O>, pfn: u32) -> bool {
        let here = vm.lru().of_zone(vm.pages[pfn].zone.into()) == self.vec;
        if !here || !vm.pages[pfn].test_and_clear(PageFlags::YOUNG) {
            return false;
        }
        if vm.pagecache.lru_mut().promote(self.vec, &mut vm.pages, pfn) {
            vm.pages.note_young(pfn);
        }
        true
    }
}
