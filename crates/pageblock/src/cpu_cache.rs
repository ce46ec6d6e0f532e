//! Per-CPU page lists (PCP): a few blocks of each low order and type that a CPU allocates and frees
//! without the zone.
//!
//! A cache belongs to one CPU and one zone. The CPU owns it as `&mut`, in place of disabled
//! interrupts, so the fast path has no atomic read-modify-write.
//!
//! Source: `rmqueue_pcplist`, `nr_pcp_alloc`, `free_unref_page_commit`, `nr_pcp_high`,
//! `nr_pcp_free`, `free_pcppages_bulk`, `decay_pcp_high` (mm/page_alloc.c).

use crate::alloc_flags::AllocFlags;
use crate::event::{Event, Observer};
use crate::fallback::Mode;
use crate::frame::{ORDER_LIMIT, Order, pages};
use crate::freelist::List;
use crate::map::{FrameState, Index, PageMap};
use crate::mobility::{MIGRATE_PCPTYPES, Migratetype};
use crate::policy::{
    ClaimRule, PcpBulk, PcpFree, PcpHigh, PcpOrders, PcpThpLists, PcpType, Policy,
};
use crate::zone::{Geometry, Zone};

/// The largest order that the kernel considers cheap (`PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY_ORDER: Order = 3;

const LOW_ORDER_LISTS: usize = (COSTLY_ORDER as usize + 1) * MIGRATE_PCPTYPES;

/// The largest number of lists a cache can have (`NR_PCP_LISTS`).
pub const MAX_LISTS: usize = LOW_ORDER_LISTS + MIGRATE_PCPTYPES;

/// The limits of a cache; computed by [`tuning`](crate::tuning).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheLimits {
    /// Pages moved at a time.
    pub batch: u32,
    /// Pages that the cache may always hold.
    pub high_min: u32,
    /// Pages that it may grow to.
    pub high_max: u32,
}

/// The lists of one CPU for one zone (`struct per_cpu_pages`).
#[derive(Clone, Debug)]
pub struct CpuCache {
    lists: [List; MAX_LISTS],
    nr_lists: u8,
    thp_lists: u8,
    thp_order: Order,
    costly: bool,
    /// Pages on all lists.
    pub count: u32,
    /// Pages that it may hold now.
    pub high: u32,
    /// Its limits.
    pub limits: CacheLimits,
    /// Doublings of the refill (6.7 and later).
    pub alloc_factor: u8,
    /// Doublings of the drain (5.13 to 6.6).
    pub free_factor: u8,
    /// Pages freed in a row (6.7 and later).
    pub free_count: u32,
    /// The last free was of a high order (`PCPF_PREV_FREE_HIGH_ORDER`).
    pub prev_free_high_order: bool,
    /// The CPU's share of the data cache holds more than three batches (`PCPF_FREE_HIGH_BATCH`).
    pub free_high_batch: bool,
}

impl CpuCache {
    /// An empty cache.
    #[must_use]
    pub fn new(policy: &Policy, geometry: Geometry, limits: CacheLimits) -> Self {
        let costly = policy.pcp_orders == PcpOrders::CostlyAndThp;
        let thp_lists = match policy.pcp_thp_lists {
            _ if !costly => 0,
            PcpThpLists::Three => 3,
            PcpThpLists::One => 1,
            PcpThpLists::Two => 2,
        };
        let low = if costly { LOW_ORDER_LISTS as u8 } else { MIGRATE_PCPTYPES as u8 };
        Self {
            lists: [List::EMPTY; MAX_LISTS],
            nr_lists: low + thp_lists,
            thp_lists,
            thp_order: geometry.pageblock_order,
            costly,
            count: 0,
            high: limits.high_min,
            limits,
            alloc_factor: 0,
            free_factor: 0,
            free_count: 0,
            prev_free_high_order: false,
            free_high_batch: false,
        }
    }

    /// The list of an order and type (`order_to_pindex`); `None` where there is none. Types that no
    /// request has share the movable list.
    #[inline]
    #[must_use]
    pub fn list_index(&self, order: Order, mt: Migratetype) -> Option<usize> {
        let mt = if (mt as usize) < MIGRATE_PCPTYPES { mt } else { Migratetype::Movable };
        if order == 0 || (self.costly && order <= COSTLY_ORDER) {
            return Some(order as usize * MIGRATE_PCPTYPES + mt as usize);
        }
        if order != self.thp_order {
            return None;
        }
        Some(match self.thp_lists {
            0 => return None,
            1 => LOW_ORDER_LISTS,
            2 => LOW_ORDER_LISTS + usize::from(mt == Migratetype::Movable),
            _ => LOW_ORDER_LISTS + mt as usize,
        })
    }

    /// The order of a list's blocks (`pindex_to_order`).
    #[must_use]
    pub fn list_order(&self, index: usize) -> Order {
        if index >= LOW_ORDER_LISTS { self.thp_order } else { (index / MIGRATE_PCPTYPES) as Order }
    }

    /// The number of lists.
    #[must_use]
    pub fn nr_lists(&self) -> usize {
        usize::from(self.nr_lists)
    }

    #[inline]
    pub(crate) fn is_empty(&self, index: usize) -> bool {
        self.lists[index].is_empty()
    }

    pub(crate) fn list(&self, index: usize) -> &List {
        &self.lists[index]
    }

    /// Takes the first block of a list of this order.
    #[inline]
    pub(crate) fn pop(&mut self, map: &PageMap<'_>, index: usize, order: Order) -> Option<Index> {
        let i = self.lists[index].pop_head(map)?;
        self.count -= 1 << order;
        Some(i)
    }

    /// Each allocation ends a row of frees.
    #[inline]
    pub(crate) fn note_alloc(&mut self) {
        self.free_factor >>= 1;
        self.free_count >>= 1;
    }

    /// The number of blocks to take from the zone when a list is empty (`nr_pcp_alloc`). `order` is
    /// one that has a list.
    pub fn refill_count(&mut self, policy: &Policy, order: Order, below_high: bool) -> u32 {
        let order = order.min(ORDER_LIMIT);
        let base = self.limits.batch;
        let scaled = |batch: u32| if batch > 1 { (batch >> order).max(2) } else { batch };
        match policy.pcp_high {
            PcpHigh::SixBatch => base,
            PcpHigh::LowWmark => scaled(base),
            PcpHigh::Autotune => {
                let CacheLimits { high_min, high_max, .. } = self.limits;
                self.high = clamp(self.high, high_min, high_max);
                if self.high < base {
                    return 1;
                }
                let mut batch = if order > 0 { base } else { base << self.alloc_factor };
                if high_min != high_max && !below_high {
                    self.high = self.high.saturating_add(batch).min(high_max);
                }
                if order == 0 {
                    let room = i64::from(self.high) - i64::from(self.count) - i64::from(base);
                    let room = room.max(i64::from(base)) as u32;
                    if batch <= room && u32::from(self.alloc_factor) < policy.pcp_batch_scale_max {
                        self.alloc_factor += 1;
                    }
                    batch = batch.min(room);
                }
                scaled(batch)
            }
        }
    }

    /// Takes up to `n` blocks from the zone to a list (`rmqueue_bulk`). Gives how many came.
    pub(crate) fn refill(
        &mut self,
        zone: &mut Zone<'_>,
        order: Order,
        mt: Migratetype,
        n: u32,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> u32 {
        let Some(index) = self.list_index(order, mt) else { return 0 };
        let mut mode = Mode::Normal;
        zone.counters.lock_acquired += 1;
        for taken in 0..n {
            let Some((i, cached)) = zone.rmqueue(order, mt, flags, &mut mode, observer) else {
                return taken;
            };
            let cached = zone.remembered_type(i, mt, cached);
            self.append(&zone.map, i, index, cached);
        }
        n
    }

    /// Puts a block at the end of a list: after a refill, or when a state is rebuilt.
    pub(crate) fn append(
        &mut self,
        map: &PageMap<'_>,
        i: Index,
        index: usize,
        cached: Migratetype,
    ) {
        let order = self.list_order(index);
        map.set(i, FrameState::CpuList { order, cached });
        self.lists[index].push_tail(map, i);
        self.count += 1 << order;
    }

    /// Puts a freed block at the head of its list.
    #[inline]
    pub(crate) fn push(
        &mut self,
        map: &PageMap<'_>,
        i: Index,
        order: Order,
        index: usize,
        cached: Migratetype,
    ) {
        map.set(i, FrameState::CpuList { order, cached });
        self.lists[index].push_head(map, i);
        self.count += 1 << order;
    }

    /// Takes a given block off its list.
    pub(crate) fn unlink(&mut self, map: &PageMap<'_>, i: Index, index: usize) {
        self.lists[index].remove(map, i);
        self.count -= 1 << self.list_order(index);
    }

    /// Decides how many pages are to be given back after a block of `order`, one that has a list,
    /// was freed; 0 for none.
    ///
    /// Source: `free_unref_page_commit`.
    #[inline]
    pub fn pages_to_drain(&mut self, policy: &Policy, order: Order, zone: ZoneFlags) -> u32 {
        let order = order.min(ORDER_LIMIT);
        match policy.pcp_free {
            PcpFree::Batch => {
                if self.count >= self.high {
                    self.limits.batch.min(self.count)
                } else {
                    0
                }
            }
            PcpFree::FreeFactor | PcpFree::FreeHigh | PcpFree::FreeHighScaled => {
                self.drain_by_factor(policy, order, zone)
            }
            PcpFree::FreeCount | PcpFree::FreeCount617 => self.drain_by_count(policy, order, zone),
        }
    }

    fn drain_by_factor(&mut self, policy: &Policy, order: Order, zone: ZoneFlags) -> u32 {
        let free_high = policy.pcp_free != PcpFree::FreeFactor
            && self.free_factor > 0
            && (1..=COSTLY_ORDER).contains(&order);
        let batch = self.limits.batch;
        let high = if free_high {
            0
        } else if zone.reclaim_active {
            self.high.min(batch << 2)
        } else {
            self.high
        };
        if self.count < high {
            return 0;
        }
        if free_high {
            return self.count;
        }
        if high < batch {
            return 1;
        }
        let most = high - batch;
        let limit = match policy.pcp_free {
            PcpFree::FreeHighScaled => policy.pcp_batch_scale_max,
            _ => u32::from(u8::MAX),
        };
        let n = u64::from(batch) << self.free_factor.min(31);
        if n < u64::from(most) && u32::from(self.free_factor) < limit {
            self.free_factor += 1;
        }
        clamp(u32::try_from(n).unwrap_or(u32::MAX), batch, most)
    }

    fn drain_by_count(&mut self, policy: &Policy, order: Order, zone: ZoneFlags) -> u32 {
        self.alloc_factor >>= 1;
        let batch = self.limits.batch;
        let scaled = batch << policy.pcp_batch_scale_max;
        let high_order = (1..=COSTLY_ORDER).contains(&order);
        let enough = match policy.pcp_free {
            PcpFree::FreeCount617 => batch + self.limits.high_min / 2,
            _ => batch,
        };
        let free_high = high_order
            && self.free_count >= enough
            && self.prev_free_high_order
            && (!self.free_high_batch || self.count >= batch);
        self.prev_free_high_order = high_order;
        if self.free_count < scaled {
            self.free_count += 1 << order;
        }
        let high = self.high_now(policy, free_high, zone);
        if self.count < high {
            0
        } else if free_high {
            self.count.min(scaled)
        } else if high < batch {
            1
        } else {
            clamp(self.free_count, batch, high - batch)
        }
    }

    /// The pages that a self-tuning cache may hold now (`nr_pcp_high`, 6.7 and later).
    fn high_now(&mut self, policy: &Policy, free_high: bool, zone: ZoneFlags) -> u32 {
        let CacheLimits { batch, high_min, high_max } = self.limits;
        self.high = clamp(self.high, high_min, high_max);
        let high = self.high;
        if high == 0 {
            return 0;
        }
        if free_high {
            let lower = high.saturating_sub(batch << policy.pcp_batch_scale_max);
            self.high = lower.max(high_min);
            return 0;
        }
        let lowered = || high.saturating_sub(self.free_count.max(batch)).max(high_min);
        if zone.reclaim_active {
            self.high = lowered();
            return (batch << 2).min(self.high);
        }
        if high_min == high_max {
            return high;
        }
        if zone.below_high {
            self.high = lowered();
            return self.count.max(high_min);
        }
        if self.count >= high {
            let need = self.free_count + batch;
            if high < need {
                self.high = clamp(need, high_min, high_max);
            }
        }
        high
    }

    /// Starts to give `n` pages back, after a block was freed to the list `index`.
    #[must_use]
    pub fn drain(&self, policy: &Policy, n: u32, index: usize) -> Drain {
        let left = n.min(self.count);
        let batch = if policy.drains_by_batch() { self.limits.batch.max(1) } else { u32::MAX };
        let of_batch = left.min(batch);
        match policy.pcp_bulk {
            // The loop starts with the list after this one.
            PcpBulk::WholeLists => {
                let before = index.checked_sub(1).unwrap_or(self.nr_lists() - 1);
                Drain {
                    left,
                    at: before % self.nr_lists(),
                    run: 0,
                    in_turn: false,
                    batch,
                    of_batch,
                }
            }
            PcpBulk::RoundRobin => Drain { left, at: 0, run: 0, in_turn: true, batch, of_batch },
        }
    }

    /// Gives pages back to the zone until the drain is done (`free_pcppages_bulk`).
    pub(crate) fn drain_to(
        &mut self,
        zone: &mut Zone<'_>,
        mut drain: Drain,
        observer: &mut impl Observer,
    ) {
        zone.counters.lock_acquired += 1;
        while let Some(index) = drain.next_list(self) {
            let Some(i) = self.lists[index].tail() else { break };
            self.give_back(zone, i, index, observer);
            drain.gave(self.list_order(index));
        }
    }

    /// Frees one block of a list to the zone.
    pub(crate) fn give_back(
        &mut self,
        zone: &mut Zone<'_>,
        i: Index,
        index: usize,
        observer: &mut impl Observer,
    ) {
        let order = self.list_order(index);
        let mt = drained_type(zone, i);
        self.unlink(&zone.map, i, index);
        zone.free_one(i, order, mt, None, observer);
        observer.event(Event::PcpuDrain { pfn: zone.map.pfn(i), order, migratetype: mt });
    }

    /// What each vmstat tick does to the limit: lowers it by an eighth, and gives the pages to drain
    /// (`decay_pcp_high`, 6.7 and later).
    pub fn decay(&mut self, policy: &Policy) -> u32 {
        let CacheLimits { batch, high_min, .. } = self.limits;
        if policy.pcp_high != PcpHigh::Autotune {
            return 0;
        }
        if self.high > high_min {
            let keep = self.count.saturating_sub(batch << policy.pcp_batch_scale_max);
            self.high = keep.max(self.high - (self.high >> 3)).max(high_min);
        }
        self.count.saturating_sub(self.high)
    }
}

impl Zone<'_> {
    /// The type that is remembered for a block that a refill took from a list of type `list`. Up to
    /// 3.15 that is the requested one, wherever the block came from.
    fn remembered_type(&self, i: Index, requested: Migratetype, list: Migratetype) -> Migratetype {
        match self.policy.claim_rule {
            ClaimRule::V310 | ClaimRule::V312 => match self.map.block_type(i) {
                special @ (Migratetype::Cma | Migratetype::Isolate) => special,
                _ => requested,
            },
            _ => list,
        }
    }
}

/// The type that a block on a CPU list is freed to.
pub(crate) fn drained_type(zone: &Zone<'_>, i: Index) -> Migratetype {
    match zone.map.state(i) {
        FrameState::CpuList { cached, .. }
            if zone.policy.pcp_type == PcpType::Cached && zone.isolated_blocks == 0 =>
        {
            cached
        }
        _ => zone.map.block_type(i),
    }
}

/// As the kernel's macro: the lower bound first, so that the upper one wins where they cross.
fn clamp(n: u32, low: u32, high: u32) -> u32 {
    n.max(low).min(high)
}

/// The flags of a zone that a cache looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneFlags {
    /// kswapd is reclaiming.
    pub reclaim_active: bool,
    /// The zone is under its high watermark.
    pub below_high: bool,
}

/// A drain under way: which list gives the next page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drain {
    left: u32,
    at: usize,
    /// Blocks that the list at `at` may still give (`batch_free`); what it cannot give goes to the
    /// next.
    run: u32,
    in_turn: bool,
    /// From 6.19 the locks are released after each batch, and what a batch gave too much is not
    /// counted; `u32::MAX` before.
    batch: u32,
    /// Pages still to be given back in this batch.
    of_batch: u32,
}

impl Drain {
    /// Pages still to be given back.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The list that gives the next page, from its tail.
    pub fn next_list(&mut self, cache: &CpuCache) -> Option<usize> {
        if self.left == 0 || cache.count == 0 {
            return None;
        }
        if self.run > 0 && !cache.is_empty(self.at) {
            return Some(self.at);
        }
        if !self.in_turn {
            self.run = 0;
        }
        for _ in 0..cache.nr_lists() {
            // Up to 5.17 a list gives one page more for each empty list passed before it.
            self.run = self.run.saturating_add(1);
            self.at = (self.at + 1) % cache.nr_lists();
            if !cache.is_empty(self.at) {
                if !self.in_turn || self.run as usize == cache.nr_lists() {
                    self.run = if self.in_turn { self.left } else { u32::MAX };
                }
                return Some(self.at);
            }
        }
        None
    }

    /// Looks at the current list anew, after a block left it otherwise.
    pub fn restart(&mut self) {
        self.run = self.run.max(1);
    }

    /// Counts a block given back.
    pub fn gave(&mut self, order: Order) {
        let given = pages(order.min(ORDER_LIMIT)) as u32;
        self.of_batch = self.of_batch.saturating_sub(given);
        if self.batch == u32::MAX {
            self.left = self.left.saturating_sub(given);
        } else if self.of_batch == 0 {
            self.left = self.left.saturating_sub(self.batch);
            self.of_batch = self.left.min(self.batch);
        }
        self.run = self.run.saturating_sub(1);
    }
}
