//! Splitting huge pages (`split_huge_page`, mm/huge_memory.c).

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};

use crate::page::{Owner, PageFlags};
use crate::vm::Vm;

/// The number of orders that a block may have.
const ORDERS: Order = 16;

impl<O: Observer> Vm<'_, O> {
    /// Splits a huge page that is off its list into single pages.
    pub(crate) fn split_huge(&mut self, pfn: u32) {
        let page = self.pages[pfn];
        if let Err(error) = self.allocator.split_allocated(Pfn(pfn.into()), page.order(), 0) {
            panic!("splitting the huge page at {pfn}: {error}");
        }
        for offset in 0..1u32 << page.order() {
            let part = &mut self.pages[pfn + offset];
            part.own(page.kind(), 0, page.owner, page.index + offset);
            part.flags = page.flags;
            part.clear(PageFlags::LRU);
        }
        self.stat.thp_split_page += 1;
    }

    /// Splits the huge page that holds a page, if there is one; its pages are back on their list.
    pub(crate) fn split_for_unmap(&mut self, pfn: u32) {
        let head = self.huge_head(pfn);
        let order = self.pages[head].order();
        if order > 0 {
            self.isolate(head);
            self.split_huge(head);
            for part in head..head + (1 << order) {
                self.putback(part);
            }
        }
    }

    /// Returns the first page of the block that holds a page in use.
    fn huge_head(&self, pfn: u32) -> u32 {
        (0..ORDERS)
            .map(|order| pfn >> order << order)
            .find(|&head| self.pages[head].kind() != Owner::None)
            .unwrap_or(pfn)
    }
}
