//! hugealloc on small machines: what freelist hygiene changes, and that mixed lists are impossible from 6.10.

use std::cell::Cell;

use pageblock::mobility::Migratetype;
#[cfg(debug_assertions)]
use pageblock::preset::PRESETS;
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::value::names;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::hugealloc::{Hugealloc, Sizes};

fn machine(scale: &str) -> MachineSpec {
    let text = include_str!("../../../../machines/weiner-1g8.toml");
    machine_file::parse(text, Scale::parse(scale).unwrap()).unwrap()
}

/// Returns the maximum number of free pages on a list of another type than their pageblock's, over all progress
/// reports; and the run.
fn simulate(policy: &str, builds: u32) -> (u64, Run) {
    let machine = machine("1/16");
    let simulation = Simulation {
        machine: &machine,
        kernel: &Named::parse(policy).unwrap(),
        workload: &Hugealloc { builds, verify_jobs: true, ..Hugealloc::WHOLE },
        seed: 1,
    };
    let most = Cell::new(0);
    let run = simulation.run(&mut |world| {
        let mut pages = 0;
        for zone in world.vm.allocator().zones() {
            for mt in Migratetype::ALL {
                for order in 0..=zone.geometry().max_order {
                    let lists = zone.free_list(order, mt);
                    let other = lists.filter(|&pfn| zone.block_type(pfn) != Some(mt)).count();
                    pages += (other as u64) << order;
                }
            }
        }
        most.set(most.get().max(pages));
        true
    });
    (most.get(), run.unwrap().unwrap())
}

#[test]
fn from_6_10_no_page_is_on_a_list_of_another_type() {
    let (_, old) = simulate("linux-6.9", 6);
    // After every compile job the allocator itself verifies every free page.
    let (after, new) = simulate("linux-6.10", 6);
    let taken = |run: &Run| run.counters.get(names::LIST_MISMATCH_PAGES).unwrap();
    assert!(taken(&old) > 0);
    assert_eq!((after, taken(&new)), (0, 0));
}

/// Counts the movements of free blocks in three builds: all, and those that disagree with their pageblock. A
/// run under a strict policy fails at the first such movement (`crates/pageblock/src/table/movement.rs`).
#[cfg(debug_assertions)]
fn movements(policy: &str) -> [u64; 2] {
    let machine = machine("1/16");
    let simulation = Simulation {
        machine: &machine,
        kernel: &Named::parse(policy).unwrap(),
        workload: &Hugealloc { builds: 3, ..Hugealloc::WHOLE },
        seed: 1,
    };
    let run = simulation.run(&mut |_| true).unwrap().unwrap();
    let count = |name| run.counters.get(name).unwrap();
    let found = [count(names::LIST_MOVEMENTS), count(names::LIST_MOVEMENTS_MIXED)];
    println!("{policy}: {} movements were checked, {} disagree", found[0], found[1]);
    found
}

#[test]
#[cfg(debug_assertions)]
fn from_6_10_every_movement_agrees_with_its_pageblock() {
    let [of_6_9, mixed] = movements("linux-6.9");
    assert!(mixed > 0, "the same check finds what 6.9 does, among {of_6_9} movements");
    for preset in PRESETS.iter().filter(|preset| preset.policy.list_type_strict()) {
        let [all, mixed] = movements(preset.name);
        assert!(all > of_6_9 / 2 && mixed == 0, "{}: {mixed} of {all}", preset.name);
    }
}

#[test]
fn every_build_requests_as_many_huge_pages() {
    let (_, run) = simulate("linux-6.10", 2);
    let sizes = Sizes::of(&machine("1/16")).unwrap();
    let samples = |name: &str| {
        run.samples[&pageblock_simulate::workload::hugealloc::sample_name(name)].clone()
    };
    let (given, refused) = (samples("thp_fault_alloc"), samples("thp_fault_fallback"));
    let attempts: Vec<u64> = given.iter().zip(&refused).map(|(a, b)| a + b).collect();
    assert_eq!(attempts, [sizes.batches * sizes.batch; 2]);
}

/// 67,211 attempts a build were published.
#[test]
fn sizes_are_those_published_for_hugealloc() {
    let sizes = Sizes::of(&machine("1")).unwrap();
    assert_eq!((sizes.jobs, sizes.batches * sizes.batch), (2400, 67_200));
}
