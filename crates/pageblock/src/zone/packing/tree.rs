//! A pageblock's tree of bits: which blocks of it are free.

use super::{Block, Packing, Partial};
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
    /// Returns the node of a block in its pageblock's tree.
    #[inline]
    fn node(&self, i: Index, order: Order) -> usize {
        let pages = 1usize << self.pageblock_order;
        (pages + (i as usize & (pages - 1))) >> order
    }

    /// Returns the first word of a pageblock's tree.
    #[inline]
    fn first_word(&self, block: Block) -> usize {
        block as usize * Self::words(self.pageblock_order)
    }

    #[inline]
    pub(super) fn has_bit(&self, i: Index, order: Order) -> bool {
        let node = self.node(i, order);
        self.free[self.first_word(self.block_of(i)) + node / 64] & 1 << (node % 64) != 0
    }

    #[inline]
    fn set_bit(&mut self, i: Index, order: Order) {
        let node = self.node(i, order);
        self.free[self.first_word(self.block_of(i)) + node / 64] |= 1 << (node % 64);
    }

    /// Takes a block out of its tree; tells whether it was there.
    #[inline]
    pub(super) fn drop_bit(&mut self, i: Index, order: Order) -> bool {
        let node = self.node(i, order);
        let word = &mut self.free[self.first_word(self.block_of(i)) + node / 64];
        let bit = 1 << (node % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Returns the words of one order of a pageblock, and which of their bits where it is one.
    #[inline]
    fn bits_of(&self, block: Block, order: Order) -> (&[u64], u64) {
        let first = self.first_word(block);
        let n = (1usize << self.pageblock_order) >> order;
        if n < 64 {
            (&self.free[first..=first], ((1 << n) - 1) << n)
        } else {
            (&self.free[first + n / 64..first + 2 * (n / 64)], u64::MAX)
        }
    }

    #[inline]
    fn has_any(&self, block: Block, order: Order) -> bool {
        let (words, mask) = self.bits_of(block, order);
        words.iter().any(|word| word & mask != 0)
    }

    /// Returns the lowest free block of an order and the pageblock's own type.
    #[inline]
    pub(super) fn lowest(&self, block: Block, order: Order) -> Option<Index> {
        let (words, mask) = self.bits_of(block, order);
        let at = words.iter().position(|word| word & mask != 0)?;
        let bit = (words[at] & mask).trailing_zeros();
        let n = (1u32 << self.pageblock_order) >> order;
        let place = at as u32 * 64 + if n < 64 { bit - n } else { bit };
        Some(self.start_of(block) + (place << order))
    }

    /// Puts a block in its tree and counts it.
    #[inline]
    pub(super) fn add(&mut self, i: Index, order: Order) {
        self.set_bit(i, order);
        let partial = &mut self.blocks[(i >> self.pageblock_order) as usize];
        partial.free += 1 << order;
        partial.orders |= 1 << order;
    }

    /// Counts a block that was taken out of its tree.
    #[inline]
    pub(super) fn count_taken(&mut self, block: Block, order: Order) {
        self.blocks[block as usize].free -= 1 << order;
        self.drop_orders(block, 1 << order);
    }

    /// Clears those of some orders that have no blocks any more.
    #[inline]
    fn drop_orders(&mut self, block: Block, orders: u16) {
        let mut left = orders;
        while left != 0 {
            let order = left.trailing_zeros() as Order;
            left &= left - 1;
            if !self.has_any(block, order) {
                self.blocks[block as usize].orders &= !(1 << order);
            }
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
        let first = self.lowest(block, from)?;
        area.watch.one(map, first, list);
        area.count_out(from, list);
        self.drop_bit(first, from);
        map.set(first, FrameState::Tail);
        let taken = n.min(1 << (from - order));
        self.blocks[block as usize].free -= (taken << order) as u16;
        self.drop_orders(block, 1 << from);
        let mut at = taken;
        while at < 1 << (from - order) {
            let piece = order + at.trailing_zeros() as Order;
            let i = first + (at << order);
            map.set(i, FrameState::Free { order: piece, list });
            area.watch.one(map, i, list);
            area.count_in(piece, list);
            self.set_bit(i, piece);
            self.blocks[block as usize].orders |= 1 << piece;
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
        let first = self.first_word(block);
        let mut node = self.node(i, order);
        let (mut gone, mut pages) = (0u16, 0u16);
        while order < cap {
            let buddy = node ^ 1;
            let word = &mut self.free[first + buddy / 64];
            let bit = 1 << (buddy % 64);
            if *word & bit == 0 {
                break;
            }
            *word &= !bit;
            let at = i ^ (1 << order);
            area.watch.one(map, at, mt);
            area.count_out(order, mt);
            map.set(at, FrameState::Tail);
            gone |= 1 << order;
            pages += 1 << order;
            i &= at;
            order += 1;
            node >>= 1;
        }
        if gone != 0 {
            self.blocks[block as usize].free -= pages;
            self.drop_orders(block, gone);
        }
        if order >= self.pageblock_order || self.foreign > 0 {
            return (i, order, false);
        }
        map.set(i, FrameState::Free { order, list: mt });
        area.watch.one(map, i, mt);
        area.count_in(order, mt);
        self.free[first + node / 64] |= 1 << (node % 64);
        let partial = &mut self.blocks[block as usize];
        partial.free += 1 << order;
        partial.orders |= 1 << order;
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
