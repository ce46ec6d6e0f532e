//! A zone under [packed placement](super::packing), where free blocks smaller than a pageblock are on no list.

use crate::base::event::{Event, Observer};
use crate::base::frame::{Order, pages};
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::table::chain::Chain;
use crate::table::freelist::End;
use crate::table::map::{Index, NIL};
use crate::zone::fallback::Candidate;
use crate::zone::packing::{Batch, Listed, Prefer};
use crate::zone::{Count, Size, Zone};

impl<P: PolicySource> Zone<'_, P> {
    /// [`take_run`](Self::take_run) under packed placement: from a partial pageblock of the type, else from a block of
    /// whole pageblocks.
    pub(super) fn take_run_packed(
        &mut self,
        order: Order,
        list: Migratetype,
        n: u32,
    ) -> Option<(Index, u32)> {
        self.counters.list_probes += 1;
        if let Some(run) = self.packing.take_run(&self.map, &mut self.area, order, list, n) {
            self.account_pages(Count::Out, u64::from(run.n) << order, list, Size::Part);
            return Some((run.first, run.n));
        }
        let (i, found) = self.whole_for(order, list)?;
        self.remove(i, found, list);
        self.map.set_taken(i, found);
        let taken = n.min(1 << (found - order));
        self.insert_rest(i, order, found, taken, |zone, i, order| {
            zone.insert(i, order, list, End::Head);
        });
        if !self.is_whole_block(order) {
            for at in (i..i + (taken << order)).step_by(1 << self.geometry.pageblock_order) {
                if self.map.block_type(at) == list {
                    self.packing.fill(&self.map, at, list);
                }
            }
        }
        debug_assert_eq!(
            self.map.free_list(i, order),
            None,
            "a block that was taken is still free"
        );
        Some((i, taken))
    }

    /// Returns the block of whole pageblocks that serves a request, and its order.
    fn whole_for(&self, order: Order, list: Migratetype) -> Option<(Index, Order)> {
        let least = order.max(self.geometry.pageblock_order);
        let whole = self.area.orders(list) >> least << least;
        let found = (whole != 0).then(|| whole.trailing_zeros() as Order)?;
        Some((self.area.list(found, list).head()?, found))
    }

    /// Returns the block that a request would be served from, and its order.
    #[cfg(feature = "replay")]
    pub(super) fn next_packed(&self, order: Order, list: Migratetype) -> Option<(Index, Order)> {
        self.packing.next_own(&self.map, order, list).or_else(|| self.whole_for(order, list))
    }

    /// Merges a block that is freed with its free buddies of the same type inside its pageblock, unless a capture or
    /// another type of pageblock needs the general path. Their pages stay in the counters. Returns the merged block, its
    /// order, and whether it was added.
    pub(super) fn merge_packed(
        &mut self,
        i: Index,
        order: Order,
        cap: Order,
        mt: Migratetype,
    ) -> (Index, Order, bool) {
        let cap = cap.min(self.geometry.pageblock_order);
        if order >= cap || self.capture.is_some() || self.map.block_type(i) != mt {
            if order < self.geometry.pageblock_order {
                self.map.set_taken(i, order);
            }
            return (i, order, false);
        }
        self.packing.merge(&self.map, &mut self.area, (i, order), cap)
    }

    /// Frees blocks that left the lists of a CPU one by one. Stops at the first that needs the general path: it is neither
    /// a page nor a block of whole cells on a CPU list, or it may merge with the next. Returns the number freed.
    pub(crate) fn free_listed(&mut self, listed: &[Index], observer: &mut impl Observer) -> usize {
        let &[i, ..] = listed else { return 0 };
        let next = listed.get(1).copied().unwrap_or(NIL);
        // Checked before a batch is built, as many runs follow each other.
        if self.capture.is_some() || self.map.bits().joins(i, next) {
            return 0;
        }
        let cap = self.geometry.max_order.min(self.geometry.pageblock_order);
        let listed = Listed { blocks: listed, cap };
        let (mut batch, mut at) = (Batch::default(), 0);
        loop {
            let (map, area, rest) = (self.map, &mut self.area, listed.from(at));
            let (n, emptying) = self.packing.free_listed(map, area, rest, &mut batch, observer);
            at += n;
            match emptying {
                Some(order) => {
                    self.count_batch(&batch);
                    batch = Batch::default();
                    self.note_emptied(listed.blocks[at - 1], order, observer);
                }
                None if n == 0 => break,
                None => {}
            }
        }
        self.count_batch(&batch);
        at
    }

    /// Notes that a block of a CPU list was freed and completed a free pageblock.
    fn note_emptied(&mut self, i: Index, order: Order, observer: &mut impl Observer) {
        let orders = (order, self.geometry.pageblock_order);
        let mt = self.packing.count_freed(&self.map, &mut self.area, i, orders);
        self.link_emptied((i, order), mt, observer);
        observer.event(Event::PcpuDrain { pfn: self.map.pfn(i), order, migratetype: mt });
    }

    /// Counts the blocks of a batch.
    #[inline(never)]
    fn count_batch(&mut self, batch: &Batch) {
        for (mt, counts) in batch.types() {
            counts.count(&mut self.area, mt);
            self.account_pages(Count::In, counts.pages(), mt, Size::Part);
        }
    }

    /// Returns the block of a type that a fallback considers at an order: a block of whole pageblocks of this order, or a
    /// block in a pageblock whose largest free block has this order.
    pub(super) fn packed_candidate(
        &self,
        order: Order,
        min: Order,
        from: Migratetype,
        prefer: Prefer,
    ) -> Option<Candidate> {
        if self.is_whole_block(order) {
            return Some((self.area.list(order, from).head()?, order, from));
        }
        let (i, order) = self.packing.candidate(&self.map, order, min, from, prefer)?;
        Some((i, order, from))
    }

    /// Returns the list of an order and type, if it is linked through frames.
    pub(super) fn chain_of(&self, order: Order, mt: Migratetype) -> Option<&Chain> {
        let listed = !self.is_packed() && order <= self.geometry.max_order;
        listed.then(|| self.area.list(order, mt).chain())
    }

    /// Returns the list of an order and type, if it is linked through pageblocks.
    pub(super) fn whole_chain(&self, order: Order, mt: Migratetype) -> Option<&Chain> {
        let whole = self.is_packed() && self.is_whole_block(order);
        (whole && order <= self.geometry.max_order).then(|| self.area.list(order, mt).chain())
    }

    /// Returns the free blocks of an order and type, if they are on no list.
    pub(super) fn packed_blocks(
        &self,
        order: Order,
        mt: Migratetype,
    ) -> Option<impl DoubleEndedIterator<Item = Index>> {
        let small = self.is_packed() && !self.is_whole_block(order);
        small.then(|| {
            let blocks = self.packing.blocks_with(&self.map, order, mt);
            blocks.flat_map(move |block| {
                let start = block << self.geometry.pageblock_order;
                let places = 0..(pages(self.geometry.pageblock_order) >> order) as Index;
                let free = move |&i: &Index| self.map.free_list(i, order) == Some(mt);
                places.map(move |at| start + (at << order)).filter(free)
            })
        })
    }
}
