//! Writeback: the limits of dirty pages, which pages are written next, and what happens when they are written.
//!
//! Source: mm/page-writeback.c (limits), fs/fs-writeback.c (order of files).

use pageblock::event::Observer;
use pageblock::tuning;
use pageblock::zone::Zone;
use pageblock_kernel::rules::sysctl::Sysctl;

use super::PageCache;
use super::lru::At;
use super::space::SpaceId;
use crate::page::{Owner, PageFlags};
use crate::vm::Vm;

/// Consecutive pages of a file that the disk is to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The file.
    pub space: SpaceId,
    /// The index of the first page.
    pub index: u32,
    /// The number of pages.
    pub pages: u32,
}

/// Limits of dirty pages, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimits {
    /// The flusher starts to write (`dirty_background_ratio`).
    pub background: u64,
    /// Tasks that dirty more pages wait (`dirty_ratio`).
    pub limit: u64,
}

/// The state of writeback.
#[derive(Debug)]
pub(super) struct Writeback {
    /// The pages of each zone that the kernel keeps for itself. Watermarks do not change at run time.
    reserves: Vec<u64>,
    /// Dirty pages of each node.
    pub(super) dirty: Vec<u64>,
    /// Pages under writeback of each node.
    under_writeback: Vec<u64>,
    /// Anonymous pages of each node that are written to swap.
    to_swap: Vec<u64>,
    /// Reclaim met dirty pages that are not under writeback: the flusher is to write.
    flusher_wanted: bool,
    /// Pages of files that reclaim writes.
    reclaim_writes: Vec<Run>,
}

impl Writeback {
    pub(super) fn new(zones: &[Zone<'_>], nodes: usize) -> Self {
        Self {
            reserves: zones.iter().map(total_reserve).collect(),
            dirty: vec![0; nodes],
            under_writeback: vec![0; nodes],
            to_swap: vec![0; nodes],
            flusher_wanted: false,
            reclaim_writes: Vec::new(),
        }
    }
}

/// Returns the pages of a zone that the kernel keeps for itself (`totalreserve_pages`).
fn total_reserve(zone: &Zone<'_>) -> u64 {
    let reserve = zone.lowmem_reserve().iter().copied().max().unwrap_or(0);
    zone.managed().min(reserve + zone.watermarks().high)
}

impl PageCache {
    /// Asks the flusher to write dirty pages (`wakeup_flusher_threads`).
    pub(crate) const fn want_flusher(&mut self) {
        self.writeback.flusher_wanted = true;
    }

    /// Counts an anonymous page of a node that is written to swap.
    pub(crate) fn count_swap_write(&mut self, node: usize) {
        self.writeback.to_swap[node] += 1;
    }

    /// Returns the number of pages of a node that are dirty or being written (`NR_ZONE_WRITE_PENDING`).
    pub(crate) fn pending_writes(&self, node: usize) -> u64 {
        let Writeback { dirty, under_writeback, to_swap, .. } = &self.writeback;
        dirty[node] + under_writeback[node] + to_swap[node]
    }

    /// Returns the number of dirty pages of a node.
    pub(crate) fn nr_dirty(&self, node: usize) -> u64 {
        self.writeback.dirty[node]
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the number of pages of a node that could be dirty (`node_dirtyable_memory`).
    fn node_dirtyable(&self, node: usize) -> u64 {
        let anon = self.kernel.writeback.anon_dirtyable && self.has_free_swap();
        let PageCache { lru, writeback, .. } = &self.pagecache;
        let zones = self.allocator.zones().iter().zip(&writeback.reserves).enumerate();
        let of_node = zones.filter(|&(at, _)| self.nodes.of_zone(at) == node);
        let dirtyable = of_node.map(|(at, (zone, reserve))| {
            zone.free_pages().saturating_sub(*reserve) + lru.zone_reclaimable(at, anon)
        });
        dirtyable.sum()
    }

    /// Returns the limits of the machine (`domain_dirty_limits`).
    #[must_use]
    pub fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable: u64 = (0..self.nodes.len()).map(|node| self.node_dirtyable(node)).sum();
        let limit = dirtyable * u64::from(self.kernel.sysctl.dirty_ratio) / 100;
        let background = dirtyable * u64::from(self.kernel.sysctl.dirty_background_ratio) / 100;
        DirtyLimits { background: background.min(limit / 2), limit }
    }

    /// Returns the nodes whose dirty pages are within the limit, one bit each by node number (`node_dirty_ok`).
    pub(crate) fn dirty_ok(&self) -> u64 {
        let mut mask = u64::MAX;
        for (at, node) in self.nodes.states().iter().enumerate() {
            let limit = self.node_dirtyable(at) * u64::from(self.kernel.sysctl.dirty_ratio) / 100;
            let Writeback { dirty, under_writeback, .. } = &self.pagecache.writeback;
            if dirty[at] + under_writeback[at] > limit {
                mask &= !(1 << node.id);
            }
        }
        mask
    }

    /// Returns the number of dirty pages, and of pages under writeback.
    #[must_use]
    pub fn nr_dirty(&self) -> (u64, u64) {
        let Writeback { dirty, under_writeback, .. } = &self.pagecache.writeback;
        (dirty.iter().sum(), under_writeback.iter().sum())
    }

    /// Marks a page of a file as dirty (`set_page_dirty`).
    pub fn dirty(&mut self, pfn: u32) {
        if !self.count_dirty(pfn) {
            return;
        }
        let space = self.pages[pfn].owner;
        let spaces = &mut self.pagecache.spaces;
        spaces.queue_dirty(space);
        if let Some(inode) = spaces.get(space).inode() {
            self.mark_modified(inode);
        }
    }

    /// Marks a page or folio of a file as dirty, and counts its pages. Returns whether it was clean.
    pub(super) fn count_dirty(&mut self, pfn: u32) -> bool {
        if self.pages[pfn].has(PageFlags::DIRTY) {
            return false;
        }
        self.pages[pfn].set(PageFlags::DIRTY);
        let pages = 1 << self.pages[pfn].order();
        self.stat.nr_dirtied += u64::from(pages);
        let node = self.node_of(pfn);
        self.pagecache.writeback.dirty[node] += u64::from(pages);
        let space = self.pages[pfn].owner;
        self.pagecache.spaces.get_mut(space).dirty += pages;
        true
    }

    /// Marks a page as clean (`clear_page_dirty_for_io`).
    pub(crate) fn clean(&mut self, pfn: u32) {
        if !self.pages[pfn].test_and_clear(PageFlags::DIRTY)
            || self.pages[pfn].kind() != Owner::File
        {
            return;
        }
        let node = self.node_of(pfn);
        let pages = 1 << self.pages[pfn].order();
        self.pagecache.writeback.dirty[node] -= u64::from(pages);
        let space = self.pages[pfn].owner;
        self.pagecache.spaces.get_mut(space).dirty -= pages;
    }

    /// Takes the file that has been dirty longest off the list of dirty files.
    pub fn take_dirty_file(&mut self) -> Option<SpaceId> {
        let space = self.pagecache.spaces.oldest_dirty()?;
        self.pagecache.spaces.unqueue_dirty(space);
        Some(space)
    }

    /// Starts an interval of the flusher, which then writes files that have been dirty for too long
    /// (`wb_check_old_data_flush`).
    pub fn begin_flush_interval(&mut self) {
        self.pagecache.spaces.begin_interval();
    }

    /// Takes a file that has been dirty for `dirty_expire_centisecs`, in whole intervals of the flusher, off the list
    /// of dirty files.
    pub fn take_expired_file(&mut self) -> Option<SpaceId> {
        let Sysctl { dirty_expire_centisecs, dirty_writeback_centisecs, .. } = self.kernel.sysctl;
        let intervals =
            u64::from(dirty_expire_centisecs.div_ceil(dirty_writeback_centisecs.max(1)));
        let space = self.pagecache.spaces.expired(u32::try_from(intervals).unwrap_or(u32::MAX))?;
        self.pagecache.spaces.unqueue_dirty(space);
        Some(space)
    }

    /// Starts to write the next dirty pages of a file at or after an index.
    pub fn start_write(&mut self, space: SpaceId, from: u32) -> Option<Run> {
        if self.pagecache.spaces.get(space).dirty == 0 {
            return None;
        }
        let dirty = |vm: &Self, index: u32| {
            let folio = vm.folio_at(space, index)?;
            let page = &vm.pages[folio];
            let ready = page.has(PageFlags::DIRTY) && !page.has(PageFlags::WRITEBACK);
            ready.then_some(folio)
        };
        let len = self.pagecache.spaces.get(space).len();
        let first = (from..len).find_map(|index| dirty(self, index))?;
        let (index, mut pages) = (self.pages[first].index, 0);
        // A folio is written whole, even if it is larger than a write.
        while index + pages < len
            && pages < self.max_run()
            && let Some(folio) = dirty(self, index + pages)
        {
            self.start_page_write(folio);
            pages += 1 << self.pages[folio].order();
        }
        self.allocate_extent(space);
        Some(Run { space, index, pages })
    }

    fn max_run(&self) -> u32 {
        self.kernel.writeback.max_sectors_kb / tuning::KBYTES_PER_PAGE as u32
    }

    /// Puts a dirty page or folio of a file under writeback (`set_page_writeback`).
    fn start_page_write(&mut self, pfn: u32) {
        self.clean(pfn);
        self.pages[pfn].set(PageFlags::WRITEBACK);
        let node = self.node_of(pfn);
        let pages = 1 << self.pages[pfn].order();
        self.pagecache.writeback.under_writeback[node] += u64::from(pages);
        let space = self.pages[pfn].owner;
        self.pagecache.spaces.get_mut(space).writeback += pages;
    }

    /// Has reclaim write a dirty page of a file (`pageout`). Consecutive pages make one write.
    pub(crate) fn write_to_file(&mut self, pfn: u32) {
        let (space, index) = (self.pages[pfn].owner, self.pages[pfn].index);
        self.start_page_write(pfn);
        self.allocate_extent(space);
        let pages = 1 << self.pages[pfn].order();
        self.stat.nr_vmscan_write += u64::from(pages);
        let most = self.max_run();
        match self.pagecache.writeback.reclaim_writes.last_mut() {
            Some(run)
                if run.space == space && run.index + run.pages == index && run.pages < most =>
            {
                run.pages += pages;
            }
            _ => self.pagecache.writeback.reclaim_writes.push(Run { space, index, pages }),
        }
    }

    /// Takes the pages of files that reclaim wants written. Report each run with [`end_writes`](Self::end_writes).
    pub fn take_file_writes(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.pagecache.writeback.reclaim_writes)
    }

    /// Ends the write of pages of a file.
    pub fn end_writes(&mut self, run: Run) {
        for index in run.index..run.index + run.pages {
            if let Some(folio) = self.folio_at(run.space, index) {
                self.end_write(folio);
            }
        }
        // Pages that were dirtied again during the write were left out of it.
        if self.pagecache.spaces.get(run.space).dirty > 0 {
            self.pagecache.spaces.queue_dirty(run.space);
        }
    }

    /// Ends the writeback of a page or folio (`end_page_writeback`). If reclaim waits for it, it moves to the tail of its list.
    pub fn end_write(&mut self, pfn: u32) {
        if !self.pages[pfn].test_and_clear(PageFlags::WRITEBACK) {
            return;
        }
        let node = self.node_of(pfn);
        let pages = 1 << self.pages[pfn].order();
        self.end_journal_hold(pfn);
        self.stat.nr_written += u64::from(pages);
        self.nodes[node].written += u64::from(pages);
        if self.pages[pfn].kind() == Owner::File {
            self.pagecache.writeback.under_writeback[node] -= u64::from(pages);
            let space = self.pages[pfn].owner;
            self.pagecache.spaces.get_mut(space).writeback -= pages;
        } else {
            self.pagecache.writeback.to_swap[node] -= u64::from(pages);
        }
        let rotates = self.pages[pfn].test_and_clear(PageFlags::RECLAIM)
            && self.pages[pfn].has(PageFlags::LRU)
            && !self.pages[pfn].has(PageFlags::ACTIVE)
            && !self.pages[pfn].has(PageFlags::UNEVICTABLE);
        if rotates {
            self.pagecache.lru.remove(&mut self.pages, pfn);
            // Under generations this said that the page counted as active.
            self.pages[pfn].clear(PageFlags::ACTIVE);
            self.pagecache.lru.add(&mut self.pages, pfn, At::Tail);
            self.stat.pgrotated += u64::from(pages);
        }
    }

    /// Takes reclaim's request that the flusher write dirty pages. Returns whether there was one.
    pub fn take_flusher_wanted(&mut self) -> bool {
        std::mem::take(&mut self.pagecache.writeback.flusher_wanted)
    }
}
