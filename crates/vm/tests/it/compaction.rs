//! How compaction scans, and which pageblocks it skips.

use pageblock::decide::{Decide, Evacuation, View};
use pageblock::frame::FrameRange;
use pageblock::request::{Gfp, Request};
use pageblock::zone::Zone;
use pageblock_vm::inject::Inject;
use pageblock_vm::page::Owner;
use pageblock_vm::thp::{Advice, fault_requests};

use crate::machine::{Machine, on_nodes};

/// Pages of memory in these tests: 128 pageblocks.
const PAGES: u64 = 65536;

/// Fills memory with a program's pages and frees those that a filter selects; a driver takes whole free blocks.
fn fill_but(machine: &mut Machine<'_>, free: impl Fn(u32) -> bool) {
    let space = machine.vm.create_mapping(62000);
    let faulted = (0..60000).take_while(|&i| machine.fault(0, space, i)).count() as u32;
    for index in (0..faulted).filter(|&index| free(index)) {
        machine.vm.unmap_page(0, space, index);
    }
    machine.vm.drain_all();
    for order in [10, 9] {
        while let Some(pfn) = machine.vm.try_alloc(0, &Request::new(order, Gfp::GFP_NOWAIT)) {
            machine.vm.own(pfn, order, Owner::Driver, 0);
        }
    }
}

/// Runs a test on a machine that was filled like this, and returns its result.
fn on_filled<T>(
    policy: &str,
    free: impl Fn(u32) -> bool,
    test: impl FnOnce(&mut Machine<'_>) -> T,
) -> T {
    let mut found = None;
    on_nodes(policy, 1, PAGES, |machine| {
        fill_but(machine, free);
        found = Some(test(machine));
    });
    found.unwrap()
}

fn huge_page(machine: &mut Machine<'_>) -> bool {
    let request =
        fault_requests(&machine.vm.kernel().huge, Advice::HugePages, 0, 9).last().unwrap();
    let pfn = machine.alloc(0, request);
    if let Some(pfn) = pfn {
        machine.vm.own(pfn, 9, Owner::Driver, 0);
    }
    pfn.is_some()
}

/// Has the pageblocks of a zone emptied in turn that lie in these frames, each once, to places elsewhere.
struct Emptied(Vec<FrameRange>);

impl Decide for Emptied {
    fn evacuate(&mut self, zone: &dyn View) -> Option<Evacuation> {
        let within = |of: &FrameRange| zone.span().start <= of.start && of.end <= zone.span().end;
        let at = self.0.iter().position(within)?;
        let from = self.0.remove(at);
        let apart = FrameRange { start: zone.span().start, end: from.end };
        Some(Evacuation { from, apart })
    }
}

/// Half of the pages of each pageblock are free. The first of a zone is emptied of all but a driver's page.
#[test]
fn a_policy_has_pageblocks_emptied_in_the_background() {
    let usage = |evacuates: bool| {
        on_filled(
            "linux-7.3",
            |i| i % 2 == 0,
            |machine| {
                let zone = &machine.vm.allocator().zones()[1];
                let first = zone.span().start;
                let free = zone.free_pages();
                let block = FrameRange { start: first, end: first.plus(512) };
                if evacuates {
                    machine.vm.observer.decider = Some(Box::new(Emptied(vec![block])));
                }
                machine.run_daemons();
                // Targets came from CPU lists.
                machine.vm.drain_all();
                let zone = &machine.vm.allocator().zones()[1];
                assert_eq!(zone.free_pages(), free);
                let moved = machine.vm.stat.pgmigrate_success;
                (zone.block_usage(first).unwrap().movable, moved)
            },
        )
    };
    let (used, moved) = usage(false);
    assert!(used > 200 && moved == 0, "{used} used, {moved} moved");
    assert_eq!(usage(true), (0, used));
}

fn hints(machine: &Machine<'_>) -> usize {
    let zones = machine.vm.allocator().zones();
    zones.iter().flat_map(Zone::pageblocks).filter(|&(_, _, skip)| skip).count()
}

/// From 5.1 the free lists tell where free pages are: the free scanner looks at far fewer pages.
#[test]
fn fast_searches_spare_the_free_scanner() {
    // Most pageblocks are full; every sixth has free blocks of eight pages and of one.
    let free = |i: u32| i / 512 % 6 == 5 && i % 16 < 9;
    let scanned_for_16_pages = |policy: &str| {
        on_filled(policy, free, |machine| {
            assert!(huge_page(machine) && huge_page(machine));
            let stat = &machine.vm.stat;
            stat.compact_free_scanned * 16 / stat.pgmigrate_success
        })
    };
    let (before, after) = (scanned_for_16_pages("linux-5.0"), scanned_for_16_pages("linux-5.2"));
    assert!(after * 2 < before, "{before} pages scanned for 16 before, {after} after");
}

/// From 5.1 fewer and fewer pages of each pageblock are looked at as long as no free page is found.
#[test]
fn the_free_scanner_samples_full_pageblocks() {
    let scanned = |policy: &str| {
        // Free pages at the lower end only.
        on_filled(
            policy,
            |i| (20000..24000).contains(&i),
            |machine| {
                machine.vm.compact_memory(0);
                machine.vm.stat.compact_free_scanned
            },
        )
    };
    let (before, after) = (scanned("linux-5.0"), scanned("linux-5.2"));
    assert!(after * 4 < before, "{before} pages scanned before, {after} after");
}

/// From 6.6 a pageblock from which content was taken is skipped afterwards; up to 5.0 only one without content.
#[test]
fn scanned_pageblocks_are_skipped_from_6_6() {
    let hints_left = |policy: &str| {
        on_filled(
            policy,
            |i| i % 4 == 1,
            |machine| {
                assert!(hints(machine) == 0 && huge_page(machine));
                assert!(machine.vm.stat.pgmigrate_success > 300);
                hints(machine)
            },
        )
    };
    assert_eq!(hints_left("linux-6.6,skip_hints=nothing_found"), 0);
    assert!(hints_left("linux-6.6") > 0);
}

/// Up to 6.5 the search for content sets the hint before the scanner runs, which therefore skips the pageblock.
#[test]
fn the_result_of_a_search_is_skipped_up_to_6_5() {
    // Some pageblocks at the lower end are half free already, and the search finds them.
    let free = |i: u32| i < 20000 && i / 512 % 5 == 3 && i % 16 < 8 || i % 8 == 7;
    let moved = |policy: &str| {
        on_filled(policy, free, |machine| {
            assert!(huge_page(machine));
            machine.vm.stat.pgmigrate_success
        })
    };
    let (before, after) = (moved("linux-6.6,searched_block=skipped"), moved("linux-6.6"));
    assert!(
        after < 256 && before > 400,
        "{before} pages moved for a huge page before, {after} after"
    );
}

/// From 6.6 the rest of a pageblock is migrated at once after a page that could not be.
#[test]
fn a_pageblock_is_finished_after_a_failure() {
    let moved = |policy: &str| {
        on_filled(
            policy,
            |i| i % 4 == 1,
            |machine| {
                machine.vm.inject = Inject::new(7, 9);
                assert!(!huge_page(machine));
                machine.vm.stat.pgmigrate_success
            },
        )
    };
    let (before, after) = (moved("linux-6.6,after_failure=next_block"), moved("linux-6.6"));
    assert!(after > before * 4 / 3, "{before} pages moved before, {after} after");
}
