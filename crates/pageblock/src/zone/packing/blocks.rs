//! Taking, merging and counting the free blocks of a pageblock.

use super::batch::watch_merge;
use super::{Block, Packing, bucket_order};
use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::table::freelist::FreeArea;
use crate::table::map::{FrameState, Index, PageMap};

/// Blocks that follow each other.
pub(crate) struct Taken {
    /// The first of them.
    pub(crate) first: Index,
    /// Their number.
    pub(crate) n: u32,
}

impl Packing<'_> {
    /// Returns the lowest free block of an order and the pageblock's own type.
    pub(super) fn lowest(
        &self,
        map: &PageMap<'_, impl PolicySource>,
        block: Block,
        order: Order,
    ) -> Option<Index> {
        map.bits().lowest_free(self.start_of(block), order)
    }

    /// Counts a free block of a pageblock's own type.
    pub(super) fn count_in(&mut self, block: Block, order: Order) {
        self.counts.add(block, order);
        let free = &mut self.blocks[block as usize].free;
        *free += 1 << order;
        debug_assert!(*free <= 1 << self.pageblock_order, "more free pages than the pageblock has");
    }

    /// Removes such a block from the counts.
    pub(super) fn count_out(&mut self, block: Block, order: Order) {
        self.counts.sub(block, order);
        self.blocks[block as usize].free -= 1 << order;
    }

    /// Clears the counts of a pageblock.
    pub(super) fn clear_counts(&mut self, block: Block) {
        self.counts.clear(block);
        self.blocks[block as usize].free = 0;
    }

    /// Takes up to `n` blocks of `order`, at least one, from the start of the block that the next request would find:
    /// what that many requests in a row would get. `None` if no partial pageblock of the type can serve.
    ///
    /// The chosen pageblock remains the choice while it can serve: it only becomes fuller, and its largest block
    /// smaller.
    pub(crate) fn take_run(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        order: Order,
        list: Migratetype,
        n: u32,
    ) -> Option<Taken> {
        let block = self.choose(map, order, list)?;
        let from = self.counts.smallest(block, order)?;
        let first = self.lowest(map, block, from)?;
        debug_assert_eq!(map.free_list(first, from), Some(list), "the lowest block is not free");
        area.watch.one(map, first, list);
        area.count_out(from, list);
        self.count_out(block, from);
        map.set_taken(first, from);
        debug_assert!(n > 0 && first % (1 << from) == 0, "no block of order {from} at {first}");
        let taken = n.min(1 << (from - order));
        let mut at = taken;
        while at < 1 << (from - order) {
            let piece = order + at.trailing_zeros() as Order;
            let i = first + (at << order);
            map.set(i, FrameState::Free { order: piece, list });
            area.watch.one(map, i, list);
            area.count_in(piece, list);
            self.count_in(block, piece);
            at += 1 << (piece - order);
        }
        if self.counts.smallest(block, order).is_none() {
            self.chosen = None;
        }
        let class = self.class(block, list);
        if class != self.blocks[block as usize].class {
            self.reclass(block, class);
        }
        debug_assert!(!map.is_sparse(block), "a pageblock that is being filled is sparse");
        Some(Taken { first, n: taken })
    }

    /// Merges a block that is freed with its free buddies of the same type in its pageblock, up to the order `cap`.
    /// Returns the first frame and the order of the merged block, and whether it was added too: true if it is smaller
    /// than a pageblock, so that nothing else can merge with it. Otherwise the caller must settle its pageblock, directly
    /// or with [`emptied`](Self::emptied).
    pub(crate) fn merge(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        (i, order): (Index, Order),
        cap: Order,
    ) -> (Index, Order, bool) {
        let merged = map.bits().free(i, order, cap);
        self.count_freed(map, area, i, (order, merged));
        (i >> merged << merged, merged, merged < self.pageblock_order)
    }

    /// Counts a block of an order that was freed and merged into one of order `merged`, and adds that unless it is a
    /// whole pageblock. Returns its type.
    pub(crate) fn count_freed(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        i: Index,
        (order, merged): (Order, Order),
    ) -> Migratetype {
        let (block, mt) = (self.block_of(i), map.block_type(i));
        watch_merge(area, map, i, (order, merged));
        for at in order..merged {
            area.count_out(at, mt);
        }
        let same_largest = self.counts.merge(block, order, merged);
        let (partial, step) =
            (&mut self.blocks[block as usize], bucket_order(self.pageblock_order));
        if merged == self.pageblock_order {
            debug_assert_eq!(
                u32::from(partial.free) + (1 << order),
                1 << merged,
                "the rest of the pageblock was not free"
            );
            partial.free = 0;
            return mt;
        }
        area.count_in(merged, mt);
        if !(partial.grow(order, step) && same_largest) {
            self.settle(map, block, mt);
        }
        mt
    }
}
