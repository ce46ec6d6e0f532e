//! Free pages that compaction holds as migration targets.
//!
//! Source: `compact_control.freepages`, `compaction_alloc`, `compaction_free`, `release_free_list` (mm/compaction.c).

use std::collections::VecDeque;

use pageblock::alloc::Allocator;
use pageblock::frame::{NR_PAGE_ORDERS, Order, Pfn, pages};

use super::Content;

/// The targets of a compaction, a list for each order. Up to 6.8 all are single pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    lists: [VecDeque<u32>; NR_PAGE_ORDERS],
    pages: usize,
}

impl Targets {
    /// Returns the number of pages.
    pub(super) const fn pages(&self) -> usize {
        self.pages
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Adds a block that is used after all others of its order.
    pub(super) fn push_last(&mut self, pfn: Pfn, order: Order) {
        self.lists[usize::from(order)].push_back(pfn.0 as u32);
        self.pages += 1 << order;
    }

    /// Adds a block that is used next.
    pub(super) fn push_next(&mut self, pfn: Pfn, order: Order) {
        self.lists[usize::from(order)].push_front(pfn.0 as u32);
        self.pages += 1 << order;
    }

    /// Takes a block of an order, split off the smallest that is large enough.
    pub(super) fn take<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        content: &mut C,
        order: Order,
    ) -> Option<Pfn> {
        let mut at =
            (order..NR_PAGE_ORDERS as Order).find(|&at| !self.lists[usize::from(at)].is_empty())?;
        let pfn = Pfn(self.lists[usize::from(at)].pop_front()?.into());
        debug_assert!(at >= order, "a target of order {at} for order {order}");
        self.pages -= 1 << at;
        content.let_go(pfn, at);
        while at > order {
            if let Err(error) = allocator.split_allocated(pfn, at, at - 1) {
                panic!("splitting the target at {pfn}: {error}");
            }
            at -= 1;
            let half = pfn.plus(pages(at));
            content.hold(half, at);
            self.push_next(half, at);
        }
        Some(pfn)
    }

    /// Takes any block, those of the lowest orders first.
    pub(super) fn take_any(&mut self) -> Option<(Pfn, Order)> {
        debug_assert_eq!(self.pages == 0, self.lists.iter().all(VecDeque::is_empty));
        let (order, list) = (0..).zip(&mut self.lists).find(|(_, list)| !list.is_empty())?;
        let pfn = list.pop_front()?;
        self.pages -= 1 << order;
        Some((Pfn(pfn.into()), order))
    }

    /// Returns the first frame of the highest block.
    pub(super) fn highest(&self) -> Option<Pfn> {
        self.lists.iter().flatten().max().map(|&pfn| Pfn(pfn.into()))
    }
}

#[cfg(test)]
mod tests {
    use pageblock::ids::{CpuId, ZoneIndex};
    use pageblock::mobility::Migratetype::Movable;

    use super::*;
    use crate::compact::testing::{goal, rules, with_allocator};
    use crate::compact::{Compactor, Goal, Memory, Mode, ZoneCompact};

    /// Frames from and to which content was moved.
    type Moved = Vec<(u64, u64)>;
    /// Blocks by their first frames and orders.
    type Blocks = Vec<(u64, Order)>;

    /// Content of the first pageblock, and where it was moved.
    #[derive(Default)]
    struct Moves {
        moved: Moved,
        splits: bool,
    }

    impl Content for Moves {
        fn is_movable(&self, pfn: Pfn, _: Mode) -> bool {
            pfn.0 < 512
        }
        fn migrate(&mut self, from: Pfn, to: Pfn, _: Mode) -> bool {
            self.moved.push((from.0, to.0));
            true
        }
        fn split(&mut self, _: Pfn) -> bool {
            self.splits
        }
    }

    /// Compacts once a zone with these blocks in use in its first pageblock, and these free in its last one. Returns
    /// the moves, and what is left of the targets.
    fn moves(
        policy: &str,
        used: &[(u64, Order)],
        free: &[(u64, Order)],
        splits: bool,
    ) -> (Moved, Blocks) {
        let (mut content, mut left) = (Moves { splits, ..Moves::default() }, Vec::new());
        with_allocator(policy, 4096, |allocator| {
            for (block, order, keeps) in [(0, used[0].1, true), (3584, free[0].1, false)] {
                let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
                let whole = Pfn(block).align_down(10);
                assert_eq!(zone.isolate_free_page(whole), Some(10));
                allocator.split_allocated(whole, 10, 9).unwrap();
                allocator.split_allocated(Pfn(block), 9, order).unwrap();
                for pfn in (block..block + 512).step_by(1 << order) {
                    let named = if keeps { used } else { free }.contains(&(pfn, order));
                    if named != keeps {
                        allocator.free(CpuId(0), Pfn(pfn), order, &mut ()).unwrap();
                    }
                }
            }
            allocator.drain_all(&mut ());
            let goal = Goal { order: None, direct: None, whole_zone: true, ..goal(Movable) };
            let mut state = ZoneCompact::new(&allocator.zones()[0]);
            let mut compactor = Compactor::new(goal, rules(policy));
            compactor.step(
                &mut Memory { allocator, state: &mut state, content: &mut content },
                0,
                &mut (),
            );
            while let Some((pfn, order)) = compactor.targets.take_any() {
                left.push((pfn.0, order));
            }
        });
        (content.moved, left)
    }

    /// `isolate_migratepages_block`: folios move from 6.9 on, the last one isolated first (`list_add`).
    #[test]
    fn folios_move_from_6_9_the_last_first() {
        let moves = |policy| moves(policy, &[(0, 2), (4, 2)], &[(3592, 3)], false);
        assert_eq!(moves("linux-6.8").0, []);
        assert_eq!(moves("linux-6.9").0, [(4, 3592), (0, 3596)]);
    }

    /// `compaction_alloc`: from 6.9 on a free block is split only as far as a page needs. Before, its last page is used
    /// first (`split_map_pages`).
    #[test]
    fn what_is_left_of_a_target_stays_whole_from_6_9() {
        let left = |policy| moves(policy, &[(0, 0)], &[(3592, 3)], false).1;
        assert_eq!(left("linux-6.9"), [(3593, 0), (3594, 1), (3596, 2)]);
        let pages: Vec<_> = (3592..3599).rev().map(|pfn| (pfn, 0)).collect();
        assert_eq!(left("linux-6.8"), pages);
    }

    /// `migrate_pages_batch`: a folio without a target of its order is split, if its content allows it.
    #[test]
    fn a_folio_without_a_target_is_split() {
        let free = [(3593, 0), (3595, 0), (3597, 0), (3599, 0)];
        let moves = |splits| moves("linux-6.9", &[(8, 2)], &free, splits);
        assert_eq!(moves(true).0, [(8, 3593), (9, 3595), (10, 3597), (11, 3599)]);
        assert_eq!(moves(false), (vec![], vec![]));
    }
}
