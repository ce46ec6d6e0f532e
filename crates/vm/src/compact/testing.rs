//! One zone for the tests of compaction, with content that an embedder might have.

use std::mem::MaybeUninit;

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;
use pageblock::zone::Geometry;
use pageblock_kernel::Named;
use pageblock_kernel::rules::compaction::Compaction;

use super::{Content, Goal, Mode};

/// Eight pageblocks of order 9.
pub(super) const FRAMES: u64 = 4096;

/// Content that is always movable.
pub(super) struct AllMovable;

impl Content for AllMovable {
    fn is_movable(&self, _: Pfn, _: Mode) -> bool {
        true
    }
    fn migrate(&mut self, _: Pfn, _: Pfn, _: Mode) -> bool {
        true
    }
}

/// Returns the goal of a direct compaction for order 2.
pub(super) fn goal(migratetype: Migratetype) -> Goal {
    Goal {
        zone: 0,
        order: Some(2),
        migratetype,
        mode: Mode::SyncLight,
        highest: ZoneKind::Normal,
        flags: AllocFlags(0),
        whole_zone: false,
        ignore_hints: false,
        any_block: false,
        direct: Some(2),
        proactive: None,
        whole_blocks: false,
        extfrag_threshold: 500,
    }
}

/// Returns the compaction rules of a preset.
pub(super) fn rules(name: &str) -> Compaction {
    Named::parse(name).unwrap().kernel.compaction
}

/// Runs a test with an allocator of one zone without watermarks.
pub(super) fn with_allocator<T>(
    policy: &str,
    frames: u64,
    test: impl FnOnce(&mut Allocator<'_>) -> T,
) -> T {
    with_allocator_of(policy, Geometry::default(), frames, test)
}

/// The same with other orders.
pub(super) fn with_allocator_of<T>(
    policy: &str,
    geometry: Geometry,
    frames: u64,
    test: impl FnOnce(&mut Allocator<'_>) -> T,
) -> T {
    let span = FrameRange::new(0, frames);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let policy = Named::parse(policy).unwrap().kernel.allocator;
    let setup = Setup { geometry, ..Setup::new(policy, &zones, &[NodeId(0)]) };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(span).unwrap();
    test(&mut allocator)
}

/// Raises the watermarks above all memory.
pub(super) fn raise_watermarks(allocator: &mut Allocator<'_>) {
    let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
    zone.impose_watermarks(Watermarks { min: FRAMES, low: FRAMES, high: FRAMES, promo: FRAMES });
}

/// Allocates every page that the watermark allows, and frees every fourth page of the upper half.
pub(super) fn fill(allocator: &mut Allocator<'_>) {
    let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
    while allocator.alloc(CpuId(0), &request, &mut ()).is_ok() {}
    for pfn in (FRAMES / 2..FRAMES).step_by(4).map(Pfn) {
        if matches!(allocator.zones()[0].state(pfn), Some(FrameState::Allocated { .. })) {
            allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
        }
    }
    allocator.drain_all(&mut ());
}
