//! Random tasks on a machine that is too small, under every kind of kernel: no page is lost.

use pageblock::request::{Gfp, Request};
use pageblock_vm::config::Filesystem;
use pageblock_vm::inject::Inject;
use pageblock_vm::kswapd::Daemon;
use pageblock_vm::page::Owner;
use pageblock_vm::space::Slot;

use crate::machine::{Machine, on_nodes, with_machine};
use crate::swarm::swarm;

/// Faults at changing points: every rhythm refuses other allocations, fails other migrations, and delays other writes.
#[test]
fn faults_lose_nothing() {
    let policies = [
        "linux-4.4",
        "linux-4.20",
        "linux-5.14",
        "linux-6.18",
        "linux-6.12,lru=mglru",
        "linux-7.3,lru=mglru",
    ];
    for (seed, policy) in (0..).zip(policies) {
        for rhythm in [3, 7, 50] {
            with_machine(
                policy,
                |_, config| (config.swap_pages, config.filesystem) = (2000, Filesystem::Ext4),
                1 + (seed % 2) as u8,
                8192,
                |machine| {
                    machine.vm.inject = Inject::new(rhythm, rhythm + 2);
                    machine.stalls = rhythm;
                    swarm(machine, seed);
                    machine.vm.compact_memory(0);
                    machine.vm.check().unwrap();
                    assert!(machine.vm.stat.pgmigrate_fail > 0);
                    machine.stalls = 0;
                },
            );
        }
    }
}

#[track_caller]
fn check(policy: &str, nodes: u8) {
    for seed in 0..6 {
        with_machine(
            policy,
            |_, config| {
                config.swap_pages = if seed % 3 == 0 { 4000 } else { 0 };
                config.filesystem = [Filesystem::Xfs, Filesystem::Ext4][seed as usize % 2];
            },
            nodes,
            8192,
            |machine| swarm(machine, seed),
        );
    }
}

#[test]
fn lists_per_zone() {
    check("linux-3.10", 1);
    check("linux-4.4", 2);
}

#[test]
fn lists_per_node() {
    check("linux-4.8", 2);
    check("linux-4.20", 1);
    check("linux-4.20,nofragment=on", 2);
}

#[test]
fn boost_and_capture() {
    check("linux-5.2", 1);
    check("linux-5.14", 2);
}

#[test]
fn strict_lists() {
    check("linux-6.1", 1);
    check("linux-6.10", 2);
    check("linux-6.18", 1);
}

#[test]
fn generations() {
    check("linux-6.12,lru=mglru", 1);
    check("linux-6.14,lru=mglru", 2);
    check("linux-7.3,lru=mglru", 1);
}

#[test]
fn defrag_mode() {
    check("linux-6.18,nofragment=defrag_mode", 1);
    check("linux-7.3,nofragment=defrag_mode", 2);
}

/// Returns the number of pages that reclaim itself starts to write if all memory is dirty and no flusher runs.
fn written_by_kswapd(policy: &str) -> u64 {
    on_nodes(policy, 1, 8192, |machine| {
        let file = machine.vm.create_file(8192);
        assert!(machine.open(0, file));
        let mut index = 0;
        while !machine.vm.nodes()[0].kswapd.woken && index < 8192 {
            assert!(machine.touch(0, file, index, true));
            index += 1;
        }
        for _ in 0..10_000 {
            match machine.vm.step_kswapd(0, 0) {
                Daemon::Ran => {}
                // It writes only after it met nothing but dirty pages, and waits then.
                Daemon::WaitCongestion(_) if machine.vm.stat.nr_vmscan_write == 0 => {}
                _ => break,
            }
        }
        let written = machine.vm.stat.nr_vmscan_write;
        let queued: u32 = machine
            .vm
            .take_file_writes()
            .iter()
            .map(|run| {
                machine.vm.end_writes(*run);
                run.pages
            })
            .sum();
        assert_eq!(written, u64::from(queued));
        machine.vm.close(file);
        written
    })
}

/// Up to 4.7 kswapd writes dirty pages of files if it finds no others: in 3.10 at high pressure, from 3.11 on if the
/// tail of a list is dirty (docs/linux/kswapd-and-boost.md#balance_pgdat; later only the flusher writes them).
#[test]
fn old_kswapd_writes_files() {
    assert!(written_by_kswapd("linux-3.10") > 0);
    assert!(written_by_kswapd("linux-3.11") > 0);
    assert_eq!(written_by_kswapd("linux-4.20"), 0);
}

/// kswapd deactivates anonymous pages before it scans inactive lists, with lists for each node (from 4.8) and for each
/// zone.
#[test]
fn kswapd_ages_before_it_scans() {
    ["linux-3.10", "linux-3.11", "linux-4.20"].into_iter().for_each(ages_before_it_scans);
}

fn ages_before_it_scans(policy: &str) {
    with_machine(
        policy,
        |_, config| config.swap_pages = 4000,
        1,
        8192,
        |machine| {
            let space = machine.vm.create_mapping(8192);
            let mut index = 0;
            while !machine.vm.nodes()[0].kswapd.woken && index < 8192 {
                assert!(machine.fault(0, space, index));
                index += 1;
            }
            assert_eq!(machine.vm.stat.pgdeactivate, 0);
            for _ in 0..2 {
                assert_eq!(machine.vm.step_kswapd(0, 0), Daemon::Ran);
            }
            assert!(machine.vm.stat.pgdeactivate >= 32 && machine.vm.stat.pgscan_kswapd == 0);
        },
    );
}

/// Returns the number of pages of a higher zone that reclaim skips, and moves to the head of their list, if only a
/// lower zone is short, which has no page of a file.
fn skipped(policy: &str) -> u64 {
    on_nodes(policy, 1, 8192, |machine| {
        let file = machine.vm.create_file(4096);
        assert!(machine.open(0, file));
        (0..4096).for_each(|index| assert!(machine.touch(0, file, index, false)));
        let mut blocks = Vec::new();
        let request = Request::new(0, Gfp::GFP_KERNEL | Gfp::DMA32);
        while let Some(block) = machine.alloc(0, request) {
            machine.vm.own(block, 0, Owner::Driver, 0);
            blocks.push(block);
        }
        assert!(blocks.len() > 1900 && machine.vm.stat.pgsteal_direct == 0);
        let passed = machine.vm.stat.pgskip;
        blocks.into_iter().for_each(|block| machine.vm.disown(0, block));
        machine.vm.close(file);
        passed
    })
}

/// From 4.11 on pages of zones that the request may not use are not counted (71ab6cfe88dc), so nothing is scanned.
#[test]
fn a_short_lower_zone_leaves_pages_of_higher_zones_alone() {
    assert!(skipped("linux-4.8") > 4096);
    assert_eq!(["linux-4.20", "linux-6.10"].map(skipped), [0; 2]);
}

/// Returns the dirty limit in pages if half of memory is anonymous, with swap.
fn dirty_limit(policy: &str, swap_pages: u32) -> u64 {
    let mut limit = 0;
    with_machine(
        policy,
        |_, config| config.swap_pages = swap_pages,
        1,
        8192,
        |machine| {
            let space = machine.vm.create_mapping(4096);
            for index in 0..4096 {
                assert!(machine.fault(0, space, index));
            }
            limit = machine.vm.dirty_limits().limit;
        },
    );
    limit
}

/// Up to 3.13 anonymous memory counts as dirtyable if there is swap (a1c3bfb2f67e).
#[test]
fn anonymous_memory_was_dirtyable() {
    let (old, new) = (dirty_limit("linux-3.13", 8192), dirty_limit("linux-3.16", 8192));
    assert!(old > new + 4096 / 5 - 10, "{old} and {new} pages");
    assert_eq!(dirty_limit("linux-3.13", 0), dirty_limit("linux-3.16", 0));
}

/// Returns how kswapd waits when it meets pages under writeback again.
fn wait_of_kswapd(policy: &str) -> Daemon {
    let mut wait = Daemon::Sleep;
    on_nodes(policy, 1, 8192, |machine| {
        machine.stalls = 1;
        let file = machine.vm.create_file(8192);
        assert!(machine.open(0, file));
        let mut index = 0;
        while !machine.vm.nodes()[0].kswapd.woken && index < 8192 {
            assert!(machine.touch(0, file, index, true));
            index += 1;
        }
        machine.flush();
        let other = machine.vm.create_file(100_000);
        assert!(machine.open(0, other));
        let mut read = 0;
        for _ in 0..100_000 {
            wait = machine.vm.step_kswapd(0, 0);
            if matches!(wait, Daemon::WaitCongestion(_) | Daemon::WaitPages(_)) {
                break;
            }
            if wait == Daemon::Sleep {
                assert!(machine.touch(0, other, read, false));
                read += 1;
            }
        }
        machine.stalls = 0;
        machine.finish_writes();
        machine.vm.close(file);
        machine.vm.close(other);
    });
    wait
}

/// Up to 5.15 kswapd waits for the disk's queue, later for pages.
#[test]
fn kswapd_waits_for_the_disk() {
    for policy in ["linux-3.11", "linux-4.20", "linux-5.14"] {
        assert_eq!(wait_of_kswapd(policy), Daemon::WaitCongestion(100_000_000), "{policy}");
    }
    for policy in ["linux-6.1", "linux-6.10"] {
        assert_eq!(wait_of_kswapd(policy), Daemon::WaitPages(100_000_000), "{policy}");
    }
}

/// Pages with adjacent swap slots are one write, and a program that uses one during the write faults.
#[test]
fn adjacent_pages_are_swapped_out_together() {
    for policy in ["linux-3.10", "linux-4.20", "linux-6.10"] {
        with_machine(
            policy,
            |_, config| config.swap_pages = 8192,
            1,
            8192,
            |machine| {
                let space = machine.vm.create_mapping(2000);
                for index in 0..2000 {
                    assert!(machine.fault(0, space, index));
                }
                machine.vm.page_out(0, space, 0..2000);
                let writes = machine.vm.take_swap_writes();
                assert_eq!((writes.len(), writes.iter().map(Vec::len).max()), (16, Some(128)));
                let index = machine.vm.pages()[writes[0][0]].index;
                assert!(machine.vm.touch(space, index, false), "{policy}: a fault");
                assert!(!machine.vm.touch(space, index, false));
                writes.into_iter().flatten().for_each(|pfn| machine.vm.end_write(pfn));
                machine.vm.remove_space(0, space);
            },
        );
    }
}

/// A page that is written repeatedly is activated by the second write, up to 4.6.
#[test]
fn writes_activate_pages_up_to_4_6() {
    let activated = |policy| {
        on_nodes(policy, 1, 8192, |machine| {
            let file = machine.vm.create_file(1);
            assert!(machine.open(0, file) && machine.touch(0, file, 0, true));
            let space = machine.vm.inodes().get(file).space;
            let Slot::Page(pfn) = machine.vm.spaces().slot(space, 0) else { panic!("no page") };
            for _ in 0..3 {
                machine.vm.mark_written(pfn);
            }
            let activated = machine.vm.stat.pgactivate;
            machine.vm.close(file);
            activated
        })
    };
    assert_eq!(["linux-3.10", "linux-3.11", "linux-4.4"].map(activated), [1; 3]);
    assert_eq!(["linux-4.8", "linux-6.10"].map(activated), [0; 2]);
}

/// A hopeless node is balanced again after direct reclaim freed a page of it.
#[test]
fn direct_reclaim_revives_kswapd() {
    on_nodes("linux-6.10", 1, 8192, |machine| {
        let file = machine.vm.create_file(64);
        assert!(machine.open(0, file));
        let hopeless = |machine: &Machine<'_>| {
            let vm = &machine.vm;
            vm.nodes()[0].kswapd.is_hopeless(&vm.kernel().kswapd)
        };
        let space = machine.vm.create_mapping(10_000);
        let mut index = 0;
        while !hopeless(machine) {
            assert!(machine.fault(0, space, index));
            machine.run_daemons();
            index += 1;
        }
        // Frees pages for a file, which kswapd no longer scans.
        (0..1000).for_each(|page| machine.vm.unmap_page(0, space, page));
        (0..64).for_each(|page| assert!(machine.touch(0, file, page, false)));
        while hopeless(machine) {
            assert!(machine.fault(0, space, index));
            index += 1;
        }
        assert!(machine.vm.stat.pgsteal_direct > 0);
        machine.vm.close(file);
        machine.vm.remove_space(0, space);
    });
}

/// Memory is full of a file. For a huge page, reclaim frees twice as many pages as it has up to 5.3, and from 5.4 only what
/// compaction lacks.
#[test]
fn reclaim_for_a_huge_page_stops_where_compaction_may_begin() {
    let reclaimed = |policy| {
        on_nodes(policy, 1, 16384, |machine| {
            let space = machine.vm.create_mapping(512);
            let file = machine.vm.create_file(16_000);
            assert!(machine.open(0, file));
            for page in 0..16_000 {
                assert!(machine.touch(0, file, page, false));
                assert!(page >= 512 || machine.fault(0, space, page));
            }
            // Half of what compaction needs is free, in single pages.
            machine.vm.remove_space(0, space);
            machine.vm.drain_all();
            let before = machine.vm.stat.pgsteal_direct;
            if let Some(pfn) = machine.alloc(0, Request::new(9, Gfp::GFP_TRANSHUGE)) {
                machine.vm.own(pfn, 9, Owner::Driver, 0);
                machine.vm.disown(0, pfn);
            }
            let reclaimed = machine.vm.stat.pgsteal_direct - before;
            machine.vm.close(file);
            reclaimed
        })
    };
    for policy in ["linux-4.20", "linux-5.2"] {
        assert!(reclaimed(policy) >= 1024, "{policy}: {}", reclaimed(policy));
    }
    for policy in ["linux-5.4", "linux-6.10"] {
        assert!((1..1024).contains(&reclaimed(policy)), "{policy}: {}", reclaimed(policy));
    }
}

/// Returns the pages that kswapd writes to swap, and those of them that leave a trace, where almost all memory is
/// anonymous.
fn swapped(policy: &str, swappiness: u32) -> (u64, u64) {
    let set = |kernel: &mut pageblock_kernel::Kernel, config: &mut pageblock_vm::config::Config| {
        kernel.sysctl.swappiness = swappiness;
        config.swap_pages = 4000;
    };
    with_machine(policy, set, 1, 8192, |machine| {
        let space = machine.vm.create_mapping(9000);
        // Those that left first come back first.
        for index in (0..8800).chain(0..200) {
            if !machine.fault(0, space, index) {
                break;
            }
            for _ in 0..1000 {
                machine.finish_writes();
                if !matches!(machine.vm.step_kswapd(0, 0), Daemon::Ran) {
                    break;
                }
            }
        }
        let stat = &machine.vm.stat;
        (stat.pswpout, stat.workingset_refault_anon)
    })
}

/// `vm.swappiness` of 0 does not keep the last memory of a machine that has only anonymous pages.
#[test]
fn without_swappiness_memory_is_swapped_where_files_are_few() {
    for policy in ["linux-5.4", "linux-6.12", "linux-7.3"] {
        assert!(swapped(policy, 0).0 > 0, "{policy}");
    }
}

#[test]
fn pages_on_a_swap_disk_leave_traces_from_5_9() {
    assert_eq!(swapped("linux-5.4", 60).1, 0);
    assert!(swapped("linux-5.10", 60).1 > 0);
    assert_eq!(swapped("linux-5.10,anon_workingset=off", 60).1, 0);
}
