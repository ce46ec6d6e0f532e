//! The pages of this crate as the content that compaction moves.

use pageblock::frame::{Order, Pfn};

use super::{Content, Mode};
use crate::base::inject::Inject;
use crate::page::{Owner, PageFlags, PageTable};
use crate::pagecache::PageCache;
use crate::swap::Swap;

/// Pages of files and mappings are movable, and those of zsmalloc; others are not.
pub(super) struct Pages<'a> {
    pub(super) pages: &'a mut PageTable,
    pub(super) pagecache: &'a mut PageCache,
    pub(super) swap: &'a mut Swap,
    pub(super) inject: &'a mut Inject,
    /// File systems may be entered (`__GFP_FS`).
    pub(super) fs: bool,
}

impl Content for Pages<'_> {
    fn is_movable(&self, pfn: Pfn, mode: Mode) -> bool {
        let page = self.pages.get(pfn);
        if page.kind() == Owner::Zsmalloc {
            return self.swap.zsmalloc_is_movable();
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
        let page = &self.pages[from];
        // Linux: a full synchronous migration waits for the write.
        if page.has(PageFlags::WRITEBACK) || self.inject.fails_migration() {
            return false;
        }
        if page.kind() == Owner::Zsmalloc {
            self.swap.migrate_zsmalloc(self.pages, from, to);
        } else {
            self.pagecache.migrate(self.pages, from, to);
        }
        true
    }

    fn split(&mut self, pfn: Pfn) -> bool {
        self.pagecache.split(self.pages, pfn.0 as u32);
        true
    }

    fn hold(&mut self, pfn: Pfn, order: Order, held: bool) {
        let page = &mut self.pages[pfn.0 as u32];
        if held {
            page.own(Owner::Compaction, order, 0, 0);
        } else {
            page.disown();
        }
    }
}
