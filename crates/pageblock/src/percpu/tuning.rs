//! The sizes of a CPU cache's refills and drains, tuned by the allocations and frees that it sees.
//!
//! Source: `nr_pcp_alloc`, `free_unref_page_commit`, `nr_pcp_high`, `nr_pcp_free`, `decay_pcp_high`
//! (mm/page_alloc.c).

use crate::base::frame::{COSTLY_ORDER, ORDER_LIMIT, Order, pages};
use crate::percpu::cache::{CpuCache, ZoneFlags};
use crate::policy::source::PolicySource;
use crate::policy::{PcpFree, PcpHigh, Policy};
use crate::zone::retune::CacheLimits;

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

impl<P: PolicySource> CpuCache<'_, P> {
    /// Notes an allocation, which halves `free_count`.
    #[inline(always)]
    pub(crate) fn note_alloc(&mut self) {
        self.free_count >>= 1;
    }

    /// Returns the number of pages that the cache holds after a block is freed, if the free certainly drains none.
    /// Only its size may make the cache drain ([`ZoneSnapshot::only_size_drains`]).
    #[inline(always)]
    pub(crate) fn count_if_kept(&self, order: Order) -> Option<u32> {
        let count = self.count + self.weight(order);
        let run = is_high(order) && self.free_count >= self.keep_rule.run_from;
        (count < self.keep_rule.below && !run).then_some(count)
    }

    /// Tunes the cache for a free that [drains nothing](Self::count_if_kept).
    #[inline(always)]
    pub(crate) fn note_kept_free(&mut self, order: Order) {
        if self.keep_rule.is_rising(self.free_count) {
            self.free_count += pages(order) as u32;
        }
        self.prev_free_high_order = is_high(order) && self.keep_rule.notes_high;
    }

    /// Sets the limits, and brings `high` within them.
    pub(crate) fn set_limits(&mut self, limits: CacheLimits) {
        self.limits = limits;
        self.high = clamp(self.high, limits.high_min, limits.high_max);
        self.forget_keep_rule();
    }

    /// Invalidates the [`KeepRule`]: every free is decided in full until the rule is renewed.
    pub(crate) fn forget_keep_rule(&mut self) {
        self.keep_rule.below = 0;
        self.keep_rule.run_is_settled = false;
    }

    /// Returns whether a free of a high order certainly continues a run that empties the lists, finds them empty,
    /// and changes nothing but the counts.
    #[inline]
    pub(crate) fn continues_run(&self, order: Order) -> bool {
        is_high(order)
            && self.keep_rule.run_is_settled
            && self.prev_free_high_order
            && !self.keep_rule.is_rising(self.free_count)
            && self.listed() == 0
    }

    /// Renews the [`KeepRule`] after a free was decided in full.
    fn renew_keep_rule(&mut self, policy: &Policy) {
        let CacheLimits { batch, high_min, high_max } = self.limits;
        let counts = policy.counts_frees();
        let rising_to = if counts { batch << policy.pcp_batch_scale_max } else { 0 };
        // Under a policy that counts frees, each free first brings `high` within its limits.
        let within = !counts || self.high == clamp(self.high, high_min, high_max);
        let steady = !counts || self.alloc_factor == 0;
        let run_from = match policy.pcp_free {
            PcpFree::Batch | PcpFree::FreeFactor => u32::MAX,
            PcpFree::FreeHigh | PcpFree::FreeHighScaled => 0,
            // The least of the three rules.
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => batch,
        };
        let below = if within && steady { self.high } else { 0 };
        let pair_keeps = u8::from(rising_to > 1);
        let run_is_settled = self.has_rings()
            && counts
            && steady
            && rising_to >= self.long_run(policy)
            && self.high == high_min
            && high_min > 0
            && !self.free_high_batch;
        self.keep_rule =
            KeepRule { below, rising_to, pair_keeps, run_from, notes_high: counts, run_is_settled };
    }

    /// Returns the number of blocks to take from the zone when a list is empty (`nr_pcp_alloc`). `order` must have
    /// a list. Under packed placement the number is doubled, because fewer blocks come back to the list, if twice a
    /// batch is at most an eighth of `high_max`.
    pub fn refill_count(&mut self, policy: &Policy, order: Order, below_high: bool) -> u32 {
        let n = self.linux_refill(policy, order, below_high);
        // Disabled lists take no page beyond the requested one.
        if !self.shares_refills || n <= 1 {
            return n;
        }
        let share = u64::from(n) * u64::from(refill_share(policy, order)) / 100;
        u32::try_from(share).unwrap_or(u32::MAX).max(1)
    }

    fn linux_refill(&mut self, policy: &Policy, order: Order, below_high: bool) -> u32 {
        let order = order.min(ORDER_LIMIT);
        let CacheLimits { batch: base, high_min, high_max } = self.limits;
        let of_order = |batch: u32| match (batch, order) {
            (0..=1, _) | (_, 0) => batch,
            _ => (batch >> order).max(2),
        };
        let eighth = high_max / 8 / self.weight(order);
        let doubles = self.has_rings() && (4..=eighth).contains(&(2 * of_order(base)));
        let scaled = |batch: u32| of_order(batch) << u32::from(doubles && order > 0);
        match policy.pcp_high {
            PcpHigh::SixBatch => base,
            PcpHigh::LowWmark => scaled(base),
            PcpHigh::Autotune => {
                self.forget_keep_rule();
                self.high = clamp(self.high, high_min, high_max);
                // The lists are disabled (`zone_pcp_disable`) or not set up: no page beyond the one asked for.
                if self.high < base {
                    return 1;
                }
                let mut batch = if order > 0 { base } else { base << self.alloc_factor };
                // The cache grows only while the zone is above its high watermark: below it, the zone needs the pages.
                if high_min != high_max && !below_high {
                    self.high = self.high.saturating_add(batch).min(high_max);
                }
                if order == 0 {
                    let room = i64::from(self.high) - i64::from(self.count) - i64::from(base);
                    let room = room.max(i64::from(base)) as u32;
                    if batch <= room && u32::from(self.alloc_factor) < policy.pcp_batch_scale_max {
                        self.alloc_factor += 1;
                    }
                    batch = (batch << u32::from(doubles)).min(room);
                }
                scaled(batch)
            }
        }
    }

    /// Returns how many pages to drain after a block was freed. Its `order` must have a list. Under packed
    /// placement the number is doubled after a long run of frees (6.7 and later).
    ///
    /// Source: `free_unref_page_commit`.
    pub fn pages_to_drain(&mut self, policy: &Policy, order: Order, zone: ZoneFlags) -> u32 {
        let run = self.note_free(policy, order.min(ORDER_LIMIT));
        let n = if self.holds_all(run, zone) { 0 } else { self.pages_past_high(policy, run, zone) };
        debug_assert!(n <= self.count.max(1), "more pages to drain than there are");
        self.renew_keep_rule(policy);
        n
    }

    /// [`pages_to_drain`](Self::pages_to_drain) for a block that is not on its list yet.
    #[inline]
    pub(crate) fn pages_to_drain_with(
        &mut self,
        policy: &Policy,
        order: Order,
        zone: ZoneFlags,
    ) -> u32 {
        let before = self.count;
        self.count += self.weight(order);
        let n = self.pages_to_drain(policy, order, zone);
        self.count = before;
        n
    }

    /// Counts a freed block. Returns whether it belongs to a run of high orders that empties the lists (5.18 and
    /// later).
    fn note_free(&mut self, policy: &Policy, order: Order) -> FreeRun {
        let high_order = is_high(order);
        if !policy.counts_frees() {
            let factor = self.free_count > 0
                && matches!(policy.pcp_free, PcpFree::FreeHigh | PcpFree::FreeHighScaled);
            return if high_order && factor { FreeRun::OfHighOrders } else { FreeRun::Other };
        }
        // A free halves the refill's doublings, as an allocation halves `free_count`.
        self.alloc_factor >>= 1;
        let run = high_order && self.prev_free_high_order && self.is_long_run(policy);
        self.prev_free_high_order = high_order;
        let CacheLimits { batch, high_min, high_max } = self.limits;
        if self.free_count < batch << policy.pcp_batch_scale_max {
            self.free_count += pages(order) as u32;
        }
        self.high = clamp(self.high, high_min, high_max);
        if run { FreeRun::OfHighOrders } else { FreeRun::Other }
    }

    /// Returns whether a run of frees is long enough for high orders to empty the lists.
    fn is_long_run(&self, policy: &Policy) -> bool {
        self.free_count >= self.long_run(policy)
            && (!self.free_high_batch || self.count >= self.limits.batch)
    }

    /// Returns the number of freed pages from which high orders empty the lists.
    fn long_run(&self, policy: &Policy) -> u32 {
        let CacheLimits { batch, high_min, .. } = self.limits;
        match policy.pcp_free {
            PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => batch + high_min / 2,
            _ => batch,
        }
    }

    /// Returns whether a cache certainly drains no pages after a free, under any policy.
    fn holds_all(&self, run: FreeRun, zone: ZoneFlags) -> bool {
        self.count < self.high && run == FreeRun::Other && zone == ZoneFlags::default()
    }

    /// Returns how many pages to drain from a cache that may hold too many.
    fn pages_past_high(&mut self, policy: &Policy, run: FreeRun, zone: ZoneFlags) -> u32 {
        let free_high = run == FreeRun::OfHighOrders;
        match policy.pcp_free {
            PcpFree::Batch if self.count < self.high => 0,
            PcpFree::Batch => self.limits.batch.min(self.count),
            PcpFree::FreeFactor | PcpFree::FreeHigh | PcpFree::FreeHighScaled => {
                self.drain_by_factor(policy, free_high, zone)
            }
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks => {
                self.drain_by_count(policy, free_high, zone)
            }
        }
    }

    fn drain_by_factor(&mut self, policy: &Policy, free_high: bool, zone: ZoneFlags) -> u32 {
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
        // A run of high orders empties the lists (`free_high`).
        if free_high {
            return self.count;
        }
        // The lists are disabled or not set up (`nr_pcp_free`).
        if high < batch {
            return 1;
        }
        let most = high - batch;
        let limit = match policy.pcp_free {
            PcpFree::FreeHighScaled => policy.pcp_batch_scale_max,
            _ => u32::from(u8::MAX),
        };
        let n = u64::from(batch) << self.free_count.min(31);
        if n < u64::from(most) && self.free_count < limit {
            self.free_count += 1;
        }
        clamp(u32::try_from(n).unwrap_or(u32::MAX), batch, most)
    }

    fn drain_by_count(&mut self, policy: &Policy, free_high: bool, zone: ZoneFlags) -> u32 {
        let batch = self.limits.batch;
        let high = self.high_now(policy, free_high, zone);
        if self.count < high {
            0
        } else if free_high {
            self.count.min(batch << policy.pcp_batch_scale_max)
        } else if high < batch {
            1
        } else {
            let most = batch << policy.pcp_batch_scale_max;
            let doubles = self.has_rings() && self.free_count >= most;
            clamp(self.free_count << u32::from(doubles), batch, high - batch)
        }
    }

    /// Returns the pages that a self-tuning cache may hold now (`nr_pcp_high`, 6.7 and later). `high` is within its
    /// limits already.
    fn high_now(&mut self, policy: &Policy, free_high: bool, zone: ZoneFlags) -> u32 {
        let CacheLimits { batch, high_min, high_max } = self.limits;
        let high = self.high;
        // The lists are disabled (`zone_pcp_disable`) or not set up: nothing stays on them.
        if high == 0 {
            return 0;
        }
        // The kernel's order of tests: a run of high orders goes before active reclaim.
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
        // A limit that the administrator fixed (`percpu_pagelist_high_fraction`) is not tuned.
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

    /// Lowers `high` by an eighth, as each vmstat tick does. Returns the number of pages to drain
    /// (`decay_pcp_high`, 6.7 and later).
    pub fn decay(&mut self, policy: &Policy) -> u32 {
        let CacheLimits { batch, high_min, .. } = self.limits;
        // Fixed limits do not decay.
        if policy.pcp_high != PcpHigh::Autotune {
            return 0;
        }
        self.forget_keep_rule();
        if self.high > high_min {
            let keep = self.count.saturating_sub(batch << policy.pcp_batch_scale_max);
            self.high = keep.max(self.high - (self.high >> 3)).max(high_min);
        }
        self.count.saturating_sub(self.high)
    }
}

/// Returns whether refills of some order take another share than Linux's.
pub(super) fn shares_refills(policy: &Policy) -> bool {
    (0..=COSTLY_ORDER + 1).any(|order| refill_share(policy, order) != 100)
}

/// Returns how many blocks a refill of an order takes, in percent of Linux's number.
const fn refill_share(policy: &Policy, order: Order) -> u32 {
    match order {
        0 => policy.pcp_refill_0,
        1 => policy.pcp_refill_1,
        2 => policy.pcp_refill_2,
        3 => policy.pcp_refill_3,
        _ => policy.pcp_refill_thp,
    }
}

/// Returns whether a run of frees of this order can empty the lists.
#[inline(always)]
const fn is_high(order: Order) -> bool {
    order.wrapping_sub(1) < COSTLY_ORDER
}

/// The condition under which a free needs no drain: a summary of limits and policy that may err towards a full
/// decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeepRule {
    /// While the cache holds fewer pages than this, it keeps them all, and a free changes nothing but the counts. 0
    /// if that is not known.
    below: u32,
    /// The [`CpuCache::free_count`] at which it stops rising.
    rising_to: u32,
    /// The largest [`CpuCache::free_count`] that a free followed by an allocation leaves unchanged.
    pub(crate) pair_keeps: u8,
    /// The [`CpuCache::free_count`] from which a free of a high order may empty the lists.
    run_from: u32,
    /// The policy remembers that the last free was of a high order.
    notes_high: bool,
    /// A run of high orders that empties the lists lowers `high` no further.
    run_is_settled: bool,
}

impl KeepRule {
    #[inline(always)]
    pub(crate) fn is_rising(&self, free_count: u32) -> bool {
        free_count < self.rising_to
    }
}

/// How a free relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FreeRun {
    /// The free that makes a run of high orders long enough to empty the lists.
    OfHighOrders,
    /// Any other.
    Other,
}

/// The kernel's macro: the lower bound is applied first, so that the upper one wins if they cross.
fn clamp(n: u32, low: u32, high: u32) -> u32 {
    n.max(low).min(high)
}
