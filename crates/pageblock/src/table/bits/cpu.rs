//! What a CPU does to blocks without the zone's lock: it takes them off its lists, and puts them there.

use super::cell::{
    CELL, CELL_ORDER, Cell, Codes, MOVABLE, WIDE_TAIL, wide_allocated, wide_listed,
};
use super::{FrameBits, OWNERS, Owner};
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::Migratetype;
use crate::base::sync::{Acquire, Relaxed};
use crate::table::map::Index;
use crate::table::state::{FrameState, is_allocated, is_on_cpu_list};

/// Where `hi` is in a cell's code.
const HI: u16 = 0x100;

/// Returns the code of a page that is held, movable or not, shifted to the lowest bits.
#[inline(always)]
pub(crate) fn page_code(movable: bool) -> u16 {
    HI | u16::from(movable)
}

impl FrameBits<'_> {
    /// Returns the byte of the pageblock that starts at a frame.
    #[inline]
    pub(super) fn whole(&self, i: Index) -> Option<u8> {
        let first = i & ((1 << self.pageblock_order) - 1) == 0 && !self.is_mixed(i);
        first.then(|| self.kind_of(i).load(Relaxed))
    }

    /// Returns the bit by which a block of less than a cell and more than a page is in use, if a block of exactly
    /// this order, in use or on a CPU list, starts at a place.
    #[inline]
    fn pair_bit(codes: Codes, place: u32, order: Order, in_use: bool) -> Option<u8> {
        let bit = codes.lo >> place & 3;
        let alone = codes.hi >> place & 3 == 0 && (bit == 1 || bit == 2);
        let used = codes.in_use >> place & 3 == if in_use { bit } else { 0 };
        let is = alone && used && !codes.is_wide() && codes.is_quad(place) == (order > 1);
        (is && place & ((1 << order) - 1) == 0).then_some(bit << place)
    }

    /// Tells whether a block of exactly this order, less than a pageblock's, starts at `i`, in use or on a CPU list.
    #[inline(always)]
    fn is_held(&self, i: Index, order: Order, in_use: bool) -> bool {
        let (Some(cell), true) = (self.cells.get(i as usize / CELL), self.is_mixed(i)) else {
            return false;
        };
        let place = Self::place(i);
        if order == 0 {
            let codes = cell.read();
            let used = if in_use { codes.in_use } else { !codes.in_use };
            return codes.hi & used & 1 << place != 0;
        }
        if order < CELL_ORDER {
            return Self::pair_bit(cell.read(), place, order, in_use).is_some();
        }
        let code = cell.code.load(Relaxed);
        let is = if in_use {
            code & !u16::from(MOVABLE) == wide_allocated(order).into()
        } else {
            code == wide_listed(order).into()
        };
        is && place == 0 && cell.in_use() == 0
    }

    /// Tells whether an allocated block of exactly this order starts at `i`.
    #[inline(always)]
    pub(crate) fn is_allocated(&self, i: Index, order: Order) -> bool {
        if order < self.pageblock_order {
            return self.is_held(i, order, true);
        }
        order <= ORDER_LIMIT && self.whole(i).is_some_and(|byte| is_allocated(byte, order))
    }

    /// Tells whether a block of exactly this order, on a CPU list, starts at `i`.
    #[inline(always)]
    pub(crate) fn is_on_cpu_list(&self, i: Index, order: Order) -> bool {
        if order < self.pageblock_order {
            return self.is_held(i, order, false);
        }
        self.whole(i).is_some_and(|byte| is_on_cpu_list(byte, order))
    }

    /// The same as [`is_allocated`](Self::is_allocated) for a frame that the tables may lack.
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

    /// Puts frames of a cell in use, or out of use.
    #[inline(always)]
    fn flip(&self, i: Index, cell: &Cell, bits: u8, by: Owner) {
        if self.word_of(i).load(Relaxed) & OWNERS == by {
            cell.own.store(cell.own.load(Relaxed) ^ bits, Relaxed);
        } else {
            cell.others.fetch_xor(bits, Relaxed);
        }
    }

    /// Puts an allocated block of this order on a CPU list.
    #[inline(always)]
    pub(crate) fn put_on_cpu_list(&self, i: Index, order: Order, cached: Migratetype, by: Owner) {
        if order >= self.pageblock_order {
            self.kind_of(i).store(FrameState::CpuList { order, cached }.encode(), Relaxed);
            return;
        }
        let (cell, place) = (self.cell_of(i), Self::place(i));
        if order >= CELL_ORDER {
            cell.put_code(wide_listed(order));
        } else if order == 0 {
            self.flip(i, cell, 1 << place, by);
        } else {
            let bit = cell.code.load(Relaxed) >> place & 3;
            self.flip(i, cell, (bit << place) as u8, by);
        }
    }

    /// Makes a block on a CPU list allocated, movable or not, where that needs no lock; tells whether it did.
    #[inline(always)]
    pub(crate) fn take(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        if order >= self.pageblock_order {
            return self.take_whole(i, order, movable);
        }
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        let place = Self::place(i);
        if order == 0 {
            // What a CPU has on its lists lies in a pageblock whose frames have states of their own.
            let code = cell.code.load(Relaxed) >> place & (HI | 1);
            if code != page_code(movable) || cell.in_use() >> place & 1 != 0 {
                return false;
            }
            self.flip(i, cell, 1 << place, by);
            return true;
        }
        if order >= CELL_ORDER {
            if !cell.is_wide(wide_listed(order)) {
                return false;
            }
            cell.put_code(wide_allocated(order) | if movable { MOVABLE } else { 0 });
            return true;
        }
        self.take_pair(i, order, movable, by)
    }

    #[inline(never)]
    fn take_pair(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        let (cell, place) = (self.cell_of(i), Self::place(i));
        let bit = Self::pair_bit(cell.read(), place, order, false);
        let Some(bit) = bit.filter(|bit| (bit >> place == 1) == movable) else { return false };
        self.flip(i, cell, bit, by);
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

    /// Makes a block allocated that was taken off a list, or is allocated already, where that needs no lock; tells
    /// whether it is then.
    #[inline]
    pub(crate) fn hand_out(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        let state = FrameState::Allocated { order, movable };
        if order >= self.pageblock_order {
            self.kind_of(i).store(state.encode(), Relaxed);
            return true;
        }
        if order >= CELL_ORDER {
            let cell = self.cell_of(i);
            let part = cell.is_wide(WIDE_TAIL) || cell.is_wide(wide_listed(order));
            if part && self.is_mixed(i) {
                cell.put_code(wide_allocated(order) | if movable { MOVABLE } else { 0 });
                return true;
            }
        } else if self.is_mixed(i) && self.take(i, order, movable, by) {
            return true;
        }
        self.state(i, Migratetype::Movable) == state
    }

    /// Puts an allocated page of a pageblock that this CPU owns on a CPU list, if it is movable as the code says;
    /// tells whether it did.
    #[inline(always)]
    pub(crate) fn put_own_page(&self, offset: usize, code: u16) -> bool {
        let Some(cell) = self.cells.get(offset / CELL) else {
            return false;
        };
        let place = offset as u32 % CELL as u32;
        if cell.code.load(Relaxed) >> place & (HI | 1) != code {
            return false;
        }
        let own = cell.own.load(Relaxed);
        if (own ^ cell.others.load(Relaxed)) >> place & 1 == 0 {
            return false;
        }
        cell.own.store(own ^ 1 << place, Relaxed);
        true
    }

    /// Takes a page that [`put_own_page`](Self::put_own_page) put on a list; tells whether it is still there.
    #[inline(always)]
    pub(crate) fn take_own_page(&self, i: Index) -> bool {
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        let own = cell.own.load(Relaxed);
        if (own ^ cell.others.load(Relaxed)) >> Self::place(i) & 1 != 0 {
            return false;
        }
        cell.own.store(own ^ 1 << Self::place(i), Relaxed);
        true
    }

    /// Puts an allocated page on a CPU list, whoever owns its pageblock; tells whether it was one.
    #[inline(always)]
    pub(crate) fn put_page(&self, offset: usize, by: Owner) -> bool {
        let word = self.blocks.get(offset >> (self.pageblock_order & 63));
        let (Some(word), Some(cell)) = (word, self.cells.get(offset / CELL)) else {
            return false;
        };
        let (owner, place) = (word.load(Acquire) & OWNERS, offset as u32 % CELL as u32);
        let is_page = cell.code.load(Relaxed) >> place & HI != 0;
        let own = cell.own.load(Relaxed);
        let in_use = (own ^ cell.others.load(Relaxed)) >> place & 1 != 0;
        if owner == 0 || !is_page || !in_use {
            return false;
        }
        if owner == by {
            cell.own.store(own ^ 1 << place, Relaxed);
        } else {
            cell.others.fetch_xor(1 << place, Relaxed);
        }
        true
    }
}
