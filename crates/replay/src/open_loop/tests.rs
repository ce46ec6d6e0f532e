use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use std::mem::MaybeUninit;

use pageblock::FrameState;
use pageblock::frame::FrameRange;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::policy::Policy;
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;

use super::*;

const PAGES: u64 = 2048;

/// Runs a test on a machine of one CPU and one zone with these free blocks; the rest of the zone is reserved.
fn on_machine(free: &[(u64, Order, Migratetype)], test: impl FnOnce(&mut Replay<'_, '_>)) {
    let span = FrameRange { start: Pfn(0), end: Pfn(PAGES) };
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::parse("linux-6.18").unwrap(), &zones, &[NodeId(0)]);
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

/// Allocates a movable page of the recording. Returns its frame here.
fn alloc(replay: &mut Replay<'_, '_>, pfn: u64) -> Pfn {
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
    push(
        replay,
        Demand::Alloc { pfn: Pfn(pfn), order: 0, gfp, past_list: false, instead_of: None },
    );
    replay.placement.frame_of(Pfn(pfn)).unwrap()
}

/// A number in a recording does not decide how long a replay takes.
#[test]
fn a_bulk_request_ends_with_the_last_free_page() {
    on_machine(&[(1024, 4, Unmovable)], |replay| {
        push(replay, Demand::Bulk { pages: u32::MAX });
        push(replay, Demand::Bulk { pages: u32::MAX });
        let zone = &replay.allocator.zones()[0];
        assert!(
            (1024..1040).all(|pfn| !matches!(zone.state(Pfn(pfn)), Some(FrameState::Free { .. })))
        );
        for _ in 0..16 {
            assert!(replay.placement.take_unknown().is_some());
        }
        assert!(replay.placement.take_unknown().is_none());
    });
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

/// Both attempts of a fault and the single pages after it are one huge page if there is one, until the last of them
/// is freed.
#[test]
fn a_huge_page_that_the_recording_did_not_get_is_had_instead_of_single_pages() {
    on_machine(&[(512, 9, Movable), (1024, 9, Movable)], |replay| {
        let free = |replay: &mut Replay<'_, '_>| replay.allocator.zones()[0].free_pages();
        let census = replay.placement.census(replay.allocator);
        let gfp = Gfp::GFP_TRANSHUGE;
        for _ in 0..2 {
            push(replay, Demand::Failed { order: 9, gfp, fault: Some(1) });
        }
        assert_eq!((free(replay), replay.outcome.rescued), (512, 1));
        let single = |pfn| {
            let (pfn, gfp, instead_of) = (Pfn(pfn), SINGLE, Some(1));
            Demand::Alloc { pfn, order: 0, gfp, past_list: false, instead_of }
        };
        push(replay, single(3));
        push(replay, single(4));
        assert_eq!(free(replay), 512);
        let end = |pfn| Demand::Free { pfn: Pfn(pfn), order: 0, past_list: true, reclaimed: false };
        push(replay, end(3));
        assert_eq!(free(replay), 512);
        push(replay, end(4));
        assert_eq!((free(replay), replay.outcome.unknown_frees), (1024, 0));
        assert_eq!(replay.placement.census(replay.allocator), census);
    });
}

/// A huge page that the recorded kernel got only at the second attempt is got at the first.
#[test]
fn a_fault_that_is_served_in_the_end_has_one_huge_page() {
    on_machine(&[(512, 9, Movable), (1024, 9, Movable)], |replay| {
        let gfp = Gfp::GFP_TRANSHUGE;
        push(replay, Demand::Failed { order: 9, gfp, fault: Some(1) });
        let (pfn, instead_of) = (Pfn(0), Some(1));
        push(replay, Demand::Alloc { pfn, order: 9, gfp, past_list: false, instead_of });
        assert_eq!(replay.allocator.zones()[0].free_pages(), 512);
        push(replay, Demand::Free { pfn, order: 9, past_list: true, reclaimed: false });
        assert_eq!(replay.allocator.zones()[0].free_pages(), 1024);
    });
}

/// A fault that got a huge page takes single pages if there is none.
#[test]
fn single_pages_are_had_instead_of_a_huge_page() {
    on_machine(&[(512, 8, Movable), (1024, 8, Movable)], |replay| {
        let (pfn, gfp) = (Pfn(0), Gfp::GFP_TRANSHUGE);
        push(replay, Demand::Alloc { pfn, order: 9, gfp, past_list: false, instead_of: None });
        assert_eq!(replay.allocator.zones()[0].free_pages(), 0);
        push(replay, Demand::Free { pfn, order: 9, past_list: true, reclaimed: false });
        assert_eq!(replay.allocator.zones()[0].free_pages(), 512);
    });
}
