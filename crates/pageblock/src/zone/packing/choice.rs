//! The choice of the pageblock that serves a request, and of the one that a fallback examines.

use super::{BUCKETS, Block, NIL, Packing};
use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::table::map::{Index, PageMap};

/// The pageblock of a type that a fallback prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefer {
    /// The one with the most free memory, to claim it.
    Emptiest,
    /// The one with the least free memory, to split a block of it.
    Fullest,
}

impl Packing<'_> {
    /// Chooses the pageblock that serves a request from its own type.
    pub(super) fn choose(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        order: Order,
        list: Migratetype,
    ) -> Option<Block> {
        if order >= self.pageblock_order {
            return None;
        }
        if self.chosen != Some((list, order)) {
            let block = self.fullest(order, list)?;
            self.fill(map, self.start_of(block), list);
            self.chosen = Some((list, order));
        }
        debug_assert_ne!(self.filling[list as usize], NIL, "no pageblock of {list} was chosen");
        Some(self.filling[list as usize])
    }

    /// Returns the fullest pageblock of a type that has a free block of this order or larger; among several the one
    /// whose largest free block is the smallest.
    fn fullest(&self, order: Order, list: Migratetype) -> Option<Block> {
        let rows = &self.filled[list as usize];
        let orders = usize::from(order)..rows.len();
        let any = rows[orders.clone()].iter().fold(0, |any, row| any | row);
        let bucket = (any != 0).then(|| any.trailing_zeros())?;
        let largest = orders.into_iter().find(|&o| rows[o] & 1 << bucket != 0)?;
        Some(self.head(largest, list, bucket))
    }

    fn head(&self, largest: usize, list: Migratetype, bucket: u32) -> Block {
        let row = list as usize * usize::from(self.pageblock_order) + largest;
        self.heads[row * BUCKETS + bucket as usize]
    }

    /// Makes the pageblock of a frame the one of its type that is filled from now on. It is never sparse.
    pub(crate) fn fill(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        list: Migratetype,
    ) {
        let block = self.block_of(i);
        self.chosen = None;
        let before = core::mem::replace(&mut self.filling[list as usize], block);
        map.set_sparse(block, false);
        if before != block && before != NIL {
            self.mark(map, before, map.block_type(self.start_of(before)));
        }
        debug_assert!(!map.is_sparse(block), "a pageblock that is being filled is sparse");
    }

    /// Returns the block, and its order, that would serve a request from partial pageblocks of its own type.
    #[cfg(feature = "replay")]
    pub(crate) fn next_own(
        &self,
        map: &PageMap<'_, impl PolicySource>,
        order: Order,
        list: Migratetype,
    ) -> Option<(Index, Order)> {
        let block = self.fullest(order, list)?;
        let found = self.counts.smallest(block, order)?;
        Some((self.lowest(map, block, found)?, found))
    }

    /// Returns a block of at least order `min` that a fallback may take from a type, and its order. It comes from a
    /// pageblock whose largest free block has exactly the order `largest`: from the emptiest its largest block, from the
    /// fullest its smallest block that serves; the lowest of several.
    pub(crate) fn candidate(
        &self,
        map: &PageMap<'_, impl PolicySource>,
        largest: Order,
        min: Order,
        from: Migratetype,
        prefer: Prefer,
    ) -> Option<(Index, Order)> {
        let filled = self.filled[from as usize][usize::from(largest)];
        let bucket = match prefer {
            _ if filled == 0 => return None,
            Prefer::Emptiest => filled.ilog2(),
            Prefer::Fullest => filled.trailing_zeros(),
        };
        let block = self.head(usize::from(largest), from, bucket);
        debug_assert_eq!(self.counts.largest(block), largest, "the class has a stranger");
        let order = match prefer {
            Prefer::Emptiest => largest,
            Prefer::Fullest => self.counts.smallest(block, min)?,
        };
        Some((self.lowest(map, block, order)?, order))
    }

    /// Returns the pageblocks of a type that have a free block of an order below the pageblock's, in ascending order.
    pub(crate) fn blocks_with(
        &self,
        map: &PageMap<'_, impl PolicySource>,
        order: Order,
        mt: Migratetype,
    ) -> impl DoubleEndedIterator<Item = Block> {
        (0..self.blocks.len() as Block).filter(move |&block| {
            self.counts.count(block, order) > 0 && map.block_type(self.start_of(block)) == mt
        })
    }
}
