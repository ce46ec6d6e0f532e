//! Imposed state: wrong use is an error that changes nothing. CMA, which is set up without it.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::FrameError;

const PAGES: u64 = 1 << 14;

/// Runs a test on two CPUs and one zone of reserved memory.
fn with_reserved(test: impl FnOnce(&mut Allocator<'_>)) {
    let span = FrameRange::new(0, PAGES);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::parse("linux-6.12").unwrap(), &zones, &[NodeId(0), NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    test(&mut Allocator::new(&mut memory, &setup).unwrap());
}

fn with_released(test: impl FnOnce(&mut Allocator<'_>)) {
    with_reserved(|allocator| {
        allocator.release(FrameRange::new(0, PAGES)).unwrap();
        allocator.retune();
        test(allocator);
    });
}

/// The pages on each list of each CPU.
fn lists(allocator: &Allocator<'_>) -> Vec<Vec<Pfn>> {
    let zone = &allocator.zones()[0];
    let caches = (0..allocator.cpus()).filter_map(|cpu| allocator.cache(ZoneIndex(0), CpuId(cpu)));
    caches
        .flat_map(|c| (0..c.nr_lists()).map(|list| c.blocks(zone, ListIndex::new(list)).collect()))
        .collect()
}

#[test]
fn block_of_another_cpu_is_not_taken() {
    with_released(|allocator| {
        let request = Request::new(0, Gfp::GFP_KERNEL);
        // Each CPU has a batch, most of it linked through the page map.
        for cpu in [0, 1] {
            let (_, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(cpu)).unwrap();
            let limits = CacheLimits { batch: 31, high_min: 100, high_max: 100 };
            cache.impose_state(CacheState { limits, high: 100, ..cache.state() });
            let pfn = allocator.alloc(CpuId(cpu), &request, &mut ()).unwrap();
            allocator.free(CpuId(cpu), pfn, 0, &mut ()).unwrap();
        }
        let before = lists(allocator);
        let of_other: Vec<Pfn> = {
            let cache = allocator.cache(ZoneIndex(0), CpuId(1)).unwrap();
            cache.blocks(&allocator.zones()[0], ListIndex(0)).collect()
        };
        assert!(of_other.len() > 20, "{}", of_other.len());
        for &pfn in &of_other {
            let (zone, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            assert_eq!(cache.impose_take(zone, pfn), Err(FrameError::OtherCpu(pfn)));
            assert_eq!(cache.impose_drain(zone, pfn), Err(FrameError::OtherCpu(pfn)));
        }
        assert_eq!(lists(allocator), before);
        allocator.check().unwrap();
        for &pfn in &of_other {
            let (zone, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(1)).unwrap();
            assert_eq!(cache.impose_take(zone, pfn), Ok(0));
        }
        let (zone, cache) = allocator.zone_and_cache(ZoneIndex(0), CpuId(1)).unwrap();
        assert_eq!(cache.impose_take(zone, of_other[0]), Err(FrameError::NotFree(of_other[0])));
        allocator.check().unwrap();
    });
}

#[test]
fn cma_is_set_up_before_its_memory_is_released() {
    with_reserved(|allocator| {
        let (movable, cma) =
            (FrameRange::new(0, PAGES - 2048), FrameRange::new(PAGES - 2048, PAGES));
        allocator.reserve_cma(cma).unwrap();
        allocator.reserve_cma(FrameRange::new(7, 7)).unwrap();
        allocator.release(movable).unwrap();
        allocator.release(cma).unwrap();
        allocator.retune();
        allocator.check().unwrap();
        let zone = &allocator.zones()[0];
        assert_eq!(zone.free_pages_of(Migratetype::Cma), cma.len());
        assert_eq!(zone.block_type(cma.start), Some(Migratetype::Cma));
        assert_eq!(zone.block_type(Pfn(cma.start.0 - 1)), Some(Migratetype::Movable));
    });
}

#[test]
fn cma_that_cannot_be_is_an_error_that_changes_nothing() {
    with_reserved(|allocator| {
        allocator.release(FrameRange::new(1024, 2048)).unwrap();
        for (range, error) in [
            (FrameRange::new(100, 512), FrameError::Misaligned(Pfn(100), 9)),
            (FrameRange::new(0, 100), FrameError::Misaligned(Pfn(100), 9)),
            (FrameRange::new(0, 1536), FrameError::NotReserved(Pfn(1024))),
            (FrameRange::new(PAGES - 512, PAGES + 512), FrameError::Foreign(Pfn(PAGES))),
        ] {
            assert_eq!(allocator.reserve_cma(range), Err(error));
        }
        let zone = &allocator.zones()[0];
        assert!(zone.pageblocks().all(|(_, mt, _)| mt == Migratetype::Movable));
        allocator.check().unwrap();
    });
}
