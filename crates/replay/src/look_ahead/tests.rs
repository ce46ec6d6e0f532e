use pageblock::mobility::Migratetype::Movable;
use pageblock_recording::{Other, PcpPage, ZoneSnapshot};

use super::*;

const COMPACTOR: u32 = 39;
const OTHER: u32 = 7;

fn other(name: &str) -> What {
    What::Other(Box::new(Other { name: name.into(), args: "".into() }))
}

fn free(pfn: u64) -> What {
    What::Free { pfn: Pfn(pfn), order: 0 }
}

fn isolate(pfn: u64, order: Order) -> What {
    What::Isolate { pfn: Pfn(pfn), order, ret: 1 << order }
}

/// The finder of a kernel from 6.10 on with 1024 frames, after these events.
fn finder(events: Vec<(u32, What)>) -> LookAheadFinder {
    let mut start = Snapshot::default();
    start.zones.push(ZoneSnapshot { spanned: 1024, ..ZoneSnapshot::default() });
    let orders = CpuListOrders { up_to: 3, and: Some(9) };
    let mut finder = LookAheadFinder::new(&start, 9, orders, true, BTreeSet::new());
    for (event, (pid, what)) in (0..).zip(events) {
        finder.push(event, &Record { t_us: event, cpu: 0, pid, what });
    }
    finder
}

#[test]
fn compaction_keeps_targets_until_it_gives_them_back_at_its_end() {
    let look_ahead = finder(vec![
        (COMPACTOR, other("mm_compaction_begin")),
        (COMPACTOR, isolate(16, 2)),
        (COMPACTOR, free(16)),
        (COMPACTOR, free(99)),
        (COMPACTOR, other("mm_migrate_pages")),
        (OTHER, free(18)),
        (COMPACTOR, free(17)),
        (COMPACTOR, other("mm_compaction_end")),
    ])
    .finish(None);
    assert_eq!(look_ahead.destination(2), Destination::Kept, "a target that was not used");
    assert_eq!(look_ahead.destination(3), Destination::Listed, "the page that was moved");
    assert_eq!(look_ahead.destination(5), Destination::Listed, "another task's page");
    assert_eq!(look_ahead.destination(6), Destination::Listed, "what is left at the end");
}

#[test]
fn without_a_probe_the_end_tells_what_compaction_kept() {
    let events = || {
        vec![
            (COMPACTOR, other("mm_compaction_begin")),
            (COMPACTOR, free(16)),
            (COMPACTOR, free(17)),
        ]
    };
    let mut end = Snapshot { exact: true, ..Snapshot::default() };
    let page = PcpPage { cpu: 0, zone: 0, index: 1, order: 0, mt: Some(Movable), pfn: Pfn(17) };
    end.pcp.push(page);
    let look_ahead = finder(events()).finish(Some(&end));
    assert_eq!(
        (look_ahead.destination(1), look_ahead.destination(2)),
        (Destination::Kept, Destination::Listed)
    );
    let mut ended = events();
    ended.push((COMPACTOR, other("mm_compaction_end")));
    let look_ahead = finder(ended).finish(None);
    assert_eq!(
        (look_ahead.destination(1), look_ahead.destination(2)),
        (Destination::Listed, Destination::Listed)
    );
}

#[test]
fn pages_freed_in_a_row_join_where_they_leave_a_list_as_one() {
    let drain = What::Drain { pfn: Pfn(20), order: 2, mt: Movable };
    let mut events: Vec<_> = (20..24).map(|pfn| (OTHER, free(pfn))).collect();
    events.push((OTHER, drain));
    let look_ahead = finder(events).finish(None);
    let found = [0, 1, 2, 3].map(|event| look_ahead.destination(event));
    assert_eq!(
        found,
        [Destination::Part, Destination::Part, Destination::Part, Destination::Joined(2)]
    );
}

#[test]
fn pages_freed_in_a_row_stay_single_where_one_leaves_alone() {
    let drain = |pfn, order| What::Drain { pfn: Pfn(pfn), order, mt: Movable };
    let mut events: Vec<_> = (20..24).map(|pfn| (OTHER, free(pfn))).collect();
    events.extend([(OTHER, drain(21, 0)), (OTHER, drain(20, 2))]);
    let look_ahead = finder(events).finish(None);
    assert!((0..4).all(|event| look_ahead.destination(event) == Destination::Listed));
}
