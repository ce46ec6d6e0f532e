//! The buddy core: splitting on allocation, merging on free.

use crate::policy::source::PolicySource;
use crate::policy::{MergeRule, Retype, SplitLarge, TraceRefill};
use core::ops::Range;

use crate::base::event::{Event, Observer};
use crate::base::frame::{FrameRange, Order, pages};
use crate::base::mobility::{MIGRATE_PCPTYPES, Migratetype};
use crate::table::freelist::End;
use crate::table::map::{FrameState, Index};
use crate::zone::{Count, Size, Zone};

impl<P: PolicySource> Zone<'_, P> {
    /// Takes the first block of the smallest order that serves, and splits it (`__rmqueue_smallest`). Returns the
    /// lower part; the upper halves go to the heads of their lists.
    pub(crate) fn rmqueue_smallest(&mut self, order: Order, list: Migratetype) -> Option<Index> {
        if self.is_packed() {
            return self.take_run(order, list, 1).map(|(i, _)| i);
        }
        let (i, found) = self.probe_smallest(order, list)?;
        Some(self.take_block(i, found, order, list))
    }

    /// Takes a free block of order `found` from its list, and splits it. Returns its lower part.
    pub(super) fn take_block(
        &mut self,
        i: Index,
        found: Order,
        order: Order,
        list: Migratetype,
    ) -> Index {
        self.unlink(i, found, list);
        if self.is_whole_block(found) {
            self.account_pages(Count::Out, pages(found), list, Size::Whole);
            self.expand(i, order, found, list);
        } else {
            self.map.set_byte(i, FrameState::Tail);
            for half in (order..found).rev() {
                self.link(i + (1 << half), half, list, End::Head);
            }
            self.account_pages(Count::Out, pages(order), list, Size::Part);
        }
        debug_assert_eq!(
            self.map.free_list(i, order),
            None,
            "a block that was taken is still free"
        );
        i
    }

    /// Returns the block that serves, and its order: the first of the smallest.
    pub(super) fn probe_smallest(
        &mut self,
        order: Order,
        list: Migratetype,
    ) -> Option<(Index, Order)> {
        let Some(found) = self.area.smallest(order, list) else {
            self.counters.list_probes += u64::from(self.geometry.max_order + 1 - order);
            return None;
        };
        self.counters.list_probes += u64::from(found + 1 - order);
        let i = self.area.list(found, list).head()?;
        Some((i, found))
    }

    /// Takes up to `n` blocks, at least one, as that many calls of [`rmqueue_smallest`](Self::rmqueue_smallest)
    /// would: they follow each other in the first block of the smallest order that serves, because all smaller
    /// lists are empty. Returns the first block, and how many blocks were taken.
    pub(crate) fn take_run(
        &mut self,
        order: Order,
        list: Migratetype,
        n: u32,
    ) -> Option<(Index, u32)> {
        if self.is_packed() {
            return self.take_run_packed(order, list, n);
        }
        let found = self.area.smallest(order, list)?;
        let i = self.area.list(found, list).head()?;
        debug_assert!(n > 0, "no block is asked for");
        debug_assert_eq!(self.map.free_list(i, found), Some(list), "the head is not free");
        let taken = n.min(1 << (found - order));
        // The first block is found after probing the orders below; block `m` after it is found at the largest order
        // that divides `m`.
        let after = taken - 1;
        self.counters.list_probes +=
            u64::from(found + 1 - order) + u64::from(2 * after - after.count_ones());
        if self.is_whole_block(found) {
            self.remove(i, found, list);
            self.map.set_byte(i, FrameState::Tail);
            self.insert_rest(i, order, found, taken, |zone, i, order| {
                zone.insert(i, order, list, End::Head);
            });
        } else {
            self.area.remove(&self.map, i, found, list);
            self.map.set_byte(i, FrameState::Tail);
            self.account_pages(Count::Out, u64::from(taken) << order, list, Size::Part);
            self.insert_rest(i, order, found, taken, |zone, i, order| {
                zone.link(i, order, list, End::Head);
            });
        }
        debug_assert_eq!(
            self.map.free_list(i, order),
            None,
            "a block that was taken is still free"
        );
        Some((i, taken))
    }

    /// Passes the rest of a block of order `found` to `insert`, in the largest pieces, after `taken` blocks of
    /// `order` were taken from its start.
    pub(super) fn insert_rest(
        &mut self,
        i: Index,
        order: Order,
        found: Order,
        taken: u32,
        mut insert: impl FnMut(&mut Self, Index, Order),
    ) {
        debug_assert!(taken <= 1 << (found - order), "more taken than there was");
        let mut at = taken;
        while at < 1 << (found - order) {
            let piece = at.trailing_zeros();
            insert(self, i + (at << order), order + piece as Order);
            at += 1 << piece;
        }
        debug_assert_eq!(at, 1 << (found - order), "the pieces do not end where the block does");
    }

    /// Splits a block that is on no list, down to `order` at its start (`expand`).
    pub(crate) fn expand(&mut self, i: Index, order: Order, from: Order, list: Migratetype) {
        debug_assert!(order <= from && i % (1 << from) == 0, "no block at {i}");
        self.map.set_taken(i, from);
        for half in (order..from).rev() {
            self.insert(i + (1 << half), half, list, End::Head);
        }
    }

    /// Reports that a block was taken from a list for a request of a type.
    pub(crate) fn trace_zone_locked(
        &self,
        i: Index,
        order: Order,
        list: Migratetype,
        requested: Migratetype,
        observer: &mut impl Observer,
    ) {
        let (migratetype, percpu_refill) = if self.policy.trace_refill == TraceRefill::List {
            (list, self.has_cpu_list(order) && (list as usize) < MIGRATE_PCPTYPES)
        } else if list == Migratetype::Reserve {
            (list, order == 0)
        } else {
            (requested, order == 0)
        };
        let pfn = self.map.pfn(i);
        observer.event(Event::ZoneLocked { pfn, order, migratetype, percpu_refill });
    }

    /// Frees a block to the list of a type, and merges it with its buddies (`__free_one_page`).
    ///
    /// `end` overrides the choice of the list's end.
    pub(crate) fn free_one(
        &mut self,
        i: Index,
        order: Order,
        mt: Migratetype,
        end: Option<End>,
        observer: &mut impl Observer,
    ) {
        debug_assert!(i % (1 << order) == 0, "no block of order {order} at {i}");
        if self.is_packed() {
            self.free_one_under::<true>(i, order, mt, end, observer);
        } else {
            self.free_one_under::<false>(i, order, mt, end, observer);
        }
    }

    /// [`free_one`](Self::free_one) for a known placement.
    #[inline(never)]
    fn free_one_under<const PACKED: bool>(
        &mut self,
        i: Index,
        order: Order,
        mt: Migratetype,
        end: Option<End>,
        observer: &mut impl Observer,
    ) {
        let cap = self.merge_cap(i);
        if !PACKED {
            self.map.set_byte(i, FrameState::Tail);
            return self.merge_and_link::<PACKED>((i, order), (i, order), (cap, mt, end), observer);
        }
        let (at, merged, done) = self.merge_packed(i, order, cap, mt);
        if done {
            self.account_pages(Count::In, pages(order), mt, Size::Part);
        } else {
            self.merge_and_link::<PACKED>((at, merged), (i, order), (cap, mt, end), observer);
        }
    }

    /// Completes the free of a block that emptied its pageblock.
    #[inline(never)]
    pub(super) fn link_emptied(
        &mut self,
        freed: (Index, Order),
        mt: Migratetype,
        observer: &mut impl Observer,
    ) {
        let merged = (self.pageblock_of(freed.0), self.geometry.pageblock_order);
        let cap = self.merge_cap(freed.0);
        self.merge_and_link::<true>(merged, freed, (cap, mt, None), observer);
    }

    /// Merges a block with its buddies up to the order `cap`, and puts it on a list. The block is `freed`, or
    /// contains it together with blocks that merged with it already and whose pages are in the counters.
    fn merge_and_link<const PACKED: bool>(
        &mut self,
        (mut i, mut order): (Index, Order),
        freed: (Index, Order),
        (cap, mt, end): (Order, Migratetype, Option<End>),
        observer: &mut impl Observer,
    ) {
        // Pages that are in the counters already, but not as whole blocks.
        let mut counted = if PACKED { pages(order) - pages(freed.1) } else { 0 };
        while order < cap {
            if self.capture.is_some() && self.give_to_capture(i, order, mt, observer) {
                self.account_pages(Count::Out, counted, mt, Size::Part);
                return;
            }
            let buddy = i ^ (1 << order);
            let list = if PACKED && self.is_whole_block(order) {
                self.map.whole_free_list(buddy, order)
            } else if PACKED {
                self.map.free_list(buddy, order)
            } else {
                self.map.byte_free_list(buddy, order)
            };
            let Some(list) = list else { break };
            // Checked only from the pageblock order on, as in the kernel: below it both halves have one type.
            if self.is_whole_block(order) && !self.may_merge(buddy, mt) {
                break;
            }
            if list == mt && !self.is_whole_block(order) {
                self.unlink(buddy, order, list);
                counted += pages(order);
            } else {
                self.remove(buddy, order, list);
                self.match_buddy(buddy, order, mt);
            }
            if PACKED {
                self.map.set_upper_half(i | buddy, order);
            } else {
                self.map.set_byte(buddy, FrameState::Tail);
            }
            i &= buddy;
            order += 1;
        }
        if PACKED && self.is_whole_block(order) {
            self.packing.emptied(&self.map, freed.0, freed.1 < self.geometry.pageblock_order);
        }
        debug_assert!(i % (1 << order) == 0, "a merged block is not aligned");
        debug_assert!(order <= self.geometry.max_order, "merged past the largest order");
        let mut end = end.unwrap_or_else(|| self.end_for::<PACKED>(i, order));
        if !PACKED {
            if let Some(mut decider) = observer.decider() {
                end = self.asked_end((i, order, mt), end, &mut decider);
            }
        }
        self.link(i, order, mt, end);
        if self.is_whole_block(order) {
            self.account_pages(Count::Out, counted, mt, Size::Part);
            self.account_pages(Count::In, pages(order), mt, Size::Whole);
            // The rest of what it merged with was wholly free before.
            let start = self.map.pfn(freed.0 & !((1 << self.geometry.pageblock_order) - 1));
            let blocks = pages(freed.1.max(self.geometry.pageblock_order));
            observer.emptied(FrameRange { start, end: start.plus(blocks) });
        } else {
            self.account_pages(Count::In, pages(order) - counted, mt, Size::Part);
        }
        debug_assert_eq!(
            self.map.free_list(i, order),
            Some(mt),
            "the freed block is not on its list"
        );
    }

    /// Returns the order at which merging stops: 3.19 to 4.3 stop at the pageblock order if the freed page's
    /// pageblock is isolated.
    fn merge_cap(&self, i: Index) -> Order {
        let max = self.geometry.max_order;
        let isolated = || self.map.block_type(i) == Migratetype::Isolate;
        if self.policy.merge_rule == MergeRule::FreedIsolated && isolated() {
            self.geometry.pageblock_order.min(max)
        } else {
            max
        }
    }

    /// Returns whether a free block of type `mt` may merge with its buddy. Both consist of whole pageblocks.
    fn may_merge(&self, buddy: Index, mt: Migratetype) -> bool {
        let other = self.map.block_type(buddy);
        if other == mt {
            return true;
        }
        let isolate = mt == Migratetype::Isolate || other == Migratetype::Isolate;
        let mergeable = mt.is_mergeable() && other.is_mergeable();
        match self.policy.merge_rule {
            MergeRule::Free | MergeRule::FreedIsolated => true,
            MergeRule::EitherIsolated => !isolate,
            MergeRule::Mergeable | MergeRule::Retype | MergeRule::RetypeAll => mergeable,
        }
    }

    /// Gives a buddy of whole pageblocks the type of the freed block that it merges with. The buddy is on no list.
    fn match_buddy(&mut self, buddy: Index, order: Order, mt: Migratetype) {
        if !self.is_whole_block(order) || self.map.block_type(buddy) == mt {
            return;
        }
        match self.policy.merge_rule {
            // Keeps each free page on the list of its pageblock's type, which four bits per frame require.
            MergeRule::Retype if self.is_packed() => self.set_block_types(buddy, order, mt),
            MergeRule::Retype => self.set_block_type(buddy, mt),
            MergeRule::RetypeAll => self.set_block_types(buddy, order, mt),
            MergeRule::Free
            | MergeRule::FreedIsolated
            | MergeRule::EitherIsolated
            | MergeRule::Mergeable => return,
        }
        debug_assert_eq!(self.map.block_type(buddy), mt, "a buddy merged with its old type");
    }

    /// Returns the tail if the block is likely to merge soon, because the buddy of the merged block is already free
    /// (`buddy_merge_likely`). At the tail it is allocated last, and has the most time to merge.
    fn end_for<const PACKED: bool>(&self, i: Index, order: Order) -> End {
        if order + 1 >= self.geometry.max_order {
            return End::Head;
        }
        let merged = i & !(1 << order);
        let beside = merged ^ (1 << (order + 1));
        let free = if PACKED {
            self.map.free_list(beside, order + 1)
        } else {
            self.map.byte_free_list(beside, order + 1)
        };
        let likely = free.is_some();
        if likely { End::Tail } else { End::Head }
    }

    /// Frees a block to the list of its pageblock's type (`free_one_page`). From 6.12 a block larger than a
    /// pageblock is freed in pieces, each to its own type (`split_large_buddy`).
    pub(crate) fn free_by_block_type(
        &mut self,
        i: Index,
        order: Order,
        end: Option<End>,
        observer: &mut impl Observer,
    ) {
        match self.policy.split_large {
            SplitLarge::On => self.free_in_pieces(i, order, end, observer),
            SplitLarge::Off => self.free_one(i, order, self.map.block_type(i), end, observer),
        }
    }

    /// Frees a block pageblock by pageblock (`split_large_buddy`).
    pub(crate) fn free_in_pieces(
        &mut self,
        i: Index,
        order: Order,
        end: Option<End>,
        observer: &mut impl Observer,
    ) {
        let piece = order.min(self.geometry.pageblock_order);
        for n in 0..1 << (order - piece) {
            let at = i + (n << piece);
            self.free_one(at, piece, self.map.block_type(at), end, observer);
        }
    }

    /// Returns the frames whose free pages move when the pageblock of the page at `i` changes its type. `None` if
    /// the pageblock extends past the zone.
    pub(crate) fn movable_range(&self, i: Index) -> Option<Range<Index>> {
        let block = self.pageblock_of(i);
        let end = block + (1 << self.geometry.pageblock_order);
        if !self.span.contains(self.map.pfn(end - 1)) {
            return None;
        }
        if self.span.contains(self.map.pfn(block)) {
            Some(block..end)
        // The kernel starts at the page itself if the pageblock begins before the zone.
        } else if self.policy.retype == Retype::Together {
            None
        } else {
            Some(i..end)
        }
    }

    /// Moves the free blocks of the pageblock of the page at `i` to the list of a type. Returns the number of pages
    /// moved (`move_freepages_block`).
    pub(crate) fn move_freepages_block(&mut self, i: Index, to: Migratetype) -> u64 {
        self.move_freepages_from(i, None, to)
    }

    /// [`move_freepages_block`](Self::move_freepages_block) for a pageblock that has its new type already, and had
    /// the type `from` before.
    pub(crate) fn move_freepages_from(
        &mut self,
        i: Index,
        from: Option<Migratetype>,
        to: Migratetype,
    ) -> u64 {
        let from = from.filter(|_| self.map.has_bits());
        let Some(Range { start, end }) = self.movable_range(i) else { return 0 };
        let (mut moved, mut at) = (0, start);
        while at < end {
            let FrameState::Free { order, list } = self.map.state(at) else {
                at += 1;
                continue;
            };
            let own = from.filter(|_| !self.is_whole_block(order));
            self.move_to_list(at, order, own.unwrap_or(list), to);
            debug_assert!(at % (1 << order) == 0, "a free block is not aligned");
            moved += pages(order);
            at += 1 << order;
        }
        moved
    }

    /// Returns the first frame of the pageblock that contains a frame.
    pub(crate) fn pageblock_of(&self, i: Index) -> Index {
        i & !((1 << self.geometry.pageblock_order) - 1)
    }

    /// Frees a block past the CPU lists, in the zone's own count.
    #[cfg(feature = "replay")]
    pub(crate) fn free_past_lists(&mut self, i: Index, order: Order, observer: &mut impl Observer) {
        self.counters.count_free(order);
        self.free_one_page(i, order, observer);
    }

    /// Frees a block past the CPU lists (`free_one_page`).
    pub(crate) fn free_one_page(&mut self, i: Index, order: Order, observer: &mut impl Observer) {
        self.counters.lock_acquired += 1;
        self.free_by_block_type(i, order, None, observer);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::base::geometry::Geometry;
    use crate::testing::with_zone;
    use crate::zone::ZoneCounters;

    const LIST: Migratetype = Migratetype::Movable;

    /// Returns the lists, counters and free pages of a zone of one block of order 6 after `take`.
    fn after(take: impl FnOnce(&mut Zone<'_>)) -> (Vec<Vec<u64>>, ZoneCounters, [u64; 2]) {
        let geometry = Geometry { pageblock_order: 4, max_order: 6, ..Geometry::default() };
        with_zone("linux-6.12", geometry, 64, |allocator| {
            let zone = &mut allocator.zones[0];
            take(zone);
            let blocks = |order| zone.free_list(order, LIST).map(|pfn| pfn.0).collect();
            let pages = [zone.free_pages(), zone.free_pages_in_blocks()];
            ((0..=6).map(blocks).collect(), *zone.counters(), pages)
        })
    }

    #[test]
    fn run_is_so_many_single_blocks() {
        for order in 0..=4 {
            for n in 1..=64 >> order {
                let mut singles = Vec::new();
                let one_by_one = after(|zone| {
                    singles.extend((0..n).filter_map(|_| zone.rmqueue_smallest(order, LIST)));
                });
                let at_once = after(|zone| {
                    let (first, taken) = zone.take_run(order, LIST, n).unwrap();
                    let run: Vec<Index> = (0..taken).map(|at| first + (at << order)).collect();
                    assert_eq!(run, singles);
                });
                assert_eq!(at_once, one_by_one, "{n} blocks of order {order}");
            }
        }
    }
}
