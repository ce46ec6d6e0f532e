//! The content of this crate's pages, as compaction sees it.

use pageblock::frame::Pfn;

use super::{Content, Mode};
use crate::base::inject::Inject;
use crate::page::space::{Slot, Spaces};
use crate::page::table::{Owner, PageFlags, PageTable};
use crate::pagecache::lru::{At, Lru};
use crate::swap::zram::Zram;

/// Pages of files and mappings can be moved, and zsmalloc's; others cannot.
pub(crate) struct Pages<'a> {
    pub(crate) pages: &'a mut PageTable,
    pub(crate) spaces: &'a mut Spaces,
    pub(crate) lru: &'a mut Lru,
    pub(crate) inject: &'a mut Inject,
    pub(crate) zram: &'a mut Option<Zram>,
    /// File systems may be entered.
    pub(crate) fs: bool,
}

impl Content for Pages<'_> {
    fn is_movable(&self, pfn: Pfn, mode: Mode) -> bool {
        let page = self.pages.get(pfn);
        if page.kind() == Owner::Zsmalloc {
            return self.zram.as_ref().is_some_and(|zram| zram.movable);
        }
        if !page.kind().is_lru() || !page.has(PageFlags::LRU) {
            return false;
        }
        if page.kind() == Owner::File && !self.fs {
            return false;
        }
        mode != Mode::Async || !page.has(PageFlags::WRITEBACK)
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, _mode: Mode) -> bool {
        let (from, to) = (from.0 as u32, to.0 as u32);
        let page = self.pages[from];
        // Linux: a full synchronous migration waits for the write.
        if page.has(PageFlags::WRITEBACK) || self.inject.fails_migration() {
            return false;
        }
        if page.kind() == Owner::Zsmalloc {
            self.pages[to].give(Owner::Zsmalloc, 0, page.owner, page.index);
            self.pages[from].disown();
            if let Some(zram) = self.zram {
                zram.pool.move_page(page.owner, page.index, to);
            }
            return true;
        }
        self.lru.remove(self.pages, from);
        let moved = self.pages[from];
        let new = &mut self.pages[to];
        new.give(moved.kind(), 0, moved.owner, moved.index);
        new.flags = moved.flags;
        new.swap = moved.swap;
        self.spaces.set(moved.owner, moved.index, Slot::Page(to));
        self.pages[from].disown();
        self.lru.add(self.pages, to, At::Head);
        true
    }

    fn hold(&mut self, pfn: Pfn, held: bool) {
        let page = &mut self.pages[pfn.0 as u32];
        if held {
            page.give(Owner::Compaction, 0, 0, 0);
        } else {
            page.disown();
        }
    }
}
