//! Memory whose users are not modelled: pages of files that no file system has, and blocks of the kernel.

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};

use super::space::{Slot, SpaceId, SpaceKind};
use crate::base::list::NIL;
use crate::page::Owner;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Creates a file of up to `len` pages without an inode, a name and index nodes: its pages are reclaimed and migrated, and
    /// nothing else is known of it.
    pub fn create_plain_file(&mut self, len: u32) -> SpaceId {
        self.pagecache.spaces.create(SpaceKind::File, len, NIL)
    }

    /// Forgets that there was a page at an index of a file or mapping, which has none now.
    pub fn forget_index(&mut self, space: SpaceId, index: u32) {
        debug_assert!(!matches!(self.pagecache.spaces.slot(space, index), Slot::Page(_)));
        self.pagecache.spaces.set(space, index, Slot::Empty);
    }

    /// Marks a page or folio of a plain file as dirty; nothing but [`clean_plain`](Self::clean_plain) writes it.
    pub fn dirty_plain(&mut self, pfn: u32) {
        if self.pages[pfn].kind() == Owner::File {
            self.count_dirty(pfn);
        }
    }

    /// Marks the page or folio of a plain file that holds a page as clean: it was written, or is not needed any more.
    pub fn clean_plain(&mut self, pfn: u32) {
        self.clean(self.huge_head(pfn));
    }

    /// Splits a block that was allocated, and that nothing owns yet, into pages (`split_page`).
    pub fn split_page(&mut self, pfn: Pfn, order: Order) {
        debug_assert_eq!(self.pages[pfn.0 as u32].kind(), Owner::None);
        if let Err(error) = self.allocator.split_allocated(pfn, order, 0) {
            panic!("splitting the block at {pfn}: {error}");
        }
    }

    /// Splits a block of the kernel into blocks of a lower order (`split_page`).
    pub fn split_owned(&mut self, pfn: Pfn, into: Order) {
        let page = self.pages[pfn.0 as u32];
        debug_assert!(!page.kind().is_lru() && page.kind() != Owner::None);
        let order = page.order();
        if order > into && self.allocator.split_allocated(pfn, order, into).is_ok() {
            for start in (pfn.0..pfn.0 + (1 << order)).step_by(1 << into) {
                self.pages[start as u32].own(page.kind(), into, page.owner, 0);
            }
        }
    }
}
