//! The states of frames in four bits each, where every free page counts for the type of its pageblock.
//!
//! Each pageblock has a byte. If the pageblock is part of one block, or has only reserved frames, or only holes,
//! the byte holds the state of its first frame, which determines all others. Otherwise its frames have states of
//! their own, in [cells](cell) of eight frames.
//!
//! A cell that is part of one block, or has only reserved frames, or only holes, has one code, stored in `lo`. In
//! any other cell each frame has three bits:
//!
//! | | in use | `lo` | `hi` |
//! |---|---|---|---|
//! | allocated page | 1 | movable | 1 |
//! | page on a CPU list | 0 | movable when it was allocated last | 1 |
//! | free | 0 | 1 | 0 |
//! | reserved | 1 | 1 | 0 |
//! | hole | 1 | 0 | 0 |
//! | anything else | 0 | 0 | 0 |
//!
//! Adjacent free frames are one block, because free blocks merge. A larger block that is held (allocated or on a
//! CPU list) has clear bits in all its frames, except `lo` of the first frame if it is movable, or `lo` of the
//! second if not; that same frame has the "in use" bit. So a page's own bits tell that it is a page, and no block's
//! state is in frames that another block may have.
//!
//! Whether a page is in use changes without a lock, by the CPU that allocates or frees it, while other CPUs do the
//! same with other frames of the cell. It is stored as the difference of two bits in different bytes. The CPU that
//! owns a pageblock changes the first byte with plain loads and stores, because it alone writes there; all other
//! CPUs change the second with an atomic operation. Nothing else changes these bits, so a page that no CPU
//! allocates is never seen in use. Codes of blocks smaller than a cell change only under the zone's lock; the code
//! of a larger block belongs to its holder. A pageblock has no owner when its frames get states of their own; the
//! first CPU that refills a list from it becomes the owner.
//!
//! Cells have no meaning before their pageblock says so, so their memory may have any content.

pub(super) mod cell;
mod cpu;
mod run;
mod search;

pub(crate) use cpu::page_code;

use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::sync::{Acquire, AtomicU8, AtomicU16, Relaxed, Release};
use crate::table::bits::cell::{
    CELL, CELL_ORDER, Cell, Codes, MOVABLE, PAGES, WIDE_HOLE, WIDE_RESERVED, WIDE_TAIL,
    free_blocks, mask_of, wide_allocated, wide_free, wide_listed, wide_state,
};
use crate::table::map::Index;
use crate::table::memory::{Tables, TablesLayout};
use crate::table::state::{FrameState, RETURNED, free_in};

/// The smallest pageblock order and largest block order for which these tables exist.
pub(crate) const LEAST_ORDER: Order = CELL_ORDER;

/// The upper byte of a pageblock's word: the owner of its cells; 0 if its frames have no states of their own.
pub(crate) const OWNERS: u16 = 0xff00;

/// Value of the upper byte: frames have states of their own, and no CPU owns the cells.
const NO_OWNER: u16 = 0xff00;

/// A CPU that may own pageblocks, as the upper byte of the word.
pub(crate) type Owner = u16;

/// A CPU that cannot own pageblocks.
pub(crate) const NOBODY: Owner = 0;

/// Returns the owner for a CPU's tag, which counts from 1.
pub(crate) fn owner(tag: u32) -> Owner {
    if tag < 0xff { (tag as Owner) << 8 } else { NOBODY }
}

/// See the [module](self).
#[derive(Clone, Copy)]
pub(crate) struct FrameBits<'m> {
    pageblock_order: Order,
    /// The number of orders whose blocks have at least a cell and less than a pageblock.
    cell_orders: Order,
    /// The bits of an index that number the frames within a pageblock.
    inner: Index,
    cells: &'m [Cell],
    /// One byte per pageblock. [`RETURNED`] in a pageblock whose frames have states of their own means that its
    /// reserved frames are known to be memory.
    kinds: &'m [AtomicU8],
    /// The words of pageblocks. This module uses their upper bytes.
    blocks: &'m [AtomicU16],
    /// The bits of each page of a cell. A table in this struct takes fewer registers than shifts or another
    /// address.
    pages: [u16; CELL],
}

impl<'m> FrameBits<'m> {
    pub(super) const EMPTY: Self = Self {
        pageblock_order: 0,
        cell_orders: 0,
        inner: 0,
        cells: &[],
        kinds: &[],
        blocks: &[],
        pages: PAGES,
    };

    pub(super) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<TablesLayout> {
        layout.and::<Cell>(frames / CELL)?.and::<AtomicU8>(frames >> pageblock_order)
    }

    /// Returns the bits of frames that are all holes.
    pub(super) fn new(
        tables: &mut Tables<'m>,
        frames: usize,
        pageblock_order: Order,
        blocks: &'m [AtomicU16],
    ) -> Option<Self> {
        Some(Self {
            pageblock_order,
            cell_orders: if frames == 0 { 0 } else { pageblock_order - CELL_ORDER },
            inner: (1 << pageblock_order) - 1,
            cells: tables.take_cells(frames / CELL)?,
            kinds: tables
                .take(frames >> pageblock_order, |_| AtomicU8::new(FrameState::Hole.encode()))?,
            blocks,
            pages: PAGES,
        })
    }

    /// Returns whether blocks of an order have whole cells, and are smaller than a pageblock.
    #[inline(always)]
    pub(crate) fn has_cells(&self, order: Order) -> bool {
        order.wrapping_sub(CELL_ORDER) < self.cell_orders
    }

    #[inline(always)]
    fn kind_of(&self, i: Index) -> &'m AtomicU8 {
        &self.kinds[(i >> (self.pageblock_order & 31)) as usize]
    }

    #[inline(always)]
    fn word_of(&self, i: Index) -> &'m AtomicU16 {
        &self.blocks[(i >> (self.pageblock_order & 31)) as usize]
    }

    #[inline(always)]
    pub(super) fn is_mixed(&self, i: Index) -> bool {
        self.word_of(i).load(Acquire) & OWNERS != 0
    }

    #[inline(always)]
    fn cell_of(&self, i: Index) -> &'m Cell {
        &self.cells[i as usize / CELL]
    }

    /// Returns whether a frame is the first of its pageblock.
    #[inline(always)]
    fn is_first(&self, i: Index) -> bool {
        i & self.inner == 0
    }

    #[inline(always)]
    fn place(i: Index) -> u32 {
        i % CELL as u32
    }

    /// Returns the state of a frame. `block_type` is the type of its pageblock.
    #[inline(never)]
    pub(super) fn state(&self, i: Index, block_type: Migratetype) -> FrameState {
        if !self.is_mixed(i) {
            let byte = self.kind_of(i).load(Relaxed);
            let first = self.is_first(i);
            return match FrameState::decode(byte) {
                state @ (FrameState::Reserved | FrameState::Hole) => state,
                state if first => state,
                _ => FrameState::Tail,
            };
        }
        let codes = self.cell_of(i).read();
        if !codes.is_wide() {
            return codes.state(Self::place(i), block_type);
        }
        match wide_state(codes.code(), block_type) {
            state if state.order().is_none() || Self::place(i) == 0 => state,
            _ => FrameState::Tail,
        }
    }

    /// Returns the cells of the pageblock of a frame.
    fn cells_in(&self, i: Index) -> &'m [Cell] {
        let block = (i >> self.pageblock_order) as usize;
        let cells = 1 << (self.pageblock_order - CELL_ORDER);
        &self.cells[block * cells..][..cells]
    }

    /// Gives the frames of a pageblock states of their own. Their states do not change.
    #[inline(never)]
    fn mix(&self, i: Index) {
        debug_assert!(!self.is_mixed(i), "the frames have states of their own already");
        let kind = self.kind_of(i);
        let byte = kind.load(Relaxed);
        let code = match FrameState::decode(byte) {
            FrameState::Reserved => WIDE_RESERVED,
            FrameState::Hole => WIDE_HOLE,
            _ => WIDE_TAIL,
        };
        for cell in self.cells_in(i) {
            // The two differ only in memory that was never used.
            cell.others.store(cell.own.load(Relaxed), Relaxed);
            cell.put_code(code);
        }
        if byte != RETURNED {
            kind.store(FrameState::Tail.encode(), Relaxed);
        }
        let word = self.word_of(i);
        word.store(word.load(Relaxed) & !OWNERS | NO_OWNER, Release);
    }

    /// Makes the byte of a pageblock the state of all its frames.
    fn put_kind(&self, i: Index, kind: u8) {
        self.kind_of(i).store(kind, Relaxed);
        let word = self.word_of(i);
        let now = word.load(Relaxed);
        if now & OWNERS != 0 {
            word.store(now & !OWNERS, Release);
        }
    }

    /// Prepares to give some frames of a pageblock, but not all, a state. Returns whether the cell must be written;
    /// if not, the pageblock's byte implies that state already.
    #[inline]
    fn prepare(&self, i: Index, state: FrameState) -> bool {
        if self.is_mixed(i) {
            return true;
        }
        let kind = self.kind_of(i);
        let now = FrameState::decode(kind.load(Relaxed));
        if now == state {
            return false;
        }
        if state == FrameState::Tail && !matches!(now, FrameState::Reserved | FrameState::Hole) {
            if self.is_first(i) {
                kind.store(state.encode(), Relaxed);
            }
            return false;
        }
        self.mix(i);
        true
    }

    /// Sets the state of a frame. For the first frame of a block, this sets the state of the whole block, provided
    /// that the frames after its first cell are part of a block already. The caller holds the zone's lock.
    #[inline]
    pub(super) fn set(&self, i: Index, state: FrameState) {
        match state.order() {
            Some(order) if order >= self.pageblock_order => self.put_kind(i, state.encode()),
            Some(order) if order >= CELL_ORDER && self.is_mixed(i) => {
                self.cell_of(i).put_wide(wide_code(state));
            }
            order => self.set_part(i, order.unwrap_or(0), state),
        }
    }

    #[inline(never)]
    fn set_part(&self, i: Index, order: Order, state: FrameState) {
        if !self.prepare(i, state) {
            return;
        }
        let (cell, place) = (self.cell_of(i), Self::place(i));
        if order >= CELL_ORDER {
            return cell.put_wide(wide_code(state));
        }
        cell.put(mask_of(order, place), Codes::of(state, order, place));
    }

    /// Makes a CPU the owner of a frame's pageblock, if that has none. The caller holds the zone's lock.
    #[inline]
    pub(super) fn own(&self, i: Index, by: Owner) {
        debug_assert_eq!(by & !OWNERS, 0, "an owner is in the upper byte");
        let word = self.word_of(i);
        let now = word.load(Relaxed);
        if now & OWNERS == NO_OWNER && by != NOBODY {
            word.store(now & !OWNERS | by, Relaxed);
        }
    }

    /// Notes that the pageblock of a frame is part of one block, which is free or about to be.
    #[inline]
    pub(crate) fn unmix(&self, i: Index) {
        self.put_kind(i, FrameState::Tail.encode());
    }

    /// Sets the state of every frame from `start` to `end`. The state must be one that no block starts with, or
    /// that of a block's tail.
    pub(super) fn fill(&self, start: Index, end: Index, state: FrameState) {
        debug_assert!(state.order().is_none(), "{state:?} starts a block");
        debug_assert!(start <= end && end as usize <= self.kinds.len() << self.pageblock_order);
        let pages = 1 << self.pageblock_order;
        let mut at = start;
        while at < end {
            if at & (pages - 1) == 0 && end - at >= pages {
                self.put_kind(at, state.encode());
                at += pages;
                continue;
            }
            let place = Self::place(at);
            let n = (end - at).min(CELL as u32 - place);
            if self.prepare(at, state) {
                let mask = (((1u32 << n) - 1) << place) as u8;
                if mask == u8::MAX {
                    self.cell_of(at).put_wide(wide_code(state));
                } else {
                    self.cell_of(at).put(mask, Codes::of(state, 0, 0));
                }
            }
            at += n;
        }
    }

    /// Returns the order of the block that starts at `i`, if it is on a CPU list and smaller than a pageblock.
    #[inline]
    pub(crate) fn listed_order(&self, i: Index) -> Option<Order> {
        if !self.is_mixed(i) {
            return None;
        }
        let codes = self.cell_of(i).read();
        if codes.hi & !codes.in_use & 1 << Self::place(i) != 0 {
            return Some(0);
        }
        match self.state(i, Migratetype::Movable) {
            FrameState::CpuList { order, .. } => Some(order),
            _ => None,
        }
    }

    /// Reserves frames that are memory. From then on all reserved frames of their pageblocks count as memory.
    pub(super) fn set_returned(&self, start: Index, end: Index) {
        self.fill(start, end, FrameState::Reserved);
        let first = start >> self.pageblock_order;
        let past = end.div_ceil(1 << self.pageblock_order);
        let kinds = &self.kinds[first as usize..past as usize];
        kinds.iter().for_each(|kind| kind.store(RETURNED, Relaxed));
    }

    /// Returns whether a frame is reserved and known to be memory.
    pub(super) fn is_returned(&self, i: Index, block_type: Migratetype) -> bool {
        self.kind_of(i).load(Relaxed) == RETURNED
            && self.state(i, block_type) == FrameState::Reserved
    }

    #[inline]
    pub(super) fn is_hole(&self, i: Index) -> bool {
        self.state(i, Migratetype::Movable) == FrameState::Hole
    }

    /// Returns whether every frame from `start` to `end` is reserved.
    pub(super) fn all_reserved(&self, start: Index, end: Index) -> bool {
        let mut at = start;
        while at < end {
            if self.state(at, Migratetype::Movable) != FrameState::Reserved {
                return false;
            }
            let apart = self.is_mixed(at) && !self.cell_of(at).read().is_wide();
            let same = match self.is_mixed(at) {
                _ if apart => 1,
                true => CELL as Index,
                false => 1 << self.pageblock_order,
            };
            at = (at & !(same - 1)) + same;
        }
        true
    }

    /// Returns the type of the free block of exactly this order, at least a pageblock, that starts at `i`, which is
    /// a multiple of the pageblock. The byte of a pageblock whose frames have states of their own never matches.
    #[inline(always)]
    pub(super) fn whole_free_list(&self, i: Index, order: Order) -> Option<Migratetype> {
        let kind = self.kinds.get((i >> (self.pageblock_order & 31)) as usize)?;
        free_in(kind.load(Relaxed), order)
    }

    /// Sets the byte of the pageblock that starts at `i`, if the whole pageblock is part of a block in that state.
    #[inline(always)]
    pub(super) fn set_whole(&self, i: Index, state: FrameState) {
        self.put_kind(i, state.encode());
    }

    /// Returns the type of the free block of exactly this order that starts at `i`.
    #[inline]
    pub(super) fn free_list(
        &self,
        i: Index,
        order: Order,
        block_type: impl FnOnce() -> Migratetype,
    ) -> Option<Migratetype> {
        if i as usize >= self.kinds.len() << self.pageblock_order {
            return None;
        }
        if order >= self.pageblock_order {
            return self.is_first(i).then(|| self.whole_free_list(i, order)).flatten();
        }
        let place = Self::place(i);
        let free = self.is_mixed(i)
            && if order >= CELL_ORDER {
                place == 0 && self.cell_of(i).is_wide(wide_free(order))
            } else {
                let codes = self.cell_of(i).read();
                !codes.is_wide() && free_blocks(codes.free(), order) >> place & 1 != 0
            };
        free.then(block_type)
    }
}

/// Returns the code of a cell whose first frame has this state, and in which no other block starts.
fn wide_code(state: FrameState) -> u16 {
    match state {
        FrameState::Allocated { order, movable: true } => wide_allocated(order) | MOVABLE,
        FrameState::Allocated { order, movable: false } => wide_allocated(order),
        FrameState::CpuList { order, .. } => wide_listed(order),
        FrameState::Free { order, .. } => wide_free(order),
        FrameState::Tail => WIDE_TAIL,
        FrameState::Reserved => WIDE_RESERVED,
        FrameState::Hole => WIDE_HOLE,
    }
}

#[cfg(test)]
mod tests;
