//! The scan of a list from its end.
//!
//! Source: `shrink_inactive_list`, `shrink_page_list`, `shrink_active_list` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::kswapd::{CongestionBy, KswapdWrites};

use super::amounts::inactive_is_low;
use super::scan_control::{ReclaimStat, SWAP_CLUSTER_MAX, ScanControl};
use crate::page::PageFlags;
use crate::pagecache::lru::LruList;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Scans `n` pages of a list. Returns the number of pages freed. An active list is scanned only if the inactive one
    /// is too short.
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
        let vec = &self.lru().vecs()[at];
        if inactive_is_low(vec, inactive, &self.kernel.reclaim, self.is_refaulting(vec, inactive)) {
            self.shrink_active(at, list, n, sc);
        }
        0
    }

    /// Deactivates some anonymous pages, so that inactive ones are there when pages are swapped out.
    pub(super) fn age_anon(&mut self, at: usize, sc: &mut ScanControl) {
        let vec = &self.lru().vecs()[at];
        if self.swap_places().1 > 0
            && inactive_is_low(vec, LruList::InactiveAnon, &self.kernel.reclaim, false)
        {
            self.shrink_active(at, LruList::ActiveAnon, SWAP_CLUSTER_MAX, sc);
        }
    }

    /// Isolates the page at the end of a list. Pages of zones that the request may not use are put back at the head.
    fn take_tail(
        &mut self,
        at: usize,
        list: LruList,
        sc: &ScanControl,
        skips: &mut u64,
    ) -> Option<u32> {
        loop {
            let pfn = self.lru().vecs()[at].list(list).tail()?;
            let zone = usize::from(self.pages[pfn].zone);
            self.isolate(pfn);
            debug_assert!(!self.pages[pfn].has(PageFlags::LRU), "an isolated page is on a list");
            if self.allocator.zones()[zone].kind() <= sc.highest {
                return Some(pfn);
            }
            self.putback(pfn);
            self.stat.pgskip += 1 << self.pages[pfn].order();
            // The whole list may be of such zones.
            *skips += 1;
            if *skips > u64::from(self.lru().vecs()[at].list(list).len()) {
                return None;
            }
        }
    }

    /// Deactivates `n` pages of an active list.
    fn shrink_active(&mut self, at: usize, list: LruList, n: u64, sc: &mut ScanControl) {
        let (mut done, mut skips, mut used) = (0, 0, 0);
        while done < n {
            let Some(pfn) = self.take_tail(at, list, sc, &mut skips) else { break };
            let page = &mut self.pages[pfn];
            let pages = 1 << page.order();
            // Linux: mapped executables that were used stay active.
            if page.test_and_clear(PageFlags::REFERENCED) && page.has(PageFlags::MAPPED) {
                used += pages;
            }
            page.clear(PageFlags::ACTIVE);
            page.set(PageFlags::WORKINGSET);
            self.putback(pfn);
            done += pages;
        }
        self.stat.pgrefill += done;
        self.stat.pgdeactivate += done;
        self.work.rotated += done;
        let rotated = if self.kernel.reclaim.used_counts_rotated { used } else { 0 };
        self.pagecache.lruvec(at).note_scan(list, done, rotated);
    }

    /// Reclaims from the end of an inactive list. Returns the number of pages freed.
    fn shrink_inactive(&mut self, at: usize, list: LruList, n: u64, sc: &mut ScanControl) -> u64 {
        let (mut scanned, mut freed, mut rotated, mut skips, mut written) = (0, 0, 0, 0, 0);
        let before = sc.stat;
        while scanned < n {
            let Some(pfn) = self.take_tail(at, list, sc, &mut skips) else { break };
            let pages = 1 << self.pages[pfn].order();
            scanned += pages;
            let outcome = self.reclaim_isolated(pfn, sc);
            freed += outcome.freed;
            rotated += outcome.rotated;
            written += outcome.written;
        }
        debug_assert!(freed + rotated <= scanned, "{freed} + {rotated} of {scanned} pages");
        sc.nr_scanned += scanned;
        if self.kernel.reclaim.anon_counts_twice && !list.is_file() {
            // Pages that are mapped or in the swap cache count twice.
            sc.nr_scanned += scanned;
        }
        sc.stat.taken += scanned;
        self.note_batch(at, before, sc);
        self.work.scanned += scanned;
        self.work.reclaimed += freed;
        if sc.kswapd {
            self.stat.pgscan_kswapd += scanned;
            self.stat.pgsteal_kswapd += freed;
        } else {
            self.stat.pgscan_direct += scanned;
            self.stat.pgsteal_direct += freed;
        }
        let vec = self.pagecache.lruvec(at);
        vec.scanned += scanned;
        vec.note_scan(list, scanned, rotated);
        vec.note_cost(self.kernel.reclaim.scan_balance, list, written, scanned - freed);
        freed
    }

    /// Notes a batch if kswapd judges congestion by batches. After a batch of nothing but pages under writeback it
    /// waits for those that it meets again; after one of nothing but dirty pages it writes such pages and waits, in
    /// versions in which it writes the dirty tail of a list.
    fn note_batch(&mut self, at: usize, before: ReclaimStat, sc: &mut ScanControl) {
        let taken = sc.stat.taken - before.taken;
        // Later kernels judge a node as a whole, at the end of its scan.
        if !sc.kswapd || self.kernel.kswapd.congestion_by == CongestionBy::Node || taken == 0 {
            return;
        }
        if sc.stat.writeback - before.writeback == taken {
            let node = self.nodes.of_zone(at);
            self.nodes[node].kswapd.set_writeback_congested(true);
        }
        let all_dirty = sc.stat.unqueued_dirty - before.unqueued_dirty == taken;
        if all_dirty && self.kernel.kswapd.kswapd_writes == KswapdWrites::DirtyTail {
            self.pagecache.lruvec(at).set_tail_dirty(true);
            sc.stat.all_dirty = true;
        }
    }
}
