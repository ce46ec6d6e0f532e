//! The rest of free blocks, if events take only a part of them.
//!
//! The kernel takes the smallest block that suits. So a block that a request left alone when it took a larger one,
//! and that a later request takes, was as large itself: the frames of it that no event names were free too.

use std::collections::BTreeMap;

use pageblock::frame::{ORDER_LIMIT, Order, Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock_recording::{FreeBlock, Snapshot};

use super::{Evidence, UNKNOWN, free_blocks};

/// When a block is first taken from, and the order of that request.
type Taken = (u64, Order);

impl Evidence {
    /// Marks the rest of free blocks as free.
    pub(super) fn free_rest_of_blocks(&self, snapshot: &Snapshot, free: &mut [bool]) {
        let mut blocks: Vec<(Taken, FreeBlock)> = free_blocks(snapshot, free)
            .into_iter()
            .filter_map(|block| Some((self.first_taken(block.pfn, block.order)?, block)))
            .collect();
        blocks.sort_unstable_by_key(|&(taken, block)| (taken, block.pfn));
        // The largest block taken so far, by list and by requested order.
        let mut largest: BTreeMap<(u16, Migratetype), [Order; ORDER_LIMIT as usize + 1]> =
            BTreeMap::new();
        for ((event, asked), FreeBlock { zone, order, pfn, .. }) in blocks {
            let largest = largest.entry((zone, self.type_of(pfn))).or_default();
            let suited = &largest[..=usize::from(order)];
            let at_least = suited.iter().copied().max().unwrap_or(order).max(order);
            let mut order = order;
            let whole = pfn.align_down(at_least);
            if at_least > order && self.was_free(snapshot, zone, whole, at_least, free, event) {
                let start = whole.0 as usize;
                free[start..start + pages(at_least) as usize].fill(true);
                order = at_least;
            }
            let slot = &mut largest[usize::from(asked)];
            *slot = (*slot).max(order);
        }
    }

    /// Returns when a block is first taken from, and for which order.
    fn first_taken(&self, pfn: Pfn, order: Order) -> Option<Taken> {
        let frames = pfn.0 as usize..(pfn.0 + pages(order)) as usize;
        let taken = self.taken.get(frames.clone())?.iter().zip(&self.asked[frames]);
        taken.filter(|&(&event, _)| event > 0).map(|(&event, &asked)| (event, asked)).min()
    }

    /// Returns whether all of a block can have been free until an event.
    fn was_free(
        &self,
        snapshot: &Snapshot,
        zone: u16,
        pfn: Pfn,
        order: Order,
        free: &[bool],
        until: u64,
    ) -> bool {
        let span = snapshot.zones[usize::from(zone)].span();
        if pfn < span.start || pfn.0 + pages(order) > span.end.0 {
            return false;
        }
        (pfn.0..pfn.0 + pages(order)).all(|frame| {
            let frame = frame as usize;
            let unnamed = self.before_snapshot[frame] == UNKNOWN;
            unnamed || free[frame] && (self.taken[frame] == 0 || self.taken[frame] >= until)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{evidence, snapshot};
    use super::*;

    /// Returns the free frames after requests of order 0 took these in turn.
    fn free_after(taken: &[u64]) -> Vec<u64> {
        let mut evidence = evidence(u64::MAX);
        for (event, &pfn) in taken.iter().enumerate() {
            evidence.take(event as u64, Pfn(pfn), 0);
        }
        let mut free: Vec<bool> = (0..16).map(|frame| taken.contains(&frame)).collect();
        evidence.free_rest_of_blocks(&snapshot(&[]), &mut free);
        (0..16).filter(|&frame| free[frame as usize]).collect()
    }

    #[test]
    fn a_block_that_was_left_while_a_larger_one_was_taken_was_as_large() {
        assert_eq!(free_after(&[0, 1, 2, 3, 8]), [0, 1, 2, 3, 8, 9, 10, 11]);
    }

    #[test]
    fn a_block_that_is_taken_before_larger_ones_may_be_small() {
        assert_eq!(free_after(&[8, 0, 1, 2, 3]), [0, 1, 2, 3, 8]);
    }

    #[test]
    fn a_block_does_not_grow_over_what_was_in_use() {
        let mut evidence = evidence(u64::MAX);
        (0..4).for_each(|pfn| evidence.take(pfn, Pfn(pfn), 0));
        evidence.first(4, Pfn(9), 0, false);
        evidence.take(5, Pfn(8), 0);
        let mut free: Vec<bool> = (0..16).map(|frame| frame < 4 || frame == 8).collect();
        evidence.free_rest_of_blocks(&snapshot(&[]), &mut free);
        assert_eq!(free.iter().filter(|&&free| free).count(), 5);
    }
}
