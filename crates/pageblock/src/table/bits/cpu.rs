//! What a CPU does to blocks without the zone's lock: it takes them off its lists, and puts them there.

use super::{FrameBits, MIXED, OTHERS, OWN, OWNERS, Owner};
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::Migratetype;
use crate::base::sync::{Acquire, Relaxed};
use crate::table::bits::GROUP;
use crate::table::map::Index;
use crate::table::state::{FrameState, is_allocated, is_on_cpu_list};

impl FrameBits<'_> {
    #[inline(always)]
    fn is_held(&self, i: Index, order: Order, in_use: bool) -> bool {
        if order >= self.pageblock_order {
            return false;
        }
        let words = self.words_at(i);
        let held = if in_use { words.held & words.in_use } else { words.held & !words.in_use };
        if order == 0 {
            // The next frame starts a block, too.
            return held & 1 != 0 && (i & 1 != 0 || words.tails() & 2 == 0) && self.is_mixed(i);
        }
        self.is_mixed(i) && held & 1 != 0 && self.has_order(i, order)
    }

    /// Returns the byte of the pageblock that starts at a frame.
    #[inline]
    pub(super) fn whole(&self, i: Index) -> Option<u8> {
        let first = i & ((1 << self.pageblock_order) - 1) == 0 && !self.is_mixed(i);
        first.then(|| self.kind_of(i).load(Relaxed))
    }

    /// Tells whether an allocated block of exactly this order starts at `i`.
    #[inline(always)]
    pub(crate) fn is_allocated(&self, i: Index, order: Order) -> bool {
        self.is_held(i, order, true) || {
            order >= self.pageblock_order
                && order <= ORDER_LIMIT
                && self.whole(i).is_some_and(|byte| is_allocated(byte, order))
        }
    }

    /// Tells whether a block of exactly this order, on a CPU list, starts at `i`.
    #[inline(always)]
    pub(crate) fn is_on_cpu_list(&self, i: Index, order: Order) -> bool {
        self.is_held(i, order, false) || {
            order >= self.pageblock_order
                && self.whole(i).is_some_and(|byte| is_on_cpu_list(byte, order))
        }
    }

    /// Tells whether a block that starts at `i` may become allocated, movable or not, without the zone's lock.
    #[inline(always)]
    pub(crate) fn is_as_movable(&self, i: Index, order: Order, movable: bool) -> bool {
        order >= self.pageblock_order || (self.words_at(i).kind & 1 != 0) == movable
    }

    /// The same for a frame that the tables may lack.
    #[inline(always)]
    pub(crate) fn is_allocated_at(&self, offset: usize, order: Order) -> bool {
        offset < self.kinds.len() << (self.pageblock_order & 31)
            && self.is_allocated(offset as Index, order)
    }

    /// The same out of line.
    #[inline(never)]
    pub(crate) fn is_allocated_far(&self, offset: usize, order: Order) -> bool {
        self.is_allocated_at(offset, order)
    }

    /// Puts an allocated block on a CPU list.
    #[inline(always)]
    pub(crate) fn put_on_cpu_list(&self, i: Index, order: Order, cached: Migratetype, by: Owner) {
        if order < self.pageblock_order {
            self.flip(i, by);
        } else {
            self.kind_of(i).store(FrameState::CpuList { order, cached }.encode(), Relaxed);
        }
    }

    /// Makes a block on a CPU list allocated, movable or not, where that needs no lock; tells whether it did.
    #[inline(always)]
    pub(crate) fn take(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        if order >= self.pageblock_order {
            return self.take_whole(i, order, movable);
        }
        let Some(group) = self.groups.get(i as usize / GROUP) else {
            return false;
        };
        let words = Self::words_from(group, i);
        // What a CPU has on its lists lies in a mixed pageblock.
        if words.held & !words.in_use & 1 == 0 || (words.kind & 1 != 0) != movable {
            return false;
        }
        if self.is_owned(i, by) {
            group[OWN].store(group[OWN].load(Relaxed) ^ Self::bit(i), Relaxed);
        } else {
            group[OTHERS].fetch_xor(Self::bit(i), Relaxed);
        }
        true
    }

    #[inline(never)]
    fn take_whole(&self, i: Index, order: Order, movable: bool) -> bool {
        let listed = self.is_on_cpu_list(i, order);
        if listed {
            let state = FrameState::Allocated { order, movable };
            self.kind_of(i).store(state.encode(), Relaxed);
        }
        listed
    }

    /// Puts an allocated page on a CPU list; tells whether it was one.
    #[inline(always)]
    pub(crate) fn put_page(&self, offset: usize, by: Owner) -> bool {
        let i = offset as Index;
        let owner = self.owners.get(offset >> (self.pageblock_order & 31));
        let (Some(owner), Some(group)) = (owner, self.groups.get(offset / GROUP)) else {
            return false;
        };
        let owner = owner.load(Acquire);
        let words = Self::words_from(group, i);
        // The next frame starts a block, too.
        let is_page = words.in_use & words.held & 1 != 0 && (i & 1 != 0 || words.tails() & 2 == 0);
        if !is_page || owner & MIXED == 0 {
            return false;
        }
        if owner & OWNERS == by {
            group[OWN].store(group[OWN].load(Relaxed) ^ Self::bit(i), Relaxed);
        } else {
            group[OTHERS].fetch_xor(Self::bit(i), Relaxed);
        }
        true
    }

    #[inline(always)]
    fn is_owned(&self, i: Index, by: Owner) -> bool {
        let owner = self.owners.get((i >> (self.pageblock_order & 31)) as usize);
        owner.is_some_and(|owner| owner.load(Relaxed) & OWNERS == by)
    }
}
