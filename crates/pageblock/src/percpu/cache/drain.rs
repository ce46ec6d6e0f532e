//! Draining a CPU cache to its zone: which list yields the next block, and to which type that is freed.
//!
//! Source: `free_pcppages_bulk`, `drain_pages_zone` (mm/page_alloc.c).

use super::{CpuCache, LISTS};
use crate::base::event::{Event, Observer};
use crate::base::frame::Order;
use crate::base::geometry::Geometry;
use crate::base::ids::ListIndex;
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::policy::{PcpBulk, PcpFree, PcpType, Policy};
use crate::table::map::{FrameState, Index, PageMap};
use crate::zone::Zone;

/// A drain in progress: it knows which list yields the next block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drain {
    /// Pages of the current chunk that are still to be drained.
    left: u32,
    /// Pages of the later chunks.
    later: u32,
    chunk: u32,
    /// The list before the one that each chunk starts with.
    start: ListIndex,
    at: ListIndex,
    /// Blocks still to be drained from the list `at` (`batch_free`). If the list has fewer, the next list yields
    /// the rest.
    run: u32,
    in_turn: bool,
    /// See [`CpuCache::weight`].
    weight_order: Order,
}

impl Drain {
    /// Returns the number of pages still to be drained.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left + self.later
    }

    /// Returns the list whose tail is drained next, `None` when the drain is done or all lists are empty.
    pub fn next_list(&mut self, cache: &CpuCache<'_, impl PolicySource>) -> Option<ListIndex> {
        if self.left == 0 {
            self.left = self.later.min(self.chunk);
            self.later -= self.left;
            (self.at, self.run) = (self.start, 0);
        }
        if self.left == 0 || cache.listed() == 0 {
            return None;
        }
        if self.run > 0 && !cache.is_empty(self.at) {
            return Some(self.at);
        }
        // Whole lists: the budget is renewed at the next list. In a round robin the kernel keeps what an empty list
        // left over.
        if !self.in_turn {
            self.run = 0;
        }
        for _ in 0..cache.nr_lists() {
            // Up to 5.17 one more page is drained from a list for each empty list before it.
            self.run = self.run.saturating_add(1);
            self.at = cache.list_after(self.at);
            if !cache.is_empty(self.at) {
                // Only one list has blocks: it yields all that is left (`batch_free == MIGRATE_PCPTYPES`).
                if !self.in_turn || self.run as usize == cache.nr_lists() {
                    self.run = if self.in_turn { self.left } else { u32::MAX };
                }
                return Some(self.at);
            }
        }
        None
    }

    /// Returns how many blocks of an order to drain from the current list before the next list is chosen.
    fn blocks(&self, order: Order) -> u32 {
        let of_chunk = self.left.div_ceil(1 << order.min(self.weight_order));
        of_chunk.min(self.run)
    }

    /// Counts `n` drained blocks, at most [`blocks`](Self::blocks).
    fn gave_run(&mut self, order: Order, n: u32) {
        debug_assert!(n <= self.blocks(order), "a longer run than the list was to yield");
        self.left = self.left.saturating_sub(n << order.min(self.weight_order));
        self.run -= n;
    }

    /// Stays at the current list after a block left it in some other way.
    pub fn restart(&mut self) {
        self.run = self.run.max(1);
    }

    /// Counts a drained block.
    pub fn gave(&mut self, order: Order) {
        self.left = self.left.saturating_sub(1 << order.min(self.weight_order));
        self.run = self.run.saturating_sub(1);
    }
}

impl<P: PolicySource> CpuCache<'_, P> {
    /// Starts to drain `n` pages after a block was freed to the list `index`.
    #[must_use]
    pub fn drain(&self, policy: &Policy, n: u32, index: ListIndex) -> Drain {
        let chunk = match policy.pcp_free {
            PcpFree::FreeCountWholeBlocks => self.limits.batch.max(1),
            _ => u32::MAX,
        };
        // `next_list` advances before it looks.
        let (start, in_turn) = match policy.pcp_bulk {
            PcpBulk::WholeLists => (self.list_before(index), false),
            PcpBulk::RoundRobin => (ListIndex(0), true),
        };
        let start = if start.index() < self.nr_lists() { start } else { ListIndex(0) };
        let later = n.min(self.listed());
        let weight_order = self.weight_order;
        Drain { left: 0, later, chunk, start, at: start, run: 0, in_turn, weight_order }
    }

    /// Starts to drain the whole cache. From 6.7 one call drains at most the largest drain, so that the zone's lock
    /// is not held for long (`drain_pages_zone`; the kernel has rounds from 6.10).
    #[must_use]
    pub fn drain_round(&self, policy: &Policy) -> Drain {
        let most = match policy.pcp_free {
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => {
                self.limits.batch.max(1) << policy.pcp_batch_scale_max
            }
            _ => u32::MAX,
        };
        Drain { chunk: u32::MAX, ..self.drain(policy, most, ListIndex(0)) }
    }

    /// Frees pages to the zone until the drain is done (`free_pcppages_bulk`).
    pub(crate) fn drain_to(
        &mut self,
        zone: &mut Zone<'_, P>,
        mut drain: Drain,
        observer: &mut impl Observer,
    ) {
        if drain.left() > 0 || self.has_leaving() {
            zone.count_lock();
        }
        if self.has_rings() {
            return self.drain_rings(zone, drain, observer);
        }
        while let Some(index) = drain.next_list(self) {
            let order = self.list_order(index);
            if let Some((i, n)) = self.pop_tail_run(zone, index, order, drain.blocks(order)) {
                let run = (0..n).map(|at| i + (at << order));
                Self::give_back_run(zone, run, order, n, observer);
                drain.gave_run(order, n);
            } else if let Some(i) =
                self.pop_tail(zone.map(), index, order, |i| zone.map().is_on_cpu_list(i, order))
            {
                Self::give_back(zone, i, order, observer);
                drain.gave(order);
            }
            if drain.left() == 0 {
                break;
            }
        }
        debug_assert!(
            drain.left() == 0 || self.lists().all(|index| self.is_empty(index)),
            "a drain ended early"
        );
    }

    /// [`drain_to`](Self::drain_to) for lists that are rings. Drained blocks are collected and go back in one
    /// batch, except blocks of whole pageblocks.
    #[inline(never)]
    fn drain_rings(
        &mut self,
        zone: &mut Zone<'_, P>,
        mut drain: Drain,
        observer: &mut impl Observer,
    ) {
        self.give_leaving(zone, observer);
        while let Some(index) = drain.next_list(self) {
            let order = self.list_order(index);
            if order >= zone.geometry().pageblock_order {
                // Blocks reach the zone in the order in which they left their lists.
                self.give_leaving(zone, observer);
                let (i, n) = self.pop_last(index, order);
                debug_assert_eq!(n, 1, "a list without blocks was to yield one");
                drain.gave_run(order, n);
                if zone.map().bits().is_whole_on_cpu_list(i, order) {
                    Self::give_back(zone, i, order, observer);
                } else {
                    // Another CPU freed it at the same instant.
                    self.strays += n;
                }
            } else {
                match self.leave_tail(index, order, drain.blocks(order)) {
                    0 => self.give_leaving(zone, observer),
                    n => drain.gave_run(order, n),
                }
            }
            if drain.left() == 0 {
                break;
            }
        }
        self.give_leaving(zone, observer);
    }

    /// Takes up to `most` blocks from the tail of a list, if they are in address order, belong to one larger block,
    /// and will merge to it. Returns the first frame and the number of blocks.
    fn pop_tail_run(
        &mut self,
        zone: &Zone<'_, P>,
        index: ListIndex,
        order: Order,
        most: u32,
    ) -> Option<(Index, u32)> {
        // Blocks larger than a pageblock do not always merge.
        let Geometry { pageblock_order, max_order, .. } = zone.geometry();
        if order >= pageblock_order {
            return None;
        }
        let first = self.lists[index.index() % LISTS].last(self.rest(zone.map(), index))?;
        let merges = first.trailing_zeros().min(u32::from(pageblock_order.min(max_order)));
        let most = most.min(1 << merges.checked_sub(u32::from(order))?);
        // A captured block must reach the compaction that waits for it, so blocks are freed one by one.
        if most < 2 || zone.capture().is_some() {
            return None;
        }
        let map = zone.map();
        // Lost to a racing double free: `pop_tail` repairs the list.
        if !map.is_on_cpu_list(first, order) {
            return None;
        }
        let (list, rest) = self.list_mut(map, index);
        let (first, n) = match map.listed_byte(first) {
            Some(byte) => {
                list.pop_tail_run(rest, most, 1 << order, |i| map.is_listed_as(i, byte))?
            }
            None if order == 0 => {
                list.pop_tail_run(rest, most, 1, |i| map.bits().is_page_on_cpu_list(i))?
            }
            None => {
                let listed = |i| map.bits().is_on_cpu_list(i, order);
                list.pop_tail_run(rest, most, 1 << order, listed)?
            }
        };
        debug_assert!(
            n <= most && n.is_power_of_two(),
            "a run of {n} blocks does not merge to one"
        );
        self.count -= n * self.weight(order);
        Some((first, n))
    }

    /// Frees `n` blocks that form a larger block, in ascending or descending order. Freed one by one, each would
    /// merge with those before it, and nothing else in the zone would change until they are one block.
    #[inline(always)]
    pub(super) fn give_back_run(
        zone: &mut Zone<'_, P>,
        run: impl Iterator<Item = Index> + Clone,
        order: Order,
        n: u32,
        observer: &mut impl Observer,
    ) {
        let Some(i) = run.clone().next() else { return };
        debug_assert!(n.is_power_of_two(), "{n} blocks do not form one");
        debug_assert!(run.clone().all(|at| (at ^ i) < n << order), "blocks of two larger ones");
        let (mt, i) = (drained_type(zone, i), i & !((n << order) - 1));
        let merged = order + n.trailing_zeros() as Order;
        if zone.map().has_bits() {
            zone.map().bits().join(i, merged);
        } else {
            let others = (1..n).map(|at| i + (at << order));
            others.for_each(|i| zone.map().set_byte(i, FrameState::Tail));
        }
        zone.free_one(i, merged, mt, None, observer);
        run.for_each(|i| {
            let pfn = zone.map().pfn(i);
            observer.event(Event::PcpuDrain { pfn, order, migratetype: mt });
        });
    }

    /// Frees a block to the zone that would be drained from its list at once. `mt` is the type that the list would
    /// remember.
    pub(crate) fn pass_on(
        &mut self,
        zone: &mut Zone<'_, P>,
        i: Index,
        order: Order,
        mt: Migratetype,
        observer: &mut impl Observer,
    ) {
        zone.count_lock();
        self.give_leaving(zone, observer);
        if !zone.map().is_allocated(i, order) {
            // Another CPU freed it at the same instant.
            self.strays += 1;
            return;
        }
        // The pageblock may have changed its type since the free read it.
        let mt = if remembers_type(zone) { mt } else { zone.map().block_type(i) };
        zone.free_one(i, order, mt, None, observer);
        observer.event(Event::PcpuDrain { pfn: zone.map().pfn(i), order, migratetype: mt });
    }

    /// Frees a block to the zone that was taken off a list.
    #[inline(always)]
    pub(crate) fn give_back(
        zone: &mut Zone<'_, P>,
        i: Index,
        order: Order,
        observer: &mut impl Observer,
    ) {
        let mt = drained_type(zone, i);
        zone.free_one(i, order, mt, None, observer);
        observer.event(Event::PcpuDrain { pfn: zone.map().pfn(i), order, migratetype: mt });
    }

    /// Takes the block at the tail of a list; `None` if the list is empty. `owned` tells whether a block is on a CPU list.
    #[inline(always)]
    fn pop_tail(
        &mut self,
        map: &PageMap<'_, P>,
        index: ListIndex,
        order: Order,
        owned: impl Fn(Index) -> bool,
    ) -> Option<Index> {
        loop {
            let (list, rest) = self.list_mut(map, index);
            if let Some(i) = list.pop_tail(rest, &owned) {
                self.count -= self.weight(order);
                return Some(i);
            }
            if self.lists[index.index()].is_empty() {
                return None;
            }
            // The links led to a frame of another CPU.
            self.mend(map, index);
        }
    }
}

/// Returns the type to which a block on a CPU list is freed.
pub(crate) fn drained_type(zone: &Zone<'_, impl PolicySource>, i: Index) -> Migratetype {
    match remembers_type(zone).then(|| zone.map().state(i)) {
        Some(FrameState::CpuList { cached, .. }) => cached,
        _ => zone.map().block_type(i),
    }
}

/// Returns whether a block is freed to the type that it had when it was put on its CPU list.
fn remembers_type(zone: &Zone<'_, impl PolicySource>) -> bool {
    zone.policy().pcp_type == PcpType::Cached && !zone.has_isolated_blocks()
}
