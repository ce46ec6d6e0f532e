//! What becomes of the pages at the end of a list.
//!
//! Source: `shrink_inactive_list`, `shrink_page_list`, `shrink_active_list` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::policy::{Reclaim, Slowpath};

use super::amounts::inactive_is_low;
use super::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl, Seen};
use crate::config::lru_per_node;
use crate::lru::{At, LruList};
use crate::page::{Owner, PageFlags};
use crate::space::Slot;
use crate::vm::Vm;

/// kswapd of 3.10 writes dirty pages of files itself once its priority is lower than this.
const WRITE_FILES: u32 = DEF_PRIORITY - 2;

/// What to do with an inactive page.
enum Fate {
    Free,
    Activate,
    Keep,
    /// Begin to write it to swap.
    Swap,
    /// Begin to write it to its file.
    Write,
}

/// What became of a page, in pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Did {
    pub(super) freed: u64,
    pub(super) rotated: u64,
    pub(super) written: u64,
}

impl<O: Observer> Vm<'_, O> {
    /// Scans `n` pages of a list; gives the pages freed. An active list is scanned only where the
    /// inactive one is too short.
    pub(super) fn shrink_list(
        &mut self,
        at: usize,
        list: LruList,
        n: u64,
        sc: &mut ScanControl,
    ) -> u64 {
        if !list.is_active() {
            return self.shrink_inactive(at, list, n, sc);
        }
        let inactive = if list.is_file() { LruList::InactiveFile } else { LruList::InactiveAnon };
        let vec = &self.lru.vecs()[at];
        if inactive_is_low(vec, inactive, self.policy.reclaim, self.is_refaulting(vec)) {
            self.shrink_active(at, list, n, sc);
        }
        0
    }

    /// Keeps some anonymous pages inactive, so that there is a choice when swap is used.
    pub(super) fn age_anon(&mut self, at: usize, sc: &mut ScanControl) {
        let vec = &self.lru.vecs()[at];
        if self.swap.places() > 0
            && inactive_is_low(vec, LruList::InactiveAnon, self.policy.reclaim, false)
        {
            self.shrink_active(at, LruList::ActiveAnon, SWAP_CLUSTER_MAX, sc);
        }
        let vec = self.lru.vec(at);
        vec.activations_seen = vec.activations;
    }

    /// The page at the end of a list, if its zone helps; others go back to the head.
    fn take_tail(
        &mut self,
        at: usize,
        list: LruList,
        sc: &ScanControl,
        skips: &mut u64,
    ) -> Option<u32> {
        loop {
            let pfn = self.lru.vecs()[at].list(list).tail()?;
            let zone = usize::from(self.pages[pfn].zone);
            self.lru.remove(&mut self.pages, pfn);
            if self.allocator.zones()[zone].kind <= sc.highest {
                return Some(pfn);
            }
            self.putback(pfn);
            self.stat.pgskip += 1 << self.pages[pfn].order();
            // Not even the whole list may help.
            *skips += 1;
            if *skips > u64::from(self.lru.vecs()[at].list(list).len()) {
                return None;
            }
        }
    }

    fn shrink_active(&mut self, at: usize, list: LruList, n: u64, sc: &mut ScanControl) {
        let (mut done, mut skips) = (0, 0);
        while done < n {
            let Some(pfn) = self.take_tail(at, list, sc, &mut skips) else { break };
            let page = &mut self.pages[pfn];
            let pages = 1 << page.order();
            // Linux: only mapped programs are kept active for having been used.
            page.clear(PageFlags::REFERENCED);
            page.clear(PageFlags::ACTIVE);
            page.set(PageFlags::WORKINGSET);
            self.lru.add(&mut self.pages, pfn, At::Head);
            done += pages;
        }
        self.stat.pgrefill += done;
        self.stat.pgdeactivate += done;
        self.work.rotated += done;
        let kind = usize::from(list.is_file());
        self.lru.vec(at).recent_scanned[kind] += done;
    }

    fn shrink_inactive(&mut self, at: usize, list: LruList, n: u64, sc: &mut ScanControl) -> u64 {
        let (mut scanned, mut freed, mut rotated, mut skips, mut written) = (0, 0, 0, 0, 0);
        let seen = sc.seen;
        while scanned < n {
            let Some(pfn) = self.take_tail(at, list, sc, &mut skips) else { break };
            let pages = 1 << self.pages[pfn].order();
            scanned += pages;
            let did = self.reclaim_isolated(pfn, sc);
            freed += did.freed;
            rotated += did.rotated;
            written += did.written;
        }
        sc.nr_scanned += scanned;
        sc.seen.taken += scanned;
        self.note_batch(at, seen, sc);
        self.work.scanned += scanned;
        self.work.reclaimed += freed;
        if sc.kswapd {
            self.stat.pgscan_kswapd += scanned;
            self.stat.pgsteal_kswapd += freed;
        } else {
            self.stat.pgscan_direct += scanned;
            self.stat.pgsteal_direct += freed;
        }
        let kind = usize::from(list.is_file());
        let vec = self.lru.vec(at);
        vec.scanned += scanned;
        vec.recent_scanned[kind] += scanned;
        vec.recent_rotated[kind] += rotated;
        vec.cost[kind] += written * SWAP_CLUSTER_MAX + rotated;
        if vec.cost[0] + vec.cost[1] > (vec.anon() + vec.file()) / 4 {
            vec.cost = vec.cost.map(|c| c / 2);
        }
        freed
    }

    /// With lists for each zone kswapd judges each batch by itself: one of nothing but pages that are
    /// being written makes it wait for those that it meets again.
    fn note_batch(&mut self, at: usize, before: Seen, sc: &ScanControl) {
        let taken = sc.seen.taken - before.taken;
        let writeback = sc.seen.writeback - before.writeback;
        if sc.kswapd && !lru_per_node(self.policy) && taken > 0 && writeback == taken {
            let node = usize::from(self.node_of_zone[at]);
            self.nodes[node].writeback_congested = true;
        }
    }

    /// Does with a page that is off its list what its state allows.
    pub(super) fn reclaim_isolated(&mut self, pfn: u32, sc: &mut ScanControl) -> Did {
        let pages = 1 << self.pages[pfn].order();
        let mut did = Did::default();
        match self.fate(pfn, sc) {
            Fate::Free => {
                let slot = match self.pages[pfn].swap {
                    0 => self.leave_shadow(pfn),
                    place => Slot::Swap(place - 1),
                };
                self.note_reclaimed(pfn, pages);
                self.drop_page(sc.cpu, pfn, slot);
                did.freed = pages;
            }
            Fate::Activate => {
                self.pages[pfn].set(PageFlags::ACTIVE);
                self.stat.pgactivate += pages;
                self.note_young(pfn);
                did.rotated = pages;
                self.putback(pfn);
            }
            Fate::Keep => self.putback(pfn),
            Fate::Swap if self.zram.is_some() => did = self.reclaim_to_zram(pfn, sc),
            Fate::Swap => did.written = self.write_to_swap(pfn),
            Fate::Write => {
                self.write_to_file(pfn);
                self.putback(pfn);
            }
        }
        did
    }

    /// Decides on an inactive page, which is off its list.
    fn fate(&mut self, pfn: u32, sc: &mut ScanControl) -> Fate {
        let node = self.node_of(pfn);
        let congested = self.nodes[node].writeback_congested;
        let page = &mut self.pages[pfn];
        let pages = 1u64 << page.order();
        if page.has(PageFlags::WRITEBACK) {
            if sc.kswapd && page.has(PageFlags::RECLAIM) && congested {
                sc.seen.immediate += pages;
            } else {
                page.set(PageFlags::RECLAIM);
                sc.seen.writeback += pages;
            }
            return self.not_yet();
        }
        let referenced = page.test_and_clear(PageFlags::REFERENCED);
        match page.kind() {
            Owner::Anon if referenced => Fate::Activate,
            Owner::Anon if page.swap > 0 && !page.has(PageFlags::DIRTY) => Fate::Free,
            Owner::Anon if sc.may_swap && self.swap.free_places() >= pages => Fate::Swap,
            Owner::Anon => Fate::Activate,
            _ if referenced && page.has(PageFlags::MAPPED) => Fate::Activate,
            _ if page.has(PageFlags::DIRTY) => {
                page.set(PageFlags::RECLAIM);
                let deep = sc.kswapd && sc.priority < WRITE_FILES;
                if self.policy.reclaim == Reclaim::V310 && deep && !referenced {
                    return Fate::Write;
                }
                sc.seen.unqueued_dirty += pages;
                self.stat.nr_vmscan_immediate_reclaim += pages;
                self.not_yet()
            }
            _ => Fate::Free,
        }
    }

    /// A page that must be written first leaves the inactive list from about 4.12, where it would be
    /// met again and again.
    fn not_yet(&self) -> Fate {
        let activates =
            self.policy.slowpath >= Slowpath::G2Noncostly && self.policy.reclaim != Reclaim::V310;
        if activates { Fate::Activate } else { Fate::Keep }
    }

    /// Writes an anonymous page to swap in memory, one of a huge one after splitting it; it is free then.
    /// What there is no memory for is kept.
    fn reclaim_to_zram(&mut self, pfn: u32, sc: &ScanControl) -> Did {
        let order = self.pages[pfn].order();
        if order > 0 {
            self.split_huge(pfn);
        }
        let mut did = Did::default();
        for page in pfn..pfn + (1 << order) {
            if self.page_to_zram(sc.cpu, page) {
                did.freed += 1;
                did.written += 1;
            } else {
                self.pages[page].set(PageFlags::ACTIVE);
                did.rotated += 1;
                self.putback(page);
            }
        }
        did
    }

    /// Begins to write an anonymous page, one of a huge one after splitting it; gives the pages.
    fn write_to_swap(&mut self, pfn: u32) -> u64 {
        let order = self.pages[pfn].order();
        if order > 0 {
            self.split_huge(pfn);
        }
        let mut written = 0;
        for page in pfn..pfn + (1 << order) {
            let place = match self.pages[page].swap {
                0 => self.swap.take(),
                place => Some(place - 1),
            };
            if let Some(place) = place {
                self.pages[page].swap = place + 1;
                self.swap.own(place, self.pages[page].owner, self.pages[page].index);
                self.pages[page].clear(PageFlags::DIRTY);
                self.pages[page].set(PageFlags::WRITEBACK);
                self.pages[page].set(PageFlags::RECLAIM);
                self.swap_writes.push(page);
                written += 1;
            }
            self.putback(page);
        }
        self.stat.nr_vmscan_write += written;
        self.stat.pswpout += written;
        written
    }

    /// Makes single pages of a huge page that is off its list (`split_huge_page`).
    pub(crate) fn split_huge(&mut self, pfn: u32) {
        let page = self.pages[pfn];
        if let Err(error) = self.allocator.split_allocated(Pfn(pfn.into()), page.order(), 0) {
            panic!("splitting the huge page at {pfn}: {error}");
        }
        for offset in 0..1u32 << page.order() {
            let part = &mut self.pages[pfn + offset];
            part.give(page.kind(), 0, page.owner, page.index + offset);
            part.flags = page.flags;
            part.clear(PageFlags::LRU);
        }
        self.stat.thp_split_page += 1;
    }
}
