//! Worked examples of fallbacks (docs/linux/fallback.md), under every version that they name.

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::preset::PRESETS;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;

use crate::machine::{policy, table_memory, with_zone, without_cpu_lists, zone_spec};

const UNMOVABLE: Gfp = Gfp::GFP_KERNEL;
const MOVABLE: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

/// The mainline presets from one version to another, both included.
pub(crate) fn versions(from: (u32, u32), to: (u32, u32)) -> impl Iterator<Item = &'static str> {
    let within = move |v| from <= v && v <= to;
    PRESETS.iter().filter(move |p| p.version().is_some_and(within)).map(|p| p.name)
}

/// Allocates a page from the zone, and compares the fallback, the block types and the lists.
#[track_caller]
fn check(policy: &str, zone: &str, gfp: Gfp, expect: &str) {
    with_zone(policy, zone, |bench| {
        bench.alloc(0, gfp);
        let found = bench.log.extfrag() + &bench.lists();
        let expect: String = expect.lines().map(|l| l.trim().to_owned() + "\n").skip(1).collect();
        assert_eq!(found.trim(), expect.trim(), "{policy}\n{zone}");
    });
}

#[track_caller]
fn check_all(policies: impl Iterator<Item = &'static str>, zone: &str, gfp: Gfp, expect: &str) {
    for policy in policies {
        check(policy, zone, gfp, expect);
    }
}

/// A pageblock, and three in use beside it.
fn alone(block: &str) -> String {
    format!("{block}\nU u9\nU u9\nU u9")
}

#[test]
fn c1_largest_block_is_claimed_whole() {
    let zone = "M 10\nM -\nM 10\nM -";
    let lists = "UUMM
        U 0@1 1@2 2@4 3@8 4@16 5@32 6@64 7@128 8@256 9@512
        M 10@1024";
    check("linux-3.10", zone, UNMOVABLE, &format!("\nextfrag 0: 0 of 10 U<-U own\n{lists}"));
    let expect = format!("\nextfrag 0: 0 of 10 U<-M own\n{lists}");
    check_all(versions((3, 12), (9, 0)), zone, UNMOVABLE, &expect);
}

const C2: &str = "M 5 4 u4 5 4 u4 5 4 u4 5 3 u3 u4 5 u5 5 u5 5 u5 5 u5\nU u9\nU u9\nU u9";

#[test]
fn c2_block_with_a_free_half_is_claimed() {
    let found_is_split = "
        extfrag 0: 0 of 5 U<-M own
        UUUU
        U 0@1 1@2 2@4 3@8 3@224 4@16 4@160 4@96 4@32 5@448 5@384 5@320 5@256 5@192 5@128 5@64";
    let quirk = found_is_split.replace("U<-M", "U<-U");
    check("linux-3.10", C2, UNMOVABLE, &quirk);
    check_all(versions((3, 12), (4, 9)), C2, UNMOVABLE, found_is_split);
    let smallest_is_split = "
        extfrag 0: 0 of 5 U<-M own
        UUUU
        U 0@225 1@226 2@228 4@160 4@96 4@32 5@448 5@384 5@320 5@256 5@192 5@128 5@64 5@0";
    check_all(versions((4, 12), (5, 8)), C2, UNMOVABLE, smallest_is_split);
    let moved_to_tail = "
        extfrag 0: 0 of 5 U<-M own
        UUUU
        U 0@225 1@226 2@228 4@32 4@96 4@160 5@0 5@64 5@128 5@192 5@256 5@320 5@384 5@448";
    check_all(versions((5, 10), (6, 9)), C2, UNMOVABLE, moved_to_tail);
    // From 6.10 the event names the page that is taken.
    let taken = moved_to_tail.replace("extfrag 0", "extfrag 224");
    check_all(versions((6, 10), (9, 0)), C2, UNMOVABLE, &taken);
}

const C2B: &str = "M 5 m5 *6 3 m3 m4 m5 m6\nU u9\nU u9\nU u9";

#[test]
fn c2b_block_with_movable_content_is_not_claimed() {
    let remainder_to_start = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        U 0@1 1@2 2@4 3@8 3@384 4@16 5@320 5@256 5@192 5@128 5@64";
    check("linux-3.10", C2B, UNMOVABLE, &remainder_to_start.replace("U<-M", "U<-U own"));
    check_all(versions((3, 12), (3, 13)), C2B, UNMOVABLE, remainder_to_start);
    let remainder_stays = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        U 3@384 5@320 5@256 5@192 5@128 5@64
        M 0@1 1@2 2@4 3@8 4@16";
    check("linux-3.16", C2B, UNMOVABLE, remainder_stays);
    check_all(versions((3, 19), (4, 9)), C2B, UNMOVABLE, remainder_to_start);
    let smallest_is_split = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        U 0@385 1@386 2@388 5@320 5@256 5@192 5@128 5@64 5@0";
    check_all(versions((4, 12), (5, 8)), C2B, UNMOVABLE, smallest_is_split);
    let moved_to_tail = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        U 0@385 1@386 2@388 5@0 5@64 5@128 5@192 5@256 5@320";
    check_all(versions((5, 10), (6, 9)), C2B, UNMOVABLE, moved_to_tail);
    let cut_from_the_found = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        M 0@1 1@2 2@4 3@8 3@384 4@16 5@64 5@128 5@192 5@256 5@320";
    check_all(versions((6, 10), (6, 14)), C2B, UNMOVABLE, cut_from_the_found);
    let cut_from_the_smallest = "
        extfrag 384: 0 of 3 U<-M
        MUUU
        M 0@385 1@386 2@388 5@0 5@64 5@128 5@192 5@256 5@320";
    check_all(versions((6, 15), (9, 0)), C2B, UNMOVABLE, cut_from_the_smallest);
}

#[test]
fn c3_polluted_block_is_claimed_since_4_12() {
    let zone = C2B.replace('m', "u");
    let not_claimed = "
        extfrag 0: 0 of 5 U<-M
        MUUU
        U 0@1 1@2 2@4 3@8 3@384 4@16 5@320 5@256 5@192 5@128 5@64";
    check_all(versions((3, 19), (4, 9)), &zone, UNMOVABLE, not_claimed);
    let claimed = "
        extfrag 0: 0 of 5 U<-M own
        UUUU
        U 0@385 1@386 2@388 5@320 5@256 5@192 5@128 5@64 5@0";
    check_all(versions((4, 12), (5, 8)), &zone, UNMOVABLE, claimed);
    let moved_to_tail = "
        extfrag 0: 0 of 5 U<-M own
        UUUU
        U 0@385 1@386 2@388 5@0 5@64 5@128 5@192 5@256 5@320";
    check_all(versions((5, 10), (6, 9)), &zone, UNMOVABLE, moved_to_tail);
    let taken = moved_to_tail.replace("extfrag 0", "extfrag 384");
    check_all(versions((6, 10), (9, 0)), &zone, UNMOVABLE, &taken);
}

#[test]
fn c3b_unmovable_requests_claim_small_blocks_since_4_2() {
    let zone = alone("M 3 u3 1 u1 u2 u3 u5 u6 u7 u8");
    let remainder_to_start = "
        extfrag 0: 0 of 3 U<-M
        MUUU
        U 0@1 1@2 2@4
        M 1@16";
    check_all(versions((3, 10), (3, 13)), &zone, UNMOVABLE, remainder_to_start);
    let remainder_stays = "
        extfrag 0: 0 of 3 U<-M
        MUUU
        M 0@1 1@2 1@16 2@4";
    check_all(versions((3, 16), (3, 19)), &zone, UNMOVABLE, remainder_stays);
    let moved = "
        extfrag 0: 0 of 3 U<-M
        MUUU
        U 0@1 1@2 1@16 2@4";
    check_all(versions((4, 2), (4, 9)), &zone, UNMOVABLE, moved);
    let claimed = "
        extfrag 0: 0 of 3 U<-M own
        UUUU
        U 0@17 3@0";
    check_all(versions((4, 12), (6, 9)), &zone, UNMOVABLE, claimed);
    let taken = claimed.replace("extfrag 0", "extfrag 16");
    check_all(versions((6, 10), (9, 0)), &zone, UNMOVABLE, &taken);
}

#[test]
fn c4_movable_request_takes_from_an_unmovable_block() {
    let zone = alone("U 6 3 u3 u4 u5 u7 u8");
    let remainder_to_start = "
        extfrag 0: 0 of 6 M<-U
        UUUU
        M 0@1 1@2 2@4 3@8 3@64 4@16 5@32";
    check("linux-3.10", &zone, MOVABLE, &remainder_to_start.replace("M<-U", "M<-M own"));
    check_all(versions((3, 12), (3, 13)), &zone, MOVABLE, remainder_to_start);
    check_all(versions((3, 19), (4, 9)), &zone, MOVABLE, remainder_to_start);
    let remainder_stays = "
        extfrag 0: 0 of 6 M<-U
        UUUU
        U 0@1 1@2 2@4 3@8 4@16 5@32
        M 3@64";
    check("linux-3.16", &zone, MOVABLE, remainder_stays);
    let smallest_is_split = "
        extfrag 0: 0 of 6 M<-U
        UUUU
        M 0@65 1@66 2@68 6@0";
    check_all(versions((4, 12), (6, 9)), &zone, MOVABLE, smallest_is_split);
    let cut_from_the_found = "
        extfrag 0: 0 of 6 M<-U
        UUUU
        U 0@1 1@2 2@4 3@8 3@64 4@16 5@32";
    check_all(versions((6, 10), (6, 14)), &zone, MOVABLE, cut_from_the_found);
    let cut_from_the_smallest = "
        extfrag 64: 0 of 3 M<-U
        UUUU
        U 0@65 1@66 2@68 6@0";
    check_all(versions((6, 15), (9, 0)), &zone, MOVABLE, cut_from_the_smallest);
}

#[test]
fn c4b_movable_requests_take_the_smallest_since_4_14() {
    let zone = alone("U 3 u3 1 u1 u2 u3 u5 u6 u7 u8");
    let largest = "
        extfrag 0: 0 of 3 M<-U
        UUUU
        U 1@16
        M 0@1 1@2 2@4";
    check_all(versions((3, 10), (3, 13)), &zone, MOVABLE, largest);
    check_all(versions((4, 2), (4, 12)), &zone, MOVABLE, largest);
    let remainder_stays = "
        extfrag 0: 0 of 3 M<-U
        UUUU
        U 0@1 1@2 1@16 2@4";
    check_all(versions((3, 16), (3, 19)), &zone, MOVABLE, remainder_stays);
    let smallest = "
        extfrag 16: 0 of 1 M<-U
        UUUU
        U 3@0
        M 0@17";
    check_all(versions((4, 15), (6, 9)), &zone, MOVABLE, smallest);
    check("linux-3.10-cheng", &zone, MOVABLE, smallest);
    let cut = "
        extfrag 16: 0 of 1 M<-U
        UUUU
        U 0@17 3@0";
    check_all(versions((6, 10), (9, 0)), &zone, MOVABLE, cut);
}

/// Two zones of a node: `low` pages free in DMA32 and C4's block in Normal. Gives the zone that a
/// movable request got a page from.
fn zone_of_movable_page(policy_text: &str, low_is_free: bool) -> ZoneKind {
    let zones =
        [zone_spec(0, ZoneKind::Dma32, 0, 1024), zone_spec(0, ZoneKind::Normal, 1024, 2048)];
    let setup = Setup::new(policy(policy_text), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    without_cpu_lists(&mut allocator);
    if low_is_free {
        allocator.release(FrameRange::new(0, 1024)).unwrap();
    }
    let (zone, _) = allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap();
    zone.impose_block_type(Pfn(1024), Migratetype::Unmovable).unwrap();
    zone.impose_free_block(Pfn(1024), 6, Migratetype::Unmovable).unwrap();
    let pfn = allocator.alloc(CpuId(0), &Request::new(0, MOVABLE), &mut ()).unwrap();
    allocator.check().unwrap();
    allocator.zones()[allocator.zone_of(pfn).unwrap().index()].kind()
}

#[test]
fn c5_lower_zone_is_used_before_a_zone_is_fragmented() {
    for policy in versions((3, 10), (5, 0)) {
        assert_eq!(zone_of_movable_page(policy, true), ZoneKind::Normal, "{policy}");
    }
    for policy in versions((5, 1), (9, 0)) {
        assert_eq!(zone_of_movable_page(policy, true), ZoneKind::Dma32, "{policy}");
        assert_eq!(zone_of_movable_page(policy, false), ZoneKind::Normal, "{policy}");
    }
}

#[test]
fn c6_fallback_boosts_the_watermark_and_wakes_kswapd() {
    let boosted = |policy: &str, zone: &str, gfp| {
        with_zone(policy, zone, |bench| {
            let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.impose_watermarks(Watermarks { min: 0, low: 0, high: 1000, promo: 0 });
            bench.alloc(0, gfp);
            let woken = &bench.log.woken;
            assert!(woken.iter().all(|&w| w == (0, ZoneKind::Normal, 0)));
            (bench.zone().boost(), woken.len())
        })
    };
    for policy in versions((3, 10), (4, 20)) {
        assert_eq!(boosted(policy, C2, UNMOVABLE), (0, 0), "{policy}");
    }
    let quiet = UNMOVABLE.without(Gfp::KSWAPD_RECLAIM);
    for policy in versions((5, 0), (9, 0)) {
        assert_eq!(boosted(policy, C2, UNMOVABLE), (512, 1), "{policy}");
        assert_eq!(boosted(policy, C2, quiet), (512, 0), "{policy}");
        // A whole pageblock is no fragmentation.
        assert_eq!(boosted(policy, "M 10\nM -\nM 10\nM -", UNMOVABLE), (0, 0), "{policy}");
    }
    // Claims fail at order 5 and at order 3, where there are blocks: each boosts.
    for policy in versions((6, 15), (9, 0)) {
        assert_eq!(boosted(policy, C2B, UNMOVABLE), (1024, 1), "{policy}");
    }
    for policy in versions((5, 0), (6, 14)) {
        assert_eq!(boosted(policy, C2B, UNMOVABLE), (512, 1), "{policy}");
    }
}

#[test]
fn c6_boost_of_a_zone_without_watermarks_still_wakes_kswapd_in_5_0() {
    for (from, to, woken) in [((5, 0), (5, 8), 1), ((5, 10), (9, 0), 0)] {
        for policy in versions(from, to) {
            with_zone(policy, C2, |bench| {
                bench.alloc(0, UNMOVABLE);
                assert_eq!((bench.zone().boost(), bench.log.woken.len()), (0, woken), "{policy}");
            });
        }
    }
}

#[test]
fn c7_merging_takes_the_list_of_the_freed_page() {
    for policy in versions((5, 10), (6, 9)) {
        with_zone(policy, C2B, |bench| {
            bench.alloc(0, UNMOVABLE);
            bench.free(32, 5);
            let expect = "MUUU\nU 0@385 1@386 2@388 5@64 5@128 5@192 5@256 5@320\nM 6@0\n";
            assert_eq!(bench.lists(), expect, "{policy}");
        });
    }
    for policy in versions((6, 10), (6, 14)) {
        with_zone(policy, C2B, |bench| {
            bench.alloc(0, UNMOVABLE);
            bench.free(96, 5);
            let expect = "MUUU\nM 0@1 1@2 2@4 3@8 3@384 4@16 5@128 5@192 5@256 5@320 6@64\n";
            assert_eq!(bench.lists(), expect, "{policy}");
        });
    }
}

/// Allocates order-1 atomic blocks from a zone said to have `managed` pages; gives the number of
/// blocks reserved.
fn reserved(policy: &str, managed: u64, flags: AllocFlags) -> u64 {
    let zone = ["U 1 u1 u2 u3 u4 u5 u6 u7 u8"; 6].join("\n");
    with_zone(policy, &zone, |bench| {
        let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
        zone.adjust_managed(managed as i64 - zone.managed() as i64);
        for _ in 0..6 {
            let request = Request::new(1, Gfp::GFP_ATOMIC | Gfp::ATOMIC);
            bench.allocator.alloc_with(CpuId(0), &request, flags, &mut bench.log).unwrap();
            bench.check("reserve");
        }
        let blocks = bench.zone().reserved_highatomic() / 512;
        let types = bench.lists();
        assert_eq!(types.lines().next().unwrap().matches('H').count() as u64, blocks);
        blocks
    })
}

#[test]
fn c8_highatomic_reserve_by_version_and_size() {
    let atomic = AllocFlags::WMARK_MIN
        .with(AllocFlags::NON_BLOCK)
        .with(AllocFlags::MIN_RESERVE)
        .with(AllocFlags::HIGHATOMIC);
    for policy in versions((3, 10), (4, 2)) {
        assert_eq!(reserved(policy, 100_000, atomic), 0, "{policy}");
    }
    for policy in versions((4, 4), (6, 6)) {
        assert_eq!(reserved(policy, 100_000, atomic), 3, "{policy}");
        assert_eq!(reserved(policy, 40_000, atomic), 2, "{policy}");
    }
    for policy in versions((6, 7), (9, 0)) {
        assert_eq!(reserved(policy, 100_000, atomic), 2, "{policy}");
        assert_eq!(reserved(policy, 40_000, atomic), 0, "{policy}");
    }
    let low = atomic.with_watermark(pageblock::alloc_flags::Watermark::Low);
    assert_eq!(reserved("linux-7.2", 100_000, low), 2);
    assert_eq!(reserved("linux-7.3", 100_000, low), 0);
}

/// Frees a block, and compares types and lists.
#[track_caller]
fn check_free(
    policies: impl Iterator<Item = &'static str>,
    zone: &str,
    (pfn, order): (u64, Order),
    expect: &str,
) {
    for policy in policies {
        with_zone(policy, zone, |bench| {
            bench.free(pfn, order);
            assert_eq!(bench.lists().trim(), expect, "{policy}\n{zone}");
        });
    }
}

#[test]
fn c9_pageblocks_of_two_types_merge() {
    let zone = "M 9\nU u9\nM u9\nM u9";
    check_free(versions((3, 10), (6, 9)), zone, (512, 9), "MUMM\nU 10@0");
    check_free(versions((6, 10), (9, 0)), zone, (512, 9), "UUMM\nU 10@0");
}

#[test]
fn c9_highatomic_blocks_do_not_merge_since_5_18() {
    let zone = "H 9\nM u9\nM u9\nM u9";
    check_free(versions((4, 4), (5, 17)), zone, (512, 9), "HMMM\nM 10@0");
    check_free(versions((5, 19), (9, 0)), zone, (512, 9), "HMMM\nM 9@512\nH 9@0");
}

#[test]
fn c10_block_that_will_merge_soon_goes_to_the_tail() {
    let zone = alone("M u0 u0 1 0 u0 u0 u0 u3 u4 u5 u6 u7 u8");
    let lists = |order0: &str| format!("MUUU\nM {order0} 1@2");
    check_free(versions((3, 10), (9, 0)), &zone, (0, 0), &lists("0@4 0@0"));
    check_free(versions((3, 10), (9, 0)), &zone, (6, 0), &lists("0@6 0@4"));
}

#[test]
fn c10_tail_rule_ends_below_order_9() {
    let zone = "M u8 u8\nM 9\nM 8 u8\nM u9";
    check_free(versions((3, 10), (9, 0)), zone, (0, 8), "MMMM\nM 8@1024 8@0 9@512");
    let zone = "M u9\nM u9\nM 10\nM -\nM 9\nM u9";
    check_free(versions((3, 10), (9, 0)), zone, (0, 9), "MMMMMM\nM 9@0 9@2048 10@1024");
}
