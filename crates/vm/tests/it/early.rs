//! Compaction and kswapd of 3.10 to 4.0.

use pageblock::request::{Gfp, Request};
use pageblock_vm::kswapd::{Daemon, TENTH_SECOND_NS};

use crate::machine::{Machine, on_nodes};

/// `try_to_compact_pages` counts a stall before it checks whether a zone is suitable; from 3.18 on only if one is.
#[test]
fn skipped_compactions_count_as_stalls_up_to_3_17() {
    let stat = |policy| {
        on_nodes(policy, 1, 8192, |machine| {
            let gfp = Gfp(Gfp::GFP_KERNEL.0 | Gfp::NORETRY.0);
            let mut kept = Vec::new();
            while let Some(pfn) = machine.alloc(0, Request::new(0, gfp)) {
                machine.vm.own(pfn, 0, pageblock_vm::page::Owner::Driver, 0);
                kept.push(pfn);
            }
            assert_eq!(machine.alloc(0, Request::new(3, gfp)), None);
            let stat = machine.vm.stat;
            for pfn in kept {
                machine.vm.disown(0, pfn);
            }
            stat
        })
    };
    for policy in ["linux-3.10", "linux-3.16"] {
        let stat = stat(policy);
        assert_eq!((stat.compact_stall, stat.compact_fail, stat.compact_success), (2, 0, 0));
    }
    assert_eq!(stat("linux-3.19").compact_stall, 0);
    assert_eq!(stat("linux-4.4").compact_stall, 0);
}

/// Free memory is in single pages, more than the high watermark: `balance_pgdat` leaves the order to compaction
/// (`testorder`), while kernels without that rule reclaim.
#[test]
fn kswapd_reclaims_nothing_if_compaction_could_help() {
    let stolen = |policy| {
        on_nodes(policy, 1, 16384, |machine| {
            let space = machine.vm.create_mapping(14000);
            for index in 0..14000 {
                assert!(machine.fault(0, space, index));
            }
            let file = machine.vm.create_file(1000);
            assert!(machine.open(0, file));
            for index in 0..1000 {
                assert!(machine.touch(0, file, index, false));
            }
            for index in (0..14000).step_by(4) {
                machine.vm.unmap_page(0, space, index);
            }
            // The rest, in larger blocks.
            let mut kept = Vec::new();
            while let Some(pfn) = machine.vm.try_alloc(0, &Request::new(3, Gfp::GFP_KERNEL)) {
                machine.vm.own(pfn, 3, pageblock_vm::page::Owner::Driver, 0);
                kept.push(pfn);
            }
            machine.vm.drain_all();
            machine.run_daemons();
            let before = machine.vm.stat.pgsteal_kswapd;
            // It wakes kswapd, whether the reserve serves it or not.
            if let Some(pfn) = machine.alloc(0, Request::new(4, Gfp::GFP_ATOMIC)) {
                machine.vm.own(pfn, 4, pageblock_vm::page::Owner::Driver, 0);
                kept.push(pfn);
            }
            machine.run_daemons();
            let stolen = machine.vm.stat.pgsteal_kswapd - before;
            for pfn in kept {
                machine.vm.disown(0, pfn);
            }
            machine.vm.remove_space(0, space);
            stolen
        })
    };
    assert_eq!(["linux-3.10", "linux-3.11"].map(stolen), [0; 2]);
    assert!(stolen("linux-4.8") > 0);
}

/// `__alloc_pages_direct_compact` of 3.10 defers the preferred zone after a failed synchronous compaction.
#[test]
fn a_failed_synchronous_compaction_defers_the_preferred_zone() {
    let tries = |policy| {
        on_nodes(policy, 1, 16384, |machine| {
            let kept = single_pages(machine);
            let gfp = Gfp(Gfp::GFP_KERNEL.0 | Gfp::NORETRY.0);
            // Each compacts twice: asynchronously, and at last synchronously.
            for _ in 0..20 {
                assert_eq!(machine.alloc(0, Request::new(4, gfp)), None);
            }
            let stat = machine.vm.stat;
            let tries = (stat.compact_stall, stat.compact_fail);
            for pfn in kept {
                machine.vm.disown(0, pfn);
            }
            tries
        })
    };
    // After k synchronous failures 2^k - 1 attempts are skipped: 2, 3, 5, 9, 17 and 33 of 40 remain.
    let (stalls, fails) = tries("linux-3.10");
    assert_eq!(stalls, fails);
    assert!((6..=12).contains(&stalls), "{stalls}");
}

/// Frees half of memory in single pages between a driver's, which are unmovable.
fn single_pages(machine: &mut Machine<'_>) -> Vec<pageblock::frame::Pfn> {
    let gfp = Gfp(Gfp::GFP_KERNEL.0 | Gfp::NORETRY.0);
    let mut kept = Vec::new();
    while let Some(pfn) = machine.alloc(0, Request::new(0, gfp)) {
        machine.vm.own(pfn, 0, pageblock_vm::page::Owner::Driver, 0);
        kept.push(pfn);
    }
    let (gone, mut kept): (Vec<_>, Vec<_>) = kept.into_iter().partition(|pfn| pfn.0 % 2 == 0);
    for pfn in gone {
        machine.vm.disown(0, pfn);
    }
    machine.vm.drain_all();
    // The pages that the watermarks kept.
    for order in (1..=4).rev() {
        while let Some(pfn) = machine.alloc(0, Request::new(order, Gfp::GFP_ATOMIC)) {
            machine.vm.own(pfn, order, pageblock_vm::page::Owner::Driver, 0);
            kept.push(pfn);
        }
    }
    machine.run_daemons();
    kept
}

/// `balance_pgdat` of 3.10 drops the order only after all priorities, and starts over without it.
#[test]
fn kswapd_drops_the_order_after_it_reclaimed_nothing() {
    on_nodes("linux-3.10", 1, 16384, |machine| {
        let kept = single_pages(machine);
        let runs = machine.vm.stat.pageoutrun;
        assert_eq!(machine.alloc(0, Request::new(4, Gfp::GFP_ATOMIC)), None);
        machine.run_daemons();
        // Once for the order, and once without it.
        assert_eq!(machine.vm.stat.pageoutrun - runs, 2);
        for pfn in kept {
            machine.vm.disown(0, pfn);
        }
    });
}

/// `wakeup_kswapd` ends a nap but does not prevent one (`waitqueue_active`).
#[test]
fn wakes_before_the_nap_of_kswapd_are_lost() {
    for policy in ["linux-3.11", "linux-4.8", "linux-6.12"] {
        on_nodes(policy, 1, 16384, |machine| {
            let file = machine.vm.create_file(16000);
            assert!(machine.open(0, file));
            let mut unread = 0..;
            let mut read = |machine: &mut Machine<'_>| {
                assert!(machine.touch(0, file, unread.next().unwrap(), false));
            };
            while !machine.vm.nodes()[0].kswapd.woken {
                read(machine);
            }
            let before = machine.vm.stat.pageoutrun;
            assert_eq!(machine.vm.step_kswapd(0, 0), Daemon::Ran);
            for _ in 0..50 {
                read(machine);
            }
            let mut step = Daemon::Ran;
            while step == Daemon::Ran {
                step = machine.vm.step_kswapd(0, 0);
            }
            assert_eq!(step, Daemon::Nap(TENTH_SECOND_NS), "{policy}");
            assert_eq!(machine.vm.stat.pageoutrun - before, 1, "{policy}");
        });
    }
}
