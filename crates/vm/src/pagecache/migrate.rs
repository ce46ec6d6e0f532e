//! Migration of the content of a page or folio to another of its order, and folios that are split (mm/migrate.c,
//! mm/huge_memory.c).

use super::PageCache;
use super::lru::At;
use super::space::Slot;
use crate::page::{PageFlags, PageTable};

impl PageCache {
    /// Moves the content of a block that is on an LRU list to one of its order without an owner. The old block has no
    /// owner afterwards.
    pub(crate) fn migrate(&mut self, pages: &mut PageTable, from: u32, to: u32) {
        debug_assert!(pages[from].has(PageFlags::LRU), "frame {from} is on no list");
        self.lru.remove(pages, from);
        let moved = pages[from];
        let new = &mut pages[to];
        new.own(moved.kind(), moved.order(), moved.owner, moved.index);
        new.flags = moved.flags;
        self.lru.note_migrated(new);
        for offset in 0..1 << moved.order() {
            let private = pages[from + offset].take_private();
            pages[to + offset].set_private(private);
            self.spaces.set(moved.owner, moved.index + offset, Slot::Page(to + offset));
        }
        pages[from].disown();
        self.lru.add(pages, to, At::Head);
    }

    /// Makes the pages of a block entries of their own, on the list that the block is on.
    pub(crate) fn split(&mut self, pages: &mut PageTable, pfn: u32) {
        let block = pages[pfn];
        let listed = block.has(PageFlags::LRU);
        let rejoins = self.lru.has_generations() && !block.has(PageFlags::UNEVICTABLE);
        if listed {
            self.lru.remove(pages, pfn);
        }
        for offset in 0..1u32 << block.order() {
            let part = &mut pages[pfn + offset];
            let private = part.take_private();
            part.own(block.kind(), 0, block.owner, block.index + offset);
            part.flags = block.flags;
            part.set_private(private);
            part.clear(PageFlags::LRU);
            if listed && rejoins {
                self.lru.rejoin(pages, pfn + offset);
            } else if listed {
                self.lru.add(pages, pfn + offset, At::Head);
            }
        }
    }
}
