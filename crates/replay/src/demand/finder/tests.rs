use std::collections::BTreeMap;
use std::path::PathBuf;

use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::request::Gfp;
use pageblock_recording::{Decoding, KernelVersion, Other, PcpInfo, Snapshot};

use super::*;

const ORDERS: CpuListOrders = CpuListOrders { up_to: 3, and: Some(9) };

fn recording(version: &str) -> Recording {
    let zone = ZoneSnapshot { spanned: 1024, ..ZoneSnapshot::default() };
    let pcpinfo = vec![PcpInfo { batch: 63, ..PcpInfo::default() }];
    let kernel =
        KernelVersion::parse(&format!("Linux version {version}")).expect("it is a version");
    Recording {
        name: "made".into(),
        dir: PathBuf::new(),
        decoding: Decoding { numbering: kernel.numbering(), cma: false },
        kernel,
        pageblock_order: 9,
        start: Snapshot { zones: vec![zone], pcpinfo, ..Snapshot::default() },
        end: None,
        comms: BTreeMap::new(),
        settings: BTreeMap::new(),
        events_file: PathBuf::new(),
        start_known: true,
        kernel_assumed: false,
        requests_only: false,
    }
}

#[test]
fn cpus_beyond_255_ask_for_memory_too() {
    let alloc =
        What::Alloc { pfn: Some(Pfn(600)), order: 0, mt: Movable, gfp: Gfp::GFP_HIGHUSER_MOVABLE };
    let free = What::Free { pfn: Pfn(600), order: 0 };
    let found = demands(&[(256, 7, alloc), (511, 8, free)]);
    let of = |demand: fn(&Demand) -> bool| found.iter().find(|(_, d)| demand(d)).map(|(c, _)| *c);
    assert_eq!(of(|d| matches!(d, Demand::Alloc { .. })), Some(256));
    assert!(of(|d| matches!(d, Demand::Free { .. })).is_some(), "{found:?}");
}

/// The demands of events that are given as CPU, task and event.
fn demands(events: &[(u16, u32, What)]) -> Vec<(u16, Demand)> {
    demands_with(events, &LookAhead::default(), &[])
}

fn demands_of(version: &str, events: &[(u16, u32, What)]) -> Vec<(u16, Demand)> {
    all_demands(&recording(version), events, &LookAhead::default(), &[])
}

/// The same where these things are inferred from the last event.
fn demands_with(
    events: &[(u16, u32, What)],
    look_ahead: &LookAhead,
    inferred: &[Inferred],
) -> Vec<(u16, Demand)> {
    all_demands(&recording("6.12.94"), events, look_ahead, inferred)
}

fn all_demands(
    recording: &Recording,
    events: &[(u16, u32, What)],
    look_ahead: &LookAhead,
    inferred: &[Inferred],
) -> Vec<(u16, Demand)> {
    let mut finder = DemandFinder::new(recording, look_ahead, ORDERS);
    let mut out = Vec::new();
    for (event, (cpu, pid, what)) in (0..).zip(events) {
        let record = Record { t_us: 5, cpu: *cpu, pid: *pid, what: what.clone() };
        let inferred = if event as usize + 1 == events.len() { inferred } else { &[] };
        finder.push(event, &record, inferred, &mut out);
    }
    finder.finish(&mut out);
    out.iter().map(|timed| (timed.cpu, timed.demand)).collect()
}

fn alloc(pfn: u64) -> What {
    What::Alloc { pfn: Some(Pfn(pfn)), order: 0, mt: Unmovable, gfp: Gfp::GFP_KERNEL }
}

fn leaves_zone(pfn: u64) -> What {
    What::ZoneLocked { pfn: Pfn(pfn), order: 0, mt: Unmovable, refill: true }
}

fn free(pfn: u64) -> What {
    What::Free { pfn: Pfn(pfn), order: 0 }
}

fn drain(pfn: u64) -> What {
    What::Drain { pfn: Pfn(pfn), order: 0, mt: Movable }
}

fn other(name: &str) -> What {
    What::Other(Box::new(Other { name: name.into(), args: "".into() }))
}

fn served(pfn: u64, past_list: bool) -> Demand {
    Demand::Alloc { pfn: Pfn(pfn), order: 0, gfp: Gfp::GFP_KERNEL, past_list, instead_of: None }
}

fn freed(pfn: u64) -> Demand {
    Demand::Free { pfn: Pfn(pfn), order: 0, past_list: false, reclaimed: false }
}

#[test]
fn a_request_is_served_when_its_refill_is_reported() {
    let events =
        [(0, 1, leaves_zone(10)), (0, 1, leaves_zone(11)), (1, 2, alloc(20)), (0, 1, alloc(10))];
    assert_eq!(demands(&events), [(0, served(10, false)), (1, served(20, false))]);
}

#[test]
fn a_single_block_for_a_request_came_past_the_list() {
    let events = [(0, 1, leaves_zone(10)), (0, 1, alloc(10))];
    assert_eq!(demands(&events), [(0, served(10, true))]);
}

#[test]
fn a_task_that_moved_was_served_where_its_block_was() {
    let events = [(0, 1, free(10)), (1, 1, alloc(10))];
    let found = demands(&events);
    assert!(found.contains(&(0, served(10, false))), "{found:?}");
}

#[test]
fn a_freed_block_reaches_its_list_with_the_next_event_of_its_cpu() {
    let events = [(0, 1, free(10)), (1, 2, leaves_zone(20)), (1, 2, leaves_zone(21))];
    let drained = [(1, 2, alloc(20)), (0, 1, drain(30))];
    let found = demands(&[&events[..], &drained[..]].concat());
    assert_eq!(found, [(1, served(20, false)), (0, freed(10))]);
}

#[test]
fn only_a_drain_that_no_free_began_is_a_demand() {
    let own = [(0, 1, free(10)), (0, 1, drain(30)), (0, 1, drain(31))];
    assert_eq!(demands(&own), [(0, freed(10))]);
    let asked = [(0, 1, free(10)), (0, 1, other("mm_compaction_end")), (0, 1, drain(10))];
    let twice = [&asked[..], &[(0, 1, drain(31))]].concat();
    assert_eq!(demands(&twice), [(0, freed(10)), (0, Demand::Drain { pfn: Pfn(10) })]);
}

#[test]
fn pages_that_compaction_frees_have_moved_away() {
    let events = [
        (0, 1, other("mm_compaction_begin")),
        (0, 1, free(10)),
        (0, 1, other("mm_compaction_end")),
        (0, 1, free(11)),
    ];
    let moved = Demand::MoveAway { pfn: Pfn(10), to: None };
    assert_eq!(demands(&events), [(0, moved), (0, freed(10)), (0, freed(11))]);
}

#[test]
fn what_guided_replay_infers_is_demanded_before_the_event_itself() {
    let inferred = [
        Inferred::Isolated { pfn: Pfn(40), order: 2 },
        Inferred::LeftList { pfn: Pfn(50), cpu: 1, mt: Unmovable },
    ];
    let found = demands_with(&[(0, 1, alloc(10))], &LookAhead::default(), &inferred);
    let isolated = Demand::Isolate { pfn: Pfn(40), order: 2 };
    assert_eq!(found, [(0, isolated), (1, served(50, false)), (0, served(10, false))]);
}

#[test]
fn a_page_that_compaction_may_keep_is_freed_if_it_did_not() {
    let mut look_ahead = LookAhead::default();
    look_ahead.set(0, Destination::Kept);
    assert_eq!(demands_with(&[(0, 1, free(10))], &look_ahead, &[]), []);
    let found = demands_with(&[(0, 1, free(10))], &look_ahead, &[Inferred::Freed]);
    assert_eq!(found, [(0, freed(10))]);
}

/// Up to 6.8 the last page of what compaction isolated is used first, from 6.9 on the first; the rest is freed.
#[test]
fn a_page_moves_to_one_that_compaction_isolated() {
    for (version, to, left) in [("6.8.12", 41, 40), ("6.9.1", 40, 41)] {
        let isolate = What::Isolate { pfn: Pfn(40), order: 1, ret: 2 };
        let events = [
            (0, 1, other("mm_compaction_begin")),
            (0, 1, isolate),
            (0, 1, free(10)),
            (0, 1, free(left)),
            (0, 1, other("mm_compaction_end")),
        ];
        let isolated = Demand::Isolate { pfn: Pfn(40), order: 1 };
        let moved = Demand::MoveAway { pfn: Pfn(10), to: Some(Pfn(to)) };
        let expected = [(0, isolated), (0, moved), (0, freed(10)), (0, freed(left))];
        assert_eq!(demands_of(version, &events), expected, "{version}");
    }
}

/// From 6.9 on a folio moves to a block of its order; what a split leaves is used before blocks that were isolated later.
#[test]
fn a_folio_moves_to_a_block_of_its_order() {
    let isolate = |pfn, order| (0, 1, What::Isolate { pfn: Pfn(pfn), order, ret: 1 << order });
    let free_of = |pfn, order| (0, 1, What::Free { pfn: Pfn(pfn), order });
    let events = [
        (0, 1, other("mm_compaction_begin")),
        isolate(64, 3),
        isolate(80, 1),
        free_of(8, 1),
        free_of(16, 2),
        (0, 1, free(5)),
        (0, 1, other("mm_compaction_end")),
    ];
    let moves: Vec<_> = demands_of("6.12.94", &events)
        .into_iter()
        .filter_map(|(_, demand)| match demand {
            Demand::MoveAway { pfn, to } => Some((pfn.0, to?.0)),
            _ => None,
        })
        .collect();
    assert_eq!(moves, [(8, 80), (9, 81), (16, 64), (17, 65), (18, 66), (19, 67), (5, 68)]);
    let old = demands_of("6.8.12", &events);
    let moved = |(_, demand): &&(u16, Demand)| matches!(demand, Demand::MoveAway { .. });
    assert_eq!(old.iter().filter(moved).count(), 1, "{old:?}");
}

#[test]
fn compaction_empties_the_range_that_it_takes_pages_from() {
    let scan = |taken: u32| {
        let args = format!("range=(0x200 ~ 0x240) nr_scanned=64 nr_taken={taken}");
        let name = "mm_compaction_isolate_migratepages".into();
        (0, 1, What::Other(Box::new(Other { name, args: args.into() })))
    };
    let range = Demand::Evacuate { pfn: Pfn(0x200), pages: 0x40 };
    assert_eq!(demands(&[scan(0), scan(3)]), [(0, range)]);
}
