//! Dirty pages: how many there may be, which are written next, and what happens when they are.
//!
//! Source: mm/page-writeback.c (limits), fs/fs-writeback.c (order of files).

use pageblock::event::Observer;
use pageblock::tuning;
use pageblock::zone::Zone;
use pageblock_kernel::rules::sysctl::Sysctl;

use crate::page::space::{Slot, SpaceId};
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::At;
use crate::vm::Vm;

/// Pages of a file that a disk is to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The file.
    pub space: SpaceId,
    /// The first page.
    pub index: u32,
    /// How many.
    pub pages: u32,
}

/// Limits of dirty pages, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimits {
    /// Writing starts in the background.
    pub background: u64,
    /// Tasks that dirty more wait.
    pub limit: u64,
}

/// The pages of a zone that the kernel keeps for itself (`totalreserve_pages`).
pub(crate) fn reserve(zone: &Zone<'_>) -> u64 {
    let reserve = zone.lowmem_reserve().iter().copied().max().unwrap_or(0);
    zone.managed().min(reserve + zone.watermarks().high)
}

impl<O: Observer> Vm<'_, O> {
    /// The pages of a node that could be dirty (`node_dirtyable_memory`).
    fn node_dirtyable(&self, node: usize) -> u64 {
        let anon = self.kernel.writeback.anon_dirtyable && self.swap.free_places() > 0;
        let zones = self.allocator.zones().iter().zip(&self.reserves).enumerate();
        let of_node = zones.zip(&self.node_of_zone).filter(|&(_, &n)| usize::from(n) == node);
        let dirtyable = of_node.map(|((at, (zone, reserve)), _)| {
            zone.free_pages().saturating_sub(*reserve) + self.lru.zone_reclaimable(at, anon)
        });
        dirtyable.sum()
    }

    /// The limits of the machine (`domain_dirty_limits`).
    #[must_use]
    pub fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable: u64 = (0..self.nodes.len()).map(|node| self.node_dirtyable(node)).sum();
        let limit = dirtyable * u64::from(self.kernel.sysctl.dirty_ratio) / 100;
        let background = dirtyable * u64::from(self.kernel.sysctl.dirty_background_ratio) / 100;
        DirtyLimits { background: background.min(limit / 2), limit }
    }

    /// The nodes that may take another dirty page, one bit each by number (`node_dirty_ok`).
    pub(crate) fn dirty_ok(&self) -> u64 {
        let mut mask = u64::MAX;
        for (at, node) in self.nodes.iter().enumerate() {
            let limit = self.node_dirtyable(at) * u64::from(self.kernel.sysctl.dirty_ratio) / 100;
            if self.nr_dirty[at] + self.nr_writeback[at] > limit {
                mask &= !(1 << node.id);
            }
        }
        mask
    }

    /// Pages that are dirty, and pages that are being written.
    #[must_use]
    pub fn nr_dirty(&self) -> (u64, u64) {
        (self.nr_dirty.iter().sum(), self.nr_writeback.iter().sum())
    }

    /// A page of a file was written to (`set_page_dirty`).
    pub fn dirty(&mut self, pfn: u32) {
        if self.pages[pfn].has(PageFlags::DIRTY) {
            return;
        }
        self.pages[pfn].set(PageFlags::DIRTY);
        self.stat.nr_dirtied += 1;
        let node = self.node_of(pfn);
        self.nr_dirty[node] += 1;
        let space = self.pages[pfn].owner;
        self.spaces.get_mut(space).dirty += 1;
        let inode = self.spaces.get(space).inode;
        self.inodes.get_mut(inode).modified = true;
        self.spaces.queue_dirty(space);
    }

    /// A page need not be written any more.
    pub(crate) fn clean(&mut self, pfn: u32) {
        if !self.pages[pfn].test_and_clear(PageFlags::DIRTY)
            || self.pages[pfn].kind() != Owner::File
        {
            return;
        }
        let node = self.node_of(pfn);
        self.nr_dirty[node] -= 1;
        let space = self.pages[pfn].owner;
        self.spaces.get_mut(space).dirty -= 1;
    }

    /// The file that has been dirty longest; it is off the list until it is dirtied again.
    pub fn take_dirty_file(&mut self) -> Option<SpaceId> {
        let space = self.spaces.dirty.tail()?;
        self.spaces.unqueue_dirty(space);
        Some(space)
    }

    /// The flusher looks for what has been dirty for too long, as it does at every interval
    /// (`wb_check_old_data_flush`).
    pub fn begin_flush_interval(&mut self) {
        self.spaces.begin_interval();
    }

    /// A file that has been dirty for `dirty_expire_centisecs`, in whole intervals of the flusher; it
    /// is off the list until it is dirtied again.
    pub fn take_expired_file(&mut self) -> Option<SpaceId> {
        let Sysctl { dirty_expire_centisecs, dirty_writeback_centisecs, .. } = self.kernel.sysctl;
        let intervals =
            u64::from(dirty_expire_centisecs.div_ceil(dirty_writeback_centisecs.max(1)));
        let space = self.spaces.expired(u32::try_from(intervals).unwrap_or(u32::MAX))?;
        self.spaces.unqueue_dirty(space);
        Some(space)
    }

    /// Begins to write the next dirty pages of a file at or after an index.
    pub fn start_write(&mut self, space: SpaceId, from: u32) -> Option<Run> {
        if self.spaces.get(space).dirty == 0 {
            return None;
        }
        let dirty = |vm: &Self, index: u32| match vm.spaces.slot(space, index) {
            Slot::Page(pfn) => {
                let page = &vm.pages[pfn];
                let ready = page.has(PageFlags::DIRTY) && !page.has(PageFlags::WRITEBACK);
                ready.then_some(pfn)
            }
            _ => None,
        };
        let len = self.spaces.get(space).len();
        let index = (from..len).find(|&index| dirty(self, index).is_some())?;
        let mut pages = 0;
        while index + pages < len
            && pages < self.max_run()
            && let Some(pfn) = dirty(self, index + pages)
        {
            self.begin_write(pfn);
            pages += 1;
        }
        self.allocate_extent(space);
        Some(Run { space, index, pages })
    }

    fn max_run(&self) -> u32 {
        self.kernel.writeback.max_sectors_kb / tuning::KBYTES_PER_PAGE as u32
    }

    /// A dirty page of a file is being written from now on.
    fn begin_write(&mut self, pfn: u32) {
        self.clean(pfn);
        self.pages[pfn].set(PageFlags::WRITEBACK);
        let node = self.node_of(pfn);
        self.nr_writeback[node] += 1;
        let space = self.pages[pfn].owner;
        self.spaces.get_mut(space).writeback += 1;
    }

    /// Reclaim writes a dirty page of a file by itself (`pageout`). Pages in a row make one write.
    pub(crate) fn write_to_file(&mut self, pfn: u32) {
        let (space, index) = (self.pages[pfn].owner, self.pages[pfn].index);
        self.begin_write(pfn);
        self.allocate_extent(space);
        self.stat.nr_vmscan_write += 1;
        let most = self.max_run();
        match self.file_writes.last_mut() {
            Some(run)
                if run.space == space && run.index + run.pages == index && run.pages < most =>
            {
                run.pages += 1;
            }
            _ => self.file_writes.push(Run { space, index, pages: 1 }),
        }
    }

    /// Takes the pages of files that reclaim wants written. Report each with
    /// [`end_writes`](Self::end_writes).
    pub fn take_file_writes(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.file_writes)
    }

    /// Pages of a file were written.
    pub fn end_writes(&mut self, run: Run) {
        for index in run.index..run.index + run.pages {
            if let Slot::Page(pfn) = self.spaces.slot(run.space, index) {
                self.end_write(pfn);
            }
        }
        self.writes_ended += u64::from(run.pages);
        // Pages that were dirtied again meanwhile could not be written then.
        if self.spaces.get(run.space).dirty > 0 {
            self.spaces.queue_dirty(run.space);
        }
    }

    /// A page was written (`end_page_writeback`): where reclaim waits for it, it is next.
    pub(crate) fn end_write(&mut self, pfn: u32) {
        if !self.pages[pfn].test_and_clear(PageFlags::WRITEBACK) {
            return;
        }
        self.stat.nr_written += 1;
        let node = self.node_of(pfn);
        self.nodes[node].written += 1;
        if self.pages[pfn].kind() == Owner::File {
            self.nr_writeback[node] -= 1;
            let space = self.pages[pfn].owner;
            self.spaces.get_mut(space).writeback -= 1;
        }
        let rotates = self.pages[pfn].test_and_clear(PageFlags::RECLAIM)
            && self.pages[pfn].has(PageFlags::LRU)
            && !self.pages[pfn].has(PageFlags::ACTIVE)
            && !self.pages[pfn].has(PageFlags::UNEVICTABLE);
        if rotates {
            self.lru.remove(&mut self.pages, pfn);
            self.lru.add(&mut self.pages, pfn, At::Tail);
            self.stat.pgrotated += 1;
        }
    }

    /// Takes the anonymous pages that reclaim wants written to swap, those together whose places are. Report
    /// each page with [`end_swap_write`](Self::end_swap_write).
    pub fn take_swap_writes(&mut self) -> Vec<Vec<u32>> {
        std::mem::take(&mut self.swap_writes)
    }

    /// A page was written to swap.
    pub fn end_swap_write(&mut self, pfn: u32) {
        self.end_write(pfn);
        self.writes_ended += 1;
    }

    /// The number of pages whose write has ended so far: whoever waits for writes looks at it.
    #[must_use]
    pub const fn writes_ended(&self) -> u64 {
        self.writes_ended
    }

    /// Tells whether reclaim asked for dirty pages to be written, once.
    pub fn take_flusher_wanted(&mut self) -> bool {
        std::mem::take(&mut self.flusher_wanted)
    }
}
