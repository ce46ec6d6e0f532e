//! What reclaim does with an inactive page.
//!
//! Source: `shrink_page_list`, `page_check_references` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::kswapd::KswapdWrites;

use super::mglru::Found;
use super::scan_control::{DEF_PRIORITY, ScanControl};
use crate::page::{Owner, PageFlags};
use crate::pagecache::space::Slot;
use crate::vm::Vm;

/// kswapd of 3.10 writes dirty pages of files itself below this priority.
const WRITE_FILES: u32 = DEF_PRIORITY - 2;

/// What reclaim does with an inactive page.
enum Action {
    Free,
    Activate,
    Keep,
    /// Starts to write it to swap.
    Swap,
    /// Starts to write it to its file.
    Write,
}

/// The pages of a block that were freed, put back as used, or put under writeback.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    pub(super) freed: u64,
    pub(super) rotated: u64,
    pub(super) written: u64,
}

impl<O: Observer> Vm<'_, O> {
    /// Reclaims a page that is off its list as far as its state allows.
    pub(super) fn reclaim_isolated(&mut self, pfn: u32, sc: &mut ScanControl) -> Outcome {
        debug_assert!(!self.pages[pfn].has(PageFlags::LRU), "a page on a list is reclaimed");
        let pages = 1 << self.pages[pfn].order();
        let mut outcome = Outcome::default();
        match self.action_for(pfn, sc) {
            Action::Free => {
                let left = self.leave_shadow(pfn);
                let slot = match (self.pages[pfn].swap_slot(), left) {
                    (None, left) => left,
                    (Some(place), Slot::Shadow(shadow)) => {
                        self.keep_shadow(place, shadow);
                        Slot::Swap(place)
                    }
                    (Some(place), _) => Slot::Swap(place),
                };
                self.pages.note_reclaimed(pfn, pages);
                self.drop_page(sc.cpu, pfn, slot);
                outcome.freed = pages;
            }
            Action::Activate => {
                self.pages[pfn].set(PageFlags::ACTIVE);
                self.stat.pgactivate += pages;
                self.pages.note_young(pfn);
                outcome.rotated = pages;
                self.putback(pfn);
            }
            Action::Keep => self.putback(pfn),
            Action::Swap if self.zram().is_some() => outcome = self.reclaim_to_zram(pfn, sc),
            Action::Swap => outcome.written = self.write_to_swap(pfn),
            Action::Write => {
                self.pages[pfn].set(PageFlags::RECLAIM);
                self.write_to_file(pfn);
                self.putback(pfn);
            }
        }
        outcome
    }

    /// Decides what to do with an inactive page that is off its list.
    fn action_for(&mut self, pfn: u32, sc: &mut ScanControl) -> Action {
        let node = self.node_of(pfn);
        let congested = self.nodes[node].kswapd.is_writeback_congested();
        let free_swap = self.swap_places().0;
        let generations = self.lru().has_generations();
        let pages = 1u64 << self.pages[pfn].order();
        // It was promoted while it was off its list, and goes to its new generation.
        if generations && self.was_found_young(pfn) {
            return Action::Keep;
        }
        let page = &mut self.pages[pfn];
        if page.has(PageFlags::WRITEBACK) {
            // kswapd has come around the list faster than the disk writes.
            if sc.kswapd && page.has(PageFlags::RECLAIM) && congested {
                sc.stat.immediate += pages;
            } else {
                page.set(PageFlags::RECLAIM);
                sc.stat.writeback += pages;
            }
            return self.action_for_unwritten();
        }
        let referenced = if generations {
            match self.look_at(pfn, sc) {
                Found::Unused => false,
                Found::Used => return Action::Keep,
                Found::UsedAgain => return Action::Activate,
            }
        } else {
            page.test_and_clear(PageFlags::REFERENCED)
        };
        let page = &mut self.pages[pfn];
        match page.kind() {
            // A use of an anonymous page is by a mapping; a file page may have been read once.
            Owner::Anon if referenced => Action::Activate,
            Owner::Anon if page.swap_slot().is_some() && !page.has(PageFlags::DIRTY) => {
                Action::Free
            }
            Owner::Anon if sc.may_swap && free_swap >= pages => Action::Swap,
            // Without swap space the page cannot be reclaimed, and goes where it is scanned last.
            Owner::Anon => Action::Activate,
            _ if referenced && page.has(PageFlags::MAPPED) => Action::Activate,
            _ if page.has(PageFlags::DIRTY) => self.action_for_dirty(pfn, referenced, sc),
            // The journal keeps its buffers until the transaction is written.
            _ if page.is_held() => Action::Activate,
            _ => Action::Free,
        }
    }

    /// Decides what to do with a dirty page of a file.
    fn action_for_dirty(&mut self, pfn: u32, referenced: bool, sc: &mut ScanControl) -> Action {
        let pages = 1u64 << self.pages[pfn].order();
        let (writes, counts) = match self.kernel.kswapd.kswapd_writes {
            KswapdWrites::LowPriority => (sc.priority < WRITE_FILES, false),
            KswapdWrites::DirtyTail => {
                let vec = self.lru().of_zone(usize::from(self.pages[pfn].zone));
                (self.lru().vecs()[vec].is_tail_dirty(), true)
            }
            KswapdWrites::Never => (false, false),
        };
        let writes = writes && sc.kswapd;
        // 3.11 counts the page in any case, and does not mark one that was used.
        if counts || !writes || referenced {
            sc.stat.unqueued_dirty += pages;
        }
        if writes && !referenced {
            return Action::Write;
        }
        if !(writes && counts) {
            self.pages[pfn].set(PageFlags::RECLAIM);
            self.stat.nr_vmscan_immediate_reclaim += pages;
        }
        self.action_for_unwritten()
    }

    /// Decides what to do with a page that must be written first.
    fn action_for_unwritten(&self) -> Action {
        if self.kernel.reclaim.unwritten_activates { Action::Activate } else { Action::Keep }
    }

    /// Compresses and frees an anonymous page; a huge page is split first. Pages are kept if there is no memory for
    /// their objects.
    fn reclaim_to_zram(&mut self, pfn: u32, sc: &ScanControl) -> Outcome {
        let order = self.pages[pfn].order();
        if order > 0 {
            self.split_huge(pfn);
        }
        let mut outcome = Outcome::default();
        for page in pfn..pfn + (1 << order) {
            if self.page_to_zram(sc.cpu, page) {
                outcome.freed += 1;
                outcome.written += 1;
            } else {
                self.pages[page].set(PageFlags::ACTIVE);
                outcome.rotated += 1;
                self.putback(page);
            }
        }
        outcome
    }
}
