//! CPU lists and their tuning (`docs/linux/pcp.md`).

use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::CpuCache;
use pageblock::event::Event;
use pageblock::fallback::Mode;
use pageblock::frame::{COSTLY_ORDER, Order, Pfn};
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use pageblock::policy::{PcpBulk, PcpFree, PcpHigh, PcpOrders, PcpThpLists, PcpType, Policy};
use pageblock::zone::Geometry;

use super::Out;
use super::zone::{Block, ModelZone};

pub(crate) struct Cache {
    policy: Policy,
    pageblock_order: Order,
    /// From the head.
    pub(crate) lists: Vec<Vec<u64>>,
    batch: i64,
    high_min: i64,
    high_max: i64,
    pub(crate) high: i64,
    pub(crate) alloc_factor: u32,
    pub(crate) free_factor: u32,
    pub(crate) free_count: i64,
    pub(crate) prev_high_order: bool,
    pub(crate) free_high_batch: bool,
    /// Packed placement: what was freed into pageblocks that are being emptied, first to last.
    pub(crate) leaving: Vec<u64>,
    /// What a block of a pageblock's order counts as.
    large_weight: i64,
    ring_pages: i64,
}

/// How many blocks leave together at least.
const LEAVING: usize = 64;

impl Cache {
    pub(crate) fn new(policy: Policy, geometry: Geometry, cache: &CpuCache) -> Self {
        let lists = match (policy.pcp_orders, policy.pcp_thp_lists) {
            (PcpOrders::Order0, _) => 3,
            (_, PcpThpLists::Three) => 15,
            (_, PcpThpLists::One) => 13,
            (_, PcpThpLists::Two) => 14,
        };
        Self {
            policy,
            pageblock_order: geometry.pageblock_order,
            lists: vec![Vec::new(); lists],
            batch: cache.limits().batch.into(),
            high_min: cache.limits().high_min.into(),
            high_max: cache.limits().high_max.into(),
            high: cache.high().into(),
            alloc_factor: 0,
            free_factor: 0,
            free_count: 0,
            prev_high_order: false,
            free_high_batch: cache.state().free_high_batch,
            leaving: Vec::new(),
            large_weight: cache.large_weight().into(),
            ring_pages: cache.ring_pages().into(),
        }
    }

    pub(crate) fn index(&self, order: Order, mt: Migratetype) -> Option<usize> {
        let mt = match mt {
            Unmovable | Movable | Reclaimable => mt,
            _ => Movable,
        };
        let all = self.policy.pcp_orders == PcpOrders::CostlyAndThp;
        match order {
            0 => Some(mt as usize),
            1..=3 if all => Some(3 * usize::from(order) + mt as usize),
            _ if all && order == self.pageblock_order => Some(match self.policy.pcp_thp_lists {
                PcpThpLists::Three => 12 + mt as usize,
                PcpThpLists::One => 12,
                PcpThpLists::Two => 12 + usize::from(mt == Movable),
            }),
            _ => None,
        }
    }

    fn order(&self, index: usize) -> Order {
        if index >= 12 { self.pageblock_order } else { index as Order / 3 }
    }

    pub(crate) fn count(&self) -> i64 {
        let weight =
            |(at, list): (usize, &Vec<u64>)| list.len() as i64 * self.weight(self.order(at));
        self.lists.iter().enumerate().map(weight).sum()
    }

    fn weight(&self, order: Order) -> i64 {
        if order == self.pageblock_order { self.large_weight } else { 1 << order }
    }

    /// The pages on the lists.
    pub(crate) fn pages(&self) -> i64 {
        let pages = |(at, list): (usize, &Vec<u64>)| (list.len() as i64) << self.order(at);
        self.lists.iter().enumerate().map(pages).sum()
    }

    /// The pages that were collected.
    pub(crate) fn leaving_pages(&self, zone: &ModelZone) -> i64 {
        let pages = |pfn: &u64| match zone.blocks[pfn] {
            Block::Cached { order, .. } => 1 << order,
            block => panic!("{block:?}"),
        };
        self.leaving.iter().map(pages).sum()
    }

    pub(crate) fn alloc(
        &mut self,
        zone: &mut ModelZone,
        (order, want): (Order, Migratetype),
        flags: AllocFlags,
        out: &mut Out,
        may_refill: bool,
    ) -> Option<u64> {
        let index = self.index(order, want)?;
        self.free_factor /= 2;
        self.free_count /= 2;
        if self.lists[index].is_empty() {
            if !may_refill {
                return None;
            }
            let mut mode = Mode::Normal;
            let n = self.refill(order, zone.below_high).min(self.room(order));
            self.give_leaving(zone, out);
            for _ in 0..n {
                let found = zone.rmqueue(order, want, flags, &mut mode, out);
                let Some((pfn, list)) = found else { break };
                let mt = zone.remembered(pfn, want, list);
                zone.blocks.insert(pfn, Block::Cached { order, mt });
                self.lists[index].push(pfn);
            }
        }
        (!self.lists[index].is_empty()).then(|| self.lists[index].remove(0))
    }

    /// The blocks of an order that an empty list has room for.
    fn room(&self, order: Order) -> i64 {
        let places = (self.ring_pages >> order.min(COSTLY_ORDER)) / 4 * 3;
        if self.ring_pages == 0 { i64::MAX } else { places }
    }

    fn limit(&mut self) {
        self.high = self.high.max(self.high_min).min(self.high_max);
    }

    fn refill(&mut self, order: Order, below_high: bool) -> i64 {
        let n = self.linux_refill(order, below_high);
        let policy = &self.policy;
        let share = match order {
            0 => policy.pcp_refill_0,
            1 => policy.pcp_refill_1,
            2 => policy.pcp_refill_2,
            3 => policy.pcp_refill_3,
            _ => policy.pcp_refill_thp,
        };
        if n > 1 { (n * i64::from(share) / 100).max(1) } else { n }
    }

    fn linux_refill(&mut self, order: Order, below_high: bool) -> i64 {
        let mut n = self.batch;
        match self.policy.pcp_high {
            PcpHigh::SixBatch => return n,
            PcpHigh::LowWmark => {}
            PcpHigh::Autotune => {
                self.limit();
                if self.high < self.batch {
                    return 1;
                }
                if order == 0 {
                    n <<= self.alloc_factor;
                }
                if self.high_min != self.high_max && !below_high {
                    self.high = (self.high + n).min(self.high_max);
                }
                if order == 0 {
                    let room = (self.high - self.count() - self.batch).max(self.batch);
                    let largest = self.alloc_factor >= self.policy.pcp_batch_scale_max;
                    if n <= room && !largest {
                        self.alloc_factor += 1;
                    }
                    if self.doubles(self.batch, order) {
                        n *= 2;
                    }
                    n = n.min(room);
                }
            }
        }
        if n > 1 {
            n = (n >> order).max(2);
            if order > 0 && self.doubles(n, order) {
                n *= 2;
            }
        }
        n
    }

    /// Whether refills of `n` blocks double.
    fn doubles(&self, n: i64, order: Order) -> bool {
        self.packed() && n > 1 && 2 * n <= self.high_max / 8 / self.weight(order)
    }

    /// Drains double, and blocks are collected.
    fn packed(&self) -> bool {
        self.ring_pages > 0
    }

    pub(crate) fn free(
        &mut self,
        zone: &mut ModelZone,
        pfn: u64,
        order: Order,
        mt: Migratetype,
        index: usize,
        out: &mut Out,
    ) {
        zone.blocks.insert(pfn, Block::Cached { order, mt });
        self.lists[index].insert(0, pfn);
        let n = match self.policy.pcp_free {
            PcpFree::Batch => {
                if self.count() >= self.high {
                    self.batch
                } else {
                    0
                }
            }
            PcpFree::FreeFactor | PcpFree::FreeHigh | PcpFree::FreeHighScaled => {
                self.free_by_factor(zone, order)
            }
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => {
                self.free_by_count(zone, order)
            }
        };
        let alone = self.lists.iter().map(Vec::len).sum::<usize>() == 1;
        let collected = [1, 2, 3].contains(&order) && order < self.pageblock_order;
        if n > 0 && alone && collected && self.packed() {
            self.lists[index].clear();
            self.leave(zone, pfn, order, mt, out);
        } else if n > 0 {
            self.drain(zone, n, index, out);
            zone.test_below_high();
        }
    }

    /// A block is freed into a pageblock that is being emptied.
    pub(crate) fn leave(
        &mut self,
        zone: &mut ModelZone,
        pfn: u64,
        order: Order,
        mt: Migratetype,
        out: &mut Out,
    ) {
        zone.blocks.insert(pfn, Block::Cached { order, mt });
        self.leaving.push(pfn);
        let pages_of = |pfn| match zone.blocks[pfn] {
            Block::Cached { order, .. } => 1 << order,
            _ => 0,
        };
        let pages: i64 = self.leaving.iter().map(pages_of).sum();
        if self.leaving.len() >= LEAVING.min(self.ring_pages as usize) && pages >= self.ring_pages {
            self.give_leaving(zone, out);
            zone.test_below_high();
        }
    }

    fn give_leaving(&mut self, zone: &mut ModelZone, out: &mut Out) {
        for pfn in std::mem::take(&mut self.leaving) {
            let Some(&Block::Cached { order, .. }) = zone.blocks.get(&pfn) else { panic!("{pfn}") };
            self.give_block(zone, pfn, order, out);
        }
    }

    fn free_by_factor(&mut self, zone: &ModelZone, order: Order) -> i64 {
        let all = self.policy.pcp_free != PcpFree::FreeFactor
            && self.free_factor > 0
            && [1, 2, 3].contains(&order);
        if all {
            return self.count();
        }
        let high = if zone.reclaim_active { self.high.min(4 * self.batch) } else { self.high };
        if self.count() < high {
            return 0;
        }
        if high < self.batch {
            return 1;
        }
        let limited = self.policy.pcp_free == PcpFree::FreeHighScaled
            && self.free_factor >= self.policy.pcp_batch_scale_max;
        let n = self.batch << self.free_factor;
        if n < high - self.batch && !limited {
            self.free_factor += 1;
        }
        n.max(self.batch).min(high - self.batch)
    }

    fn free_by_count(&mut self, zone: &ModelZone, order: Order) -> i64 {
        let largest = self.batch << self.policy.pcp_batch_scale_max;
        self.alloc_factor /= 2;
        let mut start = self.batch;
        if self.policy.pcp_free != PcpFree::FreeCount {
            start += self.high_min / 2;
        }
        let high_order = [1, 2, 3].contains(&order);
        let all = high_order
            && self.free_count >= start
            && self.prev_high_order
            && (!self.free_high_batch || self.count() >= self.batch);
        self.prev_high_order = high_order;
        if self.free_count < largest {
            self.free_count += 1 << order;
        }
        let high = self.high_for_free(zone, all, largest);
        if self.count() < high {
            return 0;
        }
        if all {
            return self.count().min(largest);
        }
        if high < self.batch {
            return 1;
        }
        let due = if self.packed() && self.free_count >= largest { 2 } else { 1 } * self.free_count;
        due.max(self.batch).min(high - self.batch)
    }

    fn high_for_free(&mut self, zone: &ModelZone, all: bool, largest: i64) -> i64 {
        self.limit();
        let high = self.high;
        let lower = (high - self.free_count.max(self.batch)).max(self.high_min);
        if high == 0 {
            0
        } else if all {
            self.high = (high - largest).max(self.high_min);
            0
        } else if zone.reclaim_active {
            self.high = lower;
            self.high.min(4 * self.batch)
        } else if self.high_min == self.high_max {
            high
        } else if zone.below_high {
            self.high = lower;
            self.count().max(self.high_min)
        } else {
            let need = self.free_count + self.batch;
            if self.count() >= high && high < need {
                self.high = need.max(self.high_min).min(self.high_max);
            }
            high
        }
    }

    /// Gives `n` pages back, beginning with a list; from 6.19 batch by batch, so that the last block
    /// of each may be more than was due.
    pub(crate) fn drain(&mut self, zone: &mut ModelZone, n: i64, index: usize, out: &mut Out) {
        self.give_leaving(zone, out);
        let mut due = n.min(self.count());
        let chunk =
            if self.policy.pcp_free == PcpFree::FreeCountWholeBlocks { self.batch } else { due };
        while due > 0 && self.count() > 0 {
            self.drain_chunk(zone, due.min(chunk), index, out);
            due -= chunk;
        }
    }

    /// Empties the cache; from 6.7 in rounds of the largest drain.
    pub(crate) fn drain_all(&mut self, zone: &mut ModelZone, out: &mut Out) {
        self.give_leaving(zone, out);
        while self.count() > 0 {
            let round = match self.policy.pcp_free {
                PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => {
                    self.batch.max(1) << self.policy.pcp_batch_scale_max
                }
                _ => self.count(),
            };
            self.drain_chunk(zone, round, 0, out);
        }
    }

    fn drain_chunk(&mut self, zone: &mut ModelZone, n: i64, index: usize, out: &mut Out) {
        let mut left = n.min(self.count());
        match self.policy.pcp_bulk {
            PcpBulk::WholeLists => {
                let lists = self.lists.len();
                for at in (index..index + lists).map(|at| at % lists) {
                    while left > 0 && !self.lists[at].is_empty() {
                        left -= self.give_back(zone, at, out);
                    }
                }
            }
            PcpBulk::RoundRobin => {
                let (mut at, mut batch_free) = (0, 0);
                while left > 0 {
                    loop {
                        batch_free += 1;
                        at = (at + 1) % self.lists.len();
                        if !self.lists[at].is_empty() {
                            break;
                        }
                    }
                    if batch_free == self.lists.len() as i64 {
                        batch_free = left;
                    }
                    loop {
                        left -= self.give_back(zone, at, out);
                        if left <= 0 {
                            break;
                        }
                        batch_free -= 1;
                        if batch_free == 0 || self.lists[at].is_empty() {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn give_back(&mut self, zone: &mut ModelZone, index: usize, out: &mut Out) -> i64 {
        let order = self.order(index);
        let pfn = self.lists[index].pop().unwrap();
        self.give_block(zone, pfn, order, out)
    }

    fn give_block(&self, zone: &mut ModelZone, pfn: u64, order: Order, out: &mut Out) -> i64 {
        let Some(Block::Cached { mt: cached, .. }) = zone.blocks.remove(&pfn) else {
            panic!("{pfn}")
        };
        let stale = self.policy.pcp_type == PcpType::Cached && !zone.any_isolated();
        let migratetype = if stale { cached } else { zone.block_type(pfn) };
        zone.free_one(pfn, order, migratetype, false, out);
        out.events.push(Event::PcpuDrain { pfn: Pfn(pfn), order, migratetype });
        self.weight(order)
    }

    pub(crate) fn tick(&mut self, zone: &mut ModelZone, out: &mut Out) {
        self.give_leaving(zone, out);
        if self.policy.pcp_high != PcpHigh::Autotune {
            return;
        }
        if self.high > self.high_min {
            let largest = self.batch << self.policy.pcp_batch_scale_max;
            let kept = (self.count() - largest).max(self.high - self.high / 8);
            self.high = kept.max(self.high_min);
        }
        if self.count() > self.high {
            self.drain(zone, self.count() - self.high, 0, out);
        }
    }
}
