//! Tuning of a zone to its present memory, and the limits of its CPU caches.
//!
//! Source: `__setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`, `zone_set_pageset_high_and_batch`
//! (mm/page_alloc.c).

use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::layout::MAX_NR_ZONES;
use crate::policy::Reserve;
use crate::zone::Zone;
use crate::zone::tuning::{self, Watermarks};

/// The limits of a cache; computed by [`tuning`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheLimits {
    /// Pages moved at a time.
    pub batch: u32,
    /// Pages that the cache may always hold.
    pub high_min: u32,
    /// Pages that it may grow to.
    pub high_max: u32,
}

/// The limits of a zone's CPU caches, and how often they were set.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheTuning {
    pub(crate) limits: CacheLimits,
    pub(crate) times: u32,
    /// Blocks of larger orders count as one of this order.
    pub(crate) weight_order: Order,
}

/// The numbers that all zones are tuned with.
pub(crate) struct Share {
    pub(crate) lowmem_pages: u64,
    pub(crate) min_free_kbytes: u64,
    pub(crate) mobility_off: bool,
}

impl Zone<'_> {
    pub(crate) fn retune(&mut self, share: &Share, reserve: [u64; MAX_NR_ZONES]) {
        let &Share { lowmem_pages, min_free_kbytes, mobility_off } = share;
        self.mobility_off = mobility_off;
        self.watermarks = tuning::watermarks(
            &self.policy,
            self.kind,
            self.managed,
            lowmem_pages,
            min_free_kbytes,
            self.geometry,
        );
        let Watermarks { min, low, high, .. } = self.watermarks;
        debug_assert!(min <= low && low <= high, "watermarks descend: {min}, {low}, {high}");
        self.boost = 0;
        self.lowmem_reserve = reserve;
        self.reset_fair_batch();
        if self.policy.reserve == Reserve::MigrateReserve {
            self.setup_migrate_reserve();
        }
    }

    pub(crate) fn tune_caches(&mut self, cpus: u64) {
        let low = self.watermarks.low + self.boost;
        let sizes = tuning::pcp_sizes(&self.policy, self.managed, low, cpus, self.geometry);
        let most =
            if self.is_packed() { u64::from(self.ring_pages) / 4 * 3 } else { u64::from(u32::MAX) };
        let pages = |n: u64| n.min(most) as u32;
        self.cache_tuning.limits = CacheLimits {
            // As in every Linux a quarter of what the cache holds at most.
            batch: pages(sizes.batch.min(most / 4)),
            high_min: pages(sizes.high_min),
            high_max: pages(sizes.high_max),
        };
        // Of huge blocks a cache holds as many pages as in Linux.
        let high = self.cache_tuning.limits.high_max;
        let huge = u64::from(high) << self.geometry.pageblock_order;
        let weight = huge.div_ceil(sizes.high_max.max(1)).max(8).next_power_of_two();
        self.cache_tuning.weight_order =
            if self.is_packed() { weight.ilog2() as Order } else { ORDER_LIMIT };
        self.cache_tuning.times = self.cache_tuning.times.wrapping_add(1);
    }
}

/// Returns the pages that each of the caches of `cpus` CPUs has places for under packed placement: a 64th of the zone's
/// frames for all together, but a 256th for each, and twice that from 131 072 frames on, where what lies on lists is in few
/// of the pageblocks; at least 64 and at most 4096. The cache is tuned to three quarters of them.
pub(crate) fn ring_pages(frames: usize, cpus: usize) -> usize {
    let all = frames >> 6 << u32::from(frames >= 1 << 17);
    (all / cpus.max(1)).max(all >> 2).clamp(64, 4096).next_power_of_two()
}
