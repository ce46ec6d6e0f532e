//! What becomes of the pages at the end of a list.
//!
//! Source: `shrink_inactive_list`, `shrink_page_list`, `shrink_active_list` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock_kernel::rules::kswapd::{CongestionBy, KswapdWrites};

use super::amounts::inactive_is_low;
use super::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl, Seen};
use crate::page::space::Slot;
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::{At, LruList};
use crate::vm::Vm;

/// kswapd of 3.10 writes dirty pages of files itself once its priority is lower than this.
const WRITE_FILES: u32 = DEF_PRIORITY - 2;

/// Pages of the largest write to swap (`max_sectors_kb`, 512 KiB).
// Linux: 1,280 KiB from 4.3 on; reclaim hands over 32 pages at a time.
const MAX_SWAP_RUN: usize = 128;

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
        if inactive_is_low(vec, inactive, &self.kernel.reclaim, self.is_refaulting(vec)) {
            self.shrink_active(at, list, n, sc);
        }
        0
    }

    /// Keeps some anonymous pages inactive, so that there is a choice when swap is used.
    pub(crate) fn age_anon(&mut self, at: usize, sc: &mut ScanControl) {
        let vec = &self.lru.vecs()[at];
        if self.swap.places() > 0
            && inactive_is_low(vec, LruList::InactiveAnon, &self.kernel.reclaim, false)
        {
            self.shrink_active(at, LruList::ActiveAnon, SWAP_CLUSTER_MAX, sc);
        }
    }

    /// Takes note of how many refaulted pages were activated (`snapshot_refaults`).
    pub(super) fn note_activations(&mut self, at: usize) {
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
            if self.allocator.zones()[zone].kind() <= sc.highest {
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
        let (mut done, mut skips, mut used) = (0, 0, 0);
        while done < n {
            let Some(pfn) = self.take_tail(at, list, sc, &mut skips) else { break };
            let page = &mut self.pages[pfn];
            let pages = 1 << page.order();
            // Linux: only mapped programs are kept active for having been used.
            if page.test_and_clear(PageFlags::REFERENCED) && page.has(PageFlags::MAPPED) {
                used += pages;
            }
            page.clear(PageFlags::ACTIVE);
            page.set(PageFlags::WORKINGSET);
            self.lru.add(&mut self.pages, pfn, At::Head);
            done += pages;
        }
        self.stat.pgrefill += done;
        self.stat.pgdeactivate += done;
        self.work.rotated += done;
        let counts_used = self.kernel.reclaim.used_counts_rotated;
        let kind = usize::from(list.is_file());
        let vec = self.lru.vec(at);
        vec.recent_scanned[kind] += done;
        if counts_used {
            vec.recent_rotated[kind] += used;
        }
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
        if self.kernel.reclaim.anon_counts_twice && !list.is_file() {
            // Pages that are mapped or have a place in swap count twice.
            sc.nr_scanned += scanned;
        }
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

    /// Where kswapd judges each batch by itself, one of nothing but pages that are being written makes it wait for
    /// those that it meets again; one of nothing but dirty pages makes it write such pages and wait, where it writes
    /// the dirty end of a list.
    fn note_batch(&mut self, at: usize, before: Seen, sc: &mut ScanControl) {
        let taken = sc.seen.taken - before.taken;
        if !sc.kswapd || self.kernel.kswapd.congestion_by == CongestionBy::Node || taken == 0 {
            return;
        }
        if sc.seen.writeback - before.writeback == taken {
            let node = usize::from(self.node_of_zone[at]);
            self.nodes[node].writeback_congested = true;
        }
        let all_dirty = sc.seen.unqueued_dirty - before.unqueued_dirty == taken;
        if all_dirty && self.kernel.kswapd.kswapd_writes == KswapdWrites::DirtyTail {
            self.lru.vec(at).tail_dirty = true;
            sc.seen.all_dirty = true;
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
                self.pages[pfn].set(PageFlags::RECLAIM);
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
            _ if page.has(PageFlags::DIRTY) => self.fate_of_dirty(pfn, referenced, sc),
            _ => Fate::Free,
        }
    }

    /// Decides on a dirty page of a file.
    fn fate_of_dirty(&mut self, pfn: u32, referenced: bool, sc: &mut ScanControl) -> Fate {
        let pages = 1u64 << self.pages[pfn].order();
        let (writes, counts) = match self.kernel.kswapd.kswapd_writes {
            KswapdWrites::LowPriority => (sc.priority < WRITE_FILES, false),
            KswapdWrites::DirtyTail => {
                let vec = self.lru.of_zone(usize::from(self.pages[pfn].zone));
                (self.lru.vecs()[vec].tail_dirty, true)
            }
            KswapdWrites::Never => (false, false),
        };
        let writes = writes && sc.kswapd;
        // 3.11 counts it however it goes on, and spares one that was used without another mark.
        if counts || !writes || referenced {
            sc.seen.unqueued_dirty += pages;
        }
        if writes && !referenced {
            return Fate::Write;
        }
        if !(writes && counts) {
            self.pages[pfn].set(PageFlags::RECLAIM);
            self.stat.nr_vmscan_immediate_reclaim += pages;
        }
        self.not_yet()
    }

    /// What becomes of a page that must be written first.
    fn not_yet(&self) -> Fate {
        if self.kernel.reclaim.unwritten_activates { Fate::Activate } else { Fate::Keep }
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
                // Whoever uses it before it is gone faults.
                self.pages[page].clear(PageFlags::MAPPED);
                self.queue_swap_write(page, place);
                written += 1;
            }
            self.putback(page);
        }
        self.stat.nr_vmscan_write += written;
        self.stat.pswpout += written;
        written
    }

    /// Has a page written with those before it, where its place follows theirs.
    fn queue_swap_write(&mut self, pfn: u32, place: u32) {
        let follows = |last: &u32| self.pages[*last].swap == place;
        match self.swap_writes.last_mut() {
            Some(run) if run.len() < MAX_SWAP_RUN && run.last().is_some_and(follows) => {
                run.push(pfn);
            }
            _ => self.swap_writes.push(vec![pfn]),
        }
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
