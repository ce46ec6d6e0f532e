//! What is computed at boot and whenever a knob changes: reserves, watermarks, sizes of CPU lists.
//!
//! Every function is pure. Sizes are in pages of 4 KiB unless the name says kilobytes.
//!
//! ```
//! use pageblock::layout::ZoneKind;
//! use pageblock::policy::Policy;
//! use pageblock::tuning;
//!
//! // A zone of 4 GiB that is all of the memory.
//! let policy = Policy::parse("linux-6.12").unwrap();
//! let pages = 1 << 20;
//! let kbytes = tuning::min_free_kbytes(&policy, 4 * pages, None);
//! assert_eq!(kbytes, 8192);
//! let marks = tuning::watermarks(&policy, ZoneKind::Normal, pages, pages, kbytes);
//! assert_eq!((marks.min, marks.low, marks.high), (2048, 3096, 4144));
//! ```

use crate::base::frame::{Order, pages};
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::policy::{Boost, MovableWmark, PcpBatch, PcpHigh, Policy, WmarkGap};

/// Kilobytes of a page.
pub const KBYTES_PER_PAGE: u64 = 4;

/// What `vm.lowmem_reserve_ratio` is set to, by [`ZoneKind`]; 0 reserves nothing.
pub const LOWMEM_RESERVE_RATIO: [u32; MAX_NR_ZONES] = [256, 256, 32, 0, 0];

/// The smallest computed min_free_kbytes.
const MIN_FREE_KBYTES_FLOOR: u64 = 128;

/// Bounds of the minimum watermark of zones outside of low memory, in pages (`SWAP_CLUSTER_MAX`
/// and 128).
const SMALL_WMARK: (u64, u64) = (32, 128);

/// The smallest divisor of a zone for the size of its CPU lists
/// (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
const PCP_FRACTION_MIN: u64 = 8;

/// The largest batch when `percpu_pagelist_fraction` is set, up to 5.12 (`PAGE_SHIFT * 8`).
const PCP_FRACTION_BATCH_MAX: u64 = 12 * 8;

/// The largest number of blocks of the migrate reserve (`setup_zone_migrate_reserve`, up to 4.3).
const MIGRATE_RESERVE_BLOCKS_MAX: u64 = 2;

/// Returns the integer part of a square root (`int_sqrt`).
#[must_use]
pub const fn int_sqrt(x: u64) -> u64 {
    x.isqrt()
}

/// Returns the pages that ordinary kernel requests can get (`nr_free_buffer_pages`): the sum over the zones up
/// to Normal of what lies over the high watermark. `zones` yields (managed, high watermark).
pub fn nr_free_buffer_pages(zones: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    zones.into_iter().map(|(managed, high)| managed.saturating_sub(high)).sum()
}

/// Returns min_free_kbytes as `calculate_min_free_kbytes` computes it from the kilobytes of
/// [`nr_free_buffer_pages`]. Whether the knob is set does not matter here.
#[must_use]
pub fn computed_min_free_kbytes(policy: &Policy, lowmem_kbytes: u64) -> u64 {
    let max = u64::from(policy.min_free_kbytes_max).max(MIN_FREE_KBYTES_FLOOR);
    int_sqrt(lowmem_kbytes.saturating_mul(16)).clamp(MIN_FREE_KBYTES_FLOOR, max)
}

/// Returns the min_free_kbytes that khugepaged asks for when huge pages are enabled
/// (`set_recommended_min_free_kbytes`): two blocks a zone, and for every pair of types as many, but
/// not over a twentieth of memory (`buffer_pages`, see [`nr_free_buffer_pages`]). `zones` is the
/// number of populated zones up to Normal.
#[must_use]
pub const fn khugepaged_min_free_kbytes(
    zones: u64,
    pageblock_order: Order,
    buffer_pages: u64,
) -> u64 {
    const BLOCKS_PER_ZONE: u64 = 2
        + (crate::base::mobility::MIGRATE_PCPTYPES * crate::base::mobility::MIGRATE_PCPTYPES)
            as u64;
    let recommended = pages(pageblock_order) * zones * BLOCKS_PER_ZONE;
    let cap = buffer_pages / 20;
    KBYTES_PER_PAGE * if recommended < cap { recommended } else { cap }
}

/// Returns the min_free_kbytes in effect: the policy's if it sets one, else what is computed, raised by
/// khugepaged's demand if there is one.
#[must_use]
pub fn min_free_kbytes(policy: &Policy, lowmem_kbytes: u64, khugepaged: Option<u64>) -> u64 {
    if policy.min_free_kbytes != 0 {
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
    /// Where kswapd stops when it makes room for pages of slower memory (5.18 and later).
    pub promo: u64,
}

/// Tells whether a zone's pages count when min_free_kbytes is shared out.
#[must_use]
pub const fn is_lowmem(policy: &Policy, kind: ZoneKind) -> bool {
    match kind {
        ZoneKind::Dma | ZoneKind::Dma32 | ZoneKind::Normal => true,
        ZoneKind::HighMem => false,
        ZoneKind::Movable => matches!(policy.movable_wmark, MovableWmark::Shared),
    }
}

/// Returns the pages that share min_free_kbytes; `zones` yields (kind, managed pages) of every zone of every
/// node.
pub fn lowmem_pages(policy: &Policy, zones: impl IntoIterator<Item = (ZoneKind, u64)>) -> u64 {
    let low = zones.into_iter().filter(|&(kind, _)| is_lowmem(policy, kind));
    low.map(|(_, managed)| managed).sum()
}

/// Returns the watermarks of a zone (`__setup_per_zone_wmarks`). `lowmem_pages` is that of the machine.
#[must_use]
pub fn watermarks(
    policy: &Policy,
    kind: ZoneKind,
    managed: u64,
    lowmem_pages: u64,
    min_free_kbytes: u64,
) -> Watermarks {
    let share = mul_div(min_free_kbytes / KBYTES_PER_PAGE, managed, lowmem_pages.max(1));
    let min = if is_lowmem(policy, kind) {
        share
    } else {
        (managed / 1024).clamp(SMALL_WMARK.0, SMALL_WMARK.1)
    };
    let (low, high, promo) = match policy.wmark_gap {
        WmarkGap::Quarter => (share / 4, share / 2, share / 4 + share / 2),
        WmarkGap::Scale => {
            let scaled = mul_div(managed, policy.watermark_scale_factor.into(), 10_000);
            let gap = (share / 4).max(scaled);
            (gap, gap.saturating_mul(2), gap.saturating_mul(3))
        }
    };
    let extra = mul_div(
        u64::from(policy.extra_free_kbytes) / KBYTES_PER_PAGE,
        managed,
        lowmem_pages.max(1),
    );
    let above = |distance: u64| min.saturating_add(distance).saturating_add(extra);
    Watermarks { min, low: above(low), high: above(high), promo: above(promo) }
}

/// Returns what each zone of a node keeps back from requests that higher zones could serve
/// (`setup_per_zone_lowmem_reserve`): `reserve[zone][highest zone of the request]`, by
/// [`ZoneKind`] and in pages. `managed` is 0 for zones that the node lacks.
///
/// Linux: raised a ratio of 0 to 1 up to 4.8; since some release between it and 4.20 it means no
/// reserve, which is what happens here under every policy.
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

/// Returns a zone's part of the pages that no user may count on (`calculate_totalreserve_pages`, whose sum
/// over zones is `totalreserve_pages`).
#[must_use]
pub fn zone_reserve(managed: u64, high: u64, lowmem_reserve: &[u64; MAX_NR_ZONES]) -> u64 {
    let reserve = lowmem_reserve.iter().copied().max().unwrap_or(0);
    managed.min(reserve + high)
}

/// The sizes of each CPU's list of a zone, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct PcpSizes {
    /// How many pages move at a time.
    pub batch: u64,
    /// The smallest size at which pages are drained; the only one up to 6.6.
    pub high_min: u64,
    /// The largest.
    pub high_max: u64,
}

/// Returns the batch size of a zone's CPU lists (`zone_batchsize`), at least 1.
#[must_use]
pub fn pcp_batch(policy: &Policy, managed: u64) -> u64 {
    let base = match policy.pcp_batch {
        PcpBatch::K512 => (managed / 1024).min(512 / KBYTES_PER_PAGE) / 4,
        PcpBatch::M1 => (managed / 1024).min(1024 / KBYTES_PER_PAGE) / 4,
    };
    let base = base.max(1);
    // One less than a power of two: a round batch puts the halves of buddies on different CPUs.
    let rounded = 1 << (base + base / 2).ilog2();
    (rounded - 1u64).max(1)
}

/// Returns the sizes of a zone's CPU lists (`zone_set_pageset_high_and_batch`). `low_wmark` includes the
/// boost; `cpus` is the number of CPUs of the zone's node, or of all if it has none.
#[must_use]
pub fn pcp_sizes(policy: &Policy, managed: u64, low_wmark: u64, cpus: u64) -> PcpSizes {
    let batch = pcp_batch(policy, managed);
    let fraction = match policy.percpu_pagelist_high_fraction {
        0 => None,
        n => Some(u64::from(n).max(PCP_FRACTION_MIN)),
    };
    let split = |total: u64| (total / cpus.max(1)).max(4 * batch);
    let fixed = |batch, high| PcpSizes { batch, high_min: high, high_max: high };
    match (policy.pcp_high, fraction) {
        (PcpHigh::SixBatch, None) => fixed(batch, 6 * batch),
        (PcpHigh::SixBatch, Some(n)) => {
            let high = managed / n;
            fixed((high / 4).clamp(1, PCP_FRACTION_BATCH_MAX), high)
        }
        (PcpHigh::LowWmark, None) => fixed(batch, split(low_wmark)),
        (PcpHigh::LowWmark | PcpHigh::Autotune, Some(n)) => fixed(batch, split(managed / n)),
        (PcpHigh::Autotune, None) => PcpSizes {
            batch,
            high_min: split(low_wmark),
            high_max: split(managed / PCP_FRACTION_MIN),
        },
    }
}

/// Returns the number of pageblocks of a zone's migrate reserve (`setup_zone_migrate_reserve`, up to 4.3).
#[must_use]
pub fn migrate_reserve_blocks(min_wmark: u64, pageblock_order: Order) -> u64 {
    min_wmark.div_ceil(pages(pageblock_order)).min(MIGRATE_RESERVE_BLOCKS_MAX)
}

/// Returns the watermark boost of a zone after a fragmenting fallback (`boost_watermark`), in pages; `None`
/// where it is not boosted. `stored_high` is the high watermark without `boost`, the boost so far.
///
/// From 5.11 kswapd is woken for the boost only after `Some`; in 5.0 to 5.10 ([`Boost::EveryZone`],
/// [`Boost::LargeZones`]) also after `None`.
#[must_use]
pub fn boost_watermark(
    policy: &Policy,
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
    if too_small || max == 0 {
        return None;
    }
    Some((boost + block).min(max.max(block)))
}

/// Returns the integer part of `a * b / c`, without overflow between.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let exact = u128::from(a) * u128::from(b) / u128::from(c);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use ZoneKind::{Dma, Dma32, HighMem, Movable, Normal};

    fn policy(text: &str) -> Policy {
        Policy::parse(text).unwrap()
    }

    /// One zone of a machine: kind, managed, min/low/high/promo, batch, high_min, high_max.
    type Row = (ZoneKind, u64, [u64; 4], u64, u64, u64);

    #[track_caller]
    fn check_machine(text: &str, min_free_kbytes: u64, cpus: u64, rows: &[Row]) {
        let policy = policy(text);
        let lowmem = lowmem_pages(&policy, rows.iter().map(|r| (r.0, r.1)));
        for &(kind, managed, [min, low, high, promo], batch, high_min, high_max) in rows {
            let marks = watermarks(&policy, kind, managed, lowmem, min_free_kbytes);
            assert_eq!(marks, Watermarks { min, low, high, promo }, "{kind}");
            let sizes = pcp_sizes(&policy, managed, low, cpus);
            assert_eq!(sizes, PcpSizes { batch, high_min, high_max }, "{kind}");
        }
    }

    #[test]
    fn machine_of_24_gib_under_6_18() {
        check_machine(
            "linux-6.18",
            67_584,
            2,
            &[
                (Dma, 3840, [10, 13, 16, 19], 1, 6, 240),
                (Dma32, 772_917, [2112, 2884, 3656, 4428], 63, 1442, 48_307),
                (Normal, 5_406_170, [14_773, 20_179, 25_585, 30_991], 63, 10_089, 337_885),
            ],
        );
    }

    #[test]
    fn guests_of_640_mib_under_three_kernels() {
        let dma = [187, 233, 279, 325];
        check_machine(
            "linux-6.1",
            29_744,
            2,
            &[
                (Dma, 3840, dma, 1, 116, 116),
                (Dma32, 148_478, [7248, 9060, 10_872, 12_684], 31, 4530, 4530),
            ],
        );
        check_machine(
            "linux-6.12",
            29_540,
            2,
            &[
                (Dma, 3840, dma, 1, 116, 240),
                (Dma32, 147_115, [7197, 8996, 10_795, 12_594], 31, 4498, 9194),
            ],
        );
        check_machine(
            "linux-7.2",
            29_236,
            2,
            &[
                (Dma, 3840, dma, 1, 116, 240),
                (Dma32, 146_195, [7121, 8901, 10_681, 12_461], 31, 4450, 9137),
            ],
        );
    }

    #[test]
    fn lowmem_reserve_of_real_machines() {
        let reserve = |managed| lowmem_reserve(LOWMEM_RESERVE_RATIO, managed);
        let host = reserve([3840, 772_917, 5_406_170, 0, 0]);
        assert_eq!(host[0], [0, 3019, 24_137, 24_137, 24_137]);
        assert_eq!(host[1], [0, 0, 21_117, 21_117, 21_117]);
        assert_eq!(host[2], [0; 5]);
        for (managed, protection) in [(148_478, 579), (147_115, 574), (146_195, 571)] {
            let guest = reserve([3840, managed, 0, 0, 0]);
            assert_eq!(guest[0], [0, protection, protection, protection, protection]);
            assert_eq!(guest[1], [0; 5]);
        }
    }

    #[test]
    fn ratio_zero_and_empty_zones_reserve_nothing() {
        let reserve = lowmem_reserve([256, 0, 32, 0, 0], [0, 1000, 1000, 0, 32_000]);
        assert_eq!(reserve, [[0; 5], [0; 5], [0, 0, 0, 0, 1000], [0; 5], [0; 5]]);
    }

    #[test]
    fn total_reserve_is_bounded_by_the_zone() {
        assert_eq!(zone_reserve(3840, 16, &[0, 3019, 24_137, 24_137, 24_137]), 3840);
        assert_eq!(zone_reserve(772_917, 3656, &[0, 0, 21_117, 21_117, 21_117]), 24_773);
    }

    #[test]
    fn min_free_kbytes_is_computed_raised_and_set() {
        // The 24 GiB machine, watermarks as they are after the raise.
        let buffer =
            nr_free_buffer_pages([(3840, 16), (772_917, 3656), (5_406_170, 25_585), (5, 9)]);
        assert_eq!(buffer, 6_153_670);
        let raised = khugepaged_min_free_kbytes(3, 9, buffer);
        assert_eq!(raised, 67_584);
        let at_boot = policy("linux-6.18");
        assert_eq!(computed_min_free_kbytes(&at_boot, 4 * buffer), 19_845);
        assert_eq!(min_free_kbytes(&at_boot, 4 * buffer, None), 19_845);
        assert_eq!(min_free_kbytes(&at_boot, 4 * buffer, Some(raised)), raised);
        let set = policy("linux-6.18,min_free_kbytes=4096");
        assert_eq!(min_free_kbytes(&set, 4 * buffer, Some(raised)), 4096);
        assert_eq!(khugepaged_min_free_kbytes(3, 9, 20_000), 4000);
    }

    #[test]
    fn min_free_kbytes_is_clamped_by_version() {
        let tib = 1 << 30;
        assert_eq!(computed_min_free_kbytes(&policy("linux-5.4"), 16 * tib), 65_536);
        assert_eq!(computed_min_free_kbytes(&policy("linux-5.8"), 16 * tib), 262_144);
        assert_eq!(computed_min_free_kbytes(&policy("linux-5.8"), 100), 128);
    }

    #[test]
    fn gap_was_a_share_of_the_minimum() {
        let check = |text, expect: [u64; 4]| {
            let [min, low, high, promo] = expect;
            let marks = watermarks(&policy(text), Normal, 1_000_000, 1_000_000, 16_000);
            assert_eq!(marks, Watermarks { min, low, high, promo });
        };
        check("linux-4.4", [4000, 5000, 6000, 7000]);
        check("linux-4.8", [4000, 5000, 6000, 7000]);
        check("linux-4.8,watermark_scale_factor=20", [4000, 6000, 8000, 10_000]);
        check("linux-3.10,extra_free_kbytes=8000", [4000, 7000, 8000, 9000]);
    }

    #[test]
    fn zones_outside_low_memory_have_small_minimums() {
        let check = |text, kind, managed, expect: [u64; 4]| {
            let [min, low, high, promo] = expect;
            let marks = watermarks(&policy(text), kind, managed, 100_000, 40_000);
            assert_eq!(marks, Watermarks { min, low, high, promo });
        };
        check("linux-6.18", Movable, 0, [32, 32, 32, 32]);
        check("linux-6.18", Movable, 50_000, [48, 1298, 2548, 3798]);
        check("linux-6.4", Movable, 50_000, [5000, 6250, 7500, 8750]);
        check("linux-6.4", HighMem, 1_000_000, [128, 25_128, 50_128, 75_128]);
        let lowmem = |text| lowmem_pages(&policy(text), [(Normal, 7), (HighMem, 5), (Movable, 3)]);
        assert_eq!((lowmem("linux-6.4"), lowmem("linux-6.6")), (10, 7));
    }

    #[test]
    fn batch_by_version_and_size() {
        let batch = |text| [3840, 40_000, 150_000, 5_000_000].map(|m| pcp_batch(&policy(text), m));
        assert_eq!(batch("linux-4.15"), [1, 7, 31, 31]);
        assert_eq!(batch("linux-4.19"), [1, 7, 31, 63]);
        assert_eq!(batch("linux-6.19"), [1, 7, 31, 63]);
        assert_eq!(batch("linux-3.10"), batch("linux-4.15"));
    }

    #[test]
    fn list_sizes_by_version_and_knob() {
        let check = |text, managed, expect: (u64, u64, u64)| {
            let (batch, high_min, high_max) = expect;
            let sizes = pcp_sizes(&policy(text), managed, 1000, 4);
            assert_eq!(sizes, PcpSizes { batch, high_min, high_max });
        };
        check("linux-4.15", 1_000_000, (31, 186, 186));
        check("linux-4.15,percpu_pagelist_high_fraction=100", 10_000, (25, 100, 100));
        check("linux-4.15,percpu_pagelist_high_fraction=1", 1_000_000, (96, 125_000, 125_000));
        check("linux-5.15", 1_000_000, (63, 252, 252));
        check("linux-5.15,percpu_pagelist_high_fraction=10", 1_000_000, (63, 25_000, 25_000));
        check("linux-6.8", 1_000_000, (63, 252, 31_250));
        check("linux-6.8,percpu_pagelist_high_fraction=10", 1_000_000, (63, 25_000, 25_000));
    }

    #[test]
    fn migrate_reserve_has_at_most_two_blocks() {
        let blocks = [0, 1, 512, 513, 5000].map(|min| migrate_reserve_blocks(min, 9));
        assert_eq!(blocks, [0, 1, 1, 2, 2]);
    }

    #[test]
    fn boost_rises_by_a_block_to_its_cap() {
        let wakes = policy("linux-5.10");
        let boost = |high, boost, managed| boost_watermark(&wakes, high, boost, managed, 9);
        assert_eq!(boost(25_585, 0, 5_406_170), Some(512));
        assert_eq!(boost(25_585, 38_000, 5_406_170), Some(38_377));
        assert_eq!(boost(25_585, 38_377, 5_406_170), Some(38_377));
        assert_eq!(boost(100, 0, 2048), Some(512));
        assert_eq!(boost(100, 512, 2048), Some(512));
        assert_eq!(boost(100, 0, 2047), None);
        assert_eq!(boost(0, 0, 5_406_170), None);
    }

    #[test]
    fn boost_by_version_and_knob() {
        let small = |text| boost_watermark(&policy(text), 100, 0, 2047, 9);
        assert_eq!(small("linux-4.20"), None);
        assert_eq!(small("linux-5.0"), Some(512));
        assert_eq!(small("linux-5.8"), None);
        assert_eq!(small("linux-5.0,watermark_boost_factor=0"), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let set = policy("linux-6.18,min_free_kbytes=1073741824,watermark_scale_factor=3000");
        let _ = watermarks(&set, Normal, 1 << 52, 1, set.min_free_kbytes.into());
        assert_eq!(int_sqrt(u64::MAX), u64::from(u32::MAX));
    }
}
