//! Tunes a zone to its present memory, and sets the limits of its CPU caches.
//!
//! Source: `__setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`, `zone_set_pageset_high_and_batch`
//! (mm/page_alloc.c).

use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::layout::MAX_NR_ZONES;
use crate::policy::source::PolicySource;
use crate::policy::{Policy, Reserve, WmarkGap};
use crate::zone::Zone;
use crate::zone::tuning::{self, Watermarks};

/// The limits of a cache, computed by [`tuning`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheLimits {
    /// Pages moved at a time.
    pub batch: u32,
    /// The number of pages that the cache may always hold.
    pub high_min: u32,
    /// The number of pages that it may grow to.
    pub high_max: u32,
}

/// The limits of a zone's CPU caches, and how often they were set.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheTuning {
    pub(crate) limits: CacheLimits,
    pub(crate) times: u32,
    /// Linux's low watermark in pages, by which caches are sized where the zone keeps no marks of its own
    /// ([`WmarkGap::None`]).
    pub(crate) usual_low: u64,
    /// Blocks of larger orders count as one block of this order.
    pub(crate) weight_order: Order,
}

/// The numbers from which all zones are tuned.
pub(crate) struct Share {
    pub(crate) lowmem_pages: u64,
    pub(crate) min_free_kbytes: u64,
    /// What Linux would keep free.
    pub(crate) usual_min_free_kbytes: u64,
    pub(crate) mobility_off: bool,
}

impl<P: PolicySource> Zone<'_, P> {
    pub(crate) fn retune(&mut self, share: &Share, reserve: [u64; MAX_NR_ZONES]) {
        self.mobility_off = share.mobility_off;
        let (kind, managed, geometry) = (self.kind, self.managed, self.geometry);
        let marks = |policy: &Policy, kbytes| {
            tuning::watermarks(policy, kind, managed, share.lowmem_pages, kbytes, geometry)
        };
        self.watermarks = marks(&self.policy, share.min_free_kbytes);
        let usual = Policy { wmark_gap: WmarkGap::Scale, ..*self.policy };
        self.cache_tuning.usual_low = marks(&usual, share.usual_min_free_kbytes).low;
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
        let low = match self.policy.wmark_gap {
            WmarkGap::None => self.cache_tuning.usual_low,
            WmarkGap::Quarter | WmarkGap::Scale => self.watermarks.low + self.boost,
        };
        let sizes = tuning::pcp_sizes(&self.policy, self.managed, low, cpus, self.geometry);
        let most =
            if self.is_packed() { u64::from(self.ring_pages) / 4 * 3 } else { u64::from(u32::MAX) };
        let pages = |n: u64| n.min(most) as u32;
        self.cache_tuning.limits = CacheLimits {
            // As in every Linux version, a quarter of the largest cache at most.
            batch: pages(sizes.batch.min(most / 4)),
            high_min: pages(sizes.high_min),
            high_max: pages(sizes.high_max),
        };
        // A cache holds as many pages in huge blocks as in Linux.
        let high = self.cache_tuning.limits.high_max;
        let huge = u64::from(high) << self.geometry.pageblock_order;
        let weight = huge.div_ceil(sizes.high_max.max(1)).max(8).next_power_of_two();
        self.cache_tuning.weight_order =
            if self.is_packed() { weight.ilog2() as Order } else { ORDER_LIMIT };
        self.cache_tuning.times = self.cache_tuning.times.wrapping_add(1);
    }
}

/// Returns the number of pages for which the cache of each of `cpus` CPUs has places under packed placement: a 64th
/// of the zone's frames for all caches, but at least a 256th for each. Twice that from 131,072 frames on, where the
/// pages on CPU lists are in a small share of the pageblocks. At least 64 and at most 4096. The cache is tuned to
/// three quarters of this.
pub(crate) fn ring_pages(frames: usize, cpus: usize) -> usize {
    let all = frames >> 6 << u32::from(frames >= 1 << 17);
    (all / cpus.max(1)).max(all >> 2).clamp(64, 4096).next_power_of_two()
}

/// Returns the same for those who keep no watermarks ([`WmarkGap::None`]), whose caches need not be as large as Linux's:
/// all that CPUs take is less than the table of frames does, half a byte a frame, but each has places for 32 pages.
/// `fixed` and `bytes_a_page` are what a CPU takes in bytes.
pub(crate) fn frugal_ring_pages(
    frames: usize,
    cpus: usize,
    fixed: usize,
    bytes_a_page: usize,
) -> usize {
    let spare = (frames / cpus.max(1) / 16 * 7).saturating_sub(fixed) / bytes_a_page;
    let spare = spare.checked_ilog2().map_or(0, |order| 1 << order);
    ring_pages(frames, cpus).min(spare).max(32)
}
