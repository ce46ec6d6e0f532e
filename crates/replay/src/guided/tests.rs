use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use std::mem::MaybeUninit;

use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::fallback::{Fallback, Outcome};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::policy::Policy;
use pageblock::replay::ListEnd;
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;
use pageblock_recording::{FreeBlock, Other, Snapshot, ZoneSnapshot};

use super::*;
use crate::look_ahead::{CpuListOrders, LookAheadFinder};
use std::collections::BTreeSet;

const PAGES: u64 = 8192;
const DMA32: usize = 0;
const NORMAL: usize = 1;
const TASK: u32 = 7;

/// Runs a test on a machine of one CPU and two zones, whose free blocks are these, and whose
/// recording has these events (the replay follows none).
fn on_machine(
    free: &[(u64, Order, Migratetype)],
    events: &[(u64, What)],
    test: impl FnOnce(&mut Guided<'_, '_>),
) {
    let spec = |kind, start: u64| ZoneSpec {
        node: NodeId(0),
        kind,
        span: FrameRange { start: Pfn(start), end: Pfn(start + PAGES) },
        present: PAGES,
        managed: PAGES,
    };
    let zones = [spec(ZoneKind::Dma32, 0), spec(ZoneKind::Normal, PAGES)];
    let setup = Setup::new(Policy::parse("linux-6.18").unwrap(), &zones, &[NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    for at in [DMA32, NORMAL] {
        let (zone, _) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)).unwrap();
        zone.impose_watermarks(Watermarks { min: 0, low: 0, high: 0, promo: 0 });
        zone.impose_lowmem_reserve([0; 5]);
        zone.impose_block_type(zone.span().start, Movable).unwrap();
    }
    for &(pfn, order, mt) in free {
        let at = allocator.zone_of(Pfn(pfn)).unwrap();
        let (zone, _) = allocator.zone_and_cache(at, CpuId(0)).unwrap();
        zone.impose_block_type(Pfn(pfn), mt).unwrap();
        zone.impose_free_block(Pfn(pfn), order, mt).unwrap();
    }
    let mut start = Snapshot::default();
    start.zones.push(ZoneSnapshot { spanned: 2 * PAGES, ..ZoneSnapshot::default() });
    start.free = free
        .iter()
        .map(|&(pfn, order, mt)| FreeBlock { zone: 0, order, mt: Some(mt), pfn: Pfn(pfn) })
        .collect();
    let orders = CpuListOrders { up_to: 3, and: Some(9) };
    let mut finder = LookAheadFinder::new(&start, 9, orders, true, BTreeSet::new());
    for (event, what) in events {
        let record = Record { t_us: *event, cpu: 0, pid: TASK, what: what.clone() };
        finder.push(*event, &record);
    }
    let look_ahead = finder.finish(None);
    test(&mut Guided::new(&mut allocator, &look_ahead, 0));
}

fn other(name: &str, args: &str) -> Other {
    Other { name: name.into(), args: args.into() }
}

fn next(guided: &Guided<'_, '_>, order: Order, mt: Migratetype) -> Option<u64> {
    guided.allocator.zones()[NORMAL].next_of_list(order, mt).map(|(pfn, _)| pfn.0)
}

#[test]
fn a_pageblock_with_a_guessed_type_leaves_a_list_that_the_kernel_found_empty() {
    let free = [(8200, 0, Movable), (8704, 1, Movable)];
    on_machine(&free, &[], |guided| {
        guided.types_are_guessed(&[Pfn(8192)]);
        guided.empty_lists(NORMAL, 0, Movable, Some(0));
        assert_eq!(next(guided, 0, Movable), Some(8200), "the kernel took one as small");
        guided.empty_lists(NORMAL, 0, Movable, Some(1));
        assert_eq!(next(guided, 0, Movable), Some(8704));
        assert_eq!(next(guided, 0, Unmovable), Some(8200));
        guided.empty_lists(NORMAL, 0, Movable, None);
        assert_eq!(next(guided, 0, Movable), Some(8704), "its type is known");
    });
}

#[test]
fn pages_that_leave_without_an_event_have_left_a_list_that_the_kernel_found_empty() {
    let free = [(8200, 0, Movable), (8202, 0, Movable)];
    let freed = (5, What::Free { pfn: Pfn(8200), order: 0 });
    on_machine(&free, &[freed], |guided| {
        guided.empty_lists(NORMAL, 0, Movable, None);
        assert_eq!(next(guided, 0, Movable), Some(8202), "no event shows that this one left");
        assert_eq!(guided.counts.unseen, 1);
        assert_eq!(guided.inferred(), [Inferred::Isolated { pfn: Pfn(8200), order: 0 }]);
    });
}

#[test]
fn a_block_that_was_not_first_goes_to_the_end_where_its_place_is_a_guess() {
    let free = [(8704, 6, Unmovable), (9216, 6, Unmovable)];
    on_machine(&free, &[], |guided| {
        let first = Fallback { pfn: Pfn(8704), order: 6, from: Unmovable, outcome: Outcome::Claim };
        assert!(!guided.was_not_first(NORMAL, first), "its place is known");
        guided.places_are_unknown([(Pfn(8704), 6), (Pfn(9216), 6)]);
        assert!(guided.was_not_first(NORMAL, first));
        assert_eq!(next(guided, 6, Unmovable), Some(9216));
        assert!(!guided.was_not_first(NORMAL, first), "it is not first any more");
    });
}

/// Compaction for order 2 reports a search that looked at so many entries and took a block of two.
fn search(guided: &mut Guided<'_, '_>, entries: u64) {
    let run = [
        other("mm_compaction_kcompactd_wake", "nid=0 order=2 classzone_idx=Normal"),
        other(
            "mm_compaction_begin",
            "zone_start=0x2000 migrate_pfn=0x2000 free_pfn=0x3000 zone_end=0x4000",
        ),
        other(
            "mm_compaction_fast_isolate_freepages",
            &format!("range=(0x2a00 ~ 0x3000) nr_scanned={} nr_taken=2", entries + 1),
        ),
    ];
    for other in &run {
        guided.compaction(1, TASK, other);
    }
}

#[test]
fn a_search_made_again_takes_the_block_that_it_comes_to() {
    let free = [(9000, 1, Movable), (11_300, 1, Movable), (9004, 1, Movable)];
    let freed = |pfn| (5, What::Free { pfn: Pfn(pfn), order: 1 });
    on_machine(&free, &[freed(11_300)], |guided| {
        search(guided, 2);
        assert_eq!((guided.counts.searches_followed, guided.counts.searches_lost), (1, 0));
        let zone = &guided.allocator.zones()[NORMAL];
        assert_eq!(zone.free_block_of(Pfn(11_300)), None);
        let left: Vec<_> = zone.free_list(1, Movable).map(|pfn| pfn.0).collect();
        assert_eq!(left, [9004, 9000], "the list is turned to where the search ended");
        assert_eq!(guided.inferred(), [Inferred::Isolated { pfn: Pfn(11_300), order: 1 }]);
    });
}

#[test]
fn a_search_that_comes_to_another_number_is_lost() {
    let free = [(9000, 1, Movable), (11_300, 1, Movable)];
    let freed = (5, What::Free { pfn: Pfn(11_300), order: 1 });
    on_machine(&free, &[freed], |guided| {
        search(guided, 7);
        assert_eq!((guided.counts.searches_followed, guided.counts.searches_lost), (0, 1));
    });
}

/// Puts pages on the CPU's list, the first at its head.
fn list(guided: &mut Guided<'_, '_>, pages: &[u64]) {
    for &page in pages {
        let (zone, cache) =
            guided.allocator.zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap();
        zone.impose_allocated(Pfn(page), 0, false).unwrap();
        cache.impose_put(zone, Pfn(page), 0, Unmovable, ListEnd::Tail).unwrap();
        guided.set_holder(Pfn(page), Some(0));
    }
}

#[test]
fn pages_that_the_bulk_allocator_took_leave_the_list_before_what_stood_behind_them() {
    let refill = |event, pfn| {
        (event, What::ZoneLocked { pfn: Pfn(pfn), order: 0, mt: Unmovable, refill: true })
    };
    let events = [refill(0, 8200), refill(1, 8201), (9, What::Free { pfn: Pfn(8200), order: 0 })];
    on_machine(&[], &events, |guided| {
        list(guided, &[8200, 8201, 8202]);
        let listed = |guided: &Guided<'_, '_>| -> Vec<u64> {
            let (zone, cache) = (
                &guided.allocator.zones()[NORMAL],
                guided.allocator.cache(ZoneIndex::new(NORMAL), CpuId(0)),
            );
            cache.unwrap().blocks(zone, ListIndex(0)).map(|pfn| pfn.0).collect()
        };
        guided.event.now = 5;
        guided.take_untraced(0, NORMAL, Pfn(8200), ListEnd::Head);
        assert_eq!(listed(guided), [8200, 8201, 8202], "nothing stands before it");
        guided.take_untraced(0, NORMAL, Pfn(8202), ListEnd::Tail);
        assert_eq!(listed(guided), [8200, 8201, 8202], "nothing stands behind it");
        guided.take_untraced(0, NORMAL, Pfn(8202), ListEnd::Head);
        assert_eq!(listed(guided), [8201, 8202], "no event shows that the second left");
        assert_eq!(guided.holder(Pfn(8200)), None);
        let left = Inferred::LeftList { pfn: Pfn(8200), cpu: 0, mt: Movable };
        assert_eq!(guided.inferred(), [left], "its pageblock is movable");
    });
}

#[test]
fn a_refill_that_a_lower_zone_serves_was_tried_in_the_higher_one() {
    let free = [(512, 3, Movable), (8704, 6, Unmovable)];
    let wanted =
        TaskRequest { cpu: 0, pid: TASK, order: 0, mt: Movable, highest: ZoneKind::Normal };
    on_machine(&free, &[], |guided| {
        let factor = |guided: &Guided<'_, '_>| {
            guided.allocator.cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap().state().alloc_factor
        };
        let flags = guided.walk_before_refill(DMA32, wanted);
        assert!(flags.has(AllocFlags::NOFRAGMENT));
        assert_eq!((guided.counts.failed_attempts, factor(guided)), (1, 1));
        guided.tasks.in_slow_path.insert(TASK);
        let flags = guided.walk_before_refill(NORMAL, wanted);
        assert!(!flags.has(AllocFlags::NOFRAGMENT));
        assert_eq!(
            (guided.counts.failed_attempts, factor(guided)),
            (1, 1),
            "it may mix types at once"
        );
    });
}

#[test]
fn a_refill_mixes_types_only_where_no_zone_serves_otherwise() {
    let free = [(512, 6, Unmovable), (8704, 6, Unmovable)];
    let wanted =
        TaskRequest { cpu: 0, pid: TASK, order: 0, mt: Movable, highest: ZoneKind::Normal };
    on_machine(&free, &[], |guided| {
        let flags = guided.walk_before_refill(NORMAL, wanted);
        assert!(!flags.has(AllocFlags::NOFRAGMENT));
        assert_eq!(guided.counts.failed_attempts, 2, "once in each zone");
    });
}

/// A task that waits for the zone's lock while another drains into it frees its page when the lock is free.
#[test]
fn a_page_that_waited_for_the_zones_lock_is_on_the_list_when_another_task_takes_it() {
    on_machine(&[(8200, 0, Movable)], &[], |guided| {
        guided.free(0, TASK, Pfn(8210), 0, Destination::Direct);
        let other = TASK + 1;
        guided.zone_locked(0, other, Pfn(8200), 0, Movable);
        assert_eq!(next(guided, 0, Movable), None, "the kernel passed it: it was not there yet");
        guided.zone_locked(0, other, Pfn(8210), 0, Movable);
        guided.commit_delayed(0, TASK);
        assert_eq!(next(guided, 0, Movable), None, "it is in use, and not free again");
        let frames = &guided.tally.verification().kinds[kind::REFILL_FRAME];
        assert_eq!((frames.cases, frames.shape, frames.explained), (2, 2, 2));
    });
}

#[test]
fn a_refill_of_one_type_ends_where_the_task_takes_a_block_of_another() {
    on_machine(&[(8200, 0, Movable), (8704, 0, Unmovable)], &[], |guided| {
        guided.zone_locked(0, TASK, Pfn(8704), 0, Unmovable);
        guided.zone_locked(0, TASK, Pfn(8200), 0, Movable);
        let refill = guided.cpus[0].refill.unwrap();
        assert_eq!((refill.mt, refill.got, refill.first), (Movable, 1, Some(Pfn(8200))));
        assert_eq!(guided.tally.verification().kinds[kind::REFILL_COUNT].cases, 1);
    });
}

#[test]
fn a_drain_that_the_model_would_not_make_is_followed() {
    on_machine(&[], &[], |guided| {
        let limits = CacheLimits { batch: 63, high_min: 100, high_max: 1000 };
        let (_, cache) = guided.allocator.zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap();
        cache.impose_state(CacheState { limits, high: 1000, ..cache.state() });
        list(guided, &[8200, 8201]);
        guided.free(0, TASK, Pfn(8210), 0, Destination::Listed);
        guided.drain(0, TASK, Pfn(8201), 0, Unmovable, false);
        assert_eq!(guided.holder(Pfn(8201)), None);
        assert!(guided.allocator.zones()[NORMAL].free_block_of(Pfn(8201)).is_some());
    });
}

#[test]
fn a_missing_drain_shows_once_that_the_cpus_have_pcpf_free_high_batch() {
    on_machine(&[], &[], |guided| {
        let limits = CacheLimits { batch: 63, high_min: 100, high_max: 1000 };
        let state = |guided: &mut Guided<'_, '_>| {
            guided.allocator.zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap().1.state()
        };
        let run = CacheState { limits, high: 1000, free_count: 500, ..state(guided) };
        let run = CacheState { prev_free_high_order: true, free_high_batch: false, ..run };
        guided
            .allocator
            .zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0))
            .unwrap()
            .1
            .impose_state(run);
        for pfn in [8208, 8224] {
            guided.free(0, TASK, Pfn(pfn), 3, Destination::Listed);
            guided.close_drain(0, Some(TASK));
        }
        assert!(state(guided).free_high_batch);
        assert_eq!(state(guided).high, 1000, "the limit was not the reason");
        let drains = &guided.tally.verification().drains;
        assert_eq!((drains.cases, drains.explained), (1, 1));
    });
}

#[test]
fn a_claim_of_a_block_larger_than_a_pageblock_gives_all_of_it_the_type() {
    on_machine(&[(8192, 10, Movable)], &[], |guided| {
        guided.zone_locked(0, TASK, Pfn(8192), 0, Unmovable);
        guided.zone_locked(0, TASK, Pfn(8704), 0, Unmovable);
        let zone = &guided.allocator.zones()[NORMAL];
        assert_eq!([8192, 8704].map(|pfn| zone.block_type(Pfn(pfn))), [Some(Unmovable); 2]);
    });
}

#[test]
fn the_limits_of_cpu_lists_hold_from_where_they_were_read() {
    on_machine(&[], &[], |guided| {
        let limits = CacheLimits { batch: 63, high_min: 100, high_max: 1000 };
        let (_, cache) = guided.allocator.zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap();
        cache.impose_state(CacheState { limits, high: 700, ..cache.state() });
        guided.limits_are_read_before(5, vec![(0, NORMAL, 900)]);
        for (event, high) in [(4, 700), (5, 900)] {
            guided.impose_limits_read(event);
            let (_, cache) =
                guided.allocator.zone_and_cache(ZoneIndex::new(NORMAL), CpuId(0)).unwrap();
            assert_eq!(cache.high(), high);
        }
    });
}

#[test]
fn drains_tell_when_limits_decay() {
    on_machine(&[], &[], |guided| {
        let policy = *guided.allocator.policy();
        let list = [0, NORMAL];
        let limits = CacheLimits { batch: 10, high_min: 100, high_max: 1000 };
        for second in 1..4 {
            let limits_read = vec![(0, NORMAL, 1000)];
            guided.limits_are_read_before(0, limits_read);
            guided.impose_limits_read(0);
            for (ms, drains) in [(100, false), (300, false), (330, true), (900, true)] {
                guided.lists.limits.pass(
                    0,
                    second * 1_000_000 + ms * 1000,
                    guided.allocator,
                    &policy,
                );
                let zone = ZoneIndex::new(NORMAL);
                let (_, cache) = guided.allocator.zone_and_cache(zone, CpuId(0)).unwrap();
                cache.impose_state(CacheState { limits, ..cache.state() });
                cache.impose_count(900);
                let votes = guided.lists.limits.each(list, cache, |cache| cache.high() <= 900);
                let high = guided.lists.limits.learn(list, &votes, drains, 900, cache);
                let high = high.unwrap_or(cache.high());
                cache.impose_state(CacheState { high, ..cache.state() });
            }
        }
        assert_eq!(guided.lists.limits.found_ms(), Some(312));
    });
}
