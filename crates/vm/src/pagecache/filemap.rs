//! Pages of files and mappings: added, used, locked, and dropped.
//!
//! Source: mm/filemap.c, mm/swap.c (`mark_page_accessed`), mm/truncate.c.

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::request::Gfp;
use pageblock_kernel::rules::reclaim::AnonStart;

use super::lru::At;
use super::space::{SLOTS_PER_NODE, Slot, SpaceId, SpaceKind};
use crate::page::{Owner, PageFlags};
use crate::slab::CacheId;
use crate::vm::Vm;

/// The flags of a page of a file that is written: `GFP_HIGHUSER_MOVABLE | __GFP_WRITE` without FS,
/// as XFS sets up its mappings.
pub const GFP_CACHE_WRITE: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::FS.0 | Gfp::WRITE.0);
/// The flags of a page of a file that is read.
pub const GFP_CACHE_READ: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::FS.0);
/// The flags of a page of an anonymous mapping.
pub const GFP_ANON: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::ZERO.0);

impl<O: Observer> Vm<'_, O> {
    /// Returns the cache of index nodes of files.
    #[must_use]
    pub const fn radix_nodes(&self) -> CacheId {
        self.pagecache.index_nodes
    }

    /// Returns an index whose node is missing where a page or folio of a file is to be; a folio of at least a node's slots
    /// needs none.
    #[must_use]
    pub fn missing_node(&self, space: SpaceId, index: u32, order: Order) -> Option<u32> {
        // A file's first page needs none, its first folio does.
        let at = index + u32::from(order > 0);
        (1 << order < SLOTS_PER_NODE && self.spaces().needs_node(space, at)).then_some(at)
    }

    /// Sets the index node that a page at this index of a file needs.
    pub fn set_index_node(&mut self, space: SpaceId, index: u32, object: u32) {
        self.pagecache.spaces.set_node(space, index, object);
    }

    /// Adds a page that was just allocated to a file or mapping, at an index without a page.
    pub fn add_page(&mut self, space: SpaceId, index: u32, pfn: Pfn, order: Order) {
        let faulted = self.pagecache.spaces.get(space).kind == SpaceKind::Anon;
        self.add_page_as(space, index, pfn, order, faulted);
    }

    /// Adds a page as [`add_page`](Self::add_page) does; `faulted` if an access of the mapping's program brought it.
    #[inline(always)]
    pub(crate) fn add_page_as(
        &mut self,
        space: SpaceId,
        index: u32,
        pfn: Pfn,
        order: Order,
        faulted: bool,
    ) {
        let pfn = pfn.0 as u32;
        let before = self.entry_before(space, index, order);
        let kind = match self.pagecache.spaces.get(space).kind {
            SpaceKind::File => Owner::File,
            SpaceKind::Anon => Owner::Anon,
        };
        debug_assert!(!self.pages[pfn].kind().is_lru(), "frame {pfn} is in use already");
        self.pages[pfn].own(kind, order, space, index);
        for offset in 0..1 << order {
            self.pagecache.spaces.set(space, index + offset, Slot::Page(pfn + offset));
        }
        self.pages.note_young(pfn);
        match before {
            Slot::Shadow(shadow) => self.refault(pfn, shadow),
            Slot::Swap(slot) => self.put_swap_slot(slot),
            Slot::Empty | Slot::Page(_) => {}
        }
        if kind == Owner::Anon {
            let accessed = self.pages.accessed();
            self.pages[pfn].set(PageFlags::MAPPED);
            self.pages[pfn].set(accessed);
            self.pages[pfn].set(PageFlags::DIRTY);
            self.pagecache.note_used_table(space, index);
            if self.kernel.reclaim.anon_start == AnonStart::Active {
                self.pages[pfn].set(PageFlags::ACTIVE);
            }
        }
        if faulted {
            self.pagecache.lru.note_fault(&mut self.pages[pfn]);
        }
        self.pagecache.lru.add(&mut self.pages, pfn, At::Head);
    }

    /// Returns what a page or folio that is added replaces: of several shadow entries, the last (`__filemap_add_folio`).
    fn entry_before(&self, space: SpaceId, index: u32, order: Order) -> Slot {
        let spaces = &self.pagecache.spaces;
        let mut before = spaces.slot(space, index);
        debug_assert!(!matches!(before, Slot::Page(_)), "index {index} has a page");
        for index in index + 1..index + (1 << order) {
            match spaces.slot(space, index) {
                Slot::Page(_) => debug_assert!(false, "index {index} has a page"),
                entry @ Slot::Shadow(_) => before = entry,
                Slot::Empty | Slot::Swap(_) => {}
            }
        }
        before
    }

    /// Adds a page that was read from swap to its mapping. It keeps its swap slot, so that it need not be written
    /// again unless it is dirtied. `shadow` is the entry that it left there.
    pub(crate) fn add_swap_cache(
        &mut self,
        space: SpaceId,
        index: u32,
        pfn: u32,
        slot: u32,
        shadow: Option<u32>,
    ) {
        self.pages[pfn].own(Owner::Anon, 0, space, index);
        self.pages[pfn].set_swap_slot(Some(slot));
        self.pagecache.spaces.set(space, index, Slot::Page(pfn));
        self.pages.note_young(pfn);
        if let Some(shadow) = shadow {
            self.refault(pfn, shadow);
        }
        self.pagecache.lru.note_fault(&mut self.pages[pfn]);
        self.pagecache.lru.add(&mut self.pages, pfn, At::Head);
    }

    /// Returns whether all indexes of a block of a mapping are empty.
    #[must_use]
    pub fn has_room(&self, space: SpaceId, index: u32, order: Order) -> bool {
        let spaces = &self.pagecache.spaces;
        let mut indexes = index..index + (1 << order);
        indexes.end <= spaces.get(space).len()
            && indexes.all(|at| spaces.slot(space, at) == Slot::Empty)
    }

    /// Adds a block that was just allocated to a mapping, or frees it if another task was faster. Returns whether it
    /// was added.
    pub fn add_or_free(
        &mut self,
        cpu: usize,
        space: SpaceId,
        index: u32,
        pfn: Pfn,
        order: Order,
    ) -> bool {
        let is_free = |at| match self.pagecache.spaces.slot(space, at) {
            Slot::Empty | Slot::Shadow(_) => true,
            Slot::Swap(_) => order == 0,
            Slot::Page(_) => false,
        };
        let adds = (index..index + (1 << order)).all(is_free);
        if adds {
            if self.zram().is_some() && order == 0 {
                self.page_from_zram(cpu, space, index);
            }
            self.add_page(space, index, pfn, order);
        } else {
            self.free_block(cpu, pfn.0 as u32, order);
        }
        adds
    }

    /// Marks a page or folio as used (`mark_page_accessed`; for mappings, the bit in the page table).
    pub fn mark_accessed(&mut self, pfn: u32) {
        if self.pagecache.lru.has_generations() {
            return self.count_access(pfn);
        }
        let page = &mut self.pages[pfn];
        if page.kind() == Owner::Anon || !page.has(PageFlags::REFERENCED) {
            page.set(PageFlags::REFERENCED);
            return;
        }
        if page.has(PageFlags::ACTIVE) || !page.has(PageFlags::LRU) {
            return;
        }
        page.clear(PageFlags::REFERENCED);
        let zone = usize::from(page.zone);
        self.pagecache.lru.remove(&mut self.pages, pfn);
        self.pages[pfn].set(PageFlags::ACTIVE);
        self.pagecache.lru.add(&mut self.pages, pfn, At::Head);
        let pages = 1 << self.pages[pfn].order();
        self.stat.pgactivate += pages;
        self.pages.note_young(pfn);
        let vec = self.pagecache.lru.of_zone(zone);
        self.pagecache.lru.vec(vec).age += pages;
    }

    /// Notes that `write` wrote to a page of a file, which counts as a use in old kernels.
    pub fn mark_written(&mut self, pfn: u32) {
        if self.kernel.reclaim.writes_are_uses {
            self.mark_accessed(pfn);
        }
    }

    /// Frees a clean page that is not under writeback, and leaves `slot` in its place.
    pub(crate) fn drop_page(&mut self, cpu: usize, pfn: u32, slot: Slot) {
        let page = self.pages[pfn];
        if page.has(PageFlags::LRU) {
            self.pagecache.lru.remove(&mut self.pages, pfn);
        }
        match page.swap_slot() {
            Some(place) if !matches!(slot, Slot::Swap(_)) => self.put_swap_slot(place),
            _ => {}
        }
        if page.kind() == Owner::File && self.pagecache.buffer_heads.is_some() {
            self.free_buffers(cpu, pfn, page.order());
        }
        for offset in 0..1 << page.order() {
            self.pagecache.spaces.set(page.owner, page.index + offset, slot);
        }
        self.relist_inode(page.owner);
        self.free_block(cpu, pfn, page.order());
    }

    /// Frees every clean page of a file, which must have no others, and its shadow entries. Returns the number of
    /// pages (`invalidate_mapping_pages`).
    pub(crate) fn invalidate(&mut self, cpu: usize, id: SpaceId) -> u64 {
        let mut dropped = 0;
        for index in 0..self.pagecache.spaces.get(id).len() {
            match self.pagecache.spaces.slot(id, index) {
                Slot::Page(pfn) => {
                    debug_assert_eq!(self.pages[pfn].kind(), Owner::File);
                    dropped += 1 << self.pages[pfn].order();
                    self.drop_page(cpu, pfn, Slot::Empty);
                }
                Slot::Shadow(_) => self.pagecache.spaces.set(id, index, Slot::Empty),
                Slot::Empty | Slot::Swap(_) => {}
            }
        }
        self.free_index_nodes(cpu, id);
        dropped
    }

    /// Frees the clean pages of all files, the newest file first (`drop_caches` = 1, `drop_pagecache_sb`).
    pub fn drop_page_caches(&mut self, cpu: usize) {
        for id in (0..self.pagecache.spaces.end()).rev() {
            let space = self.pagecache.spaces.get(id);
            if space.present == 0 || space.kind != SpaceKind::File {
                continue;
            }
            for index in 0..space.len() {
                let Slot::Page(pfn) = self.pagecache.spaces.slot(id, index) else { continue };
                let page = self.pages[pfn];
                let busy =
                    page.has(PageFlags::DIRTY) || page.has(PageFlags::WRITEBACK) || page.is_held();
                if page.has(PageFlags::LRU) && !busy {
                    self.drop_page(cpu, pfn, Slot::Empty);
                }
            }
            if self.pagecache.spaces.get(id).present == 0 {
                self.drop_shadows(cpu, id);
            }
        }
    }

    /// Removes a mapping (`munmap`, exit) or the pages of a file that is removed. Pages under writeback are dropped
    /// at once.
    pub fn remove_space(&mut self, cpu: usize, id: SpaceId) {
        for index in 0..self.pagecache.spaces.get(id).len() {
            match self.pagecache.spaces.slot(id, index) {
                Slot::Page(pfn) => {
                    // The tail pages of a huge page were freed with its head.
                    if self.pages[pfn].kind() == Owner::None {
                        continue;
                    }
                    if self.pages[pfn].has(PageFlags::WRITEBACK) {
                        self.end_write(pfn);
                    }
                    self.clean(pfn);
                    self.drop_page(cpu, pfn, Slot::Empty);
                }
                Slot::Shadow(_) => self.pagecache.spaces.set(id, index, Slot::Empty),
                Slot::Swap(slot) => {
                    self.free_swap(cpu, slot);
                    self.pagecache.spaces.set(id, index, Slot::Empty);
                }
                Slot::Empty => {}
            }
        }
        self.leave_khugepaged(id);
        self.free_index_nodes(cpu, id);
        self.pagecache.forget_walks(id);
        self.pagecache.spaces.forget(id);
    }

    /// Frees the folio of a file that begins at an index and has an order. Returns whether there is one.
    pub fn free_folio(&mut self, cpu: usize, space: SpaceId, index: u32, order: Order) -> bool {
        let Slot::Page(pfn) = self.pagecache.spaces.slot(space, index) else { return false };
        let page = &self.pages[pfn];
        let begins = page.kind().is_lru() && page.index == index && page.order() == order;
        if begins {
            self.end_write(pfn);
            self.clean(pfn);
            self.drop_page(cpu, pfn, Slot::Empty);
        }
        begins
    }

    /// Unmaps and frees a page of a mapping (`madvise(MADV_DONTNEED)` of a page); a huge page is split first.
    pub fn unmap_page(&mut self, cpu: usize, space: SpaceId, index: u32) {
        match self.pagecache.spaces.slot(space, index) {
            Slot::Page(pfn) => {
                self.split_for_unmap(pfn);
                self.end_write(pfn);
                self.drop_page(cpu, pfn, Slot::Empty);
            }
            Slot::Swap(slot) => {
                self.free_swap(cpu, slot);
                self.pagecache.spaces.set(space, index, Slot::Empty);
            }
            Slot::Empty | Slot::Shadow(_) => {}
        }
    }

    /// Locks a page of a file or mapping in memory.
    pub fn mlock(&mut self, pfn: u32) {
        if self.pages[pfn].has(PageFlags::LRU) {
            self.pagecache.lru.remove(&mut self.pages, pfn);
            self.pages[pfn].clear(PageFlags::ACTIVE);
            self.pages[pfn].set(PageFlags::UNEVICTABLE);
            self.pagecache.lru.add(&mut self.pages, pfn, At::Head);
        }
    }
}
