//! Content in memory: pages of files and of mappings, found, added, used, dropped.
//!
//! Source: mm/filemap.c, mm/swap.c (`mark_page_accessed`), mm/truncate.c.

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::request::Gfp;
use pageblock_kernel::rules::reclaim::AnonStart;

use crate::base::list::NIL;
use crate::fs::inode::{InodeId, Lifetime, Unused};
use crate::page::space::{Slot, SpaceId, SpaceKind};
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::At;
use crate::slab::caches::CacheId;
use crate::vm::Vm;

/// The flags of a page of a file that is written: `GFP_HIGHUSER_MOVABLE | __GFP_WRITE` without FS,
/// as XFS sets up its mappings.
pub const GFP_CACHE_WRITE: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::FS.0 | Gfp::WRITE.0);
/// The flags of a page of a file that is read.
pub const GFP_CACHE_READ: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::FS.0);
/// The flags of a page of an anonymous mapping.
pub const GFP_ANON: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::ZERO.0);

impl<O: Observer> Vm<'_, O> {
    /// Makes a file of up to `len` pages. Its objects are not in memory yet.
    pub fn create_file(&mut self, len: u32) -> InodeId {
        let inode = self.inodes.create(NIL);
        let space = self.spaces.create(SpaceKind::File, len, inode);
        self.inodes.get_mut(inode).space = space;
        inode
    }

    /// Makes an anonymous mapping of `len` pages.
    pub fn create_mapping(&mut self, len: u32) -> SpaceId {
        self.spaces.create(SpaceKind::Anon, len, NIL)
    }

    /// Gives a file the object that [`Inodes::missing_object`](crate::fs::inode::Inodes::missing_object)
    /// found missing.
    pub fn set_object(&mut self, inode: InodeId, at: usize, object: u32) {
        self.inodes.get_mut(inode).objects[at] = object;
    }

    /// A user opens a file, all of whose objects are in memory.
    pub fn open(&mut self, id: InodeId) {
        debug_assert!(self.inodes.missing_object(id).is_none(), "inode {id} is not in memory");
        let inode = self.inodes.get_mut(id);
        inode.users += 1;
        inode.referenced = true;
        if inode.unused == Unused::Inode {
            // Looked up anew by a new dentry.
            self.inodes.set_unused(id, Unused::No);
        }
    }

    /// A user closes a file; without one its dentry waits to be reclaimed.
    pub fn close(&mut self, id: InodeId) {
        let dentry = self.inodes.get(id).objects[0];
        let node = if dentry == NIL { 0 } else { self.node_of(dentry) as u8 };
        let inode = self.inodes.get_mut(id);
        inode.users -= 1;
        if inode.users == 0 && inode.unused == Unused::No {
            inode.referenced = false;
            inode.node = node;
            self.inodes.set_unused(id, Unused::Dentry);
        }
    }

    /// The cache of what a program has of each file that it has open; `None` where that is not modelled,
    /// see [`Config::checkpoint_bytes`](crate::config::Config::checkpoint_bytes).
    #[must_use]
    pub const fn file_cache(&self) -> Option<CacheId> {
        self.file_cache
    }

    /// The cache of index nodes of files.
    #[must_use]
    pub const fn radix_nodes(&self) -> CacheId {
        self.radix_nodes
    }

    /// Gives a file the index node that a page at this index needs.
    pub fn set_index_node(&mut self, space: SpaceId, index: u32, object: u32) {
        self.spaces.set_node(space, index, object);
    }

    /// Adds a page that was just allocated to a file or mapping, at an index where none is.
    pub fn add_page(&mut self, space: SpaceId, index: u32, pfn: Pfn, order: Order) {
        let pfn = pfn.0 as u32;
        let before = self.spaces.slot(space, index);
        debug_assert!(!matches!(before, Slot::Page(_)), "index {index} has a page");
        let kind = match self.spaces.get(space).kind {
            SpaceKind::File => Owner::File,
            SpaceKind::Anon => Owner::Anon,
        };
        self.pages[pfn].give(kind, order, space, index);
        for offset in 0..1 << order {
            self.spaces.set(space, index + offset, Slot::Page(pfn + offset));
        }
        self.note_young(pfn);
        match before {
            Slot::Shadow(trace) => self.refault(pfn, trace),
            Slot::Swap(place) => self.swap.put(place),
            Slot::Empty | Slot::Page(_) => {}
        }
        if kind == Owner::Anon {
            self.pages[pfn].set(PageFlags::MAPPED);
            self.pages[pfn].set(PageFlags::REFERENCED);
            self.pages[pfn].set(PageFlags::DIRTY);
            if self.kernel.reclaim.anon_start == AnonStart::Active {
                self.pages[pfn].set(PageFlags::ACTIVE);
            }
        }
        self.lru.add(&mut self.pages, pfn, At::Head);
    }

    /// Tells whether nothing is at the indexes of a block of a mapping yet.
    #[must_use]
    pub fn has_room(&self, space: SpaceId, index: u32, order: Order) -> bool {
        let mut indexes = index..index + (1 << order);
        indexes.end <= self.spaces.get(space).len()
            && indexes.all(|at| self.spaces.slot(space, at) == Slot::Empty)
    }

    /// Adds a block that was just allocated to a mapping; frees it where, while it was allocated,
    /// another got there first. Tells whether it was added.
    pub fn add_or_free(
        &mut self,
        cpu: usize,
        space: SpaceId,
        index: u32,
        pfn: Pfn,
        order: Order,
    ) -> bool {
        let is_free = |at| match self.spaces.slot(space, at) {
            Slot::Empty | Slot::Shadow(_) => true,
            Slot::Swap(_) => order == 0,
            Slot::Page(_) => false,
        };
        let adds = (index..index + (1 << order)).all(is_free);
        if adds {
            if self.zram.is_some() && order == 0 {
                self.page_from_zram(cpu, space, index);
            }
            self.add_page(space, index, pfn, order);
        } else {
            self.free_block(cpu, pfn.0 as u32, order);
        }
        adds
    }

    /// The page at an index was used (`mark_page_accessed`; for mappings, the bit in the page table).
    pub fn mark_accessed(&mut self, pfn: u32) {
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
        self.lru.remove(&mut self.pages, pfn);
        self.pages[pfn].set(PageFlags::ACTIVE);
        self.lru.add(&mut self.pages, pfn, At::Head);
        self.stat.pgactivate += 1;
        self.note_young(pfn);
        let vec = self.lru.of_zone(zone);
        self.lru.vec(vec).age += 1;
    }

    /// A page of a file was written to by `write`, which counts as a use in old kernels.
    pub fn mark_written(&mut self, pfn: u32) {
        if self.kernel.reclaim.writes_are_uses {
            self.mark_accessed(pfn);
        }
    }

    /// Drops a clean page that nobody writes from its file or mapping, leaving `slot`, and frees it.
    pub(crate) fn drop_page(&mut self, cpu: usize, pfn: u32, slot: Slot) {
        let page = self.pages[pfn];
        if page.has(PageFlags::LRU) {
            self.lru.remove(&mut self.pages, pfn);
        }
        if page.swap > 0 && !matches!(slot, Slot::Swap(_)) {
            self.swap.put(page.swap - 1);
        }
        for offset in 0..1 << page.order() {
            self.spaces.set(page.owner, page.index + offset, slot);
        }
        self.free_block(cpu, pfn, page.order());
    }

    /// Removes a file with its pages and objects (`unlink` by its last user). Gives `false`, and
    /// removes nothing, while pages are being written or users have it open.
    pub fn remove_file(&mut self, cpu: usize, id: InodeId) -> bool {
        let space = self.inodes.get(id).space;
        if self.inodes.get(id).users > 0 || self.spaces.get(space).writeback > 0 {
            return false;
        }
        self.remove_space(cpu, space);
        for lifetime in [Lifetime::Dentry, Lifetime::Inode] {
            for object in self.inodes.take_objects(id, lifetime) {
                self.put_object(cpu, object);
            }
        }
        self.inodes.forget(id);
        true
    }

    /// Removes a mapping (`munmap`, exit), or the pages of a file that goes. Pages that are being
    /// written to swap are dropped when that ends.
    pub fn remove_space(&mut self, cpu: usize, id: SpaceId) {
        for index in 0..self.spaces.get(id).len() {
            match self.spaces.slot(id, index) {
                Slot::Page(pfn) => {
                    // Tails of a huge page go with its first page.
                    if self.pages[pfn].kind() == Owner::None {
                        continue;
                    }
                    if self.pages[pfn].has(PageFlags::WRITEBACK) {
                        self.end_write(pfn);
                    }
                    self.clean(pfn);
                    self.drop_page(cpu, pfn, Slot::Empty);
                }
                Slot::Shadow(_) => self.spaces.set(id, index, Slot::Empty),
                Slot::Swap(place) => {
                    self.free_swap(cpu, place);
                    self.spaces.set(id, index, Slot::Empty);
                }
                Slot::Empty => {}
            }
        }
        self.khugepaged.leave(id);
        self.free_index_nodes(cpu, id);
        self.spaces.forget(id);
    }

    /// Locks a mapping's or file's page in memory.
    pub fn mlock(&mut self, pfn: u32) {
        if self.pages[pfn].has(PageFlags::LRU) {
            self.lru.remove(&mut self.pages, pfn);
            self.pages[pfn].clear(PageFlags::ACTIVE);
            self.pages[pfn].set(PageFlags::UNEVICTABLE);
            self.lru.add(&mut self.pages, pfn, At::Head);
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Unmaps and frees a page of a mapping (`madvise(MADV_DONTNEED)` of a page); one in the middle
    /// of a huge page splits it first.
    pub fn unmap_page(&mut self, cpu: usize, space: SpaceId, index: u32) {
        match self.spaces.slot(space, index) {
            Slot::Page(pfn) => {
                let head = self.huge_head(pfn);
                if self.pages[head].order() > 0 {
                    self.lru.remove(&mut self.pages, head);
                    let order = self.pages[head].order();
                    self.split_huge(head);
                    for part in head..head + (1 << order) {
                        self.putback(part);
                    }
                }
                self.end_write(pfn);
                self.drop_page(cpu, pfn, Slot::Empty);
            }
            Slot::Swap(place) => {
                self.free_swap(cpu, place);
                self.spaces.set(space, index, Slot::Empty);
            }
            Slot::Empty | Slot::Shadow(_) => {}
        }
    }

    /// The first page of the block that holds a page in use.
    fn huge_head(&self, pfn: u32) -> u32 {
        (0..16u32)
            .map(|order| pfn >> order << order)
            .find(|&head| self.pages[head].kind() != Owner::None)
            .unwrap_or(pfn)
    }
}
