//! Seed 4, small: what freelist hygiene changes, and that mixed lists are impossible from 6.10.

use std::cell::Cell;

use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock_lab::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_lab::simulate::Simulation;
use pageblock_lab::workload::hugealloc::{Hugealloc, Sizes};
use pageblock_measure::{Run, names};

fn machine(scale: &str) -> MachineSpec {
    let text = include_str!("../../../../machines/weiner-1g8.toml");
    machine_file::parse(text, Scale::parse(scale).unwrap()).unwrap()
}

/// Free pages on a list of another type than their pageblock's, at most, whenever the run shows
/// itself; and the run.
fn simulate(policy: &str, builds: u32) -> (u64, Run) {
    let machine = machine("1/16");
    let simulation = Simulation {
        machine: &machine,
        policy: (policy, Policy::parse(policy).unwrap()),
        version: (6, 9),
        workload: &Hugealloc { builds, verify_jobs: true },
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
    let (_, old) = simulate("linux-6.9", 3);
    // After every compile job the allocator itself verifies every free page.
    let (after, new) = simulate("linux-6.10", 3);
    let taken = |run: &Run| run.counters.get(names::LIST_MISMATCH_PAGES).unwrap();
    assert!(taken(&old) > 0);
    assert_eq!((after, taken(&new)), (0, 0));
}

#[test]
fn every_build_asks_for_as_many_huge_pages() {
    let (_, run) = simulate("linux-6.10", 2);
    let sizes = Sizes::of(&machine("1/16")).unwrap();
    let samples = |name: &str| run.samples[&pageblock_measure::builds::sample_name(name)].clone();
    let (given, refused) = (samples("thp_fault_alloc"), samples("thp_fault_fallback"));
    let attempts: Vec<u64> = given.iter().zip(&refused).map(|(a, b)| a + b).collect();
    assert_eq!(attempts, [sizes.batches * sizes.batch; 2]);
}

/// 67,211 attempts a build were published.
#[test]
fn sizes_are_those_of_seed_4() {
    let sizes = Sizes::of(&machine("1")).unwrap();
    assert_eq!((sizes.jobs, sizes.batches * sizes.batch), (2400, 67_200));
}
