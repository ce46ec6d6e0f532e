//! Migration of a page's content to another page (mm/migrate.c).

use super::PageCache;
use super::lru::At;
use super::space::Slot;
use crate::page::{PageFlags, PageTable};

impl PageCache {
    /// Moves the content of a page that is on an LRU list to a page without an owner. The old page has no owner
    /// afterwards.
    pub(crate) fn migrate(&mut self, pages: &mut PageTable, from: u32, to: u32) {
        debug_assert!(pages[from].has(PageFlags::LRU), "frame {from} is on no list");
        self.lru.remove(pages, from);
        let moved = pages[from];
        let new = &mut pages[to];
        new.own(moved.kind(), 0, moved.owner, moved.index);
        new.flags = moved.flags;
        new.swap = moved.swap;
        self.spaces.set(moved.owner, moved.index, Slot::Page(to));
        pages[from].disown();
        self.lru.add(pages, to, At::Head);
    }
}
