//! The multi-generational LRU: what survives, what ages, and what is protected.

use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_vm::cache::GFP_ANON;
use pageblock_vm::config::Config;
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};

use crate::machine::{Machine, with_machine};

/// Kernels with the rules of 6.12, of 6.14 and of 7.2.
const KERNELS: [&str; 3] = ["linux-6.12,lru=mglru", "linux-6.18,lru=mglru", "linux-7.3,lru=mglru"];

/// Runs a test on a machine of 32 MiB with swap in memory, which nobody waits for.
fn on<T>(kernel: &str, test: impl FnOnce(&mut Machine<'_>) -> T) -> T {
    let set =
        |_: &mut Kernel, config: &mut Config| (config.swap_pages, config.zram) = (32768, true);
    with_machine(kernel, set, 1, 8192, test)
}

/// Has a program use a page of its memory.
fn touch(machine: &mut Machine<'_>, space: SpaceId, index: u32) {
    while !machine.vm.touch(space, index, true)
        && !matches!(machine.vm.spaces().slot(space, index), Slot::Page(_))
    {
        let pfn = machine.alloc(0, Request::new(0, GFP_ANON)).unwrap();
        machine.vm.add_or_free(0, space, index, pfn, 0);
    }
}

/// Opens a file of `pages` pages.
fn file(machine: &mut Machine<'_>, pages: u32) -> InodeId {
    let inode = machine.vm.create_file(pages);
    assert!(machine.open(0, inode));
    inode
}

/// Reads pages of a file once each, and runs the background threads now and then.
fn read(machine: &mut Machine<'_>, inode: InodeId, pages: std::ops::Range<u32>) {
    for index in pages {
        if !resident_page(machine, inode, index) {
            assert!(machine.touch(0, inode, index, false));
        }
        assert!(machine.touch(0, inode, index, false));
        if index % 64 == 0 {
            machine.run_daemons();
        }
    }
}

fn resident_page(machine: &Machine<'_>, inode: InodeId, index: u32) -> bool {
    let space = machine.vm.inodes().get(inode).space;
    matches!(machine.vm.spaces().slot(space, index), Slot::Page(_))
}

fn resident(machine: &Machine<'_>, inode: InodeId) -> usize {
    let space = machine.vm.inodes().get(inode).space;
    (0..machine.vm.spaces().get(space).len())
        .filter(|&index| resident_page(machine, inode, index))
        .count()
}

fn in_memory(machine: &Machine<'_>, space: SpaceId) -> u32 {
    machine.vm.spaces().get(space).present
}

fn close(machine: &mut Machine<'_>, inodes: &[InodeId]) {
    inodes.iter().for_each(|&inode| machine.vm.close(inode));
}

/// A file that is read again and again stays in memory while another is read once that is five times as large as memory.
#[test]
fn a_hot_set_survives_a_stream() {
    for kernel in KERNELS {
        on(kernel, |machine| {
            let (hot, once, stream) =
                (file(machine, 1500), file(machine, 1500), file(machine, 40960));
            read(machine, once, 0..1500);
            (0..8).for_each(|_| read(machine, hot, 0..1500));
            for part in 0..20 {
                read(machine, stream, 2048 * part..2048 * (part + 1));
                read(machine, hot, 0..1500);
            }
            let (hot_pages, once_pages) = (resident(machine, hot), resident(machine, once));
            assert!(hot_pages == 1500 && once_pages == 0, "{kernel}: {hot_pages}, {once_pages}");

            close(machine, &[hot, once, stream]);
        });
    }
}

/// Under pressure generations begin and end, and there are two to four of each kind.
#[test]
fn pages_age_by_generations() {
    for kernel in KERNELS {
        on(kernel, |machine| {
            let vec = machine.vm.lru().of_zone(1);
            assert_eq!(machine.vm.lru().generation_numbers(vec), Some((3, [0, 0])));
            let mapping = machine.vm.create_mapping(6000);
            let stream = file(machine, 30_000);
            for part in 0..30 {
                (0..6000).for_each(|index| touch(machine, mapping, index));
                read(machine, stream, 1000 * part..1000 * (part + 1));
                let (max, min) = machine.vm.lru().generation_numbers(vec).unwrap();
                assert!(
                    min.iter().all(|&min| (2..=4).contains(&(max - min + 1))),
                    "{max}, {min:?}"
                );
            }
            let (max, min) = machine.vm.lru().generation_numbers(vec).unwrap();
            assert!(max > 3, "{kernel}: {max}, {min:?}");
            close(machine, &[stream]);
        });
    }
}

/// Pages of a mapping that its program uses stay in memory while others are swapped out: walks of page tables and looks around
/// pages that reclaim meets find them.
#[test]
fn page_tables_tell_what_is_used() {
    for kernel in KERNELS {
        on(kernel, |machine| {
            let (used, unused) = (machine.vm.create_mapping(2048), machine.vm.create_mapping(2048));
            for at in 0..2048 {
                touch(machine, used, at);
                touch(machine, unused, at);
            }
            let other = machine.vm.create_mapping(6000);
            machine.vm.take_work();
            for index in 0..6000 {
                touch(machine, other, index);
                if index % 256 == 0 {
                    (0..2048).for_each(|at| touch(machine, used, at));
                    machine.run_daemons();
                }
            }
            let (hot, cold) = (in_memory(machine, used), in_memory(machine, unused));
            assert!(hot > 1900 && cold < 1024, "{kernel}: {hot} and {cold}");
            assert!(machine.vm.take_work().ptes > 10_000, "{kernel}");
        });
    }
}

/// Without swap no page table is walked: there is nothing to evict that it maps.
#[test]
fn without_swap_nothing_is_walked() {
    for kernel in KERNELS {
        with_machine(
            kernel,
            |_, _| {},
            1,
            8192,
            |machine| {
                let mapping = machine.vm.create_mapping(2048);
                (0..2048).for_each(|at| assert!(machine.fault(0, mapping, at)));
                let stream = file(machine, 20_000);
                read(machine, stream, 0..20_000);
                assert_eq!((machine.vm.take_work().ptes, in_memory(machine, mapping)), (0, 2048));
                close(machine, &[stream]);
            },
        );
    }
}

/// Pages that are read twice and refault are protected from a stream that is read once.
#[test]
fn refaults_protect_a_tier() {
    for kernel in KERNELS {
        on(kernel, |machine| {
            let (twice, stream) = (file(machine, 3000), file(machine, 200_000));
            let mut refaults = Vec::new();
            for round in 0..24 {
                let before = machine.vm.stat.workingset_refault;
                (0..2).for_each(|_| read(machine, twice, 0..3000));
                refaults.push(machine.vm.stat.workingset_refault - before);
                read(machine, stream, 8000 * round..8000 * (round + 1));
            }
            let (early, late): (u64, u64) =
                (refaults[1..7].iter().sum(), refaults[18..].iter().sum());
            assert!(early > 2000 && late < early / 2, "{kernel}: {refaults:?}");
            close(machine, &[twice, stream]);
        });
    }
}

/// Returns the processes that are killed if more memory is used than there is, within ten seconds.
fn killed(kernel: &str, min_ttl_ms: u32) -> u64 {
    let set = |kernel: &mut Kernel, config: &mut Config| {
        kernel.mglru.min_ttl_ms = min_ttl_ms;
        config.swap_pages = 32768;
    };
    with_machine(kernel, set, 1, 8192, |machine| {
        let spaces = [machine.vm.create_mapping(6000), machine.vm.create_mapping(5900)];
        for index in 0..6000 {
            machine.vm.set_age_clock(1000 + u64::from(index));
            for space in spaces {
                if !machine.vm.is_killed(space) && index < machine.vm.spaces().get(space).len() {
                    machine.fault(0, space, index);
                }
            }
            machine.run_daemons();
            machine.finish_writes();
        }
        machine.vm.stat.oom_kill
    })
}

/// `min_ttl_ms` has kswapd kill a process rather than evict pages that are younger.
#[test]
fn young_pages_are_kept_at_the_price_of_a_process() {
    for kernel in KERNELS {
        assert_eq!(killed(kernel, 0), 0, "{kernel}");
        assert!(killed(kernel, 60_000) > 0, "{kernel}");
    }
}

/// Returns kswapd's runs for boosts, and what it freed for them.
fn boosted(kernel: &str) -> (u64, u64) {
    on(kernel, |machine| {
        let stream = file(machine, 30_000);
        let mut blocks = Vec::new();
        for part in 0..30 {
            read(machine, stream, 1000 * part..1000 * (part + 1));
            let block = machine.alloc(0, Request::new(0, Gfp::GFP_KERNEL)).unwrap();
            machine.vm.own(block, 0, Owner::Driver, 0);
            blocks.push(block);
        }
        let stat = machine.vm.stat;
        blocks.into_iter().for_each(|block| machine.vm.disown(0, block));
        close(machine, &[stream]);
        (stat.pageoutrun_boosted, stat.pgsteal_boosted)
    })
}

/// kswapd may not write for a boost, and then leaves generations alone (docs/linux/generations.md).
#[test]
fn a_boost_frees_nothing_of_generations() {
    let (runs, freed) = boosted("linux-6.12");
    assert!(runs > 0 && freed > 0, "{runs}, {freed}");
    for kernel in KERNELS {
        let (runs, freed) = boosted(kernel);
        assert!(runs > 0 && freed == 0, "{kernel}: {runs}, {freed}");
    }
}
