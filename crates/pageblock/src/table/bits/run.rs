//! Operations on whole runs of frames, cell by cell, under the zone's lock.

use super::cell::{
    CELL, CELL_ORDER, Cell, Codes, WIDE_TAIL, free_order, mask_of, order_of, wide_free, wide_listed,
};
use super::{FrameBits, Owner};
use crate::base::frame::Order;
use crate::base::sync::Relaxed;
use crate::table::map::Index;
use crate::table::state::FrameState;

impl FrameBits<'_> {
    /// Puts `n` consecutive blocks, each smaller than a pageblock, neither in use nor on a list, on a list of a
    /// CPU, as movable or not, and makes the CPU the [owner](Self::own) of their pageblocks. The caller holds the
    /// zone's lock.
    pub(crate) fn set_listed_run(&self, i: Index, order: Order, n: u32, movable: bool, by: Owner) {
        debug_assert!(n > 0 && order < self.pageblock_order, "{n} blocks of order {order}");
        let end = i + (n << order);
        for block in i >> self.pageblock_order..=(end - 1) >> self.pageblock_order {
            let first = block << self.pageblock_order;
            if !self.is_mixed(first) {
                self.mix(first);
            }
            self.own(first, by);
        }
        if order >= CELL_ORDER {
            for at in 0..n {
                self.cell_of(i + (at << order)).put_code(wide_listed(order));
            }
            return;
        }
        // The first frames of blocks, and the frames with bits in `lo` and `hi`.
        let starts = [0xff, 0x55, 0x11][usize::from(order)];
        let (lo, hi) = match (order, movable) {
            (0, false) => (0, starts),
            (0, true) => (starts, starts),
            (_, movable) => (starts << u8::from(!movable), 0),
        };
        let mut at = i;
        while at < end {
            let place = Self::place(at);
            let frames = (end - at).min(CELL as u32 - place);
            let cell = self.cell_of(at);
            if frames == CELL as u32 {
                cell.code.store(Codes { in_use: 0, lo, hi }.code(), Relaxed);
            } else {
                let mask = (((1u32 << frames) - 1) << place) as u8;
                cell.put(mask, Codes { in_use: 0, lo, hi });
            }
            at += frames;
        }
    }

    /// Sets the state of consecutive blocks of whole pageblocks. The caller holds the zone's lock.
    #[inline]
    pub(crate) fn set_whole_run(&self, i: Index, order: Order, n: u32, state: FrameState) {
        for at in 0..n {
            self.put_kind(i + (at << order), state.encode());
        }
    }

    /// Makes all frames of a block, smaller than a pageblock, parts of one block that is neither free nor in use. A
    /// block smaller than a cell is left as it is, because its next state sets all of it. The caller holds the
    /// zone's lock.
    pub(crate) fn join(&self, i: Index, order: Order) {
        if order >= CELL_ORDER {
            let first = i as usize / CELL;
            let cells = &self.cells[first..][..1 << (order - CELL_ORDER)];
            cells.iter().for_each(|cell| cell.put_code(WIDE_TAIL));
        }
    }

    /// Frees a block and merges it with its free buddies, up to the order `cap`, which is at least a cell's and at
    /// most the pageblock's. Returns the order of the merged block. The caller holds the zone's lock.
    #[inline]
    pub(crate) fn free(&self, i: Index, order: Order, cap: Order) -> Order {
        debug_assert!(
            (CELL_ORDER..=self.pageblock_order).contains(&cap) && order <= cap,
            "merging past {cap}"
        );
        if !self.is_mixed(i) {
            // The pageblock was part of one block; smaller blocks need cells.
            self.mix(i);
        }
        let mut order = order;
        if order < CELL_ORDER {
            order = self.free_in_cell(i, order);
            if order < CELL_ORDER {
                return order;
            }
        }
        self.merge_cells(i as usize / CELL, order, cap)
    }

    /// Frees a block of whole cells, and merges it with its free buddies. Returns the order of the merged block.
    #[inline(always)]
    fn merge_cells(&self, mut at: usize, mut order: Order, cap: Order) -> Order {
        while order < cap {
            let buddy = at ^ 1 << (order - CELL_ORDER);
            if !self.cells[buddy].is_wide(wide_free(order)) {
                break;
            }
            self.cells[at | buddy].put_code(WIDE_TAIL);
            at &= buddy;
            order += 1;
        }
        self.cells[at].put_code(wide_free(order));
        order
    }

    /// [`free`](Self::free) for the page on a CPU list that starts at `i`, if there is one and it will not merge
    /// with `next`. If its pageblock is part of one block by now, so are its cells.
    #[inline(always)]
    pub(crate) fn free_listed_page(&self, i: Index, next: Index, cap: Order) -> Option<Order> {
        let at = i as usize / CELL;
        let (cell, page) = (self.cells.get(at)?, self.page(i as usize));
        let (code, in_use) = (cell.code.load(Relaxed), cell.in_use());
        let is = (code >> 8) as u8 & !in_use & page as u8 != 0;
        if !is || pairs(i, 0, next) {
            return None;
        }
        let code = code & !(page & 0xff00) | page & 0xff;
        let free = Codes { in_use, lo: code as u8, hi: (code >> 8) as u8 }.free();
        if free == u8::MAX {
            return Some(self.merge_cells(at, CELL_ORDER, cap));
        }
        cell.put_code(code);
        Some(free_order(free, Self::place(i)))
    }

    /// Returns how many pages, at most `most`, follow each other from the first one on and are on CPU lists.
    #[inline]
    pub(crate) fn listed_run(&self, pages: &[Index], most: u32) -> u32 {
        let first = pages[0];
        let mut n = 0;
        while n < most {
            // Ascending from the first page of a larger block, or descending from its last.
            let (i, rest) = (first ^ n, &pages[n as usize..]);
            // Most runs are whole cells.
            let is_cell = rest.first_chunk::<CELL>().is_some_and(|of_cell| {
                (0..).zip(of_cell).fold(0, |differs, (at, page)| differs | (i ^ at ^ page)) == 0
                    && self.cells.get(i as usize / CELL).is_some_and(Cell::has_listed_pages)
            });
            if is_cell {
                n += CELL as u32;
            } else if rest.first() == Some(&i) && self.is_page_on_cpu_list(i) {
                n += 1;
            } else {
                break;
            }
        }
        n.min(most)
    }

    /// Returns whether a page or a block of cells on a CPU list would merge with `next`.
    #[inline]
    pub(crate) fn joins(&self, i: Index, next: Index) -> bool {
        let Some(cell) = self.cells.get(i as usize / CELL) else { return false };
        let page = cell.is_page(self.page(i as usize));
        let order = if page { 0 } else { order_of(cell.code.load(Relaxed)) };
        pairs(i, order, next)
    }

    /// [`free_listed_page`](Self::free_listed_page) for a block of whole cells. Returns its order, and that of the
    /// merged block.
    #[inline(always)]
    pub(crate) fn free_listed_cells(
        &self,
        i: Index,
        next: Index,
        cap: Order,
    ) -> Option<(Order, Order)> {
        let at = i as usize / CELL;
        let cell = self.cells.get(at).filter(|_| Self::place(i) == 0 && self.is_mixed(i))?;
        let order = order_of(cell.code.load(Relaxed));
        (cell.is_wide(wide_listed(order)) && !pairs(i, order, next))
            .then(|| (order, self.merge_cells(at, order, cap)))
    }

    /// Frees a block smaller than a cell. Returns the order of the free block that it is now part of; a cell that
    /// becomes entirely free gets no code yet.
    #[inline]
    fn free_in_cell(&self, i: Index, order: Order) -> Order {
        let (cell, place) = (self.cell_of(i), Self::place(i));
        let mask = mask_of(order, place);
        let mut now = cell.read();
        if now.is_wide() {
            // Part of a block that was taken.
            now.lo = 0;
        }
        if now.in_use & mask != 0 {
            cell.put(mask, Codes { in_use: 0, lo: mask, hi: 0 });
            now.in_use &= !mask;
        }
        let codes = Codes { in_use: now.in_use, lo: now.lo | mask, hi: now.hi & !mask }.apart();
        let free = codes.free();
        if free == u8::MAX {
            return CELL_ORDER;
        }
        cell.code.store(codes.code(), Relaxed);
        free_order(free, place)
    }
}

/// Returns whether a block is the buddy of the `next` block of its list, so that freeing both merges them.
#[inline(always)]
fn pairs(i: Index, order: Order, next: Index) -> bool {
    next == i ^ 1 << order
}
