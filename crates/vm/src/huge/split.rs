//! Splitting huge pages (`split_huge_page`, mm/huge_memory.c).

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};

use crate::page::Owner;
use crate::vm::Vm;

/// The number of orders that a block may have.
const ORDERS: Order = 16;

impl<O: Observer> Vm<'_, O> {
    /// Splits a block of a file or mapping into single pages; they are on the list that it was on.
    pub(crate) fn split_huge(&mut self, pfn: u32) {
        let order = self.pages[pfn].order();
        if let Err(error) = self.allocator.split_allocated(Pfn(pfn.into()), order, 0) {
            panic!("splitting the block at {pfn}: {error}");
        }
        self.pagecache.split(&mut self.pages, pfn);
        self.stat.thp_split_page += u64::from(order == self.allocator.geometry().pageblock_order);
    }

    /// Splits the block of more than a page that holds a page, if there is one.
    pub(crate) fn split_for_unmap(&mut self, pfn: u32) {
        let head = self.huge_head(pfn);
        if self.pages[head].order() > 0 {
            self.split_huge(head);
        }
    }

    /// Returns the first page of the block that holds a page in use.
    pub(crate) fn huge_head(&self, pfn: u32) -> u32 {
        (0..ORDERS)
            .map(|order| pfn >> order << order)
            .find(|&head| self.pages[head].kind() != Owner::None)
            .unwrap_or(pfn)
    }
}
