//! Tests of the formulas, by machines that exist.

use super::*;
use crate::base::mobility::Migratetype::Unmovable;
use crate::policy::Policy;
use ZoneKind::{Dma, Dma32, HighMem, Movable, Normal};

const SIZES: Geometry =
    Geometry { pageblock_order: 9, max_order: 10, page_shift: crate::base::geometry::PAGE_SHIFT };

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
        let marks = watermarks(&policy, kind, managed, lowmem, min_free_kbytes, SIZES);
        assert_eq!(marks, Watermarks { min, low, high, promo }, "{kind}");
        let sizes = pcp_sizes(&policy, managed, low, cpus, SIZES);
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
    let buffer = nr_free_buffer_pages([(3840, 16), (772_917, 3656), (5_406_170, 25_585), (5, 9)]);
    assert_eq!(buffer, 6_153_670);
    let raised = khugepaged_min_free_kbytes(3, SIZES, buffer);
    assert_eq!(raised, 67_584);
    let at_boot = policy("linux-6.18");
    assert_eq!(computed_min_free_kbytes(&at_boot, 4 * buffer), 19_845);
    assert_eq!(min_free_kbytes(&at_boot, 4 * buffer, None), 19_845);
    assert_eq!(min_free_kbytes(&at_boot, 4 * buffer, Some(raised)), raised);
    let set = policy("linux-6.18,min_free_kbytes=4096");
    assert_eq!(min_free_kbytes(&set, 4 * buffer, Some(raised)), 4096);
    assert_eq!(khugepaged_min_free_kbytes(3, SIZES, 20_000), 4000);
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
        let marks = watermarks(&policy(text), Normal, 1_000_000, 1_000_000, 16_000, SIZES);
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
        let marks = watermarks(&policy(text), kind, managed, 100_000, 40_000, SIZES);
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
    let batch =
        |text| [3840, 40_000, 150_000, 5_000_000].map(|m| pcp_batch(&policy(text), m, SIZES));
    assert_eq!(batch("linux-4.15"), [1, 7, 31, 31]);
    assert_eq!(batch("linux-4.19"), [1, 7, 31, 63]);
    assert_eq!(batch("linux-6.19"), [1, 7, 31, 63]);
    assert_eq!(batch("linux-3.10"), batch("linux-4.15"));
}

#[test]
fn list_sizes_by_version_and_knob() {
    let check = |text, managed, expect: (u64, u64, u64)| {
        let (batch, high_min, high_max) = expect;
        let sizes = pcp_sizes(&policy(text), managed, 1000, 4, SIZES);
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
    let boost = |high, boost, managed| boost_watermark(&wakes, Unmovable, high, boost, managed, 9);
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
    let small = |text| boost_watermark(&policy(text), Unmovable, 100, 0, 2047, 9);
    assert_eq!(small("linux-4.20"), None);
    assert_eq!(small("linux-5.0"), Some(512));
    assert_eq!(small("linux-5.8"), None);
    assert_eq!(small("linux-5.0,watermark_boost_factor=0"), None);
}

/// The watermarks of a zone are shares of bytes, its CPU lists' batches too (arm64 with pages of 64 KiB).
#[test]
fn kilobytes_are_pages_of_the_given_size() {
    let large = Geometry { page_shift: 16, ..SIZES };
    let of = policy("linux-6.12");
    let kbytes = min_free_kbytes(&of, large.kbytes(65_536), None);
    assert_eq!(kbytes, 8192, "of 4 GiB, whatever a page");
    assert_eq!(khugepaged_min_free_kbytes(1, large, 1 << 20), 64 * 512 * 11);
    let marks = watermarks(&of, Normal, 65_536, 65_536, kbytes, large);
    assert_eq!((marks.min, marks.low, marks.high), (128, 193, 258));
    let extra = policy("linux-3.10,extra_free_kbytes=640");
    assert_eq!(watermarks(&extra, Normal, 65_536, 65_536, kbytes, large).low, 128 + 32 + 10);
    assert_eq!(
        [12, 16, 21]
            .map(|page_shift| { pcp_batch(&of, 5_000_000, Geometry { page_shift, ..SIZES }) }),
        [63, 3, 1]
    );
    let fraction = policy("linux-4.15,percpu_pagelist_high_fraction=8");
    assert_eq!(pcp_sizes(&fraction, 1_000_000, 0, 1, large).batch, 8 * 16);
}

#[test]
fn extremes_do_not_overflow() {
    let set = policy("linux-6.18,min_free_kbytes=1073741824,watermark_scale_factor=3000");
    let _ = watermarks(&set, Normal, 1 << 52, 1, set.min_free_kbytes.into(), SIZES);
    assert_eq!(int_sqrt(u64::MAX), u64::from(u32::MAX));
}
