//! A cache under packed placement. Its lists are rings in the CPU's own memory, because frames have no links there.
//! Blocks that it frees into pageblocks that are being emptied are collected, and go back to the zone in one batch.

use super::{COSTLY_ORDER, CpuCache, LISTS, MAX_LISTS, NO_LIST};
use crate::base::event::Observer;
use crate::base::frame::{Order, pages};
use crate::base::geometry::Geometry;
use crate::base::ids::ListIndex;
use crate::base::mobility::{MIGRATE_PCPTYPES, Migratetype};
use crate::percpu::list::{CpuList, Rest, RestRef};
use crate::policy::source::may_be;
use crate::policy::{Placement, PolicySource};
use crate::table::map::{FrameState, Index, NIL, PageMap};
use crate::zone::Zone;

/// The least number of blocks that go back to the zone together, where there are places for as many.
const LEAVING: u32 = 64;

/// The memory of the lists; empty if lists are linked.
#[derive(Default)]
pub(crate) struct Rings<'m> {
    places: &'m mut [Index],
    /// The first place of each list's ring.
    starts: [u32; LISTS],
    leaving: &'m mut [Index],
    /// The number of collected blocks, and of their pages.
    blocks: u32,
    pages: u32,
    /// The least number of blocks that go back together.
    least: u32,
}

impl<'m> Rings<'m> {
    /// Returns the number of places for lists of `pages` pages, where `pages` comes from
    /// [`ring_pages`](crate::zone::retune::ring_pages).
    pub(crate) fn places(pages: usize) -> usize {
        // One place for each page that can be collected.
        (0..MAX_LISTS).map(|list| ring_places(pages, list)).sum::<usize>() + pages
    }

    /// Returns the memory of the lists for each page, in bytes.
    pub(crate) fn bytes_a_page() -> usize {
        const SAMPLE: usize = 1 << 10;
        Self::places(SAMPLE) * size_of::<Index>() / SAMPLE
    }

    /// Divides the places among lists of `pages` pages.
    pub(crate) fn new(places: &'m mut [Index], pages: usize) -> Self {
        let (leaving, places) = places.split_at_mut(pages);
        let mut starts = [0; LISTS];
        for list in 0..MAX_LISTS {
            starts[list + 1] = starts[list] + ring_places(pages, list) as u32;
        }
        debug_assert_eq!(
            starts[MAX_LISTS] as usize,
            places.len(),
            "the rings do not fill the places"
        );
        let least = LEAVING.min(pages as u32);
        Self { places, starts, leaving, blocks: 0, pages: 0, least }
    }

    /// Counts collected blocks of an order.
    #[inline(always)]
    fn count_leaving(&mut self, n: u32, order: Order) {
        self.blocks += n;
        self.pages += n << order;
        debug_assert!(self.blocks as usize <= self.leaving.len(), "more blocks than places");
    }

    #[inline]
    fn range(&self, index: usize) -> core::ops::Range<usize> {
        self.starts[index] as usize..self.starts[index + 1] as usize
    }
}

/// Returns the number of places of a list. The cache is [tuned](crate::zone::retune::ring_pages) to three quarters
/// of the pages: each list has room for all of them, and its stack for one more.
fn ring_places(pages: usize, list: usize) -> usize {
    (pages >> (list / MIGRATE_PCPTYPES).min(usize::from(COSTLY_ORDER))) / 4 * 3
}

/// Returns how many blocks of an order, at most `most`, follow each other from the first one on and are all
/// `alike`.
#[inline(always)]
fn run_of(blocks: &[Index], order: Order, most: u32, alike: impl Fn(Index) -> bool) -> u32 {
    let first = blocks[0];
    let follows = |&(n, &i): &(Index, &Index)| n < most && i == first ^ n << order && alike(i);
    (0..).zip(blocks).take_while(follows).count() as u32
}

impl<'m, P: PolicySource> CpuCache<'m, P> {
    /// Gives an empty cache rings for its lists.
    pub(crate) fn set_rings(&mut self, rings: Rings<'m>) {
        self.rings = rings;
    }

    #[inline]
    pub(crate) fn has_rings(&self) -> bool {
        match P::PLACEMENT {
            Some(placement) => matches!(placement, Placement::Packed),
            None => !self.rings.places.is_empty(),
        }
    }

    /// Returns a list, and the memory of the blocks that are not on its stack.
    #[inline]
    pub(super) fn list_mut<'a>(
        &'a mut self,
        map: &'a PageMap<'_, P>,
        index: ListIndex,
    ) -> (&'a mut CpuList, Rest<'a, P>) {
        let at = index.index() % LISTS;
        let rest = if self.has_rings() {
            let range = self.rings.range(at);
            Rest::Ring(&mut self.rings.places[range])
        } else {
            Rest::Linked(map, self.tag)
        };
        (&mut self.lists[at], rest)
    }

    /// Returns the memory of the blocks of a list that are not on its stack.
    pub(crate) fn rest<'a>(&'a self, map: &'a PageMap<'_, P>, index: ListIndex) -> RestRef<'a, P> {
        if self.has_rings() {
            RestRef::Ring(&self.rings.places[self.rings.range(index.index())])
        } else {
            RestRef::Linked(map)
        }
    }

    /// Returns the pages that a block counts towards [`high`](Self::high): all of its pages, but fewer for blocks
    /// of the pageblock order if rings hold fewer pages than Linux's lists would.
    #[inline(always)]
    pub(crate) fn weight(&self, order: Order) -> u32 {
        1 << order.min(self.weight_order)
    }

    /// Returns the number of pages for which each list has places, and after which collected blocks go back to the
    /// zone (packed placement); 0 if lists are linked.
    #[must_use]
    pub fn ring_pages(&self) -> u32 {
        self.rings.leaving.len() as u32
    }

    /// Returns the weight of blocks of the pageblock order.
    #[must_use]
    pub fn large_weight(&self) -> u32 {
        self.weight(self.thp_order)
    }

    /// Sets the [`weight`](Self::weight) of blocks of this order and of larger ones.
    pub(crate) fn set_weight_order(&mut self, order: Order) {
        let large = self.large_blocks();
        self.count -= large * self.weight(self.thp_order);
        self.weight_order = order;
        self.count += large * self.weight(self.thp_order);
    }

    /// Returns the number of blocks on the lists of the pageblock order; 0 if lists are linked.
    fn large_blocks(&self) -> u32 {
        if !self.has_rings() {
            return 0;
        }
        let large = ListIndex::up_to(self.nr_lists()).skip(super::LOW_ORDER_LISTS);
        let lists = large.map(|index| {
            let ring = &self.rings.places[self.rings.range(index.index())];
            self.lists[index.index()].len_in(ring) as u32
        });
        lists.sum()
    }

    /// Returns the pages on the lists that the weights of their blocks leave out.
    pub(super) fn unweighed(&self) -> u32 {
        self.large_blocks() * (pages(self.thp_order) as u32 - self.weight(self.thp_order))
    }

    /// Returns how many blocks a refill may put on a list.
    pub(super) fn room(&self, index: ListIndex) -> u32 {
        if self.has_rings() {
            let ring = &self.rings.places[self.rings.range(index.index())];
            self.lists[index.index()].room(ring) as u32
        } else {
            u32::MAX
        }
    }

    /// Puts `n` consecutive blocks at the tail of a list, which remembers them with a type.
    pub(super) fn append_run(
        &mut self,
        zone: &Zone<'_, P>,
        i: Index,
        n: u32,
        index: ListIndex,
        mt: Migratetype,
    ) {
        let order = self.list_order(index);
        let map = zone.map();
        if map.has_bits() {
            map.set_listed_run(i, order, n, mt, self.tag);
        } else {
            for at in 0..n {
                let i = i + (at << order);
                let cached = zone.remembered_type(i, mt, mt);
                map.set_byte(i, FrameState::CpuList { order, cached });
            }
        }
        debug_assert!(n <= self.room(index), "a refill past the end of the ring");
        let (list, rest) = self.list_mut(zone.map(), index);
        list.push_tail_run(rest, i, n, 1 << order);
        self.count += n * self.weight(order);
    }

    /// Collects a freed block that is to go back to the zone. Returns whether there was room.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        map: &PageMap<'_, P>,
        i: Index,
        order: Order,
        cached: Migratetype,
    ) -> bool {
        if !self.collects() {
            return false;
        }
        let Some(place) = self.rings.leaving.get_mut(self.rings.blocks as usize) else {
            return false;
        };
        *place = i;
        self.rings.count_leaving(1, order);
        map.put_on_cpu_list(i, order, cached);
        true
    }

    /// Collects up to `most` blocks, each smaller than a pageblock, from the tail of a list. Returns how many; 0 if
    /// the list is empty or there is no room.
    #[inline]
    pub(super) fn leave_tail(&mut self, index: ListIndex, order: Order, most: u32) -> u32 {
        debug_assert!(order < self.thp_order, "whole pageblocks are not collected");
        let range = self.rings.range(index.index());
        let Rings { places, leaving, blocks, .. } = &mut self.rings;
        let into = leaving.get_mut(*blocks as usize..).unwrap_or_default();
        let n = self.lists[index.index()].pop_tails(&places[range], into, most);
        debug_assert!(n <= most, "more blocks than asked for");
        self.rings.count_leaving(n, order);
        self.count -= n * self.weight(order);
        n
    }

    /// Takes the block at the tail of a list. Returns it, and the number of blocks taken: 0 if the list is empty.
    pub(super) fn pop_last(&mut self, index: ListIndex, order: Order) -> (Index, u32) {
        let (range, mut last) = (self.rings.range(index.index()), [NIL]);
        let n = self.lists[index.index()].pop_tails(&self.rings.places[range], &mut last, 1);
        self.count -= n * self.weight(order);
        (last[0], n)
    }

    /// Returns whether an order has lists.
    #[inline(always)]
    pub(crate) fn has_lists(&self, order: Order) -> bool {
        self.list_of.get(usize::from(order)).is_some_and(|row| row[0] != NO_LIST)
    }

    /// Returns whether one more block of an order can be collected without [filling](Self::leaving_is_full) the
    /// batch.
    #[inline(always)]
    pub(crate) fn has_place_to_leave(&self, order: Order) -> bool {
        let Rings { leaving, blocks, pages, least, .. } = &self.rings;
        let enough = (*pages + (1 << order)) as usize >= leaving.len() && *blocks + 1 >= *least;
        may_be::<P>(Placement::Packed) && (*blocks as usize) < leaving.len() && !enough
    }

    /// Collects a block on a CPU list for which [there is a place](Self::has_place_to_leave), and counts it.
    #[inline(always)]
    pub(crate) fn leave_at_place(&mut self, i: Index, order: Order) {
        debug_assert!(self.has_place_to_leave(order), "no place for a block of order {order}");
        if let Some(place) = self.rings.leaving.get_mut(self.rings.blocks as usize) {
            *place = i;
        }
        self.rings.count_leaving(1, order);
        self.count_free(order);
    }

    /// Returns whether the cache collects blocks.
    #[inline(always)]
    pub(crate) fn collects(&self) -> bool {
        may_be::<P>(Placement::Packed) && !self.rings.leaving.is_empty()
    }

    /// Returns whether a freed block of an order is collected if an empty cache would drain it at once: one that
    /// leaves in runs, and is smaller than a pageblock.
    #[inline]
    pub(crate) fn collects_alone(&self, order: Order) -> bool {
        self.collects() && (1..=COSTLY_ORDER).contains(&order) && order < self.thp_order
    }

    /// Returns whether the batch is full: at least as many pages as there are places, and the least number of blocks.
    #[inline]
    pub(crate) fn leaving_is_full(&self) -> bool {
        self.rings.blocks >= self.rings.least
            && self.rings.pages as usize >= self.rings.leaving.len()
    }

    /// Returns whether any block is collected.
    #[inline]
    pub(crate) fn has_leaving(&self) -> bool {
        may_be::<P>(Placement::Packed) && self.rings.blocks > 0
    }

    /// Returns the collected blocks.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = Index> {
        self.rings.leaving.iter().take(self.rings.blocks as usize).copied()
    }

    /// Returns the pages of the collected blocks.
    #[inline]
    pub(super) fn leaving_pages(&self) -> u32 {
        self.rings.pages
    }

    /// Frees the collected blocks to the zone. The caller holds the zone's lock.
    #[inline(always)]
    pub(crate) fn give_leaving(&mut self, zone: &mut Zone<'_, P>, observer: &mut impl Observer) {
        if self.has_leaving() {
            self.give_all_leaving(zone, observer);
        }
    }

    #[inline(never)]
    fn give_all_leaving(&mut self, zone: &mut Zone<'_, P>, observer: &mut impl Observer) {
        let mut at = 0;
        loop {
            let leaving = &self.rings.leaving[..self.rings.blocks as usize];
            at += zone.free_listed(&leaving[at..], observer);
            let Some(&i) = leaving.get(at) else { break };
            let Some(order) = zone.map().listed_order(i) else {
                // Another CPU freed it at the same instant.
                self.strays += 1;
                at += 1;
                continue;
            };
            let n = self.run_from(zone, at, order);
            if n > 1 {
                let run = leaving[at..at + n as usize].iter().copied();
                Self::give_back_run(zone, run, order, n, observer);
            } else {
                Self::give_back(zone, i, order, observer);
            }
            at += n as usize;
        }
        debug_assert!(at >= self.rings.blocks as usize, "collected blocks were left behind");
        (self.rings.blocks, self.rings.pages) = (0, 0);
    }

    /// Returns how many collected blocks, from place `at` on, are parts of one larger block, in ascending or
    /// descending order, and will merge to it: a power of two.
    #[inline]
    fn run_from(&self, zone: &Zone<'_, P>, at: usize, order: Order) -> u32 {
        let leaving = &self.rings.leaving[at..self.rings.blocks as usize];
        let first = leaving[0];
        let Geometry { pageblock_order, max_order, .. } = zone.geometry();
        let Some(merges) = pageblock_order.min(max_order).checked_sub(order) else { return 1 };
        if zone.capture().is_some() {
            // A captured block must reach the compaction that waits for it, so blocks are freed one by one.
            return 1;
        }
        // Ascending from the first block of the larger one, or descending from its last.
        let place = first >> order;
        let most = 1 << place.trailing_zeros().max(place.trailing_ones()).min(merges.into());
        let map = zone.map();
        let n = match map.listed_byte(first) {
            Some(byte) => run_of(leaving, order, most, |i| map.is_listed_as(i, byte)),
            None if order == 0 => map.bits().listed_run(leaving, most),
            None => run_of(leaving, order, most, |i| map.bits().is_part_on_cpu_list(i, order)),
        };
        1 << n.ilog2()
    }
}
