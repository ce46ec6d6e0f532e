//! Single mechanisms by version, each in the smallest state that shows it.

use pageblock::alloc::{AllocError, Allocator};
use pageblock::alloc_flags::AllocFlags;
use pageblock::capture::CaptureSlot;
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::event::Event;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;

use crate::machine::{Log, lists, policy, table_memory, with_zone, without_cpu_lists, zone_spec};
use crate::scenarios::versions;

const KERNEL: Request = Request::new(0, Gfp::GFP_KERNEL);

/// Gives `test` a machine of the given zones, all released, without CPU lists and watermarks.
fn with_zones<T>(
    policy_text: &str,
    zones: &[ZoneSpec],
    test: impl FnOnce(&mut Allocator<'_>) -> T,
) -> T {
    let setup = Setup::new(policy(policy_text), zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    for zone in zones {
        allocator.release(zone.span).unwrap();
    }
    without_cpu_lists(&mut allocator);
    let seen = test(&mut allocator);
    allocator.check().unwrap();
    seen
}

/// The zones that serve one page after the other, by their place, `-` where none does: each zone
/// may give `batches` pages in this round, and two in the next.
fn fair_rounds(policy: &str, zones: &[ZoneSpec], batches: [i64; 2]) -> String {
    let mut served = String::new();
    with_zones(policy, zones, |allocator| {
        for (at, batch) in batches.into_iter().enumerate() {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)).unwrap();
            zone.impose_watermarks(Watermarks { min: 0, low: 0, high: 2, promo: 0 });
            zone.impose_alloc_batch(batch);
        }
        for _ in 0..8 {
            served += &match allocator.alloc(CpuId(0), &KERNEL, &mut ()) {
                Ok(pfn) => allocator.zone_of(pfn).unwrap().to_string(),
                Err(error) => {
                    assert_eq!(error, AllocError::NoMemory);
                    allocator.reset_fair_batches(CpuId(0), &KERNEL).unwrap();
                    "-".to_owned()
                }
            };
        }
    });
    served
}

#[test]
fn fair_batches_rotate_over_the_zones_of_a_node() {
    let zones =
        [zone_spec(0, ZoneKind::Dma32, 0, 1024), zone_spec(0, ZoneKind::Normal, 1024, 2048)];
    let check =
        |policy, expect| assert_eq!(fair_rounds(policy, &zones, [1, 2]), expect, "{policy}");
    check("linux-3.10", "11111111");
    check("linux-3.12", "110-1100");
    check("linux-3.13", "110-1100");
    check("linux-3.16", "11011001");
    check("linux-4.4", "11011001");
    check("linux-4.8", "11111111");
}

#[test]
fn fair_batches_leave_the_node_in_3_12_only() {
    let zones =
        [zone_spec(0, ZoneKind::Normal, 0, 1024), zone_spec(1, ZoneKind::Normal, 1024, 2048)];
    let check =
        |policy, expect| assert_eq!(fair_rounds(policy, &zones, [1, 1]), expect, "{policy}");
    check("linux-3.12", "01-0011-");
    check("linux-3.13", "01111111");
    check("linux-3.16", "00000000");
    check("linux-4.4", "00000000");
}

#[test]
fn migrate_reserve_takes_the_lowest_whole_blocks_and_serves_last() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 4096)];
    for (first_frame, types, reserve) in
        [(0, "RRMMMMMM", "R 10@0"), (64, "MRRMMMMM", "R 9@512 10@1024")]
    {
        for preset in versions((3, 10), (4, 2)) {
            let setup =
                Setup::new(policy(&format!("{preset},min_free_kbytes=4096")), &zones, &[NodeId(0)]);
            let mut memory = table_memory(&setup);
            let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
            allocator.release(FrameRange::new(first_frame, 4096)).unwrap();
            allocator.retune();
            let text = lists(&allocator.zones()[0]);
            assert!(text.starts_with(types), "{preset}\n{text}");
            assert!(text.contains(&format!("{reserve}\n")), "{preset}\n{text}");
            without_cpu_lists(&mut allocator);
            let mut last = Pfn(4096);
            let flags = AllocFlags::NO_WATERMARKS;
            while let Ok(pfn) = allocator.alloc_with(CpuId(0), &KERNEL, flags, &mut ()) {
                last = pfn;
            }
            let reserve_end = if first_frame == 0 { 1024 } else { 2048 };
            assert!(last.0 < reserve_end, "{preset}: {last}");
            allocator.check().unwrap();
        }
    }
}

#[test]
fn isolation_splits_larger_free_blocks_since_6_10() {
    let zone = "M 10\nM -\nM 10\nM -";
    let check = |policy, pfn, expect: &str| {
        with_zone(policy, zone, |bench| {
            let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.isolate_block(Pfn(pfn), &mut ()).unwrap();
            assert_eq!(bench.lists().trim(), expect, "{policy}");
            bench.check(policy);
            let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.unisolate_block(Pfn(pfn), Some(Movable), &mut ()).unwrap();
            assert!(bench.lists().contains("M 10@"), "{}", bench.lists());
            assert_eq!(bench.zone().free_pages(), 2048, "{policy}");
        });
    };
    for policy in versions((3, 10), (6, 9)) {
        check(policy, 600, "MIMM\nM 10@0 10@1024");
        check(policy, 5, "IMMM\nM 10@1024\nI 10@0");
    }
    for policy in versions((6, 10), (9, 0)) {
        check(policy, 600, "MIMM\nM 9@0 10@1024\nI 9@512");
        check(policy, 5, "IMMM\nM 9@512 10@1024\nI 9@0");
    }
}

#[test]
fn isolation_ends_with_the_type_before_or_a_given_one() {
    for (to, expect) in [(None, "U"), (Some(Movable), "M")] {
        with_zone("linux-6.18", "U 8 u8\nM u9\nM u9\nM u9", |bench| {
            let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.isolate_block(Pfn(0), &mut ()).unwrap();
            assert_eq!((zone.free_pages(), zone.nr_free(8)), (0, 1));
            zone.unisolate_block(Pfn(0), to, &mut ()).unwrap();
            assert_eq!(bench.lists().trim(), format!("{expect}MMM\n{expect} 8@0"));
        });
    }
}

/// Frees the two halves of an order-3 block of a pageblock while a task waits for the block.
fn captured(policy: &str, block: char, wants: Migratetype) -> (bool, String) {
    with_zone(policy, &format!("{block} u2 u2 u3 u4 u5 u6 u7 u8\nM u9\nM u9\nM u9"), |bench| {
        let (zone, _) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
        zone.start_capture(CaptureSlot::new(3, wants));
        bench.free(0, 2);
        bench.free(4, 2);
        let pfn = bench.zone().capture().unwrap().pfn;
        assert!(pfn.is_none_or(|pfn| pfn == Pfn(0)));
        let result = (pfn.is_some(), bench.log.extfrag());
        assert_eq!(bench.zone().free_pages(), if pfn.is_some() { 0 } else { 8 });
        if pfn.is_some() {
            bench.free(0, 3);
        }
        result
    })
}

#[test]
fn compacting_task_captures_what_it_frees() {
    let no = (false, String::new());
    let yes = (true, String::new());
    for policy in versions((3, 10), (5, 0)) {
        assert_eq!(captured(policy, 'U', Unmovable), no, "{policy}");
    }
    for policy in versions((5, 1), (9, 0)) {
        assert_eq!(captured(policy, 'U', Unmovable), yes, "{policy}");
        assert_eq!(captured(policy, 'M', Unmovable), no, "{policy}");
        assert_eq!(captured(policy, 'C', Movable), no, "{policy}");
    }
    for policy in versions((5, 1), (6, 9)) {
        assert_eq!(captured(policy, 'M', Movable), no, "{policy}");
        assert_eq!(captured(policy, 'U', Reclaimable), yes, "{policy}");
    }
    for policy in versions((6, 10), (9, 0)) {
        assert_eq!(captured(policy, 'M', Movable), yes, "{policy}");
    }
    let reported = (true, "extfrag 0: 3 of 3 E<-U\n".to_owned());
    for policy in versions((6, 15), (9, 0)) {
        assert_eq!(captured(policy, 'U', Reclaimable), reported, "{policy}");
    }
}

/// The order in which a CPU list gives pages back, oldest first, after `frees`.
fn drained(policy: &str, limits: CacheLimits, frees: &[u64]) -> Vec<u64> {
    let small = "u0 u0 u0 u0 u2 u3 u4 u5 u6 u7 u8";
    with_zone(policy, &format!("U {small}\nM {small}\nE {small}\nM u9"), |bench| {
        let (_, cache) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
        cache.impose_state(CacheState { limits, high: limits.high_min, ..cache.state() });
        for &pfn in frees {
            bench.free(pfn, 0);
        }
        bench.log.events.iter().filter_map(drain_of).collect()
    })
}

fn drain_of(event: &Event) -> Option<u64> {
    match event {
        Event::PcpuDrain { pfn, .. } => Some(pfn.0),
        _ => None,
    }
}

#[test]
fn drain_takes_more_from_lists_after_empty_ones_up_to_5_17() {
    let limits = |high| CacheLimits { batch: 4, high_min: high, high_max: high };
    for policy in versions((3, 10), (5, 10)) {
        // One movable page, two unmovable ones as the reclaimable list is empty, and so on.
        let frees = [0, 1, 2, 512, 513];
        assert_eq!(drained(policy, limits(5), &frees), [512, 0, 1, 513], "{policy}");
        // What a list could not give is left for the next.
        let frees = [0, 512, 513, 514, 1024];
        assert_eq!(drained(policy, limits(5), &frees), [512, 1024, 0, 513], "{policy}");
    }
}

#[test]
fn drain_empties_the_freed_list_first_since_5_18() {
    let limits = CacheLimits { batch: 2, high_min: 5, high_max: 5 };
    for policy in versions((5, 19), (9, 0)) {
        let frees = [0, 1, 512, 1024, 1025];
        let order = drained(policy, limits, &frees);
        assert_eq!(order[..2], [1024, 1025], "{policy}");
        assert!(order[2..].iter().eq([0, 1].iter().take(order.len() - 2)), "{policy}: {order:?}");
    }
}

/// A zone that begins in the middle of a pageblock, with free blocks of order 4 and 5 there and the
/// rest in use; gives the lists after a kernel request.
fn fallback_in_a_cut_pageblock(policy_text: &str) -> (String, String) {
    let zones = [zone_spec(0, ZoneKind::Normal, 256, 2560)];
    let setup = Setup::new(policy(policy_text), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    without_cpu_lists(&mut allocator);
    let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
    for (pfn, order, free) in
        [(256, 4, true), (272, 4, false), (288, 5, true), (320, 6, false), (384, 7, false)]
    {
        if free {
            zone.impose_free_block(Pfn(pfn), order, Movable).unwrap();
        } else {
            zone.impose_allocated(Pfn(pfn), order, true).unwrap();
        }
    }
    let mut log = Log::default();
    allocator.alloc(CpuId(0), &KERNEL, &mut log).unwrap();
    allocator.check().unwrap();
    let zone = &allocator.zones()[0];
    let text = lists(zone);
    (log.extfrag(), text[text.find('\n').unwrap() + 1..].to_owned())
}

#[test]
fn pageblock_that_begins_outside_moves_from_the_page_on_and_never_since_6_10() {
    let check = |policy, event: &str, lists: &str| {
        let found = fallback_in_a_cut_pageblock(policy);
        assert_eq!(found, (format!("{event}\n"), lists.to_owned()), "{policy}");
    };
    let rest = "0@289 1@290 2@292 3@296 4@304";
    for policy in versions((4, 2), (4, 9)) {
        check(policy, "extfrag 288: 0 of 5 U<-M", &format!("U {rest}\nM 4@256\n"));
    }
    // The frames outside count as pages of the wanted kind, so the pageblock is claimed; what lies
    // before the page stays on its list.
    for policy in versions((4, 12), (6, 9)) {
        check(policy, "extfrag 288: 0 of 5 U<-M own", &format!("U {rest}\nM 4@256\n"));
    }
    for policy in versions((6, 10), (6, 14)) {
        let lists = "M 0@289 1@290 2@292 3@296 4@304 4@256\n";
        check(policy, "extfrag 288: 0 of 5 U<-M", lists);
    }
    for policy in versions((6, 15), (9, 0)) {
        let lists = "M 0@257 1@258 2@260 3@264 5@288\n";
        check(policy, "extfrag 256: 0 of 4 U<-M", lists);
    }
}

/// The node that serves, on a machine where kswapd runs on the first.
fn node_beside_a_running_kswapd(policy: &str) -> NodeId {
    let zones =
        [zone_spec(0, ZoneKind::Normal, 0, 1024), zone_spec(1, ZoneKind::Normal, 1024, 2048)];
    with_zones(policy, &zones, |allocator| {
        allocator.set_kswapd_running(NodeId(0), true);
        let pfn = allocator.alloc(CpuId(0), &KERNEL, &mut ()).unwrap();
        let node = allocator.zones()[allocator.zone_of(pfn).unwrap().index()].node();
        // Where all are running, none is passed over.
        allocator.set_kswapd_running(NodeId(1), true);
        let pfn = allocator.alloc(CpuId(0), &KERNEL, &mut ()).unwrap();
        assert_eq!(allocator.zone_of(pfn), Some(ZoneIndex(0)));
        node
    })
}

#[test]
fn nodes_with_a_running_kswapd_come_second_since_6_18() {
    for policy in versions((3, 10), (6, 17)) {
        assert_eq!(node_beside_a_running_kswapd(policy), NodeId(0), "{policy}");
    }
    for policy in versions((6, 18), (9, 0)) {
        assert_eq!(node_beside_a_running_kswapd(policy), NodeId(1), "{policy}");
    }
}

#[test]
fn remote_node_is_not_fragmented_more_gently_than_the_local_one() {
    // Node 0 has a DMA32 zone to spill to, but it is full, and Normal has only pages of another
    // type: from 5.1 the first zone of another node ends fragmentation avoidance for all.
    for policy in versions((5, 1), (6, 14)) {
        let zones = [
            zone_spec(0, ZoneKind::Dma32, 0, 512),
            zone_spec(0, ZoneKind::Normal, 512, 1024),
            zone_spec(1, ZoneKind::Normal, 1024, 2048),
        ];
        with_zones(policy, &zones, |allocator| {
            let order9 = |node, gfp| Request::new(9, gfp).on_node(node);
            let low = order9(NodeId(0), Gfp::GFP_KERNEL | Gfp::DMA32);
            allocator.alloc(CpuId(0), &low, &mut ()).unwrap();
            let user = Gfp::GFP_HIGHUSER_MOVABLE;
            let pfn = allocator.alloc(CpuId(0), &Request::new(8, user), &mut ()).unwrap();
            assert_eq!(allocator.zone_of(pfn), Some(ZoneIndex(1)));
            // Half of node 0's Normal is left, on the movable list.
            let pfn = allocator.alloc(CpuId(0), &KERNEL, &mut ()).unwrap();
            assert_eq!(allocator.zone_of(pfn), Some(ZoneIndex(1)), "{policy}");
        });
    }
}

#[test]
fn orders_with_cpu_lists_by_version() {
    let order_of = |policy: &str, order: Order| {
        let mut cached = 0;
        with_zone(policy, "M 10\nM -\nM 10\nM -", |bench| {
            let (_, cache) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let limits = CacheLimits { batch: 63, high_min: 2000, high_max: 2000 };
            cache.impose_state(CacheState { limits, high: 2000, ..cache.state() });
            let pfn = bench.alloc(order, Gfp::GFP_HIGHUSER_MOVABLE);
            bench.free(pfn.0, order);
            cached = bench.allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count();
        });
        cached > 0
    };
    for policy in versions((3, 10), (5, 10)) {
        let cached: Vec<_> = (0..=10).filter(|&order| order_of(policy, order)).collect();
        assert_eq!(cached, [0], "{policy}");
    }
    for policy in versions((5, 14), (9, 0)) {
        let cached: Vec<_> = (0..=10).filter(|&order| order_of(policy, order)).collect();
        assert_eq!(cached, [0, 1, 2, 3, 9], "{policy}");
    }
}

#[test]
fn a_request_past_the_lists_leaves_them_alone() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 4096)];
    let setup = Setup::new(policy("linux-6.12"), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(zones[0].span).unwrap();
    let (_, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
    let limits = CacheLimits { batch: 8, high_min: 100, high_max: 100 };
    cache.impose_state(CacheState { limits, ..cache.state() });
    let first = allocator.alloc(CpuId(0), &KERNEL, &mut ()).unwrap();
    let state = |allocator: &Allocator<'_>| {
        (
            allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count(),
            allocator.zones()[0].free_pages(),
        )
    };
    let (held, free) = state(&allocator);
    assert!(held > 0);
    let past = allocator.alloc_past_lists(CpuId(0), &KERNEL, None, &mut ()).unwrap();
    assert_eq!(state(&allocator), (held, free - 1));
    allocator.drain_zone(CpuId(0), ZoneIndex(0), &mut ()).unwrap();
    assert_eq!(state(&allocator), (0, free - 1 + u64::from(held)));
    // There is no such zone.
    allocator.drain_zone(CpuId(0), ZoneIndex(7), &mut ()).unwrap();
    for pfn in [first, past] {
        allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
    }
    allocator.check().unwrap();
}

/// A pageblock that cannot be claimed is looked at once up to 6.9, where all of its free pages move; from
/// 6.10 on once for each page that is taken.
#[test]
fn each_page_of_a_block_that_cannot_be_claimed_takes_a_count_from_6_10() {
    let looks = |version: &str| {
        let mut looks = Vec::new();
        with_zone(version, "M 5 m5 m6 *4\nU u9\nU u9\nU u9", |bench| {
            for _ in 0..3 {
                bench.alloc(0, Gfp::GFP_KERNEL);
                looks.push(bench.zone().block_looks());
            }
        });
        looks
    };
    // Four free blocks, and the 384 pages in use.
    for version in versions((4, 12), (6, 9)) {
        assert_eq!(looks(version), [388, 388, 388], "{version}");
    }
    // The more pages were cut out, the more pieces there are.
    for version in versions((6, 10), (6, 14)) {
        assert_eq!(looks(version), [388, 388 + 393, 388 + 393 + 398], "{version}");
    }
}
