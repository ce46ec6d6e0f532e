//! Changes that a CPU makes to blocks without the zone's lock: it takes them off its lists, and puts them there.

use super::cell::{
    CELL, CELL_ORDER, Cell, Codes, LISTED, MOVABLE, WIDE_TAIL, Writer, wide_allocated, wide_listed,
};
use super::{FrameBits, OWNERS, Owner};
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::Migratetype;
use crate::base::sync::{self, Relaxed};
use crate::table::map::Index;
use crate::table::state::{FrameState, is_allocated, is_on_cpu_list};

/// Returns the code of a cell whose frames are all held pages, movable or not.
#[inline(always)]
pub(crate) const fn page_code(movable: bool) -> u16 {
    if movable { 0xffff } else { 0xff00 }
}

#[inline(always)]
const fn writer(owns: bool) -> Writer {
    if owns { Writer::Owner } else { Writer::Other }
}

impl FrameBits<'_> {
    /// Returns the bits of a page in the code of its cell.
    #[inline(always)]
    pub(super) fn page(&self, offset: usize) -> u16 {
        self.pages[offset % CELL]
    }

    /// Returns the byte of the pageblock that starts at a frame. If the pageblock's frames have states of their
    /// own, that byte matches no block.
    #[inline(always)]
    pub(super) fn whole(&self, i: Index) -> Option<u8> {
        self.is_first(i).then(|| self.kind_of(i).load(Relaxed))
    }

    /// Returns the "in use" bit of a block of order 1 or more and less than a cell, if a block of exactly this
    /// order, in use or on a CPU list, starts at a place.
    #[inline(always)]
    fn pair_bit(codes: Codes, place: u32, order: Order, in_use: bool) -> Option<u8> {
        let bit = codes.lo >> place & 3;
        let alone = codes.hi >> place & 3 == 0 && (bit == 1 || bit == 2);
        let used = codes.in_use >> place & 3 == if in_use { bit } else { 0 };
        let is = alone && used && !codes.is_wide() && codes.is_quad(place) == (order > 1);
        (is && place & ((1 << order) - 1) == 0).then_some(bit << place)
    }

    /// Returns whether a block of exactly this order, less than a pageblock, starts at `i` and is in use or on a
    /// CPU list. The frames of the pageblock must have states of their own.
    #[inline(always)]
    fn is_held(&self, i: Index, order: Order, in_use: bool) -> bool {
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        if order == 0 {
            let page = self.page(i as usize);
            return cell.is_page(page) && (cell.in_use() & page as u8 != 0) == in_use;
        }
        if order >= CELL_ORDER {
            let code = cell.code.load(Relaxed);
            let is = if in_use {
                code & !MOVABLE == wide_allocated(order)
            } else {
                code == wide_listed(order)
            };
            return is && Self::place(i) == 0 && cell.in_use() == 0;
        }
        Self::is_pair_held(cell, Self::place(i), order, in_use)
    }

    #[inline(never)]
    fn is_pair_held(cell: &Cell, place: u32, order: Order, in_use: bool) -> bool {
        Self::pair_bit(cell.read(), place, order, in_use).is_some()
    }

    /// Returns whether an allocated block of exactly this order starts at `i`.
    #[inline]
    pub(crate) fn is_allocated(&self, i: Index, order: Order) -> bool {
        if order < self.pageblock_order {
            return self.is_mixed(i) && self.is_held(i, order, true);
        }
        order <= ORDER_LIMIT && self.whole(i).is_some_and(|byte| is_allocated(byte, order))
    }

    /// [`is_on_cpu_list`](Self::is_on_cpu_list) for a page.
    #[inline(always)]
    pub(crate) fn is_page_on_cpu_list(&self, i: Index) -> bool {
        self.is_held(i, 0, false)
    }

    /// Returns whether a block of exactly this order starts at `i` and is on a CPU list. There must have been such
    /// a block. If its pageblock is part of one block by now, so are its cells.
    #[inline(never)]
    pub(crate) fn is_on_cpu_list(&self, i: Index, order: Order) -> bool {
        if order < self.pageblock_order {
            return self.is_part_on_cpu_list(i, order);
        }
        self.is_whole_on_cpu_list(i, order)
    }

    /// [`is_on_cpu_list`](Self::is_on_cpu_list) for a block smaller than a pageblock.
    #[inline(always)]
    pub(crate) fn is_part_on_cpu_list(&self, i: Index, order: Order) -> bool {
        self.is_held(i, order, false)
    }

    /// [`is_on_cpu_list`](Self::is_on_cpu_list) for a block of whole pageblocks.
    #[inline(always)]
    pub(crate) fn is_whole_on_cpu_list(&self, i: Index, order: Order) -> bool {
        self.whole(i).is_some_and(|byte| is_on_cpu_list(byte, order))
    }

    /// [`is_allocated`](Self::is_allocated) for a frame that may lie outside the tables.
    #[inline(always)]
    pub(crate) fn is_allocated_at(&self, offset: usize, order: Order) -> bool {
        offset < self.kinds.len() << (self.pageblock_order & 31)
            && self.is_allocated(offset as Index, order)
    }

    /// Flips the "in use" bits of frames of a cell.
    #[inline(always)]
    fn flip(&self, i: Index, cell: &Cell, bits: u8, by: Owner) {
        if self.word_of(i).load(Relaxed) & OWNERS == by {
            cell.own.store(cell.own.load(Relaxed) ^ bits, Relaxed);
        } else {
            sync::xor(&cell.others, bits);
        }
    }

    /// Puts an allocated block of this order on a CPU list.
    #[inline]
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

    /// Marks a block on a CPU list as allocated, movable or not, if that needs no lock. Returns whether it did; not if it is
    /// one for [`take_cells`](Self::take_cells) or [`take_pair`](Self::take_pair).
    #[inline(always)]
    pub(crate) fn take(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        if order > 0 && order >= self.pageblock_order {
            return self.take_whole(i, order, movable);
        }
        // A page on a CPU list lies in a pageblock whose frames have states of their own.
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        if order == 0 {
            let page = self.page(i as usize);
            return cell.is_held(page, page_code(movable))
                && cell.flip_by(page, true, self.writer(i, by));
        }
        false
    }

    /// [`take`](Self::take) for a block that [has whole cells](Self::has_cells).
    #[inline(always)]
    pub(crate) fn take_cells(&self, i: Index, order: Order, movable: bool) -> bool {
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        // With the checks in this order, fewer registers are live.
        if cell.in_use() != 0 {
            return false;
        }
        let code = cell.code.load(Relaxed);
        let listed = code == wide_listed(order);
        if listed {
            cell.put_code(code ^ LISTED | if movable { MOVABLE } else { 0 });
        }
        listed
    }

    #[inline(always)]
    fn writer(&self, i: Index, by: Owner) -> Writer {
        let word = self.blocks.get((i >> (self.pageblock_order & 31)) as usize);
        writer(word.is_some_and(|word| word.load(Relaxed) & OWNERS == by))
    }

    /// [`take`](Self::take) for a block of order 1 or more that is smaller than a cell.
    #[inline(never)]
    pub(crate) fn take_pair(&self, i: Index, order: Order, movable: bool, by: Owner) -> bool {
        if !(1..CELL_ORDER).contains(&order) {
            return false;
        }
        let (cell, place) = (self.cell_of(i), Self::place(i));
        let bit = Self::pair_bit(cell.read(), place, order, false);
        let Some(bit) = bit.filter(|bit| (bit >> place == 1) == movable) else { return false };
        self.flip(i, cell, bit, by);
        true
    }

    #[inline(always)]
    fn take_whole(&self, i: Index, order: Order, movable: bool) -> bool {
        // If the pageblock's frames have states of their own, its byte matches no block.
        let kind = self.kinds.get((i >> (self.pageblock_order & 31)) as usize);
        let Some(kind) = kind.filter(|kind| is_on_cpu_list(kind.load(Relaxed), order)) else {
            return false;
        };
        kind.store(FrameState::Allocated { order, movable }.encode(), Relaxed);
        true
    }

    /// Puts an allocated block of exactly this order, at least a pageblock, on a CPU list. Returns whether one
    /// started at the offset. Its pageblock is `cached`.
    #[inline(always)]
    pub(crate) fn put_whole(&self, offset: usize, order: Order, cached: Migratetype) -> bool {
        let Some(kind) = self.kinds.get(offset >> (self.pageblock_order & 63)) else {
            return false;
        };
        // If the pageblock's frames have states of their own, its byte matches no block.
        let is = is_allocated(kind.load(Relaxed), order) && self.is_first(offset as Index);
        if is {
            kind.store(FrameState::CpuList { order, cached }.encode(), Relaxed);
        }
        is
    }

    /// [`put_whole`](Self::put_whole) for a block that [has whole cells](Self::has_cells). The frames of its
    /// pageblock must have states of their own.
    #[inline(always)]
    pub(crate) fn put_cells(&self, offset: usize, order: Order) -> bool {
        let Some(cell) = self.cells.get(offset / CELL) else { return false };
        if offset % CELL != 0 {
            return false;
        }
        let code = cell.code.load(Relaxed) & !MOVABLE;
        let is = code == wide_allocated(order) && cell.in_use() == 0;
        if is {
            cell.put_code(code | LISTED);
        }
        is
    }

    /// [`put_whole`](Self::put_whole) for a block of order 1 or more that is smaller than a cell.
    #[inline(never)]
    pub(crate) fn put_pair(&self, offset: usize, order: Order, word: u16, by: Owner) -> bool {
        let Some(cell) = self.cells.get(offset / CELL) else { return false };
        if word & OWNERS == 0 {
            return false;
        }
        let i = offset as Index;
        let bit = Self::pair_bit(cell.read(), Self::place(i), order, true);
        if let Some(bit) = bit {
            self.flip(i, cell, bit, by);
        }
        bit.is_some()
    }

    /// Marks a block that was taken off a list, or is allocated already, as allocated, if that needs no lock.
    /// Returns whether it is allocated now.
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
        } else if self.is_mixed(i)
            && (self.take(i, order, movable, by) || self.take_pair(i, order, movable, by))
        {
            return true;
        }
        self.state(i, Migratetype::Movable) == state
    }

    /// Puts an allocated page of a pageblock that this CPU owns on a CPU list, if it is as movable as the code
    /// says. Returns whether it did; then `aside` holds the page's bits in the cell.
    #[inline(always)]
    pub(crate) fn put_own_page(&self, offset: usize, code: u16, aside: &mut u16) -> bool {
        let Some(cell) = self.cells.get(offset / CELL) else {
            return false;
        };
        let page = self.page(offset);
        *aside = page;
        cell.is_held(page, code) && cell.flip_own(page, false)
    }

    /// Takes the page that [`put_own_page`](Self::put_own_page) put on a list last. Returns whether it was still
    /// there.
    #[inline(always)]
    pub(crate) fn take_own_page(&self, i: Index, aside: u16) -> bool {
        let Some(cell) = self.cells.get(i as usize / CELL) else {
            return false;
        };
        cell.flip_own(aside, true)
    }

    /// Puts an allocated page on a CPU list, regardless of the owner of its pageblock. `word` is the pageblock's. Returns whether it
    /// was an allocated page.
    #[inline(always)]
    pub(crate) fn put_page(&self, offset: usize, word: u16, by: &Owner) -> bool {
        let Some(cell) = self.cells.get(offset / CELL) else { return false };
        let (owner, page) = (word & OWNERS, self.page(offset));
        owner != 0 && cell.is_page(page) && cell.flip_by(page, false, writer(owner == *by))
    }
}
