//! CPU lists of high orders: which there are, and what goes to them.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheLimits, CpuCache};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

use crate::machine::{policy, table_memory, zone_spec};

const TYPES: [Migratetype; 3] =
    [Migratetype::Unmovable, Migratetype::Movable, Migratetype::Reclaimable];

/// A list for each order and type, and the order of each list. There are three types and four small
/// orders: an index that divides by the wrong one of them fails.
#[test]
fn an_index_and_back_for_every_pair() {
    for (name, thp_lists) in [("linux-5.14", 3), ("linux-6.4", 1), ("linux-6.10", 2)] {
        let cache =
            CpuCache::new(CpuId(0), &policy(name), Geometry::default(), CacheLimits::default());
        assert_eq!(cache.nr_lists(), 4 * 3 + thp_lists, "{name}");
        let mut seen = Vec::new();
        for order in 0..=3 {
            for mt in TYPES {
                let index = cache.list_index(order, mt).unwrap();
                assert_eq!(cache.list_order(index), order, "{name}: order {order} {mt}");
                assert!(!seen.contains(&index), "{name}: order {order} {mt} shares list {index}");
                seen.push(index);
            }
        }
        for mt in TYPES {
            let index = cache.list_index(9, mt).unwrap();
            assert_eq!(cache.list_order(index), 9, "{name}: huge {mt}");
            assert!(!seen.contains(&index), "{name}: huge {mt} shares list {index}");
        }
        let without: Vec<Order> =
            (0..=10).filter(|&order| cache.list_index(order, TYPES[0]).is_none()).collect();
        assert_eq!(without, [4, 5, 6, 7, 8, 10], "{name}");
    }
    let old =
        CpuCache::new(CpuId(0), &policy("linux-5.13"), Geometry::default(), CacheLimits::default());
    assert_eq!((old.nr_lists(), old.list_index(1, TYPES[0])), (3, None));
}

fn with_a_gib<T>(policy_text: &str, test: impl FnOnce(&mut Allocator<'_>) -> T) -> T {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 1 << 18)];
    let setup = Setup::new(policy(policy_text), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(pageblock::frame::FrameRange::new(0, 1 << 18)).unwrap();
    let seen = test(&mut allocator);
    allocator.check().unwrap();
    seen
}

fn take(allocator: &mut Allocator<'_>, order: Order, count: usize) -> Vec<Pfn> {
    let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
    (0..count).map(|_| allocator.alloc(CpuId(0), &request, &mut ()).unwrap()).collect()
}

#[test]
fn lists_count_base_pages() {
    with_a_gib("linux-6.1", |allocator| {
        for (order, pages) in [(0, 1), (3, 8), (9, 512)] {
            let block = take(allocator, order, 1)[0];
            let before = allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count();
            allocator.free(CpuId(0), block, order, &mut ()).unwrap();
            assert_eq!(
                allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count() - before,
                pages,
                "order {order}"
            );
        }
    });
}

/// The pages of order 0 on CPU lists.
fn small_pages(allocator: &Allocator<'_>) -> usize {
    let zone = &allocator.zones()[0];
    let on_list =
        |pfn: &u64| matches!(zone.state(Pfn(*pfn)), Some(FrameState::CpuList { order: 0, .. }));
    (0..1 << 18).filter(on_list).count()
}

/// How many of 63 pages of order 0 stay on their list while 64 huge pages are freed.
fn left_after_a_burst(policy_text: &str) -> usize {
    with_a_gib(policy_text, |allocator| {
        let huge = take(allocator, 9, 64);
        let small = take(allocator, 0, 1)[0];
        allocator.free(CpuId(0), small, 0, &mut ()).unwrap();
        assert_eq!(small_pages(allocator), 63, "a batch");
        for block in huge {
            allocator.free(CpuId(0), block, 9, &mut ()).unwrap();
        }
        small_pages(allocator)
    })
}

/// The patch's own warning came true in the first kernels, which drained all lists in turn; from 5.19 a
/// drain starts with the list of the block that was freed. It came true again in 6.19: a drain goes in
/// rounds of a batch, and a round that frees a huge page counts as a batch, so that a drain goes on to the
/// other lists.
#[test]
fn a_burst_of_huge_pages_does_not_push_out_small_ones() {
    for name in ["linux-5.19", "linux-6.1", "linux-6.9", "linux-6.12", "linux-6.18"] {
        assert_eq!(left_after_a_burst(name), 63, "{name}");
    }
    for name in ["linux-5.14", "linux-6.19", "linux-7.3"] {
        assert!(left_after_a_burst(name) < 63, "{name}");
    }
}
