//! Programs on a small machine.

use std::cell::Cell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;

use pageblock::alloc::Allocator;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock_kernel::rules::huge::SizeEnabled;
use pageblock_kernel::{Kernel, Named};
use pageblock_measure::value::ended::{EndReason, Ended};
use pageblock_vm::Vm;
use pageblock_vm::config::Config;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::Advice;

use super::daemons;
use super::disk::Disk;
use super::executor::{Executor, Place};
use super::machine_file::{self, Scale};
use super::observed::Observed;
use super::read_ahead::VAIN;
use super::sched::TaskId;
use super::task::Ctx;
use super::world::World;
use super::{MICROSECOND, SECOND};

type Program = Box<dyn FnOnce(Ctx<'static>) -> Pin<Box<dyn Future<Output = ()>>>>;

fn program<F: Future<Output = ()> + 'static>(
    body: impl FnOnce(Ctx<'static>) -> F + 'static,
) -> Program {
    Box::new(|ctx| Box::pin(body(ctx)))
}

/// Runs programs on 8 CPUs and `mib` MiB until all have ended, then inspects the world.
fn run<R>(
    mib: u64,
    set: impl FnOnce(&mut Kernel, &mut Config),
    programs: Vec<Program>,
    look: impl FnOnce(&mut World<'static>) -> R,
) -> R {
    run_kernel("linux-6.9", 400, mib, set, programs, look)
}

/// Does the same with a given kernel, and a disk that writes this many MiB a second.
fn run_kernel<R>(
    name: &str,
    write_mib_s: u64,
    mib: u64,
    set: impl FnOnce(&mut Kernel, &mut Config),
    programs: Vec<Program>,
    look: impl FnOnce(&mut World<'static>) -> R,
) -> R {
    let (mut executor, tasks) = started(name, write_mib_s, mib, set, programs);
    executor.run(&tasks, "programs").unwrap();
    executor.with(|w| {
        w.vm.check().unwrap();
        look(w)
    })
}

/// Returns the machine with its programs started.
fn started(
    name: &str,
    write_mib_s: u64,
    mib: u64,
    set: impl FnOnce(&mut Kernel, &mut Config),
    programs: Vec<Program>,
) -> (Executor<'static>, Vec<TaskId>) {
    let text = format!(
        "name = \"tiny\"\ndma32_end_mib = 32\n[[node]]\ncpus = 8\nmemory_mib = [[0, {mib}]]\n\
         [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = {write_mib_s}\n"
    );
    let machine = machine_file::parse(&text, Scale::WHOLE).unwrap();
    // The world of a test may outlive it.
    let mut kernel = Named::parse(name).unwrap().kernel;
    let mut config = Config::default();
    set(&mut kernel, &mut config);
    let kernel: &'static Kernel = Box::leak(Box::new(kernel));
    let setup = Setup::new(kernel.allocator, &machine.zones, &machine.cpu_nodes);
    let memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()].leak();
    let mut allocator = Allocator::new(memory, &setup).unwrap();
    machine.memory.iter().for_each(|&range| allocator.release(range).unwrap());
    allocator.retune();
    let vm = Vm::new(allocator, kernel, config, Observed::new(None));
    let disk = Disk::new(machine.disk);
    let world = World::new(vm, machine.cpu, disk, &machine.cpu_nodes, 1);
    let mut executor = Executor::new(world, Box::leak(Box::new(|_: &World<'_>| true)));
    daemons::spawn(&mut executor);
    let tasks: Vec<_> = programs
        .into_iter()
        .map(|program| executor.spawn("program", Place::Near(0), program))
        .collect();
    (executor, tasks)
}

/// Runs a program on 64 MiB that must not complete; returns how the run ended.
fn ends_early(program: Program) -> Ended {
    let (mut executor, tasks) = started("linux-6.9", 400, 64, |_, _| {}, vec![program]);
    executor.run(&tasks, "programs").unwrap_err();
    executor.with(|w| {
        w.vm.check().unwrap();
        assert_eq!(w.failure, None);
        w.ended.clone().expect("it says why")
    })
}

#[test]
fn a_nofs_request_that_cannot_be_served_is_a_livelock() {
    let ended = ends_early(program(|ctx| async move {
        // There is no process to kill, and such a request does not fail.
        loop {
            let page = ctx.kernel_block(Request::new(0, Gfp::GFP_NOFS), Owner::Driver).await;
            assert!(page.is_ok());
        }
    }));
    assert_eq!((ended.why, ended.task.as_str()), (EndReason::Livelock, "program"));
    assert_eq!(ended.request, "order 0, GFP_NOFS");
    assert!(ended.since_ms < 10_000, "{ended}");
    assert!((120_000..130_000).contains(&(ended.at_ms - ended.since_ms)), "{ended}");
}

#[test]
fn a_machine_on_which_no_program_touches_a_page_is_a_livelock() {
    let busy = ends_early(program(|ctx| async move {
        loop {
            ctx.spend(SECOND / 50_000);
            ctx.charge_accrued().await;
        }
    }));
    assert_eq!((busy.why, busy.request.as_str()), (EndReason::Livelock, ""));
    let idle = ends_early(program(|ctx| async move { ctx.block(None).await }));
    assert_eq!(idle.to_string(), "livelock, no progress since 0.0 s, ended at 600.0 s");
}

#[test]
fn a_program_that_takes_all_memory_is_ended_and_another_continues() {
    let lived = Rc::new(Cell::new(false));
    let seen = Rc::clone(&lived);
    let hog = program(|ctx| async move {
        let space = ctx.with(|w| w.vm.create_mapping(64 * 256));
        for index in 0..64 * 256 {
            if ctx.fault_base(space, index).await.is_err() {
                ctx.end_program("the hog");
                break;
            }
        }
        let cpu = ctx.cpu();
        ctx.with(|w| w.vm.remove_space(cpu, space));
    });
    let small = program(|ctx| async move {
        let space = ctx.with(|w| w.vm.create_mapping(1000));
        for index in 0..1000 {
            ctx.fault_base(space, index).await.unwrap();
            ctx.sleep(SECOND / 1000).await;
        }
        seen.set(true);
    });
    run(
        64,
        |_, _| {},
        vec![hog, small],
        |w| {
            assert_eq!(w.vm.stat.oom_kill, 1);
            let deaths: Vec<&str> = w.deaths.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(deaths, ["the hog"]);
        },
    );
    assert!(lived.get());
}

/// A run may be looked at, and may end, whenever a task waits.
#[test]
fn every_page_has_an_owner_whenever_a_task_waits() {
    let done = Rc::new(Cell::new(0));
    let mut programs: Vec<_> = (0..4)
        .map(|_| {
            let done = Rc::clone(&done);
            program(|ctx| async move {
                ctx.with(|w| w.watches_stalls = true);
                let space = ctx.with(|w| w.vm.create_mapping(8000));
                for index in 0..8000 {
                    ctx.fault_base(space, index).await.unwrap();
                }
                done.set(done.get() + 1);
            })
        })
        .collect();
    programs.push(program(|ctx| async move {
        while done.get() < 4 {
            ctx.with(|w| w.vm.check().unwrap());
            ctx.sleep(100 * MICROSECOND).await;
        }
    }));
    run(
        64,
        |_, config| config.swap_pages = 40_000,
        programs,
        |w| assert!(w.samples.contains_key("stall-order-0")),
    );
}

/// A reader gets its pages however fast they are reclaimed.
#[test]
fn a_reader_whose_pages_are_taken_at_once_gets_to_the_end() {
    const PAGES: u32 = 3;
    let read = Rc::new(Cell::new(false));
    let done = Rc::clone(&read);
    let file = Rc::new(Cell::new(None));
    let of_reader = Rc::clone(&file);
    let reader = program(|ctx| async move {
        let inode = ctx.with(|w| w.vm.create_file(PAGES));
        ctx.open(inode).await.unwrap();
        let space = ctx.with(|w| w.vm.inodes().get(inode).space);
        of_reader.set(Some(space));
        assert!(ctx.read_pages(space, 0..PAGES).await.unwrap() > u64::from(VAIN));
        done.set(true);
    });
    let thief = program(|ctx| async move {
        while !read.get() {
            ctx.sleep(20 * MICROSECOND).await;
            let cpu = ctx.cpu();
            let Some(space) = file.get() else { continue };
            ctx.with(|w| (0..PAGES).for_each(|index| w.vm.unmap_page(cpu, space, index)));
        }
    });
    run(64, |_, _| {}, vec![reader, thief], |w| assert!(w.readers_hold));
}

#[test]
fn khugepaged_works_while_programs_sleep() {
    let sleeper = program(|ctx| async move {
        let space = ctx.with(|w| w.vm.create_mapping(4096));
        for index in 0..4096 {
            ctx.fault_base(space, index).await.unwrap();
        }
        assert!(!ctx.fault_huge(space, 0, Advice::HugePages).await, "small pages are mapped there");
        ctx.with(|w| w.vm.enter_khugepaged(space));
        ctx.sleep(11 * SECOND).await;
    });
    run(
        128,
        |_, _| {},
        vec![sleeper],
        |w| {
            assert_eq!(w.vm.stat.thp_collapse_alloc, 8);
            assert!(w.vm.stat.thp_fault_fallback == 0);
        },
    );
}

#[test]
fn the_hugetlb_pool_is_limited_by_memory() {
    let admin = program(|ctx| async move {
        assert_eq!(ctx.set_hugetlb(10).await, 10);
        let most = ctx.set_hugetlb(1000).await;
        assert!((20..32).contains(&most), "{most}");
        assert_eq!(ctx.set_hugetlb(0).await, 0);
    });
    run(
        64,
        |_, _| {},
        vec![admin],
        |w| {
            assert!(w.vm.stat.htlb_buddy_alloc_fail > 0);
            assert_eq!(w.vm.stat.oom_kill, 0, "nobody is killed for the pool");
        },
    );
}

#[test]
fn faults_use_the_enabled_sizes() {
    let faulter = program(|ctx| async move {
        let space = ctx.with(|w| w.vm.create_mapping(1000));
        let mut faults = 0;
        for index in 0..1000 {
            if ctx.with(|w| w.vm.spaces().slot(space, index)) == Slot::Empty {
                ctx.fault_sized(space, index, Advice::None).await.unwrap();
                faults += 1;
            }
        }
        // 62 blocks of 16 pages, and the remaining 8 pages.
        assert_eq!(faults, 70);
    });
    run(
        64,
        |kernel, _| kernel.huge.hugepages_64kb = SizeEnabled::Always,
        vec![faulter],
        |w| {
            assert_eq!((w.vm.stat.anon_fault_alloc, w.vm.stat.pgfault), (62, 70));
        },
    );
}

/// Returns the orders of the folios of a file, in its order; `None` for a page that is not in memory.
fn folios(w: &World<'_>, space: SpaceId) -> Vec<Option<u8>> {
    let (mut index, mut orders) = (0, Vec::new());
    while index < w.vm.spaces().get(space).len() {
        let folio = w.vm.folio_at(space, index);
        let order = folio.map(|folio| w.vm.pages().get(Pfn(folio.into())).order());
        orders.push(order);
        index += 1 << order.unwrap_or(0);
    }
    orders
}

/// A write has folios of its length; they are written to the disk whole, and split where a part is cut out.
#[test]
fn writes_use_folios_of_their_length() {
    let writer = program(|ctx| async move {
        let inode = ctx.with(|w| w.vm.create_file(203));
        ctx.open(inode).await.unwrap();
        let space = ctx.with(|w| w.vm.inodes().get(inode).space);
        ctx.write_pages(space, 0..203, &mut 0).await.unwrap();
        let orders = |wanted: &[u8]| wanted.iter().map(|&order| Some(order)).collect::<Vec<_>>();
        assert_eq!(ctx.with(|w| folios(w, space)), orders(&[7, 6, 3, 1, 0]));
        assert_eq!(ctx.with(|w| w.vm.nr_dirty()), (203, 0));
        // Pages of a folio that is there stay in it.
        ctx.write_page(space, 5, &mut 0).await.unwrap();
        assert_eq!(
            ctx.with(|w| (w.vm.nr_dirty(), w.vm.spaces().get(space).dirty)),
            ((203, 0), 203)
        );
        ctx.sleep(37 * SECOND).await;
        assert_eq!(ctx.with(|w| (w.vm.nr_dirty(), w.vm.stat.nr_written)), ((0, 0), 203));
        let cpu = ctx.cpu();
        ctx.with(|w| w.vm.unmap_page(cpu, space, 130));
        let cut = ctx.with(|w| folios(w, space));
        assert_eq!((cut.len(), cut[0], cut[1], cut[3]), (1 + 64 + 3, Some(7), Some(0), None));
    });
    run_kernel("linux-7.2", 400, 64, |_, _| {}, vec![writer], |_| ());
}

/// Reads of a stream have larger and larger folios, up to the window's; reclaim frees them whole.
#[test]
fn streams_read_larger_and_larger_folios() {
    let counts = |kernel: &str| {
        let counts = Rc::new(Cell::new([0; 6]));
        let out = Rc::clone(&counts);
        let reader = program(|ctx| async move {
            let inode = ctx.with(|w| w.vm.create_file(160));
            ctx.open(inode).await.unwrap();
            let space = ctx.with(|w| w.vm.inodes().get(inode).space);
            assert_eq!(ctx.read_pages(space, 0..160).await.unwrap(), 160);
            let mut found = [0; 6];
            for order in ctx.with(|w| folios(w, space)) {
                found[usize::from(order.unwrap())] += 1;
            }
            out.set(found);
            let pool = ctx.with(|w| w.vm.create_mapping(20_000));
            let mut index = 0;
            while ctx.with(|w| w.vm.spaces().get(space).present) > 0 {
                ctx.fault_base(pool, index).await.unwrap();
                index += 1;
            }
            let cpu = ctx.cpu();
            ctx.with(|w| w.vm.remove_space(cpu, pool));
            // What comes back was evicted as folios.
            assert_eq!(ctx.read_pages(space, 0..160).await.unwrap(), 160);
        });
        run_kernel(kernel, 400, 64, |_, _| {}, vec![reader], |_| ());
        counts.get()
    };
    assert_eq!(counts("linux-5.17"), [160, 0, 0, 0, 0, 0]);
    assert_eq!(counts("linux-6.12"), [0, 0, 8, 0, 2, 3]);
    assert_eq!(counts("linux-7.2"), [32, 0, 8, 0, 2, 2]);
}

#[test]
fn pages_dirty_for_thirty_seconds_are_written() {
    let written_at = |seconds: u64| {
        let writer = program(move |ctx| async move {
            let inode = ctx.with(|w| w.vm.create_file(100));
            ctx.open(inode).await.unwrap();
            let space = ctx.with(|w| w.vm.inodes().get(inode).space);
            for index in 0..100 {
                ctx.write_page(space, index, &mut 0).await.unwrap();
            }
            ctx.sleep(seconds * SECOND).await;
        });
        run(64, |_, _| {}, vec![writer], |w| w.vm.stat.nr_written)
    };
    assert_eq!((written_at(25), written_at(37)), (0, 100));
}

/// Returns the pages that kswapd scans while a program wakes it all the time and all it meets is dirty or waits
/// for a slow disk. `heard`: a wakeup ends its waits.
fn scanned(kernel: &str, heard: bool) -> u64 {
    let writer = program(move |ctx| async move {
        let inode = ctx.with(|w| w.vm.create_file(12_000));
        ctx.open(inode).await.unwrap();
        let space = ctx.with(|w| w.vm.inodes().get(inode).space);
        for index in 0..12_000 {
            ctx.write_page(space, index, &mut 0).await.unwrap();
        }
        // Little memory is free; the allocation of the rest wakes kswapd.
        let pool = ctx.with(|w| w.vm.create_mapping(8000));
        for index in 0..8000 {
            ctx.fault_base(pool, index).await.unwrap();
            ctx.with(|w| {
                if heard && w.vm.nodes()[0].kswapd.is_running() {
                    w.sched.wake(w.kswapds[0]);
                }
            });
            ctx.sleep(SECOND / 1000).await;
        }
    });
    let never = |kernel: &mut Kernel, _: &mut Config| {
        (kernel.sysctl.dirty_ratio, kernel.sysctl.dirty_background_ratio) = (100, 100);
        kernel.sysctl.dirty_writeback_centisecs = 0;
    };
    run_kernel(kernel, 1, 64, never, vec![writer], |w| w.vm.stat.pgscan_kswapd)
}

/// A kswapd that waits for the disk does so for a tenth of a second, or until pages are written, however often
/// it is woken meanwhile.
#[test]
fn a_kswapd_that_waits_for_the_disk_ignores_wakeups() {
    for kernel in ["linux-3.11", "linux-4.4", "linux-4.20", "linux-5.10", "linux-6.9"] {
        let (deaf, heard) = (scanned(kernel, false), scanned(kernel, true));
        assert!(0 < deaf && 5 * deaf < heard, "{kernel}: {deaf} pages, {heard} if it heard");
    }
}

/// A reclaimer waits for a slot in the disk's queue before its next write to swap. Up to 4.20 a batching task
/// may send some more to a full queue.
#[test]
fn reclaim_waits_for_the_queue() {
    for (kernel, more) in [("linux-3.10", 64), ("linux-4.20", 64), ("linux-6.9", 0)] {
        let most = Rc::new(Cell::new(0));
        let seen = Rc::clone(&most);
        let swapper = program(|ctx| async move {
            let space = ctx.with(|w| w.vm.create_mapping(24_000));
            for index in 0..24_000 {
                ctx.fault_base(space, index).await.unwrap();
                seen.set(seen.get().max(ctx.with(|w| w.disk.outstanding)));
            }
        });
        run_kernel(
            kernel,
            1,
            64,
            |_, config| config.swap_pages = 40_000,
            vec![swapper],
            |w| {
                assert!(w.vm.stat.pswpout > 1000, "{kernel}");
                // A step of reclaim may submit several.
                assert!(most.get() <= 128 + more + 4, "{kernel}: {}", most.get());
            },
        );
    }
}
