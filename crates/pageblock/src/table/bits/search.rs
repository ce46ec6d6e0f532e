//! What is looked for in all frames of a pageblock.

use super::{FrameBits, GROUP, GROUP_ORDER};
use crate::base::frame::Order;
use crate::base::sync::Relaxed;
use crate::table::map::Index;
use crate::table::state::FrameState;
use crate::table::usage::BlockUsage;

impl FrameBits<'_> {
    /// Returns how the frames of the pageblock of `i` are used, and calls back with the first frame and the order of
    /// each block of unmovable pages.
    pub(crate) fn usage(&self, i: Index, fixed: &mut impl FnMut(Index, Order)) -> BlockUsage {
        let pages = 1u64 << self.pageblock_order;
        let mut usage = BlockUsage::default();
        if !self.is_mixed(i) {
            let first = i & !((1 << self.pageblock_order) - 1);
            match FrameState::decode(self.kind_of(i).load(Relaxed)) {
                FrameState::Hole | FrameState::Tail => {}
                FrameState::Reserved => usage.reserved = pages,
                FrameState::Free { .. } | FrameState::CpuList { .. } => usage.free = pages,
                FrameState::Allocated { movable: true, .. } => usage.movable = pages,
                FrameState::Allocated { order, .. } => {
                    usage.unmovable = pages;
                    fixed(first, order);
                }
            }
            return usage;
        }
        // The use of the block that reaches into the next group, by its place below.
        let mut last = 3;
        for (group, mask) in self.groups_of((i >> self.pageblock_order) as usize) {
            let words = self.words(group);
            let (tails, heads) = (words.tails() & mask, mask & !words.tails());
            let held = words.held & heads;
            let idle = held & !words.in_use | words.free() & heads;
            let used = held & words.in_use;
            let mut counts = [0; 4];
            for (count, heads) in
                counts.iter_mut().zip([used & words.kind, used & !words.kind, idle])
            {
                // The tails behind a head are all below the next zero.
                let behind = heads << 1 & tails;
                let follows = (tails.wrapping_add(behind) ^ tails) & tails;
                *count = (heads | follows).count_ones();
            }
            if heads == 0 {
                counts[last] = mask.count_ones();
            } else if used & !words.kind != 0 {
                let mut left = used & !words.kind;
                while left != 0 {
                    let at = (group * GROUP) as Index + left.trailing_zeros();
                    fixed(at, self.order_at(at));
                    left &= left - 1;
                }
            }
            let highest = heads.checked_ilog2().map_or(0, |bit| 1usize << bit);
            if highest != 0 {
                let uses = [used & words.kind, used & !words.kind, idle];
                last = uses.iter().position(|word| word & highest != 0).unwrap_or(3);
            }
            usage.movable += u64::from(counts[0]);
            usage.unmovable += u64::from(counts[1]);
            usage.free += u64::from(counts[2]);
            usage.reserved +=
                u64::from((words.in_use & !words.held & words.kind & mask).count_ones());
        }
        usage
    }

    /// Returns the lowest free block of an order in the pageblock of a frame.
    pub(crate) fn lowest_free(&self, i: Index, order: Order) -> Option<Index> {
        if !self.is_mixed(i) {
            return None;
        }
        let block = (i >> self.pageblock_order) as usize;
        if order >= GROUP_ORDER {
            let starts = (0..1 << self.pageblock_order).step_by(1 << order);
            let start = (block << self.pageblock_order) as Index;
            return starts
                .map(|at| start + at)
                .find(|&i| self.words_of(i).free() & 1 != 0 && self.has_order(i, order));
        }
        self.groups_of(block).find_map(|(group, mask)| {
            let words = self.words(group);
            let tails = words.tails() & mask;
            let size = 1usize << order;
            let mut found = words.free() & mask & !(tails >> size);
            if order > 0 {
                found &= tails >> (size / 2) & (usize::MAX / ((1 << size) - 1));
            }
            (found != 0).then(|| (group * GROUP) as Index + found.trailing_zeros())
        })
    }
}
