//! Packed placement: scattered holes are refilled, and whole pageblocks come back.

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

use crate::machine::{policy, table_memory, zone_spec};

/// 64 pageblocks.
const FRAMES: u64 = 1 << 15;

/// A generator of numbers that are random enough.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }
}

/// Runs a test on a zone of movable pageblocks, all free.
fn with_zone<R>(policy_text: &str, test: impl FnOnce(&mut Allocator<'_>) -> R) -> R {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, FRAMES)];
    let setup = Setup::new(policy(policy_text), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(0, FRAMES)).unwrap();
    test(&mut allocator)
}

/// Whole free pageblocks after memory was filled, a random half freed, and the rest turned over 16
/// times in turns of `batch` pages.
fn won_back(policy_text: &str, batch: usize, kinds: &[Gfp]) -> u64 {
    with_zone(policy_text, |allocator| turn_over(allocator, batch, kinds))
}

fn turn_over(allocator: &mut Allocator<'_>, batch: usize, kinds: &[Gfp]) -> u64 {
    let mut random = Random(7);
    let mut mix = Random(8);
    let mut take = |allocator: &mut Allocator<'_>| {
        let request = Request::new(0, kinds[mix.below(kinds.len())]);
        allocator.alloc_with(CpuId(0), &request, AllocFlags::NO_WATERMARKS, &mut ()).ok()
    };
    let mut live: Vec<Pfn> = (0..FRAMES).map_while(|_| take(allocator)).collect();
    // CPU lists of other types may hold the rest.
    assert!(live.len() as u64 + 1024 >= FRAMES, "{}", live.len());
    let free_one = |allocator: &mut Allocator<'_>, live: &mut Vec<Pfn>, random: &mut Random| {
        let pfn = live.swap_remove(random.below(live.len()));
        allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
    };
    for _ in 0..live.len() / 2 {
        free_one(allocator, &mut live, &mut random);
    }
    for _ in 0..16 * live.len() / batch {
        for _ in 0..batch {
            free_one(allocator, &mut live, &mut random);
        }
        live.extend((0..batch).map(|_| take(allocator).unwrap()));
    }
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    allocator.zones()[0].free_pages_in_blocks() >> Geometry::default().pageblock_order
}

#[test]
fn nearly_every_pageblock_comes_back_under_every_kernel_that_allows_it() {
    for version in
        ["linux-6.12", "linux-6.15", "linux-6.18", "linux-7.2", "linux-7.3", "debian-6.12"]
    {
        for batch in [1, 64] {
            let linux = won_back(version, batch, &[Gfp::GFP_HIGHUSER_MOVABLE]);
            let packed = format!("{version},placement=packed");
            let packed = won_back(&packed, batch, &[Gfp::GFP_HIGHUSER_MOVABLE]);
            // 32 are possible.
            assert!(linux <= 2, "{version}, turns of {batch}: {linux}");
            assert!(packed >= 30, "{version}, turns of {batch}: {packed}");
        }
    }
}

#[test]
fn types_are_packed_apart() {
    let kinds = [Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_KERNEL];
    assert!(won_back("linux-6.12", 64, &kinds) <= 2);
    let packed = won_back("linux-6.12,placement=packed", 64, &kinds);
    assert!(packed >= 26, "{packed} of 32");
}

#[test]
fn tables_take_no_links() {
    let cases = [
        ("linux-6.12", 1 << 18, 1, 1.2),
        ("linux-6.12", 1 << 24, 1, 0.57),
        ("linux-6.12", 1 << 24, 8, 0.6),
    ];
    for (version, frames, cpus, most) in cases {
        let policy = policy(&format!("{version},placement=packed"));
        let zones = [zone_spec(0, ZoneKind::Normal, 0, frames)];
        let cpu_nodes = vec![NodeId(0); cpus];
        let setup = Setup::new(policy, &zones, &cpu_nodes);
        let bytes = setup.metadata_size().unwrap() as f64 / frames as f64;
        assert!(bytes < most, "{version}: {bytes} bytes a frame");
    }
}

/// Frees into pageblocks that are being emptied go to the zone in batches.
#[test]
fn pages_freed_at_random_take_no_lock_each() {
    with_zone("linux-6.12,placement=packed", |allocator| {
        let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
        let mut pages: Vec<Pfn> = (0..FRAMES / 2)
            .map(|_| allocator.alloc(CpuId(0), &request, &mut ()).unwrap())
            .collect();
        pages.sort_by_key(|pfn| pfn.0.wrapping_mul(0x9e37_79b9) % FRAMES);
        let locks = |allocator: &Allocator<'_>| allocator.zones()[0].counters().lock_acquired;
        let before = locks(allocator);
        for &pfn in &pages {
            allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
        }
        let taken = locks(allocator) - before;
        assert!(taken <= FRAMES / 2 / 60, "{taken} locks for {} pages", pages.len());
        allocator.check().unwrap();
    });
}
