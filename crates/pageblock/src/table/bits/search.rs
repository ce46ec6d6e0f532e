//! Searches through all frames of a pageblock.

use super::FrameBits;
use super::cell::{CELL, CELL_ORDER, free_blocks, wide_free, wide_state};
use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::sync::Relaxed;
use crate::table::map::Index;
use crate::table::state::FrameState;
use crate::table::usage::BlockUsage;

impl FrameBits<'_> {
    /// Counts the frames of the pageblock of `i` by use, and calls `fixed` with the first frame and the order of
    /// each unmovable block.
    pub(crate) fn usage(&self, i: Index, fixed: &mut impl FnMut(Index, Order)) -> BlockUsage {
        let pages = 1u64 << self.pageblock_order;
        let first = i & !((1 << self.pageblock_order) - 1);
        let mut usage = BlockUsage::default();
        if !self.is_mixed(i) {
            let state = FrameState::decode(self.kind_of(i).load(Relaxed));
            let order = state.order().map_or(self.pageblock_order, |order| order);
            count(&mut usage, (first, order), state, pages, fixed);
            return usage;
        }
        let cells = self.cells_in(i);
        let mut at = 0;
        while at < cells.len() {
            let start = first + (at * CELL) as Index;
            let codes = cells[at].read();
            if codes.is_wide() {
                let state = wide_state(codes.code(), Migratetype::Movable);
                let order = state.order().unwrap_or(CELL_ORDER);
                count(&mut usage, (start, order), state, 1 << order, fixed);
                at += 1 << (order - CELL_ORDER);
                continue;
            }
            let mut place = 0;
            while place < CELL as u32 {
                let state = codes.state(place, Migratetype::Movable);
                let order = state.order().unwrap_or(0);
                count(&mut usage, (start + place, order), state, 1 << order, fixed);
                place += 1 << order;
            }
            at += 1;
        }
        usage
    }

    /// Returns the lowest free block of an order in the pageblock of a frame.
    pub(crate) fn lowest_free(&self, i: Index, order: Order) -> Option<Index> {
        if !self.is_mixed(i) {
            return None;
        }
        let start = i & !((1 << self.pageblock_order) - 1);
        let cells = self.cells_in(i);
        if order >= CELL_ORDER {
            let mut at = 0;
            while !cells.get(at)?.is_wide(wide_free(order)) {
                at += 1 << (order - CELL_ORDER);
            }
            return Some(start + (at * CELL) as Index);
        }
        (start..).step_by(CELL).zip(cells).find_map(|(first, cell)| {
            let code = cell.code.load(Relaxed);
            if code & !(code >> 8) & 0xff == 0 {
                return None;
            }
            let codes = cell.read();
            let found = if codes.is_wide() { 0 } else { free_blocks(codes.free(), order) };
            (found != 0).then(|| first + found.trailing_zeros())
        })
    }
}

/// Counts the pages of a block.
#[inline]
fn count(
    usage: &mut BlockUsage,
    (at, order): (Index, Order),
    state: FrameState,
    pages: u64,
    fixed: &mut impl FnMut(Index, Order),
) {
    match state {
        FrameState::Hole | FrameState::Tail => {}
        FrameState::Reserved => usage.reserved += pages,
        FrameState::Free { .. } | FrameState::CpuList { .. } => usage.free += pages,
        FrameState::Allocated { movable: true, .. } => usage.movable += pages,
        FrameState::Allocated { .. } => {
            usage.unmovable += pages;
            fixed(at, order);
        }
    }
}
