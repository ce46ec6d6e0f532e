//! What a warm CPU list does not serve, though the fast path is short: the full path decides there.

use pageblock::alloc::{AllocError, Allocator};
use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::event::{Event, Observer};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::request::{Gfp, Request};
use pageblock::tuning::Watermarks;

use crate::machine::with_zone;
use crate::scenarios::versions;

/// No node may take another dirty page.
struct AllDirty;

impl Observer for AllDirty {
    fn event(&mut self, _: Event) {}
    fn node_dirty_ok(&mut self, _: NodeId) -> bool {
        false
    }
}

/// Runs a test on a zone with 1024 free pages, a few of them on a warm CPU list.
fn with_warm_list(policy: &str, watermarks: Watermarks, test: impl FnOnce(&mut Allocator<'_>)) {
    with_zone(policy, "M 10\nM -", |bench| {
        let (zone, cache) = bench.allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
        zone.impose_watermarks(watermarks);
        let limits = CacheLimits { batch: 63, high_min: 200, high_max: 200 };
        cache.impose_state(CacheState { limits, high: 200, ..cache.state() });
        for _ in 0..3 {
            let pfn = bench.alloc(0, Gfp::GFP_HIGHUSER_MOVABLE);
            bench.free(pfn.0, 0);
        }
        assert!(bench.allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count() > 1, "{policy}");
        test(&mut bench.allocator);
    });
}

#[test]
fn a_writer_gets_no_page_of_a_node_with_too_many_dirty_ones() {
    let read = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
    let write = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE | Gfp::WRITE);
    for policy in versions((3, 10), (9, 0)) {
        with_warm_list(policy, Watermarks::default(), |allocator| {
            let refused = allocator.alloc(CpuId(0), &write, &mut AllDirty);
            assert_eq!(refused, Err(AllocError::NoMemory), "{policy}");
            let pages = [
                allocator.alloc(CpuId(0), &write, &mut ()).unwrap(),
                allocator.alloc(CpuId(0), &read, &mut AllDirty).unwrap(),
            ];
            for pfn in pages {
                allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
            }
        });
    }
}

#[test]
fn the_high_watermark_holds_where_it_is_asked_for() {
    let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
    for policy in versions((3, 10), (9, 0)) {
        let marks = |low| Watermarks { min: 10, low, high: 2000, promo: 0 };
        with_warm_list(policy, marks(20), |allocator| {
            let high = AllocFlags::WMARK_HIGH;
            let refused = allocator.alloc_with(CpuId(0), &request, high, &mut ());
            assert_eq!(refused, Err(AllocError::NoMemory), "{policy}");
            let pfn = allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
            allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
            // The low one is missed from here on, though the list is warm.
            allocator
                .zone_and_cache(ZoneIndex(0), CpuId(0))
                .unwrap()
                .0
                .impose_watermarks(marks(1500));
            let refused = allocator.alloc(CpuId(0), &request, &mut ());
            assert_eq!(refused, Err(AllocError::NoMemory), "{policy}");
        });
    }
}
