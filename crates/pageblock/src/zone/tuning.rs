//! Values that are computed at boot and whenever a sysctl changes: reserves, watermarks, sizes of CPU lists.
//!
//! Every function is pure. Sizes are in pages unless the name says kilobytes; [`Geometry`] gives the size of a
//! page.
//!
//! ```
//! use pageblock::layout::ZoneKind;
//! use pageblock::policy::Policy;
//! use pageblock::tuning;
//! use pageblock::zone::Geometry;
//!
//! // A zone of 4 GiB that is the only memory.
//! let policy = Policy::parse("linux-6.12").unwrap();
//! let (pages, sizes) = (1 << 20, Geometry::default());
//! let kbytes = tuning::min_free_kbytes(&policy, sizes.kbytes(pages), None);
//! assert_eq!(kbytes, 8192);
//! let marks = tuning::watermarks(&policy, ZoneKind::Normal, pages, pages, kbytes, sizes);
//! assert_eq!((marks.min, marks.low, marks.high), (2048, 3096, 4144));
//! ```

use crate::base::frame::{Order, pages};
use crate::base::geometry::Geometry;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::Migratetype;
use crate::policy::{Boost, MovableWmark, PcpBatch, PcpHigh, Policy, WmarkGap};

/// Kilobytes of a page of 4 KiB.
pub const KBYTES_PER_PAGE: u64 = 4;

/// The default of `vm.lowmem_reserve_ratio`, by [`ZoneKind`]; 0 reserves nothing.
pub const LOWMEM_RESERVE_RATIO: [u32; MAX_NR_ZONES] = [256, 256, 32, 0, 0];

/// The smallest computed min_free_kbytes.
const MIN_FREE_KBYTES_FLOOR: u64 = 128;

/// Bounds of the minimum watermark of zones outside of low memory, in pages (`SWAP_CLUSTER_MAX`
/// and 128).
const SMALL_WMARK: (u64, u64) = (32, 128);

/// The smallest divisor of a zone for the size of its CPU lists
/// (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
const PCP_FRACTION_MIN: u64 = 8;

/// The largest number of blocks of the migrate reserve (`setup_zone_migrate_reserve`, up to 4.3).
const MIGRATE_RESERVE_BLOCKS_MAX: u64 = 2;

/// Returns the integer part of a square root (`int_sqrt`).
#[must_use]
pub const fn int_sqrt(x: u64) -> u64 {
    x.isqrt()
}

/// Returns the number of pages available to ordinary kernel requests (`nr_free_buffer_pages`): the sum, over the
/// zones up to Normal, of the pages above the high watermark. `zones` yields (managed, high watermark).
pub fn nr_free_buffer_pages(zones: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    zones.into_iter().map(|(managed, high)| managed.saturating_sub(high)).sum()
}

/// Returns min_free_kbytes as `calculate_min_free_kbytes` computes it from the kilobytes of
/// [`nr_free_buffer_pages`]. Ignores whether the sysctl is set.
#[must_use]
pub fn computed_min_free_kbytes(policy: &Policy, lowmem_kbytes: u64) -> u64 {
    let max = u64::from(policy.min_free_kbytes_max).max(MIN_FREE_KBYTES_FLOOR);
    int_sqrt(lowmem_kbytes.saturating_mul(16)).clamp(MIN_FREE_KBYTES_FLOOR, max)
}

/// Returns the min_free_kbytes that khugepaged asks for when huge pages are enabled
/// (`set_recommended_min_free_kbytes`): two pageblocks per zone, and one more for every pair of types, but at most
/// a twentieth of memory (`buffer_pages`, see [`nr_free_buffer_pages`]). `zones` is the number of populated zones
/// up to Normal.
#[must_use]
pub const fn khugepaged_min_free_kbytes(zones: u64, geometry: Geometry, buffer_pages: u64) -> u64 {
    const BLOCKS_PER_ZONE: u64 = 2
        + (crate::base::mobility::MIGRATE_PCPTYPES * crate::base::mobility::MIGRATE_PCPTYPES)
            as u64;
    let recommended = geometry.pageblock_pages() * zones * BLOCKS_PER_ZONE;
    let cap = buffer_pages / 20;
    geometry.kbytes(if recommended < cap { recommended } else { cap })
}

/// Returns the min_free_kbytes in effect: the policy's if it sets one; otherwise the computed value, raised to
/// khugepaged's demand if there is one.
#[must_use]
pub fn min_free_kbytes(policy: &Policy, lowmem_kbytes: u64, khugepaged: Option<u64>) -> u64 {
    if policy.min_free_kbytes != 0 || policy.wmark_gap == WmarkGap::None {
        return policy.min_free_kbytes.into();
    }
    computed_min_free_kbytes(policy, lowmem_kbytes).max(khugepaged.unwrap_or(0))
}

/// The watermarks of a zone, in pages and without boost (`_watermark[]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Watermarks {
    /// Below it only reserves are left.
    pub min: u64,
    /// Below it kswapd is woken.
    pub low: u64,
    /// kswapd stops above it.
    pub high: u64,
    /// kswapd stops here when it makes room for pages from slower memory (5.18 and later).
    pub promo: u64,
}

/// Returns whether a zone's pages count when min_free_kbytes is divided among zones.
#[must_use]
pub const fn is_lowmem(policy: &Policy, kind: ZoneKind) -> bool {
    match kind {
        ZoneKind::Dma | ZoneKind::Dma32 | ZoneKind::Normal => true,
        ZoneKind::HighMem => false,
        ZoneKind::Movable => matches!(policy.movable_wmark, MovableWmark::Shared),
    }
}

/// Returns the number of pages among which min_free_kbytes is divided. `zones` yields (kind, managed pages) of
/// every zone of every node.
pub fn lowmem_pages(policy: &Policy, zones: impl IntoIterator<Item = (ZoneKind, u64)>) -> u64 {
    let low = zones.into_iter().filter(|&(kind, _)| is_lowmem(policy, kind));
    low.map(|(_, managed)| managed).sum()
}

/// Returns the watermarks of a zone (`__setup_per_zone_wmarks`). `lowmem_pages` is the machine's.
#[must_use]
pub fn watermarks(
    policy: &Policy,
    kind: ZoneKind,
    managed: u64,
    lowmem_pages: u64,
    min_free_kbytes: u64,
    geometry: Geometry,
) -> Watermarks {
    let share = mul_div(geometry.pages(min_free_kbytes), managed, lowmem_pages.max(1));
    let min = if is_lowmem(policy, kind) {
        share
    } else if policy.wmark_gap == WmarkGap::None {
        0
    } else {
        (managed / 1024).clamp(SMALL_WMARK.0, SMALL_WMARK.1)
    };
    let (low, high, promo) = match policy.wmark_gap {
        WmarkGap::None => (0, 0, 0),
        WmarkGap::Quarter => (share / 4, share / 2, share / 4 + share / 2),
        WmarkGap::Scale => {
            let scaled = mul_div(managed, policy.watermark_scale_factor.into(), 10_000);
            let gap = (share / 4).max(scaled);
            (gap, gap.saturating_mul(2), gap.saturating_mul(3))
        }
    };
    let extra = geometry.pages(policy.extra_free_kbytes.into());
    let extra = mul_div(extra, managed, lowmem_pages.max(1));
    let above = |distance: u64| min.saturating_add(distance).saturating_add(extra);
    Watermarks { min, low: above(low), high: above(high), promo: above(promo) }
}

/// Returns the pages that each zone of a node keeps from requests that higher zones could serve
/// (`setup_per_zone_lowmem_reserve`): `reserve[zone][highest zone of the request]`, by [`ZoneKind`] and in pages.
/// `managed` is 0 for zones that the node lacks.
///
/// Linux up to 4.8 raised a ratio of 0 to 1. Since some release between it and 4.20 a ratio of 0 means no reserve,
/// as it does here under every policy.
#[must_use]
pub fn lowmem_reserve(
    ratio: [u32; MAX_NR_ZONES],
    managed: [u64; MAX_NR_ZONES],
) -> [[u64; MAX_NR_ZONES]; MAX_NR_ZONES] {
    let mut reserve = [[0; MAX_NR_ZONES]; MAX_NR_ZONES];
    for (zone, row) in reserve.iter_mut().enumerate() {
        if managed[zone] == 0 {
            continue;
        }
        let mut above = 0;
        for upper in zone + 1..MAX_NR_ZONES {
            above += managed[upper];
            row[upper] = above.checked_div(ratio[zone].into()).unwrap_or(0);
        }
    }
    reserve
}

/// Returns a zone's share of the pages that no user may count on (`calculate_totalreserve_pages`;
/// `totalreserve_pages` is the sum over zones).
#[must_use]
pub fn zone_reserve(managed: u64, high: u64, lowmem_reserve: &[u64; MAX_NR_ZONES]) -> u64 {
    let reserve = lowmem_reserve.iter().copied().max().unwrap_or(0);
    managed.min(reserve + high)
}

/// The sizes of each CPU's list of a zone, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct PcpSizes {
    /// The number of pages moved at a time.
    pub batch: u64,
    /// The smallest size at which pages are drained; the only one up to 6.6.
    pub high_min: u64,
    /// The largest size.
    pub high_max: u64,
}

/// Returns the batch size of a zone's CPU lists (`zone_batchsize`), at least 1.
#[must_use]
pub fn pcp_batch(policy: &Policy, managed: u64, geometry: Geometry) -> u64 {
    let most = match policy.pcp_batch {
        PcpBatch::K512 => geometry.pages(512),
        PcpBatch::M1 => geometry.pages(1024),
    };
    let base = ((managed / 1024).min(most) / 4).max(1);
    // One less than a power of two: with a power of two, the halves of buddies would go to different CPUs.
    let rounded = 1 << (base + base / 2).ilog2();
    (rounded - 1u64).max(1)
}

/// Returns the sizes of a zone's CPU lists (`zone_set_pageset_high_and_batch`). `low_wmark` includes the boost.
/// `cpus` is the number of CPUs of the zone's node, or of all CPUs if the node has none.
#[must_use]
pub fn pcp_sizes(
    policy: &Policy,
    managed: u64,
    low_wmark: u64,
    cpus: u64,
    geometry: Geometry,
) -> PcpSizes {
    let batch = pcp_batch(policy, managed, geometry);
    // The largest batch if `percpu_pagelist_fraction` is set, up to 5.12 (`PAGE_SHIFT * 8`).
    let fraction_batch_max = 8 * u64::from(geometry.page_shift);
    let fraction = match policy.percpu_pagelist_high_fraction {
        0 => None,
        n => Some(u64::from(n).max(PCP_FRACTION_MIN)),
    };
    let split = |total: u64| (total / cpus.max(1)).max(4 * batch);
    let fixed = |batch, high| PcpSizes { batch, high_min: high, high_max: high };
    let PcpSizes { batch, high_min, high_max } = match (policy.pcp_high, fraction) {
        (PcpHigh::SixBatch, None) => fixed(batch, 6 * batch),
        (PcpHigh::SixBatch, Some(n)) => {
            let high = managed / n;
            fixed((high / 4).clamp(1, fraction_batch_max), high)
        }
        (PcpHigh::LowWmark, None) => fixed(batch, split(low_wmark)),
        (PcpHigh::LowWmark | PcpHigh::Autotune, Some(n)) => fixed(batch, split(managed / n)),
        (PcpHigh::Autotune, None) => PcpSizes {
            batch,
            high_min: split(low_wmark),
            high_max: split(managed / PCP_FRACTION_MIN),
        },
    };
    // A drain takes a batch at least, and leaves as much.
    let scaled =
        |high: u64| mul_div(high, policy.pcp_high_share.into(), 100).max(high.min(2 * batch));
    PcpSizes { batch, high_min: scaled(high_min), high_max: scaled(high_max) }
}

/// Returns the number of pageblocks of a zone's migrate reserve (`setup_zone_migrate_reserve`, up to 4.3).
#[must_use]
pub fn migrate_reserve_blocks(min_wmark: u64, pageblock_order: Order) -> u64 {
    min_wmark.div_ceil(pages(pageblock_order)).min(MIGRATE_RESERVE_BLOCKS_MAX)
}

/// Returns by how many pageblocks a fallback of a request of a type raises the boost.
#[must_use]
pub const fn boost_blocks(policy: &Policy, start: Migratetype) -> u32 {
    match start {
        Migratetype::Unmovable => policy.boost_unmovable,
        Migratetype::Reclaimable => policy.boost_reclaimable,
        _ => policy.boost_movable,
    }
}

/// Returns the watermark boost of a zone after a fragmenting fallback (`boost_watermark`), in pages; `None` if it
/// is not boosted. `start` is the type of the request, `stored_high` is the high watermark without the boost; `boost` is the present boost.
///
/// From 5.11 kswapd is woken for the boost only after `Some`; in 5.0 to 5.10 ([`Boost::EveryZone`],
/// [`Boost::LargeZones`]) also after `None`.
#[must_use]
pub fn boost_watermark(
    policy: &Policy,
    start: Migratetype,
    stored_high: u64,
    boost: u64,
    managed: u64,
    pageblock_order: Order,
) -> Option<u64> {
    let block = pages(pageblock_order);
    let too_small = match policy.boost {
        Boost::Off => return None,
        Boost::EveryZone => false,
        Boost::LargeZones | Boost::WakeIfBoosted => 4 * block > managed,
    };
    let max = mul_div(stored_high, policy.watermark_boost_factor.into(), 10_000);
    let rise = block * u64::from(boost_blocks(policy, start));
    if too_small || max == 0 || rise == 0 {
        return None;
    }
    Some((boost + rise).min(max.max(block)).max(boost))
}

/// Returns the integer part of `a * b / c`, without overflow in between.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let exact = u128::from(a) * u128::from(b) / u128::from(c);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
