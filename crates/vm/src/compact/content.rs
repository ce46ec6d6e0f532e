//! The content that compaction moves: an embedder's, or the pages of this crate.

use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};

use super::{Mode, ZoneCompact};
use crate::base::inject::Inject;
use crate::page::{Owner, PageFlags, PageTable};
use crate::pagecache::PageCache;
use crate::swap::Swap;

/// The content of an embedder's pages.
pub trait Content {
    /// Returns whether the content of the block in use that begins with a frame can be migrated now. Only blocks of order
    /// 0 are asked for, from 6.9 also larger ones below the wanted order (`moves_folios`).
    fn is_movable(&self, pfn: Pfn, mode: Mode) -> bool;

    /// Migrates the content of a block to another of its order, which is free for it. Returns `false` and leaves the
    /// content if that fails; otherwise compaction frees `from`.
    fn migrate(&mut self, from: Pfn, to: Pfn, mode: Mode) -> bool;

    /// Splits the content of a block above order 0 into its pages, as no free block of its order was found. Returns
    /// whether it did; otherwise the content stays where it is.
    fn split(&mut self, _pfn: Pfn) -> bool {
        false
    }

    /// Notes that compaction holds a free block as a migration target.
    fn hold(&mut self, _pfn: Pfn, _order: Order) {}

    /// Notes that compaction no longer holds a block.
    fn let_go(&mut self, _pfn: Pfn, _order: Order) {}
}

/// What compaction works on.
pub struct Memory<'a, 'm, C> {
    /// The allocator that has the zone.
    pub allocator: &'a mut Allocator<'m>,
    /// What is kept of the zone between compactions.
    pub state: &'a mut ZoneCompact,
    /// What is in its frames.
    pub content: &'a mut C,
}

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
        let held = page.has(PageFlags::WRITEBACK) || page.is_held();
        if held || self.inject.fails_migration() {
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

    fn hold(&mut self, pfn: Pfn, order: Order) {
        let page = &mut self.pages[pfn.0 as u32];
        debug_assert!(!page.has(PageFlags::LRU), "{page:?} is no free block");
        page.own(Owner::Compaction, order, 0, 0);
    }

    fn let_go(&mut self, pfn: Pfn, _order: Order) {
        let page = &mut self.pages[pfn.0 as u32];
        debug_assert_eq!(page.kind(), Owner::Compaction, "compaction does not hold it");
        page.disown();
    }
}
