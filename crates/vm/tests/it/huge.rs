//! Huge pages of every kind: khugepaged, hugetlb, and mTHP.

use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::{SizeEnabled, ThpEnabled};
use pageblock_vm::config::Config;
use pageblock_vm::hugetlb::Growth;
use pageblock_vm::khugepaged::KhugepagedStep;
use pageblock_vm::mthp;
use pageblock_vm::page::Owner;
use pageblock_vm::space::Slot;
use pageblock_vm::thp::Advice;

use crate::machine::{Machine, on_nodes, with_machine};

/// Runs khugepaged until it sleeps. Returns its requests, and how long it sleeps in nanoseconds.
fn scan(machine: &mut Machine<'_>) -> (Vec<Request>, u64) {
    let mut requests = Vec::new();
    loop {
        match machine.vm.step_khugepaged() {
            KhugepagedStep::Ran => {}
            KhugepagedStep::Sleep(ns) => return (requests, ns),
            KhugepagedStep::Wants(place, request) => {
                requests.push(request);
                match machine.alloc(0, request) {
                    Some(huge) => assert!(machine.vm.collapse_or_free(0, place, huge)),
                    None => return (requests, machine.vm.collapse_failed()),
                }
            }
        }
    }
}

fn huge_pages(machine: &Machine<'_>, space: u32) -> usize {
    let len = machine.vm.spaces().get(space).len();
    let is_head = |index: &u32| match machine.vm.spaces().slot(space, *index) {
        Slot::Page(pfn) => machine.vm.pages()[pfn].order() == 9,
        _ => false,
    };
    (0..len).filter(is_head).count()
}

#[test]
fn khugepaged_collapses_small_pages() {
    let settings =
        |kernel: &mut Kernel, _: &mut Config| kernel.huge.khugepaged_pages_to_scan = 2048;
    with_machine("linux-4.20", settings, 1, 16384, |machine| {
        let other = machine.vm.create_mapping(2048);
        let space = machine.vm.create_mapping(3072);
        for index in (0..3072).step_by(2) {
            assert!(machine.fault(0, space, index) && machine.fault(0, other, index % 2048));
        }
        // No fault asked for a huge page.
        assert_eq!(scan(machine).0.len(), 0);
        machine.vm.enter_khugepaged(space);
        machine.vm.enter_khugepaged(space);
        let present = machine.vm.spaces().get(space).present;
        let (requests, sleep) = scan(machine);
        assert_eq!((requests.len(), sleep), (4, 10_000_000_000), "2048 pages are looked at");
        assert!(requests.iter().all(|r| r.gfp == Gfp::GFP_TRANSHUGE | Gfp::THISNODE));
        assert_eq!((huge_pages(machine, space), huge_pages(machine, other)), (4, 0));
        // Missing pages are present now.
        assert_eq!(machine.vm.spaces().get(space).present, present + 4 * 256);
        assert_eq!(scan(machine).0.len(), 2);
        assert_eq!(scan(machine).0.len(), 0);
        assert_eq!(machine.vm.stat.thp_collapse_alloc, 6);
        machine.vm.check().unwrap();
        machine.vm.remove_space(0, space);
        assert_eq!(scan(machine).0.len(), 0);
    });
}

#[test]
fn khugepaged_obeys_its_settings() {
    let run = |set: fn(&mut Kernel, &mut Config), faulted: u32| {
        with_machine("linux-5.4", set, 1, 8192, |machine| {
            let space = machine.vm.create_mapping(512);
            for index in 0..faulted {
                assert!(machine.fault(0, space, index));
            }
            machine.vm.enter_khugepaged(space);
            scan(machine).0.first().copied()
        })
    };
    let direct = |request: Option<Request>| request.unwrap().gfp.has(Gfp::DIRECT_RECLAIM);
    assert!(direct(run(|_, _| {}, 1)));
    assert!(!direct(run(|kernel, _| kernel.huge.khugepaged_defrag = false, 1)));
    assert!(run(|kernel, _| kernel.huge.thp_enabled = ThpEnabled::Never, 512).is_none());
    assert!(run(|kernel, _| kernel.huge.khugepaged_max_ptes_none = 0, 511).is_none());
    assert!(run(|kernel, _| kernel.huge.khugepaged_max_ptes_none = 0, 512).is_some());
}

#[test]
fn khugepaged_allocates_on_the_node_with_most_pages() {
    on_nodes("linux-4.20", 2, 8192, |machine| {
        let space = machine.vm.create_mapping(512);
        for index in 0..400 {
            // CPUs 2 and 3 are on node 1.
            let cpu = if index < 100 { 0 } else { 2 };
            assert!(machine.fault(cpu, space, index));
        }
        machine.vm.enter_khugepaged(space);
        assert_eq!(scan(machine).0.len(), 1);
        let Slot::Page(pfn) = machine.vm.spaces().slot(space, 0) else { panic!("nothing there") };
        assert!(pfn >= 8192, "frame {pfn} is on node 0");
    });
}

#[test]
fn khugepaged_sleeps_longer_after_a_failed_allocation() {
    on_nodes("linux-4.20", 1, 4096, |machine| {
        let space = machine.vm.create_mapping(1024);
        for index in 0..600 {
            assert!(machine.fault(0, space, index));
        }
        while let Some(pfn) = machine.vm.try_alloc(0, &Request::new(0, Gfp::GFP_NOWAIT)) {
            machine.vm.own(pfn, 0, Owner::Driver, 0);
        }
        machine.vm.enter_khugepaged(space);
        let (requests, sleep) = scan(machine);
        assert_eq!((requests.len(), sleep), (1, 60_000_000_000));
        assert_eq!(machine.vm.stat.thp_collapse_alloc_failed, 1);
    });
}

fn grow(machine: &mut Machine<'_>, to: u64) -> Vec<(Request, bool)> {
    let mut growth = Growth::to(to);
    let mut made = Vec::new();
    while let Some(request) = growth.next_request(&mut machine.vm) {
        let page = machine.alloc(0, request);
        made.push((request, page.is_some()));
        growth.report(&mut machine.vm, page);
    }
    made
}

#[test]
fn the_pool_grows_on_the_nodes_in_turn() {
    on_nodes("linux-4.20", 2, 8192, |machine| {
        let made = grow(machine, 7);
        assert_eq!((made.len(), machine.vm.hugetlb().len()), (7, 7));
        let nodes: Vec<_> = made.iter().map(|(request, _)| request.node).collect();
        assert_eq!(nodes[..4], [nodes[0], nodes[1], nodes[0], nodes[1]]);
        assert!(nodes[0] != nodes[1]);
        let wanted = Gfp::THISNODE | Gfp::RETRY_MAYFAIL | Gfp::MOVABLE;
        assert!(made.iter().all(|(request, _)| request.gfp.has(wanted)));
        machine.vm.check().unwrap();
        machine.vm.shrink_hugetlb(0, 2);
        assert_eq!(machine.vm.hugetlb().len(), 2);
        // It grows until memory is used up, and each node is tried for the last page.
        let made = grow(machine, 1000);
        let got = machine.vm.hugetlb().len();
        assert!((20..32).contains(&got), "{got} of 32");
        assert!(made.iter().rev().take(2).all(|(_, served)| !served));
        machine.vm.check().unwrap();
    });
}

#[test]
fn failures_are_remembered_from_5_4() {
    let patience = |policy: &str| {
        let mut patience = Vec::new();
        on_nodes(policy, 2, 4096, |machine| {
            // Node 1 has no memory left.
            let request = Request::new(0, Gfp::GFP_KERNEL | Gfp::THISNODE | Gfp::NORETRY);
            while let Some(pfn) = machine.vm.try_alloc(2, &request.on_node(NodeId(1))) {
                machine.vm.own(pfn, 0, Owner::Driver, 0);
            }
            let made = grow(machine, 3);
            patience.extend(made.iter().map(|(request, _)| request.gfp.has(Gfp::NORETRY)));
        });
        patience
    };
    assert!(!patience("linux-4.20").contains(&true));
    // Nodes 0, 1, 0, 1, 0: the second attempt on node 1 does not retry.
    assert_eq!(patience("linux-5.4"), [false, false, false, true, false]);
}

#[test]
fn the_pool_is_unmovable_in_3_10() {
    on_nodes("linux-3.10", 1, 8192, |machine| {
        assert!(grow(machine, 1).iter().all(|(request, _)| !request.gfp.has(Gfp::MOVABLE)));
    });
}

#[test]
fn faults_take_the_largest_size_that_fits() {
    let sizes = |kernel: &mut Kernel, _: &mut Config| {
        kernel.huge.hugepages_64kb = SizeEnabled::Always;
        kernel.huge.hugepages_256kb = SizeEnabled::Madvise;
    };
    with_machine("linux-6.9", sizes, 1, 8192, |machine| {
        let space = machine.vm.create_mapping(1000);
        let orders =
            |machine: &Machine<'_>, index, advice| machine.vm.mthp_orders(space, index, advice);
        assert_eq!(orders(machine, 70, Advice::None), [(4, 64)]);
        assert_eq!(orders(machine, 70, Advice::HugePages), [(6, 64), (4, 64)]);
        // The block would end beyond the mapping.
        assert_eq!(orders(machine, 999, Advice::HugePages), []);
        assert!(machine.fault(0, space, 100));
        assert_eq!(orders(machine, 70, Advice::HugePages), [(4, 64)]);
        let request = mthp::request(&machine.vm.kernel().huge, Advice::HugePages, 0, 4);
        let pfn = machine.alloc(0, request).unwrap();
        assert!(machine.vm.add_or_free(0, space, 64, pfn, 4));
        assert_eq!(machine.vm.spaces().slot(space, 79), Slot::Page(pfn.0 as u32 + 15));
        // A second block for the same place is freed.
        let late = machine.alloc(0, request).unwrap();
        assert!(!machine.vm.add_or_free(0, space, 64, late, 4));
        machine.vm.check().unwrap();
        // A page in the middle is unmapped: the block is split.
        machine.vm.unmap_page(0, space, 70);
        assert_eq!(machine.vm.spaces().get(space).present, 16);
        machine.vm.check().unwrap();
    });
    with_machine("linux-6.6", sizes, 1, 4096, |machine| {
        let space = machine.vm.create_mapping(100);
        assert_eq!(machine.vm.mthp_orders(space, 0, Advice::HugePages), []);
    });
}
