//! Free pages that the recorded compaction holds as migration targets, in the order in which it uses them.
//!
//! Source: `compaction_alloc`, `split_map_pages`, `release_free_list` (mm/compaction.c).

use std::collections::VecDeque;

use pageblock::frame::{NR_PAGE_ORDERS, Order, Pfn, pages};

/// The targets of a run of compaction, one list per order.
pub(super) struct Targets {
    lists: [VecDeque<Pfn>; NR_PAGE_ORDERS],
    /// From 6.9 on (733aea0b3a7b) blocks are kept whole, and used in the order in which they were isolated. Up to
    /// 6.8 they are split into pages, and the last page is used first.
    whole: bool,
}

impl Targets {
    pub(super) fn new(whole: bool) -> Self {
        Self { lists: Default::default(), whole }
    }

    /// Notes that compaction has taken a free block.
    pub(super) fn isolate(&mut self, pfn: Pfn, order: Order) {
        if self.whole {
            self.lists[usize::from(order)].push_back(pfn);
        } else {
            (0..pages(order)).for_each(|n| self.lists[0].push_front(pfn.plus(n)));
        }
    }

    /// Returns the frame to which compaction has moved a page or folio: a block of its order, split off the
    /// smallest target that is large enough.
    pub(super) fn take(&mut self, order: Order) -> Option<Pfn> {
        if order > 0 && !self.whole {
            return None;
        }
        let mut at =
            (order..NR_PAGE_ORDERS as Order).find(|&at| !self.lists[usize::from(at)].is_empty())?;
        let pfn = self.lists[usize::from(at)].pop_front()?;
        while at > order {
            at -= 1;
            self.lists[usize::from(at)].push_front(pfn.plus(pages(at)));
        }
        Some(pfn)
    }

    /// Returns whether a freed block is a target that compaction did not use, and drops it.
    pub(super) fn give_back(&mut self, pfn: Pfn, order: Order) -> bool {
        let (start, end) = (pfn, pfn.plus(pages(order)));
        let mut found = false;
        for (at, list) in (0..).zip(&mut self.lists) {
            list.retain(|&block| {
                let overlaps = block < end && start < block.plus(pages(at));
                found |= overlaps;
                !overlaps
            });
        }
        found
    }
}
