//! A pageblock's free blocks, which the page map knows: how many there are of each order.

use super::{Block, Packing, Partial, orders_of_many};
use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
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
    /// Returns the place of an order of a pageblock among those [of many](orders_of_many), or else among the others.
    #[inline(always)]
    fn count_place(&self, block: Block, order: Order) -> Result<usize, usize> {
        let (many, block) = (orders_of_many(self.pageblock_order), block as usize);
        if order < many {
            Ok(block * usize::from(many) + usize::from(order))
        } else {
            Err(block * usize::from(self.pageblock_order - many) + usize::from(order - many))
        }
    }

    /// Returns the lowest free block of an order and the pageblock's own type.
    #[inline]
    pub(super) fn lowest(&self, map: &PageMap<'_>, block: Block, order: Order) -> Option<Index> {
        let start = self.start_of(block);
        if map.has_bits() {
            return map.bits().lowest_free(start, order);
        }
        let own = Some(map.block_type(start));
        let mut places = (0..1 << (self.pageblock_order - order)).map(|at| start + (at << order));
        places.find(|&i| map.free_list(i, order) == own)
    }

    /// Counts a free block of a pageblock's own type.
    #[inline(always)]
    pub(super) fn count_in(&mut self, block: Block, order: Order) {
        match self.count_place(block, order) {
            Ok(place) => self.many[place] += 1,
            Err(place) => self.few[place] += 1,
        }
        let partial = &mut self.blocks[block as usize];
        partial.free += 1 << order;
        partial.orders |= 1 << order;
    }

    /// Counts such a block no more.
    #[inline(always)]
    pub(super) fn count_out(&mut self, block: Block, order: Order) {
        let none_left = match self.count_place(block, order) {
            Ok(place) => {
                self.many[place] -= 1;
                self.many[place] == 0
            }
            Err(place) => {
                self.few[place] -= 1;
                self.few[place] == 0
            }
        };
        let partial = &mut self.blocks[block as usize];
        partial.free -= 1 << order;
        partial.orders &= !(u16::from(none_left) << order);
    }

    /// Forgets what is counted for a pageblock.
    pub(super) fn clear_counts(&mut self, block: Block) {
        for order in 0..self.pageblock_order {
            match self.count_place(block, order) {
                Ok(place) => self.many[place] = 0,
                Err(place) => self.few[place] = 0,
            }
        }
        let partial = &mut self.blocks[block as usize];
        (partial.free, partial.orders) = (0, 0);
    }

    /// Returns the number of free blocks of an order and the pageblock's own type.
    pub(super) fn count_of(&self, block: Block, order: Order) -> u16 {
        match self.count_place(block, order) {
            Ok(place) => self.many[place],
            Err(place) => self.few[place].into(),
        }
    }

    /// Takes up to `n` blocks of `order`, at least one, as that many requests would that follow each other: the start
    /// of the block that the first finds. `None` where no partial pageblock of the type can serve.
    ///
    /// A pageblock that serves remains the choice as long as it can serve: it only becomes fuller, and of those
    /// equally full the one with the smallest largest block.
    #[inline]
    pub(crate) fn take_run(
        &mut self,
        map: &PageMap<'_>,
        area: &mut FreeArea,
        order: Order,
        list: Migratetype,
        n: u32,
    ) -> Option<Taken> {
        let block = self.choose(map, order, list)?;
        let from = order + (self.blocks[block as usize].orders >> order).trailing_zeros() as Order;
        let first = self.lowest(map, block, from)?;
        area.watch.one(map, first, list);
        area.count_out(from, list);
        self.count_out(block, from);
        map.set_taken(first, from);
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
        let partial = &self.blocks[block as usize];
        let class = self.class(partial, list);
        if partial.orders >> order == 0 {
            self.chosen = None;
        }
        if class != partial.class {
            self.reclass(block, class);
        }
        Some(Taken { first, n: taken })
    }

    /// Merges a block that is freed with the free blocks of its own type beside it in its pageblock: takes these
    /// out, and returns the first frame and order of the merged block, at most of the order `cap`. Puts it in its
    /// place and tells that, if nothing else can merge with it; otherwise its pageblock is to be settled, by doing
    /// so or by [`emptied`](Self::emptied).
    #[inline]
    pub(crate) fn merge(
        &mut self,
        map: &PageMap<'_>,
        area: &mut FreeArea,
        (mut i, mut order): (Index, Order),
        cap: Order,
        mt: Migratetype,
    ) -> (Index, Order, bool) {
        let block = self.block_of(i);
        if map.has_bits() {
            let merged = map.bits().free(i, order, cap);
            for o in order..merged {
                // What merged lies beside the freed block as that grew.
                area.watch.one(map, (i >> o ^ 1) << o, mt);
                area.count_out(o, mt);
                self.count_out(block, o);
            }
            (i, order) = (i >> merged << merged, merged);
        } else {
            map.set(i, FrameState::Free { order, list: mt });
            while order < cap {
                let at = i ^ (1 << order);
                if map.free_list(at, order) != Some(mt) {
                    break;
                }
                area.watch.one(map, at, mt);
                area.count_out(order, mt);
                self.count_out(block, order);
                map.set(i | at, FrameState::Tail);
                i &= at;
                order += 1;
            }
            map.set(i, FrameState::Free { order, list: mt });
        }
        if order >= self.pageblock_order || self.foreign > 0 {
            return (i, order, false);
        }
        area.watch.one(map, i, mt);
        area.count_in(order, mt);
        self.count_in(block, order);
        self.settle(map, block, mt);
        (i, order, true)
    }

    /// Returns the orders of a pageblock's own free blocks, one bit each.
    #[inline]
    pub(super) fn orders_of(&self, block: Block) -> u16 {
        let Partial { orders, .. } = self.blocks[block as usize];
        orders
    }
}
