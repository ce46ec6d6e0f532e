//! Numbers that a machine printed, from set-up to the caches (docs/linux/zones-and-watermarks.md).

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::setup::Setup;

use crate::machine::{policy, table_memory};

struct Row {
    kind: ZoneKind,
    span: FrameRange,
    managed: u64,
    watermarks: [u64; 4],
    protection: [u64; 5],
    batch_min_max: [u32; 3],
}

/// A guest of 24 GiB under 6.18.44 with two CPUs.
const ROWS: [Row; 3] = [
    Row {
        kind: ZoneKind::Dma,
        span: FrameRange::new(1, 4096),
        managed: 3840,
        watermarks: [10, 13, 16, 19],
        protection: [0, 3019, 24_137, 24_137, 24_137],
        batch_min_max: [1, 6, 240],
    },
    Row {
        kind: ZoneKind::Dma32,
        span: FrameRange::new(4096, 1 << 20),
        managed: 772_917,
        watermarks: [2112, 2884, 3656, 4428],
        protection: [0, 0, 21_117, 21_117, 21_117],
        batch_min_max: [63, 1442, 48_307],
    },
    Row {
        kind: ZoneKind::Normal,
        span: FrameRange::new(1 << 20, (1 << 20) + 5_500_000),
        managed: 5_406_170,
        watermarks: [14_773, 20_179, 25_585, 30_991],
        protection: [0; 5],
        batch_min_max: [63, 10_089, 337_885],
    },
];

#[test]
fn machine_of_24_gib_under_6_18() {
    let specs = ROWS.map(|row| ZoneSpec {
        node: NodeId(0),
        kind: row.kind,
        span: row.span,
        present: row.span.len(),
        managed: row.managed,
    });
    let setup = Setup::new(policy("linux-6.18"), &specs, &[NodeId(0), NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    for _ in 0..2 {
        check_machine(&allocator);
        // What set-up computes, a change of knobs computes again; boosts end.
        allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap().0.impose_boost(512);
        allocator.retune();
    }
}

fn check_machine(allocator: &Allocator<'_>) {
    for (at, row) in ROWS.iter().enumerate() {
        let zone = &allocator.zones()[at];
        let w = zone.watermarks();
        assert_eq!([w.min, w.low, w.high, w.promo], row.watermarks, "{}", row.kind);
        assert_eq!(*zone.lowmem_reserve(), row.protection, "{}", row.kind);
        assert_eq!(zone.boost(), 0);
        for cpu in 0..2 {
            let cache = allocator.cache(ZoneIndex::new(at), CpuId(cpu)).unwrap();
            let limits = cache.limits();
            assert_eq!([limits.batch, limits.high_min, limits.high_max], row.batch_min_max);
            assert_eq!(cache.high(), limits.high_min);
        }
    }
}

#[test]
fn knob_for_free_memory_beyond_the_zone_is_survived() {
    // The minimum of the CPU lists lies over their maximum then.
    for preset in ["linux-5.15", "linux-6.8", "linux-6.18"] {
        let zones = [crate::machine::zone_spec(0, ZoneKind::Normal, 0, 8192)];
        let setup =
            Setup::new(policy(&format!("{preset},min_free_kbytes=1048576")), &zones, &[NodeId(0)]);
        let mut memory = table_memory(&setup);
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(FrameRange::new(0, 8192)).unwrap();
        let request = pageblock::request::Request::new(0, pageblock::request::Gfp::GFP_KERNEL);
        let flags = pageblock::alloc_flags::AllocFlags::NO_WATERMARKS;
        let pfn = allocator.alloc_with(CpuId(0), &request, flags, &mut ()).unwrap();
        allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
        allocator.check().unwrap();
    }
}
