//! The purpose of each mechanism, on a small machine.

use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_vm::config::{Config, Filesystem};
use pageblock_vm::inode::XFS;
use pageblock_vm::node_reclaim::{self, NodeReclaim};
use pageblock_vm::space::Slot;
use pageblock_vm::thp::{Advice, fault_requests};

use crate::machine::{Machine, on_nodes, with_machine};

fn fill(machine: &mut Machine<'_>, files: u32, pages: u32) -> Vec<u32> {
    let inodes: Vec<u32> = (0..files).map(|_| machine.vm.create_file(pages)).collect();
    for &inode in &inodes {
        assert!(machine.open(0, inode));
    }
    for index in 0..pages {
        for (at, &inode) in inodes.iter().enumerate() {
            assert!(machine.touch(0, inode, index, true));
            if at % 64 == 0 {
                machine.flush();
                machine.finish_writes();
                machine.run_daemons();
            }
        }
    }
    machine.flush();
    machine.finish_writes();
    inodes
}

#[test]
fn files_larger_than_memory_evict_the_oldest_pages() {
    on_nodes("linux-4.20", 1, 16384, |machine| {
        let inodes = fill(machine, 1500, 16);
        machine.vm.check().unwrap();
        let stat = machine.vm.stat;
        assert_eq!(stat.nr_written, 24000);
        assert!(stat.pgsteal_kswapd > 7000 && stat.oom_kill == 0, "{stat:?}");
        assert!(stat.allocstall < 100, "kswapd keeps up: {stat:?}");
        // The pages written last are in memory, the first are not.
        let first = machine.vm.inodes().get(inodes[0]).space;
        let is_page = |m: &Machine<'_>, index| {
            matches!(m.vm.spaces().slot(first, index), pageblock_vm::space::Slot::Page(_))
        };
        assert!(is_page(machine, 15) && !is_page(machine, 0));
    });
}

#[test]
fn dropping_page_caches_leaves_what_is_dirty_and_what_is_no_file() {
    on_nodes("linux-6.1", 1, 16384, |machine| {
        let clean = fill(machine, 100, 16);
        let dirty = machine.vm.create_file(16);
        assert!(machine.open(0, dirty));
        (0..16).for_each(|index| assert!(machine.touch(0, dirty, index, true)));
        let mapping = machine.vm.create_mapping(16);
        (0..16).for_each(|index| assert!(machine.fault(0, mapping, index)));
        let spaces: Vec<_> =
            clean.iter().map(|&inode| machine.vm.inodes().get(inode).space).collect();
        let dirty = machine.vm.inodes().get(dirty).space;
        let present = |m: &Machine<'_>, space| m.vm.spaces().get(space).present;
        assert!(spaces.iter().any(|&space| present(machine, space) > 0));
        machine.vm.drop_page_caches(0);
        machine.vm.check().unwrap();
        assert!(spaces.iter().all(|&space| present(machine, space) == 0));
        assert_eq!([present(machine, dirty), present(machine, mapping)], [16, 16]);
    });
}

#[test]
fn a_written_page_has_a_buffer_head_until_it_is_dropped() {
    let configure = |_: &mut Kernel, config: &mut Config| config.filesystem = Filesystem::Ext4;
    with_machine("linux-6.12", configure, 1, 16384, |machine| {
        let heads = |machine: &Machine<'_>| {
            let caches = machine.vm.slabs().caches();
            caches.iter().find(|cache| cache.spec.name == "buffer_head").map(|cache| cache.objects)
        };
        let inodes = fill(machine, 300, 16);
        assert_eq!(heads(machine), Some(4800));
        assert!(machine.touch(0, inodes[0], 0, true));
        assert_eq!(heads(machine), Some(4800), "a page that is written again has one");
        let read = machine.vm.create_file(16);
        assert!(machine.open(0, read));
        assert!((0..16).all(|index| machine.touch(0, read, index, false)));
        assert_eq!(heads(machine), Some(4800), "a page that is only read has none");
        // Compaction moves them with their pages.
        for inode in inodes.iter().step_by(2) {
            machine.vm.close(*inode);
            assert!(machine.vm.remove_file(0, *inode));
        }
        assert_eq!(heads(machine), Some(2400));
        let moved = machine.vm.stat.pgmigrate_success;
        let huge = Request::new(9, Gfp::GFP_TRANSHUGE | Gfp::RETRY_MAYFAIL);
        let blocks: Vec<_> = std::iter::from_fn(|| machine.alloc(0, huge)).collect();
        assert!(machine.vm.stat.pgmigrate_success > moved);
        for &pfn in &blocks {
            machine.vm.own(pfn, 9, pageblock_vm::page::Owner::Driver, 0);
        }
        machine.vm.check().unwrap();
        machine.vm.drop_page_caches(0);
        let left = machine.vm.nr_dirty().0;
        assert_eq!(heads(machine), Some(left));
    });
}

#[test]
fn a_journaled_block_stays_where_it_is_until_it_is_written() {
    let configure = |_: &mut Kernel, config: &mut Config| config.filesystem = Filesystem::Ext4;
    with_machine("linux-6.12", configure, 1, 8192, |machine| {
        let inode = machine.vm.create_file(1);
        assert!(!machine.vm.journal_inode(inode), "its block is not in memory");
        assert!(machine.journal(0, inode));
        let (space, index) = machine.vm.inode_block(inode).expect("ext4");
        let block = |machine: &Machine<'_>| machine.vm.folio_at(space, index);
        let at = block(machine).expect("it is in memory");
        // Whole free blocks are no targets.
        let mapping = machine.vm.create_mapping(4000);
        assert!((0..4000).all(|index| machine.fault(0, mapping, index)));
        (0..4000).step_by(2).for_each(|index| machine.vm.unmap_page(0, mapping, index));
        let fails = |machine: &mut Machine<'_>| {
            let before = machine.vm.stat.pgmigrate_fail;
            machine.vm.compact_memory(0);
            machine.vm.stat.pgmigrate_fail - before
        };
        assert!(fails(machine) > 0);
        machine.vm.drop_page_caches(0);
        assert_eq!(block(machine), Some(at), "it is neither moved nor freed");
        machine.vm.commit_journal();
        assert_eq!(machine.vm.nr_dirty(), (1, 0));
        machine.flush();
        assert_eq!(machine.vm.nr_dirty(), (0, 1));
        assert!(machine.vm.journal_inode(inode), "it changes again while it is written");
        machine.finish_writes();
        assert!(fails(machine) > 0);
        machine.vm.commit_journal();
        machine.flush();
        machine.finish_writes();
        assert_eq!(fails(machine), 0);
        machine.vm.drop_page_caches(0);
        assert_eq!(block(machine), None);
    });
}

#[test]
fn slabs_of_closed_files_are_freed_under_pressure() {
    on_nodes("linux-4.20", 1, 16384, |machine| {
        let inodes = fill(machine, 2000, 4);
        let objects = || machine.vm.slabs().caches().iter().map(|c| c.objects).sum::<u64>();
        let before = objects();
        for &inode in &inodes {
            machine.vm.close(inode);
        }
        let more = fill(machine, 1500, 16);
        machine.vm.check().unwrap();
        let after: u64 = machine.vm.slabs().caches().iter().map(|c| c.objects).sum();
        assert!(after < before, "{before} objects, now {after}");
        assert!(machine.vm.stat.kswapd_inodesteal > 0);
        for inode in more {
            machine.vm.close(inode);
            assert!(machine.vm.remove_file(0, inode));
        }
    });
}

#[test]
fn compaction_makes_whole_blocks_of_scattered_pages() {
    on_nodes("linux-4.20", 1, 16384, |machine| {
        let space = machine.vm.create_mapping(12000);
        for index in 0..12000 {
            assert!(machine.fault(0, space, index));
        }
        // Every other page is freed: half of memory is free, in single pages.
        let other = machine.vm.create_file(6000);
        assert!(machine.open(0, other));
        machine.vm.check().unwrap();
        for index in (0..12000).step_by(2) {
            machine.vm.unmap_page(0, space, index);
        }
        machine.vm.drain_all();
        let free_blocks = |m: &Machine<'_>| -> u64 {
            m.vm.allocator().zones().iter().map(|z| z.nr_free(9) + 2 * z.nr_free(10)).sum()
        };
        let before = free_blocks(machine);
        machine.vm.compact_memory(0);
        machine.vm.check().unwrap();
        assert!(free_blocks(machine) >= before + 8, "{before} -> {}", free_blocks(machine));
        assert!(machine.vm.stat.pgmigrate_success > 2000);
    });
}

/// If free pages run out in the middle of a batch, the rest of the batch is not tried; from 4.7 on only the page
/// without a target counts as a failure.
#[test]
fn pages_that_were_not_tried_are_no_failures() {
    let failed = |policy| {
        on_nodes(policy, 1, 16384, |machine| {
            let space = machine.vm.create_mapping(15000);
            let mut faulted = 0;
            while faulted < 15000 && machine.fault(0, space, faulted) {
                faulted += 1;
            }
            for index in (0..faulted).step_by(10) {
                machine.vm.unmap_page(0, space, index);
            }
            machine.vm.drain_all();
            machine.vm.compact_memory(0);
            let stat = &machine.vm.stat;
            // For each migrated page two were isolated: itself and its target.
            assert!(stat.compact_isolated > 2 * stat.pgmigrate_success, "{policy}: {stat:?}");
            let failed = stat.pgmigrate_fail;
            machine.vm.remove_space(0, space);
            failed
        })
    };
    assert_eq!(["linux-3.10", "linux-4.4"].map(failed), [0; 2]);
    // One for each zone of the two.
    assert_eq!(["linux-4.20", "linux-6.10"].map(failed), [2; 2]);
}

#[test]
fn a_madvised_fault_compacts_for_its_huge_page() {
    on_nodes("linux-4.20", 1, 32768, |machine| {
        let space = machine.vm.create_mapping(30000);
        let mut faulted = 0;
        while faulted < 30000 && machine.fault(0, space, faulted) {
            faulted += 1;
            if faulted > 28000 {
                break;
            }
        }
        for index in (0..faulted).filter(|i| i % 8 < 5) {
            machine.vm.unmap_page(0, space, index);
        }
        machine.vm.drain_all();
        let huge = machine.vm.create_mapping(512 * 8);
        let mut got = 0;
        for at in 0..8 {
            let requests: Vec<Request> =
                fault_requests(&machine.vm.kernel().huge, Advice::HugePages, 0, 9).collect();
            if let Some(pfn) = requests.into_iter().find_map(|r| machine.alloc(0, r)) {
                machine.vm.add_page(huge, at * 512, pfn, 9);
                got += 1;
            }
        }
        machine.vm.check().unwrap();
        assert!(got >= 6, "{got} huge pages, {:?}", machine.vm.stat);
        let stalls = machine.vm.stat.compact_stall;
        // A fault without MADV_HUGEPAGE does not compact.
        for request in
            fault_requests(&machine.vm.kernel().huge, Advice::None, 0, 9).collect::<Vec<_>>()
        {
            if let Some(pfn) = machine.alloc(0, request) {
                machine.vm.own(pfn, 9, pageblock_vm::page::Owner::Driver, 0);
            }
        }
        assert_eq!(machine.vm.stat.compact_stall, stalls);
    });
}

#[test]
fn anonymous_pages_go_to_swap_and_come_back() {
    with_machine(
        "linux-4.20",
        |_, config| config.swap_pages = 20000,
        1,
        8192,
        |machine| {
            let space = machine.vm.create_mapping(12000);
            for index in 0..12000 {
                assert!(machine.fault(0, space, index), "page {index}: {:?}", machine.vm.stat);
                if index % 32 == 0 {
                    machine.run_daemons();
                    machine.finish_writes();
                }
            }
            machine.vm.check().unwrap();
            assert!(machine.vm.stat.pswpout > 3000);
            for index in 0..12000 {
                assert!(machine.fault(0, space, index));
                if index % 32 == 0 {
                    machine.run_daemons();
                    machine.finish_writes();
                }
            }
            machine.finish_writes();
            machine.vm.remove_space(0, space);
            machine.vm.check().unwrap();
        },
    );
}

#[test]
fn the_oom_killer_runs_when_reclaim_fails() {
    on_nodes("linux-4.20", 1, 4096, |machine| {
        let small = machine.vm.create_mapping(100);
        assert!((0..100).all(|index| machine.fault(0, small, index)));
        let space = machine.vm.create_mapping(5000);
        let served = (0..5000).take_while(|&index| machine.fault(0, space, index)).count();
        assert!(served > 3000 && served < 4096, "{served}");
        // The larger process is killed; the request is served.
        assert_eq!(machine.vm.stat.oom_kill, 1);
        assert!(machine.vm.is_killed(space) && !machine.vm.is_killed(small));
        assert_eq!(machine.vm.spaces().get(space).present, 1);
        machine.vm.check().unwrap();
        machine.vm.remove_space(0, space);
        assert!((0..100).all(|index| machine.fault(0, small, index)));
        // Unkillable processes stay: requests fail.
        machine.vm.remove_space(0, small);
        let request = Request::new(0, pageblock::request::Gfp::GFP_KERNEL);
        while let Some(pfn) = machine.alloc(0, request) {
            machine.vm.own(pfn, 0, pageblock_vm::page::Owner::Driver, 0);
        }
        assert_eq!(machine.vm.stat.oom_kill, 1);
    });
}

#[test]
fn zone_reclaim_mode_reclaims_the_local_node_first() {
    let pages_on_node_1 = |mode| {
        let mut found = 0;
        with_machine(
            "linux-4.20",
            |kernel, _| kernel.allocator.zone_reclaim_mode = mode,
            2,
            8192,
            |machine| {
                let files = fill(machine, 40, 180);
                machine.flush();
                machine.finish_writes();
                let space = machine.vm.create_mapping(4000);
                for index in 0..4000 {
                    let request = Request::new(0, pageblock_vm::cache::GFP_ANON);
                    if let Some(mut reclaim) = NodeReclaim::before(&machine.vm, 0, &request) {
                        while reclaim.step(&mut machine.vm) {}
                    }
                    assert!(machine.fault(0, space, index));
                    if let Slot::Page(pfn) = machine.vm.spaces().slot(space, index) {
                        found += u64::from(pfn >= 8192);
                    }
                }
                assert!(!files.is_empty());
                let stat = &machine.vm.stat;
                assert_eq!(stat.zone_reclaim_success > 0, mode > 0, "{stat:?}");
            },
        );
        found
    };
    let (off, on) = (pages_on_node_1(0), pages_on_node_1(node_reclaim::RECLAIM_ZONE));
    assert!(on * 4 < off, "{off} pages on the other node without, {on} with");
}

/// `MADV_PAGEOUT` frees a program's pages although they were used recently; dirty ones are read back from swap.
#[test]
fn madv_pageout_frees_pages_at_once() {
    with_machine(
        "linux-6.1",
        |_, config| config.swap_pages = 2000,
        1,
        8192,
        |machine| {
            let files = fill(machine, 2, 100);
            let file = machine.vm.inodes().get(files[0]).space;
            let space = machine.vm.create_mapping(1024);
            let huge = Request::new(9, pageblock::request::Gfp::GFP_TRANSHUGE);
            let pfn = machine.alloc(0, huge).unwrap();
            machine.vm.add_page(space, 512, pfn, 9);
            assert!((0..100).all(|index| machine.fault(0, space, index)));
            assert_eq!(machine.vm.page_out(0, file, 0..100), 100);
            assert_eq!(machine.vm.page_out(0, space, 0..5000), 0, "all of it is dirty");
            assert_eq!(machine.vm.stat.pswpout, 612);
            machine.finish_writes();
            machine.vm.check().unwrap();
            assert_eq!(machine.vm.page_out(0, space, 0..1024), 612);
            assert_eq!(machine.vm.spaces().get(space).present, 0);
            assert!(matches!(machine.vm.spaces().slot(space, 700), Slot::Swap(_)));
            assert!(machine.fault(0, space, 700));
            machine.vm.check().unwrap();
        },
    );
}

fn objects(machine: &Machine<'_>, cache: &str) -> u64 {
    machine.vm.slabs().caches().iter().filter(|c| c.spec.name == cache).map(|c| c.objects).sum()
}

/// A file that grows between two rounds of the flusher has more extents than one that is written at once, and its list
/// of extents moves from size class to size class.
#[test]
fn files_that_grow_slowly_need_longer_lists() {
    on_nodes("linux-4.20", 1, 8192, |machine| {
        let (slow, quick) = (machine.vm.create_file(8), machine.vm.create_file(8));
        assert!(machine.open(0, slow) && machine.open(0, quick));
        assert_eq!(objects(machine, "kmalloc-16"), 0, "an empty file has no list");
        for index in 0..8 {
            assert!(machine.touch(0, quick, index, true));
        }
        for index in 0..8 {
            assert!(machine.touch(0, slow, index, true));
            machine.flush();
            machine.finish_writes();
        }
        let lists = ["kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128"];
        assert_eq!(lists.map(|cache| objects(machine, cache)), [1, 0, 0, 0, 1]);
        for inode in [slow, quick] {
            machine.vm.close(inode);
            assert!(machine.vm.remove_file(0, inode));
        }
        assert_eq!(lists.map(|cache| objects(machine, cache)), [0; 5]);
    });
}

#[test]
fn a_cluster_is_written_once_for_all_its_inodes() {
    on_nodes("linux-4.20", 1, 8192, |machine| {
        let inodes: Vec<u32> = (0..33).map(|_| machine.vm.create_file(2)).collect();
        for &inode in &inodes {
            assert!(machine.open(0, inode) && machine.touch(0, inode, 0, true));
            let space = machine.vm.inodes().get(inode).space;
            // Read twice: only the first time the access time is older than the content.
            assert_eq!(machine.vm.touch_atime(space), Some(inode));
            assert_eq!(machine.vm.touch_atime(space), None);
            machine.vm.commit_inode(inode);
        }
        assert_eq!([machine.vm.take_logged(), machine.vm.take_logged()], [Some(0), Some(1)]);
        assert_eq!(machine.vm.take_logged(), None);
    });
}

/// The counts that were measured on 6.18 (src/fs/cil.rs): objects of one size at first, of the next size when blocks
/// are allocated; a checkpoint frees one of two, and a later change needs another.
#[test]
fn a_checkpoint_frees_its_vectors_all_at_once() {
    let configure = |_: &mut Kernel, config: &mut Config| {
        config.file_objects = XFS;
        config.checkpoint_bytes = 100 * 268;
    };
    with_machine("linux-4.20", configure, 1, 8192, |machine| {
        let inodes: Vec<u32> = (0..100).map(|_| machine.vm.create_file(2)).collect();
        let vectors = |machine: &Machine<'_>| {
            let cache = |name| machine.vm.slabs().caches().iter().find(|c| c.spec.name == name);
            ["kmalloc-512", "kmalloc-1k"].map(|name| cache(name).map_or(0, |c| c.objects))
        };
        let change = |machine: &mut Machine<'_>, extents| {
            assert!(inodes.iter().all(|&inode| machine.commit(0, inode, extents)));
        };
        assert!(inodes.iter().all(|&inode| machine.open(0, inode)));
        change(machine, false);
        assert_eq!(vectors(machine), [100, 0]);
        change(machine, false);
        assert_eq!(vectors(machine), [200, 0]);
        change(machine, true);
        change(machine, false);
        assert_eq!(vectors(machine), [0, 200]);
        // An inode that changed again is written once.
        assert!(machine.vm.checkpoint_is_due());
        assert_eq!(machine.vm.begin_checkpoint(), 100 * 268);
        assert!(!machine.vm.checkpoint_is_due());
        machine.vm.check().unwrap();
        // Changes during a checkpoint are part of the next one.
        assert!(machine.commit(0, inodes[0], false));
        machine.vm.end_checkpoint(0);
        assert_eq!(vectors(machine), [0, 100]);
        machine.vm.check().unwrap();
        // The inodes' clusters are written back now; after that a change is small again.
        assert_eq!(machine.vm.take_logged(), Some(0));
        change(machine, false);
        change(machine, false);
        assert_eq!(vectors(machine), [32, 100 + 68]);
        for &inode in &inodes {
            machine.vm.close(inode);
            assert!(machine.vm.remove_file(0, inode));
        }
        assert_eq!(vectors(machine), [0, 0]);
        // The log holds nothing of removed files.
        assert_eq!(machine.vm.begin_checkpoint(), 100 * 268);
        machine.vm.end_checkpoint(0);
        machine.vm.check().unwrap();
    });
}
