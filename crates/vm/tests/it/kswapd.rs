//! What kswapd does when it is woken for a block that it cannot make.

use pageblock::request::{Gfp, Request};
use pageblock::zone::Zone;
use pageblock_vm::kswapd::{Daemon, TENTH_SECOND_NS};
use pageblock_vm::page::Owner;

use crate::machine::{Machine, on_nodes, with_machine};

/// Fills memory with pages of a file and of a driver in turns, so that reclaim frees no block, frees enough of the driver's
/// for compaction, and wakes kswapd for a huge page. Runs it until it naps; the test gets what it did.
fn woken_for_a_block(kernel: &str, test: impl FnOnce(&mut Machine<'_>, Daemon)) {
    with_machine(
        kernel,
        // No whole block is left below watermarks as low as that.
        |kernel, _| kernel.allocator.min_free_kbytes = 512,
        1,
        32768,
        |machine| {
            let file = machine.vm.create_file(32768);
            assert!(machine.open(0, file));
            let mut kept = Vec::new();
            let mut index = 0;
            while !machine.vm.nodes()[0].kswapd.woken {
                assert!(machine.touch(0, file, index, false));
                index += 1;
                let pinned = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
                let Some(pfn) = machine.vm.try_alloc(0, &pinned) else { break };
                machine.vm.own(pfn, 0, Owner::Driver, 0);
                kept.push(pfn);
            }
            // Those beside the youngest pages of the file, which stay.
            for pfn in kept.split_off(kept.len() - 4000) {
                machine.vm.disown(0, pfn);
            }
            let block = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::DIRECT_RECLAIM.0);
            assert_eq!(machine.alloc(0, Request::new(9, block)), None);
            let mut steps = (0..10_000).map(|_| machine.vm.step_kswapd(0, 0));
            let step = steps.find(|step| matches!(step, Daemon::Nap(_))).unwrap_or(Daemon::Ran);
            test(machine, step);
            for pfn in kept {
                machine.vm.disown(0, pfn);
            }
        },
    );
}

/// Once all of a run has reclaimed the gap, the block is left to kcompactd (from 4.12). If each priority counted for
/// itself, none would reclaim as much on a small node. From 7.2 the gap is 32 pages.
#[test]
fn kswapd_gives_up_the_order_after_the_gap() {
    let reclaimed = |kernel| {
        let mut pages = 0;
        woken_for_a_block(kernel, |machine, step| {
            assert_eq!(step, Daemon::Nap(TENTH_SECOND_NS), "{kernel}");
            pages = machine.vm.stat.pgsteal_kswapd;
        });
        pages
    };
    let gap = 2 << 9;
    assert!((gap..2 * gap).contains(&reclaimed("linux-6.12")), "{}", reclaimed("linux-6.12"));
    assert!((32..gap / 2).contains(&reclaimed("linux-7.2")), "{}", reclaimed("linux-7.2"));
    let mut by_priority = 0;
    woken_for_a_block("linux-6.12,hopeless_nodes=off", |machine, _| {
        by_priority = machine.vm.stat.pgsteal_kswapd;
    });
    assert!(by_priority > 4 * gap, "{by_priority}");
}

/// The watermarks stay raised until the run that serves the boost is over, and kcompactd then makes pageblocks of what
/// was freed.
#[test]
fn a_boost_lasts_until_its_run_is_over() {
    on_nodes("linux-6.12", 1, 32768, |machine| {
        let file = machine.vm.create_file(32768);
        assert!(machine.open(0, file));
        let (mut gaps, mut index) = (Vec::new(), 0);
        while !machine.vm.nodes()[0].kswapd.woken {
            assert!(machine.touch(0, file, index, false));
            index += 1;
            if let Some(pfn) = machine.vm.try_alloc(0, &Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE))
            {
                machine.vm.own(pfn, 0, Owner::Driver, 0);
                gaps.push(pfn);
            }
        }
        machine.run_daemons();
        // Enough is free, in single pages of movable pageblocks.
        for pfn in gaps {
            machine.vm.disown(0, pfn);
        }
        let boosted = |machine: &Machine<'_>| {
            machine.vm.allocator().zones().iter().map(pageblock::zone::Zone::boost).sum::<u64>()
        };
        let mut kept = Vec::new();
        while boosted(machine) == 0 {
            let pfn = machine.alloc(0, Request::new(0, Gfp::GFP_KERNEL)).expect("memory is free");
            machine.vm.own(pfn, 0, Owner::Driver, 0);
            kept.push(pfn);
        }
        assert!(machine.vm.nodes()[0].kswapd.woken);
        let raised = boosted(machine);
        let mut step = machine.vm.step_kswapd(0, 0);
        while step == Daemon::Ran && machine.vm.nodes()[0].kswapd.is_running() {
            assert_eq!(boosted(machine), raised);
            step = machine.vm.step_kswapd(0, 0);
        }
        assert_eq!((boosted(machine), step), (0, Daemon::Nap(TENTH_SECOND_NS)));
        assert!(machine.vm.stat.pgsteal_boosted > 0);
        assert!(machine.vm.nodes()[0].kcompactd.woken);
        for pfn in kept {
            machine.vm.disown(0, pfn);
        }
    });
}

/// `atomic_boost`: an atomic request of order 0 boosts each zone that it may use by a thousandth, no other request any.
#[test]
fn an_atomic_request_boosts_its_zones() {
    let boosts = |kernel, order, gfp, rests: Option<usize>| {
        with_machine(
            kernel,
            |_, _| {},
            1,
            8192,
            |machine| {
                let request = Request::new(order, gfp);
                machine.vm.boost_for_atomic(0, &request, |zone| Some(zone.index()) != rests);
                machine.vm.allocator().zones().iter().map(Zone::boost).collect::<Vec<_>>()
            },
        )
    };
    let on = "linux-7.3,atomic_boost=on";
    assert_eq!(boosts(on, 0, Gfp::GFP_ATOMIC, None), [2, 6]);
    assert_eq!(boosts(on, 0, Gfp::GFP_ATOMIC, Some(1)), [2, 0]);
    assert_eq!(boosts(on, 1, Gfp::GFP_ATOMIC, None), [0, 0]);
    assert_eq!(boosts(on, 0, Gfp::GFP_KERNEL, None), [0, 0]);
    assert_eq!(boosts("linux-7.3", 0, Gfp::GFP_ATOMIC, None), [0, 0]);
    // Boosts add up to an eighth of the zone.
    with_machine(
        on,
        |_, _| {},
        1,
        8192,
        |machine| {
            let request = Request::new(0, Gfp::GFP_ATOMIC);
            (0..1000).for_each(|_| machine.vm.boost_for_atomic(0, &request, |_| true));
            assert_eq!(machine.vm.allocator().zones()[1].boost(), 8192 * 3 / 4 / 8);
        },
    );
}
