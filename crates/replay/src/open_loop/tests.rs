use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use std::mem::MaybeUninit;

use pageblock::FrameState;
use pageblock::frame::FrameRange;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::policy::Policy;
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;
use pageblock::zone::Geometry;

use super::*;

const PAGES: u64 = 2048;

/// Runs a test on a machine of one CPU and one zone, whose free blocks are these; the rest of it is
/// reserved.
fn on_machine(free: &[(u64, Order, Migratetype)], test: impl FnOnce(&mut Replay<'_, '_>)) {
    let span = FrameRange { start: Pfn(0), end: Pfn(PAGES) };
    let zone =
        ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, present: PAGES, managed: PAGES };
    let setup = Setup {
        policy: Policy::parse("linux-6.18").unwrap(),
        geometry: Geometry::default(),
        zones: &[zone],
        cpu_nodes: &[NodeId(0)],
        distances: &[],
    };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
    zone.impose_watermarks(Watermarks { min: 0, low: 0, high: 0, promo: 0 });
    zone.impose_lowmem_reserve([0; 5]);
    for &(pfn, order, mt) in free {
        zone.impose_block_type(Pfn(pfn), mt).unwrap();
        zone.impose_free_block(Pfn(pfn), order, mt).unwrap();
    }
    test(&mut Replay::new(&mut allocator));
}

fn push(replay: &mut Replay<'_, '_>, demand: Demand) {
    replay.push(Timed { t_ms: 0, cpu: 0, demand });
}

/// A movable page of the recording; gives where it is here.
fn alloc(replay: &mut Replay<'_, '_>, pfn: u64) -> Pfn {
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
    push(replay, Demand::Alloc { pfn: Pfn(pfn), order: 0, gfp, past_list: false });
    replay.placement.frame_of(Pfn(pfn)).unwrap()
}

#[test]
fn compaction_fills_movable_pageblocks_only() {
    on_machine(&[(1024, 4, Movable), (1536, 9, Unmovable)], |replay| {
        push(replay, Demand::Isolate { pfn: Pfn(1600), order: 0 });
        assert_eq!(replay.placement.frame_of(Pfn(1600)), Some(Pfn(1039)));
        push(replay, Demand::Isolate { pfn: Pfn(1030), order: 0 });
        assert_eq!(replay.placement.frame_of(Pfn(1030)), Some(Pfn(1030)));
    });
}

#[test]
fn a_page_stays_where_compaction_finds_none_in_its_recorded_frame() {
    on_machine(&[(1536, 9, Movable)], |replay| {
        let here = alloc(replay, 7);
        push(replay, Demand::Isolate { pfn: Pfn(2000), order: 0 });
        push(replay, Demand::MoveAway { pfn: Pfn(7), to: Some(Pfn(2000)) });
        // The recorded page is at 2000 now, and what the recording frees is the target.
        assert_eq!(replay.placement.frame_of(Pfn(2000)), Some(here));
        assert_eq!(replay.placement.frame_of(Pfn(7)), Some(Pfn(2000)));
        push(replay, Demand::Free { pfn: Pfn(7), order: 0, past_list: false, reclaimed: false });
        let zone = &replay.allocator.zones()[0];
        assert!(matches!(zone.state(Pfn(2000)), Some(FrameState::CpuList { .. })));
        assert!(matches!(zone.state(here), Some(FrameState::Allocated { .. })));
    });
}

#[test]
fn compaction_moves_pages_that_the_recording_did_not_have_there() {
    on_machine(&[(16, 4, Movable), (1536, 9, Movable)], |replay| {
        let (moved, left) = (alloc(replay, 900), alloc(replay, 901));
        push(replay, Demand::Evacuate { pfn: moved, pages: 1 });
        assert_eq!(replay.placement.frame_of(Pfn(900)), Some(Pfn(PAGES - 1)));
        assert_eq!(replay.placement.frame_of(Pfn(901)), Some(left));
        let state = replay.allocator.zones()[0].state(moved);
        assert!(matches!(state, Some(FrameState::CpuList { .. })), "{state:?}");
    });
}
