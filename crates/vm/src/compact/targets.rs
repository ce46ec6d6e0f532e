//! Free pages that compaction holds as migration targets.
//!
//! Source: `compact_control.freepages`, `compaction_alloc`, `compaction_free`, `release_free_list` (mm/compaction.c).

use std::collections::VecDeque;

use pageblock::alloc::Allocator;
use pageblock::frame::{NR_PAGE_ORDERS, Order, Pfn, pages};

use super::Content;

/// The targets of a compaction, a list for each order. Up to 6.8 all are single pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    lists: [VecDeque<u32>; NR_PAGE_ORDERS],
    pages: usize,
}

impl Targets {
    /// Returns the number of pages.
    pub(super) const fn pages(&self) -> usize {
        self.pages
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Adds a block that is used after all others of its order.
    pub(super) fn push_last(&mut self, pfn: Pfn, order: Order) {
        self.lists[usize::from(order)].push_back(pfn.0 as u32);
        self.pages += 1 << order;
    }

    /// Adds a block that is used next.
    pub(super) fn push_next(&mut self, pfn: Pfn, order: Order) {
        self.lists[usize::from(order)].push_front(pfn.0 as u32);
        self.pages += 1 << order;
    }

    /// Takes a block of an order, split off the smallest that is large enough.
    pub(super) fn take<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        content: &mut C,
        order: Order,
    ) -> Option<Pfn> {
        let mut at =
            (order..NR_PAGE_ORDERS as Order).find(|&at| !self.lists[usize::from(at)].is_empty())?;
        let pfn = Pfn(self.lists[usize::from(at)].pop_front()?.into());
        self.pages -= 1 << at;
        content.hold(pfn, at, false);
        while at > order {
            if let Err(error) = allocator.split_allocated(pfn, at, at - 1) {
                panic!("splitting the target at {pfn}: {error}");
            }
            at -= 1;
            let half = pfn.plus(pages(at));
            content.hold(half, at, true);
            self.push_next(half, at);
        }
        Some(pfn)
    }

    /// Takes any block, those of the lowest orders first.
    pub(super) fn take_any(&mut self) -> Option<(Pfn, Order)> {
        let (order, list) = (0..).zip(&mut self.lists).find(|(_, list)| !list.is_empty())?;
        let pfn = list.pop_front()?;
        self.pages -= 1 << order;
        Some((Pfn(pfn.into()), order))
    }

    /// Returns the first frame of the highest block.
    pub(super) fn highest(&self) -> Option<Pfn> {
        self.lists.iter().flatten().max().map(|&pfn| Pfn(pfn.into()))
    }
}
