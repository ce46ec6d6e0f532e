//! zram: the pages that it stores, the memory that it takes, and that no page is lost.

use pageblock_kernel::Kernel;
use pageblock_vm::config::Config;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};

use crate::machine::{Machine, with_machine};

const PAGES: u32 = 3000;

fn with_zram(_: &mut Kernel, config: &mut Config) {
    config.swap_pages = 4000;
    config.zram = true;
}

/// Creates a mapping whose pages are all in swap.
fn paged_out(machine: &mut Machine<'_>) -> SpaceId {
    let space = machine.vm.create_mapping(PAGES);
    assert!((0..PAGES).all(|index| machine.fault(0, space, index)));
    assert_eq!(machine.vm.page_out(0, space, 0..PAGES), PAGES.into(), "freed in the same step");
    machine.vm.check().unwrap();
    space
}

fn back(machine: &mut Machine<'_>, space: SpaceId, index: u32) {
    let request = pageblock::request::Request::new(0, pageblock_vm::cache::GFP_ANON);
    let pfn = machine.alloc(0, request).unwrap();
    assert!(machine.vm.add_or_free(0, space, index, pfn, 0));
}

fn pool(machine: &Machine<'_>) -> (u64, u64) {
    let pool = machine.vm.zram().unwrap().pool();
    (pool.pages(), pool.objects())
}

#[test]
fn pages_take_less_in_zram_and_nothing_after_they_are_read_back() {
    with_machine("linux-6.9", with_zram, 1, 8192, |machine| {
        let space = paged_out(machine);
        let (pages, objects) = pool(machine);
        // 8 % are filled with one value; the rest is compressed 2.8 to 1.
        assert!((2700..2800).contains(&objects), "{objects}");
        // With so few pages a zspage of each class is partly empty: more than a third of the memory, less than half.
        assert!((1000..1500).contains(&pages), "{pages}");
        assert_eq!(machine.vm.swap_places(), (1000, 4000));
        for index in 0..PAGES / 2 {
            back(machine, space, index);
        }
        assert_eq!(machine.vm.stat.workingset_refault_anon, u64::from(PAGES / 2));
        assert!(matches!(machine.vm.spaces().slot(space, 0), Slot::Page(_)));
        machine.vm.check().unwrap();
        // The process exits with half of its pages in swap.
        machine.vm.remove_space(0, space);
        assert_eq!((pool(machine), machine.vm.swap_places()), ((0, 0), (4000, 4000)));
    });
}

#[test]
fn a_full_device_keeps_pages_in_memory() {
    let small = |kernel: &mut Kernel, config: &mut Config| {
        with_zram(kernel, config);
        config.swap_pages = 100;
    };
    with_machine("linux-6.9", small, 1, 8192, |machine| {
        let space = machine.vm.create_mapping(200);
        assert!((0..200).all(|index| machine.fault(0, space, index)));
        assert_eq!(machine.vm.page_out(0, space, 0..200), 100);
        assert_eq!((machine.vm.spaces().get(space).present, machine.vm.swap_places().0), (100, 0));
    });
}

/// Compaction migrates the pages of the pool from 4.8 on, which are then in movable pageblocks.
#[test]
fn the_pool_is_migrated_from_4_8() {
    let moved = |version: &str, movable: bool| {
        let mut moved = 0;
        let config = |kernel: &mut Kernel, config: &mut Config| {
            assert_eq!(kernel.memory.zsmalloc_movable, movable);
            with_zram(kernel, config);
        };
        with_machine(version, config, 1, 8192, |machine| {
            let filler = machine.vm.create_mapping(2000);
            assert!((0..2000).all(|index| machine.fault(0, filler, index)));
            let space = paged_out(machine);
            machine.vm.remove_space(0, filler);
            let before = machine.vm.stat.pgmigrate_success;
            machine.vm.compact_memory(0);
            machine.vm.check().unwrap();
            moved = machine.vm.stat.pgmigrate_success - before;
            // The zspages have the new pages.
            for index in 0..PAGES {
                back(machine, space, index);
            }
            let pages = machine.vm.pages();
            let left = (0..pages.len() as u64)
                .filter(|&pfn| pages.get(pageblock::frame::Pfn(pfn)).kind() == Owner::Zsmalloc);
            assert_eq!(left.count(), 0);
        });
        moved
    };
    assert_eq!(moved("linux-4.4", false), 0);
    assert!(moved("linux-6.9", true) > 100);
}
