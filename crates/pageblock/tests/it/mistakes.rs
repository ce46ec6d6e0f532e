//! What a caller can get wrong is an error, and leaves the state as it was.

use std::mem::MaybeUninit;

use pageblock::alloc::{AllocError, Allocator, NoSuchCpu};
use pageblock::alloc_flags::AllocFlags;
use pageblock::fallback::{Mode, Outcome};
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::policy::Placement;
use pageblock::request::{Gfp, Request};
use pageblock::setup::{MAX_CPUS, Setup, SetupError};
use pageblock::zone::{FrameError, Geometry};

use crate::machine::{lists, policy, table_memory, zone_spec};

/// Two nodes of four pageblocks, the first without its last half; gives `test` a block of order 2.
fn with_machine(test: impl Fn(&mut Allocator<'_>, Pfn)) {
    for preset in ["linux-3.10", "linux-5.15", "linux-6.18"] {
        let zones =
            [zone_spec(0, ZoneKind::Normal, 0, 1800), zone_spec(1, ZoneKind::Normal, 2048, 4096)];
        let setup = Setup::new(policy(preset), &zones, &[NodeId(0), NodeId(1)]);
        let mut memory = table_memory(&setup);
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(FrameRange::new(64, 1800)).unwrap();
        allocator.release(FrameRange::new(2048, 4096)).unwrap();
        let pfn = allocator.alloc(CpuId(0), &Request::new(2, Gfp::GFP_KERNEL), &mut ()).unwrap();
        test(&mut allocator, pfn);
        allocator.check().unwrap();
    }
}

fn state(allocator: &Allocator<'_>) -> String {
    let caches = (0..4).map(|at| allocator.cache(ZoneIndex::new(at / 2), CpuId(at % 2)).unwrap());
    let counts: Vec<_> = caches.map(|c| (c.count(), c.high(), c.free_count())).collect();
    let zones: Vec<_> = allocator.zones().iter().map(lists).collect();
    let counters: Vec<_> = (0..2).map(|at| allocator.counters(ZoneIndex(at))).collect();
    format!("{zones:?} {counts:?} {counters:?}")
}

#[test]
fn wrong_frees_change_nothing() {
    with_machine(|allocator, pfn| {
        let before = state(allocator);
        let mut check = |pfn, order, expect| {
            let mut log = crate::machine::Log::default();
            assert_eq!(allocator.free(CpuId(0), pfn, order, &mut log), Err(expect));
            assert!(log.events.is_empty());
            allocator.check().unwrap();
            assert_eq!(state(allocator), before);
        };
        check(pfn, 1, FrameError::WrongOrder(pfn, 2));
        check(pfn, 3, FrameError::WrongOrder(pfn, 2));
        for order in [14, 15, 16, 64, 255] {
            check(pfn, order, FrameError::WrongOrder(pfn, 2));
        }
        check(pfn.plus(1), 0, FrameError::NotAllocated(pfn.plus(1)));
        check(pfn.plus(2), 1, FrameError::NotAllocated(pfn.plus(2)));
        check(Pfn(3000), 0, FrameError::NotAllocated(Pfn(3000)));
        check(Pfn(5), 0, FrameError::NotAllocated(Pfn(5)));
        for foreign in [1800, 1900, 2047, 4096, u64::MAX] {
            check(Pfn(foreign), 0, FrameError::Foreign(Pfn(foreign)));
        }
    });
}

#[test]
fn double_free_is_found_on_lists_of_any_kind() {
    with_machine(|allocator, pfn| {
        allocator.free(CpuId(0), pfn, 2, &mut ()).unwrap();
        let again = allocator.free(CpuId(0), pfn, 2, &mut ());
        assert_eq!(again, Err(FrameError::NotAllocated(pfn)));
        allocator.drain_all(&mut ());
        let again = allocator.free(CpuId(0), pfn, 2, &mut ());
        assert_eq!(again, Err(FrameError::NotAllocated(pfn)));
    });
}

#[test]
fn wrong_requests_change_nothing() {
    with_machine(|allocator, _| {
        let before = state(allocator);
        let request = Request::new(0, Gfp::GFP_KERNEL);
        let both = Gfp::MOVABLE | Gfp::RECLAIMABLE;
        let mut check = |cpu, request: Request, expect| {
            assert_eq!(allocator.alloc(cpu, &request, &mut ()), Err(expect));
            let flags = AllocFlags::NO_WATERMARKS;
            assert_eq!(allocator.alloc_with(cpu, &request, flags, &mut ()), Err(expect));
            assert_eq!(allocator.report_failure(cpu, &request, &mut ()), Err(expect));
            assert_eq!(allocator.reset_fair_batches(cpu, &request), Err(expect));
            assert_eq!(state(allocator), before);
        };
        for cpu in [2, usize::MAX] {
            check(CpuId(cpu), request, AllocError::NoSuchCpu(CpuId(cpu)));
        }
        for node in [2, 63, 64, 255] {
            check(CpuId(0), request.on_node(NodeId(node)), AllocError::NoSuchNode(NodeId(node)));
        }
        for order in [11, 14, 15, 16, 64, 255] {
            let request = Request::new(order, Gfp::GFP_KERNEL);
            check(CpuId(0), request, AllocError::OrderTooLarge(order));
        }
        check(CpuId(0), Request::new(0, both), AllocError::ConflictingMobility(both));
    });
}

#[test]
fn request_that_no_zone_may_serve_fails() {
    with_machine(|allocator, _| {
        let nowhere = Request { nodemask: 0, ..Request::new(0, Gfp::GFP_KERNEL) };
        assert_eq!(allocator.alloc(CpuId(0), &nowhere, &mut ()), Err(AllocError::NoMemory));
        let dma = Request::new(0, Gfp::DMA);
        assert_eq!(allocator.alloc(CpuId(0), &dma, &mut ()), Err(AllocError::NoMemory));
    });
}

#[test]
fn places_that_there_are_not_are_none() {
    with_machine(|allocator, pfn| {
        for far in [2, 100, usize::MAX] {
            assert!(allocator.cache(ZoneIndex::new(far), CpuId(0)).is_none());
            assert!(allocator.cache(ZoneIndex(0), CpuId(far)).is_none());
            assert!(allocator.zone_and_cache(ZoneIndex::new(far), CpuId(0)).is_none());
            assert!(allocator.zone_and_cache(ZoneIndex(0), CpuId(far)).is_none());
            allocator.retune_caches(ZoneIndex::new(far));
            assert_eq!(allocator.drain_cpu(CpuId(far), &mut ()), Err(NoSuchCpu(CpuId(far))));
            assert_eq!(allocator.drain_pages(CpuId(far), 1, &mut ()), Err(NoSuchCpu(CpuId(far))));
            assert_eq!(
                allocator.drain_zone(CpuId(far), ZoneIndex(0), &mut ()),
                Err(NoSuchCpu(CpuId(far)))
            );
            assert_eq!(allocator.vmstat_tick(CpuId(far), &mut ()), Err(NoSuchCpu(CpuId(far))));
            let cache = allocator.cache(ZoneIndex(0), CpuId(0)).unwrap();
            let zone = &allocator.zones()[0];
            assert_eq!(cache.next(zone, ListIndex::new(100 + far / 2)), None);
            assert_eq!(cache.blocks(zone, ListIndex::new(100 + far / 2)).count(), 0);
        }
        allocator.set_kswapd_running(NodeId(200), true);
        assert_eq!(
            allocator.set_movable(pfn.plus(1), true),
            Err(FrameError::NotAllocated(pfn.plus(1)))
        );
        assert_eq!(allocator.set_movable(Pfn(9999), true), Err(FrameError::Foreign(Pfn(9999))));
        let before = state(allocator);
        assert_eq!(
            allocator.free(CpuId(77), pfn, 2, &mut ()),
            Err(FrameError::NoSuchCpu(CpuId(77)))
        );
        assert_eq!(state(allocator), before);
        allocator.free(CpuId(0), pfn, 2, &mut ()).unwrap();
    });
}

#[test]
fn orders_that_there_are_not_are_in_no_list() {
    with_machine(|allocator, _| {
        for order in [11, 14, 15, 16, 32, 64, 255] {
            let zone = &allocator.zones()[0];
            assert_eq!(zone.nr_free(order), 0);
            assert_eq!(zone.nr_free_of(order, Movable), 0);
            assert_eq!(zone.free_list(order, Movable).count(), 0);
            assert_eq!(zone.next_of_list(order, Movable), None);
            assert!(!zone.watermark_ok(order, 0, ZoneKind::Normal, AllocFlags(0)));
            assert_eq!(
                zone.find_fallback(order, Unmovable, AllocFlags(0), Mode::Normal).found,
                None
            );
            let policy = *allocator.policy();
            let (zone, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            assert_eq!(cache.list_index(order, Movable), None);
            cache.refill_count(&policy, order, false);
            cache.pages_to_drain(&policy, order, Default::default());
            assert_eq!(
                zone.impose_free_block(Pfn(0), order, Movable),
                Err(FrameError::OrderTooLarge(order))
            );
        }
    });
}

#[test]
fn isolation_of_what_is_not_there_fails() {
    with_machine(|allocator, _| {
        let (zone, _) = allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap();
        assert_eq!(zone.isolate_block(Pfn(100), &mut ()), Err(FrameError::Foreign(Pfn(100))));
        assert_eq!(
            zone.unisolate_block(Pfn(3000), None, &mut ()),
            Err(FrameError::NotIsolated(Pfn(3000)))
        );
        zone.isolate_block(Pfn(3000), &mut ()).unwrap();
        assert_eq!(zone.isolate_block(Pfn(3001), &mut ()), Err(FrameError::Isolated(Pfn(3001))));
        zone.unisolate_block(Pfn(3001), None, &mut ()).unwrap();
    });
}

#[test]
fn fallbacks_that_could_not_be_are_refused() {
    with_machine(|allocator, _| {
        let (zone, _) = allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap();
        let found = zone.find_fallback(0, Unmovable, AllocFlags(0), Mode::Normal).found.unwrap();
        let mut wrong = [found; 4];
        wrong[0].pfn = Pfn(7);
        wrong[1].order = 3;
        wrong[2].from = Unmovable;
        wrong[3].order = 12;
        for fallback in wrong {
            let result = zone.impose_fallback(0, Unmovable, fallback, &mut ());
            assert_eq!(result, Err(FrameError::NotFree(fallback.pfn)));
        }
        assert_eq!(found.outcome, Outcome::ClaimWhole);
    });
}

#[test]
fn releasing_what_is_not_reserved_fails() {
    with_machine(|allocator, _| {
        let before = state(allocator);
        for (start, end) in [(64, 65), (0, 70), (4096, 5000), (u64::MAX - 1, u64::MAX)] {
            assert!(allocator.release(FrameRange::new(start, end)).is_err(), "{start}");
            assert_eq!(state(allocator), before);
        }
    });
}

#[test]
fn contradictory_setups_are_refused() {
    let normal = |node, start, end| zone_spec(node, ZoneKind::Normal, start, end);
    let good = [normal(0, 0, 2048)];
    let check = |zones: &[ZoneSpec], cpu_nodes: &[u8], geometry, expect| {
        let policy = policy("linux-6.18");
        let cpu_nodes: Vec<_> = cpu_nodes.iter().copied().map(NodeId).collect();
        let setup = Setup { geometry, ..Setup::new(policy, zones, &cpu_nodes) };
        assert_eq!(setup.metadata_size(), Err(expect));
        let mut memory = [MaybeUninit::uninit(); 64];
        assert_eq!(Allocator::new(&mut memory, &setup).err(), Some(expect));
    };
    let usual = Geometry::default();
    check(&[], &[0], usual, SetupError::ZoneCount(0));
    check(&good, &[], usual, SetupError::CpuCount(0));
    check(&good, &[1], usual, SetupError::CpuNode(CpuId(0), NodeId(1)));
    check(&good, &[0, 64], usual, SetupError::CpuNode(CpuId(1), NodeId(64)));
    check(&[good[0], good[0]], &[0], usual, SetupError::ZoneOrder(ZoneIndex(1)));
    let overlap = SetupError::ZoneOverlap(ZoneIndex(0), ZoneIndex(1));
    check(&[good[0], normal(1, 2047, 4096)], &[0], usual, overlap);
    let first = ZoneIndex(0);
    check(&[normal(64, 0, 2048)], &[0], usual, SetupError::ZoneNode(first, NodeId(64)));
    for (start, end) in [(0, u64::MAX), (5, 5), (9, 0), (u64::MAX, 0), (0, (1 << 52) + 1)] {
        let span = FrameRange::new(start, end);
        check(&[normal(0, start, end)], &[0], usual, SetupError::Span(first, span));
    }
    check(&[normal(0, 0, 1 << 33)], &[0], usual, SetupError::TooLarge(first, 1 << 33));
    // Fewer frames than can be numbered, but not in whole blocks.
    check(&[normal(0, 1, (1 << 32) - 9)], &[0], usual, SetupError::TooLarge(first, 1 << 32));
    for (present, managed) in [(2049, 0), (u64::MAX, 2048)] {
        let zone = ZoneSpec { present, managed, ..good[0] };
        check(&[zone], &[0], usual, SetupError::Present(first, zone));
    }
    for (present, managed) in [(2048, 2049), (2048, 1 << 60), (2048, u64::MAX), (0, 1)] {
        let zone = ZoneSpec { present, managed, ..good[0] };
        check(&[zone], &[0], usual, SetupError::Managed(first, zone));
    }
    check(&good, &[0; MAX_CPUS + 1], usual, SetupError::CpuCount(MAX_CPUS + 1));
    for page_shift in [0, 9, 31, 255] {
        let geometry = Geometry { page_shift, ..usual };
        check(&good, &[0], geometry, SetupError::Geometry(geometry));
    }
    for (pageblock_order, max_order) in [(0, 10), (9, 0), (9, 15), (15, 10)] {
        let geometry = Geometry { pageblock_order, max_order, ..usual };
        check(&good, &[0], geometry, SetupError::Geometry(geometry));
    }
}

#[test]
fn packed_placement_is_refused_where_four_bits_do_not_tell_a_frames_list() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 4096)];
    let size = |base: &str, pageblock_order, max_order| {
        let mut policy = policy(base);
        policy.placement = Placement::Packed;
        let geometry = Geometry { pageblock_order, max_order, ..Geometry::default() };
        let setup = Setup { geometry, ..Setup::new(policy, &zones, &[NodeId(0)]) };
        setup.metadata_size()
    };
    assert_eq!(size("linux-6.10", 9, 10), Err(SetupError::Packed));
    assert_eq!(size("linux-6.9", 9, 10), Err(SetupError::Packed));
    for (pageblock_order, max_order) in [(2, 10), (9, 2)] {
        let geometry = Geometry { pageblock_order, max_order, ..Geometry::default() };
        let error = SetupError::SmallBlocks(geometry);
        assert_eq!(size("linux-6.12", pageblock_order, max_order), Err(error));
        assert!(error.to_string().ends_with("placement=packed allows 3 and more"), "{error}");
    }
    assert!(size("linux-6.12", 3, 3).is_ok());
}

#[test]
fn distances_and_numbers_of_a_policy_are_checked() {
    let zones = [0, 1].map(|node| {
        let start = u64::from(node) * 2048;
        zone_spec(node, ZoneKind::Normal, start, start + 2048)
    });
    let setup = |policy, distances: &[u8]| {
        let cpu_nodes = &[NodeId(0)];
        Setup { policy, geometry: Geometry::default(), zones: &zones, cpu_nodes, distances }
            .metadata_size()
    };
    let usual = policy("linux-6.18");
    let wrong = |distances: &[u8]| setup(usual, distances).unwrap_err().to_string();
    assert!(setup(usual, &[10, 255, 11, 10]).is_ok());
    assert_eq!(
        wrong(&[10, 20, 20]),
        "distances: there are 3; allowed: none, or one for each pair of nodes"
    );
    assert_eq!(
        wrong(&[10, 20, 0, 10]),
        "distances: 0 from node 1 to node 0; allowed: 10 within a node, more between nodes"
    );
    let mut beyond = usual;
    beyond.watermark_scale_factor = 0;
    assert_eq!(
        setup(beyond, &[]).unwrap_err().to_string(),
        "policy: watermark_scale_factor is 0; allowed: a whole number from 1 to 3000"
    );
}

/// Whatever the setup says is managed, what is released is counted and can be had.
#[test]
fn released_memory_is_managed() {
    for preset in ["linux-3.10", "linux-6.12", "linux-6.12,placement=packed"] {
        let served = |present, managed| {
            let zones = [ZoneSpec { present, managed, ..zone_spec(0, ZoneKind::Normal, 0, 8192) }];
            let setup = Setup::new(policy(preset), &zones, &[NodeId(0)]);
            let mut memory = table_memory(&setup);
            let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
            allocator.release(FrameRange::new(0, 5000)).unwrap();
            allocator.release(FrameRange::new(5000, 8192)).unwrap();
            allocator.retune();
            let zone = &allocator.zones()[0];
            assert_eq!((zone.present(), zone.managed()), (8192, 8192), "{preset}");
            let marks = zone.watermarks();
            let request = Request::new(0, Gfp::GFP_KERNEL);
            let served =
                (0..8192).filter(|_| allocator.alloc(CpuId(0), &request, &mut ()).is_ok()).count();
            allocator.check().unwrap();
            (served, marks)
        };
        let honest = served(8192, 8192);
        assert!(honest.0 > 7000, "{preset}: {honest:?}");
        for (present, managed) in [(0, 0), (8192, 0), (8192, 100), (4096, 4096)] {
            assert_eq!(served(present, managed), honest, "{preset}: {present} {managed}");
        }
    }
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 2048)];
    let setup = Setup::new(policy("linux-6.18"), &zones, &[NodeId(0)]);
    let size = setup.metadata_size().unwrap();
    let mut memory = table_memory(&setup);
    let result = Allocator::new(&mut memory[1..], &setup);
    assert_eq!(result.err(), Some(SetupError::Memory(size)));
    assert!(Allocator::new(&mut memory, &setup).is_ok());
}

#[test]
fn metadata_layout_says_how_much_memory_suffices() {
    let span = FrameRange::new(0, 1 << 14);
    let spec = crate::machine::zone_spec(0, ZoneKind::Normal, span.start.0, span.end.0);
    let zones = [spec];
    let setup = Setup::new(crate::machine::policy("linux-6.12"), &zones, &[NodeId(0)]);
    let (layout, size) = (setup.metadata_layout().unwrap(), setup.metadata_size().unwrap());
    assert_eq!(size, layout.size() + layout.align());
    assert!(size as u64 <= 10 * span.len());
    let mut memory = vec![std::mem::MaybeUninit::uninit(); size];
    assert!(Allocator::new(&mut memory, &setup).is_ok());
    assert!(Allocator::new(&mut memory[..size - 1], &setup).is_err());
    let none = Setup { zones: &[], ..setup };
    assert_eq!(none.metadata_layout().err(), none.metadata_size().err());
}
