//! What the page map knows of a pageblock: its type, its isolation, and hints.

use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::sync::{AtomicU8, Relaxed};
use crate::table::map::{Index, PageMap};

// The byte of a pageblock: sparse, skip hint, type below an isolation, type that counts: ps bbb ttt.
const TYPE_BITS: u8 = 0b111;
const BELOW: u8 = 3;
const BELOW_BITS: u8 = TYPE_BITS << BELOW;
const SKIP: u8 = 0b100_0000;
const SPARSE: u8 = 0b1000_0000;

/// Returns the byte of a pageblock of a type that is not isolated.
pub(super) const fn block_byte(mt: Migratetype) -> u8 {
    (mt as u8) << BELOW | mt as u8
}

impl PageMap<'_> {
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    fn block(&self, i: Index) -> &AtomicU8 {
        &self.blocks[(i >> self.pageblock_order) as usize]
    }

    /// Returns the type of the pageblock that holds the frame (`get_pageblock_migratetype`).
    #[inline]
    pub(crate) fn block_type(&self, i: Index) -> Migratetype {
        Self::type_in(self.block(i).load(Relaxed))
    }

    /// Tells whether the pageblock of the frame at an offset has a type and is not being emptied
    /// (`zone/packing.rs`).
    #[inline(always)]
    pub(crate) fn is_in_block_of(&self, offset: usize, mt: Migratetype) -> bool {
        // Below 64, so that the shift needs no masking.
        let block = self.blocks.get(offset >> (self.pageblock_order & 63));
        block.is_some_and(|byte| byte.load(Relaxed) & (SPARSE | TYPE_BITS) == mt as u8)
    }

    /// Returns the type in the three lowest bits.
    #[inline]
    fn type_in(byte: u8) -> Migratetype {
        Migratetype::from_index((byte & TYPE_BITS) as usize).unwrap_or(Migratetype::Movable)
    }

    /// Sets the type of the pageblock, which ends its isolation.
    pub(crate) fn set_block_type(&self, i: Index, mt: Migratetype) {
        let byte = self.block(i);
        byte.store(byte.load(Relaxed) & SKIP | block_byte(mt), Relaxed);
    }

    /// Sets or clears the isolation; the type below it stays.
    pub(crate) fn set_isolated(&self, i: Index, isolated: bool) -> Migratetype {
        let byte = self.block(i);
        let old = byte.load(Relaxed);
        let below = Self::type_in(old >> BELOW);
        let counts = if isolated { Migratetype::Isolate } else { below };
        byte.store(old & (SKIP | BELOW_BITS) | counts as u8, Relaxed);
        below
    }

    /// Returns the type of the CPU list that a freed block goes to; `None` where it goes to the zone because
    /// its pageblock is isolated or being emptied (`zone/packing.rs`).
    #[inline]
    pub(crate) fn cpu_list_type(&self, i: Index, order: Order) -> Option<Migratetype> {
        let byte = self.block(i).load(Relaxed);
        let emptying = byte & SPARSE != 0 && order < self.pageblock_order;
        let mt = Self::type_in(byte);
        (mt != Migratetype::Isolate && !emptying).then_some(mt)
    }

    /// Returns the type of the pageblock of a frame, if it is being emptied.
    #[inline(always)]
    pub(crate) fn emptying_type(&self, i: Index) -> Option<Migratetype> {
        let byte = self.block(i).load(Relaxed);
        let mt = Self::type_in(byte);
        (byte & SPARSE != 0 && mt != Migratetype::Isolate).then_some(mt)
    }

    /// Tells whether [`emptying_type`](Self::emptying_type) has a type for the frame at an offset, which may be none of
    /// the tables'.
    #[inline(always)]
    pub(crate) fn is_emptying(&self, offset: usize) -> bool {
        const ISOLATED: u8 = SPARSE | Migratetype::Isolate as u8;
        let byte = self.blocks.get(offset >> (self.pageblock_order & 63));
        byte.is_some_and(|byte| {
            let byte = byte.load(Relaxed);
            byte & SPARSE != 0 && byte & (SPARSE | TYPE_BITS) != ISOLATED
        })
    }

    /// Tells whether the `block`-th pageblock is being emptied.
    pub(crate) fn is_sparse(&self, block: u32) -> bool {
        self.blocks[block as usize].load(Relaxed) & SPARSE != 0
    }

    /// Sets whether the `block`-th pageblock is being emptied.
    #[inline]
    pub(crate) fn set_sparse(&self, block: u32, sparse: bool) {
        let byte = &self.blocks[block as usize];
        let old = byte.load(Relaxed);
        let new = if sparse { old | SPARSE } else { old & !SPARSE };
        if new != old {
            byte.store(new, Relaxed);
        }
    }

    /// Returns the skip hint of compaction.
    pub(crate) fn skip(&self, i: Index) -> bool {
        self.block(i).load(Relaxed) & SKIP != 0
    }

    pub(crate) fn set_skip(&self, i: Index, skip: bool) {
        let byte = self.block(i);
        let old = byte.load(Relaxed);
        byte.store(if skip { old | SKIP } else { old & !SKIP }, Relaxed);
    }
}
