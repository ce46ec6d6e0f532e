//! What a start state is inferred from.

use super::*;
use pageblock_recording::PcpInfo;

pub(super) fn snapshot(free: &[(u64, Order)]) -> Snapshot {
    let block =
        |&(pfn, order): &(u64, Order)| FreeBlock { zone: 0, order, mt: None, pfn: Pfn(pfn) };
    Snapshot {
        zones: vec![ZoneSnapshot { spanned: 16, ..ZoneSnapshot::default() }],
        free: free.iter().map(block).collect(),
        ..Snapshot::default()
    }
}

pub(super) fn evidence(snapshot_end: u64) -> Evidence {
    Evidence {
        touched: vec![false; 16],
        before_snapshot: vec![UNKNOWN; 16],
        snapshot_end,
        counters: Counters::new(CpuListOrders { up_to: 3, and: None }),
        taken: vec![0; 16],
        asked: vec![0; 16],
        types: vec![None; 1],
        heads: BTreeMap::new(),
        tails: BTreeMap::new(),
        told: BTreeMap::new(),
        holder: vec![0; 16],
        freed: vec![false; 16],
        drains: BTreeMap::new(),
        zones: vec![FrameRange { start: Pfn(0), end: Pfn(16) }],
        ran_out: BTreeSet::new(),
        blocks_ran_out: BTreeSet::new(),
        pageblock_order: 9,
    }
}

#[test]
fn a_page_that_moved_while_the_snapshot_was_taken_was_where_its_first_event_has_it() {
    let mut snapshot = snapshot(&[(4, 1), (8, 0)]);
    let mut evidence = evidence(10);
    let refill = |pfn| What::ZoneLocked { pfn: Pfn(pfn), order: 0, mt: Movable, refill: true };
    let drain = |pfn| What::Drain { pfn: Pfn(pfn), order: 0, mt: Movable };
    evidence.push(1, 0, 1, &refill(9));
    evidence.push(2, 0, 1, &drain(5));
    evidence.push(20, 0, 1, &drain(8));
    evidence.go_back(&mut snapshot, 0);
    let blocks: Vec<_> = snapshot.free.iter().map(|b| (b.pfn.0, b.order)).collect();
    assert_eq!(blocks, [(4, 0), (8, 1)]);
}

#[test]
fn a_page_drained_with_those_of_another_cpu_was_on_that_cpus_list() {
    let mut evidence = evidence(0);
    let free = |pfn| What::Free { pfn: Pfn(pfn), order: 0 };
    let drain = |pfn| What::Drain { pfn: Pfn(pfn), order: 0, mt: Movable };
    evidence.push(1, 1, 7, &free(3));
    evidence.push(2, 0, 8, &drain(4));
    evidence.push(3, 0, 8, &drain(3));
    evidence.push(4, 0, 8, &drain(5));
    evidence.push(5, 0, 8, &free(6));
    evidence.push(6, 0, 8, &drain(7));
    let of = |cpu: u16| evidence.tails[&cpu].iter().map(|page| page.pfn.0).collect::<Vec<_>>();
    assert_eq!((of(0), of(1)), (vec![4, 7], vec![5]));
}

#[test]
fn a_list_that_ran_out_had_no_pages_that_no_event_touches() {
    let counted = PcpInfo { count: 3, ..PcpInfo::default() };
    let of_cpu = |cpu| PcpInfo { cpu, ..counted.clone() };
    let mut snapshot = Snapshot { pcpinfo: vec![of_cpu(0), of_cpu(1)], ..snapshot(&[]) };
    snapshot.used.push(UsedRange { state: PageUse::KernelOrPcp, pfn: Pfn(4), count: 8 });
    let mut evidence = evidence(0);
    let refill = What::ZoneLocked { pfn: Pfn(1), order: 0, mt: Movable, refill: true };
    evidence.push(1, 1, 7, &refill);
    evidence.fill_cpu_lists(&mut snapshot);
    let cpus: Vec<u16> = snapshot.pcp.iter().map(|page| page.cpu).collect();
    assert_eq!(cpus, [0, 0, 0]);
}

#[test]
fn pages_that_are_on_no_list_of_single_ones_lie_on_that_of_huge_pages() {
    let info = PcpInfo { count: 20, ..PcpInfo::default() };
    let mut snapshot = Snapshot { pcpinfo: vec![info], ..snapshot(&[]) };
    snapshot.used.push(UsedRange { state: PageUse::KernelOrPcp, pfn: Pfn(0), count: 16 });
    let mut evidence = evidence(0);
    evidence.pageblock_order = 4;
    evidence.counters = Counters::new(CpuListOrders { up_to: 3, and: Some(4) });
    evidence.ran_out.insert((0, 0, Movable));
    let lists = |evidence: &Evidence, mut snapshot: Snapshot| -> Vec<_> {
        evidence.fill_cpu_lists(&mut snapshot);
        snapshot.pcp.iter().map(|page| (page.pfn.0, page.order)).collect()
    };
    assert_eq!(lists(&evidence, snapshot.clone()), [(0, 4)]);
    evidence.blocks_ran_out.insert((0, 0, 4));
    assert_eq!(lists(&evidence, snapshot), []);
}

#[test]
fn pages_that_no_event_touches_lie_on_a_list_that_did_not_run_out() {
    let info = PcpInfo { count: 2, ..PcpInfo::default() };
    let mut snapshot = Snapshot { pcpinfo: vec![info], ..snapshot(&[]) };
    snapshot.used.push(UsedRange { state: PageUse::KernelOrPcp, pfn: Pfn(4), count: 8 });
    let mut evidence = evidence(0);
    evidence.types = vec![Some(Unmovable)];
    let refill = What::ZoneLocked { pfn: Pfn(1), order: 0, mt: Movable, refill: true };
    evidence.push(1, 0, 7, &refill);
    evidence.fill_cpu_lists(&mut snapshot);
    let types: Vec<_> = snapshot.pcp.iter().map(|page| page.mt).collect();
    assert_eq!(types, [Some(Unmovable); 2]);
}

#[test]
fn a_pageblock_has_the_type_of_the_request_that_takes_a_page_freed_on_the_same_cpu() {
    let type_after = |between: &[(u16, What)], alloc_cpu: u16| {
        let mut evidence = evidence(0);
        evidence.push(1, 0, 7, &What::Free { pfn: Pfn(3), order: 0 });
        between.iter().for_each(|(cpu, what)| evidence.push(2, *cpu, 7, what));
        let gfp = pageblock::request::Gfp::GFP_KERNEL;
        let alloc = What::Alloc { pfn: Some(Pfn(3)), order: 0, gfp, mt: Unmovable };
        evidence.push(3, alloc_cpu, 7, &alloc);
        evidence.types[0]
    };
    assert_eq!(type_after(&[], 0), Some(Unmovable));
    // It went to the zone and came back: by a fallback, perhaps.
    let drain = What::Drain { pfn: Pfn(3), order: 0, mt: Movable };
    assert_eq!(type_after(&[(1, drain)], 0), Some(Movable));
    // How it came to this CPU is not known.
    assert_eq!(type_after(&[], 1), None);
}

/// A claim retypes all pageblocks of the block that it finds; what is taken of the second one later tells its new type.
#[test]
fn a_block_of_several_pageblocks_was_on_one_list() {
    let mut evidence = evidence(0);
    evidence.pageblock_order = 2;
    evidence.types = vec![None; 5];
    let claim = pageblock::event::Extfrag {
        pfn: Pfn(8),
        alloc_order: 0,
        fallback_order: 3,
        alloc_migratetype: Unmovable,
        fallback_migratetype: Movable,
        change_ownership: true,
    };
    evidence.push(1, 0, 1, &What::Extfrag(claim));
    for pfn in [4, 12].map(Pfn) {
        let taken = What::ZoneLocked { pfn, order: 0, mt: Unmovable, refill: true };
        evidence.push(2, 0, 1, &taken);
    }
    let mut snapshot = snapshot(&[(4, 2), (8, 3)]);
    evidence.guess_types(&snapshot);
    evidence.give_each_block_one_type(&snapshot);
    evidence.order_lists(&mut snapshot);
    let types = [Movable, Unmovable, Movable, Movable, Movable].map(Some);
    assert_eq!(evidence.types, types);
    let lists: Vec<_> = snapshot.free.iter().map(|block| (block.pfn.0, block.mt)).collect();
    assert_eq!(lists, [(8, Some(Movable)), (4, Some(Unmovable))]);
}
