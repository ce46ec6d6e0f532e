//! Ranges of frames: whether they are free, and their removal from the free lists.

use crate::base::error::FrameError;
use crate::base::frame::{FrameRange, Order};
use crate::base::mobility::Migratetype::Isolate;
use crate::policy::Isolation;
use crate::policy::source::PolicySource;
use crate::table::freelist::End;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;

impl<P: PolicySource> Zone<'_, P> {
    /// Returns whether all frames from `start` to `end` are on free lists.
    pub(crate) fn all_free(&self, start: Index, end: Index) -> Result<(), FrameError> {
        let mut at = start;
        while at < end {
            if at >= self.map.frames() {
                return Err(FrameError::Foreign(self.map.pfn(at)));
            }
            let (first, state) = self.map.block_at(at);
            match state {
                FrameState::Free { order, .. } => at = first + (1 << order),
                FrameState::CpuList { .. } => return Err(FrameError::OnCpuList(self.map.pfn(at))),
                FrameState::Reserved => return Err(FrameError::Reserved(self.map.pfn(at))),
                FrameState::Hole => return Err(FrameError::Foreign(self.map.pfn(at))),
                FrameState::Allocated { .. } | FrameState::Tail => {
                    return Err(FrameError::NotFree(self.map.pfn(at)));
                }
            }
        }
        Ok(())
    }

    /// Removes the frames from `start` to `end`, all of them free, from the free lists. Frames of their blocks
    /// outside the range go back to the same lists; if a block was isolated only for one of its pageblocks, the
    /// rest goes to the lists of its own pageblocks.
    pub(crate) fn carve(&mut self, start: Index, end: Index) {
        debug_assert!(start <= end && end <= self.map.frames(), "no frames {start} to {end}");
        let mut at = start;
        while at < end {
            let Some((first, order, list)) = self.map.free_block_of(at) else { return };
            let past = first + (1 << order);
            self.remove(first, order, list);
            self.map.set_taken(first, order);
            let sides = [(first, start.max(first)), (end.min(past), past)];
            // If free blocks are isolated as a whole, all their pageblocks are isolated.
            let apart = list == Isolate && self.policy.isolation == Isolation::Split;
            let largest = if apart { order.min(self.geometry.pageblock_order) } else { order };
            for (from, to) in sides {
                let rest = FrameRange::new(from.into(), to.into());
                for (piece, order) in rest.blocks(largest) {
                    let i = piece.0 as Index;
                    let list = if apart { self.map.block_type(i) } else { list };
                    self.insert(i, order, list, End::Head);
                }
            }
            at = past;
        }
    }

    /// Returns the lowest block of an order in a range that is free and not isolated.
    pub(crate) fn lowest_free(&self, range: FrameRange, order: Order) -> Option<Index> {
        let start = range.start.max(self.span.start).align_up(order);
        let end = range.end.min(self.span.end);
        let size = 1 << order;
        let mut at = self.map.index(start)?;
        while self.map.pfn(at).plus(size) <= end {
            let (first, state) = self.map.block_at(at);
            match state {
                FrameState::Free { order: found, list } => {
                    if found >= order && list != Isolate {
                        return Some(at);
                    }
                    at = first + (1 << found);
                }
                _ => at = first + (1 << state.order().unwrap_or(0)),
            }
            at = at.checked_next_multiple_of(size as Index)?;
        }
        None
    }
}
