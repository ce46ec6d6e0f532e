//! The fair zone allocator on small machines: fairness between zones keeps a program's memory from being
//! swapped.

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::sim::machine_file::{self, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::parallelio::{ParallelIo, Sizes};

const NUMA: &str = include_str!("../../../../machines/numa-8g.toml");

fn run(name: &str) -> Run {
    let machine = machine_file::parse(NUMA, Scale::parse("1/32").unwrap()).unwrap();
    let simulation = Simulation {
        machine: &machine,
        kernel: &Named::parse(name).unwrap(),
        workload: &ParallelIo,
        seed: 1,
    };
    // Every phase verifies that no page was lost.
    simulation.run(&mut |_| true).unwrap().unwrap()
}

#[test]
fn fairness_protects_the_foreground() {
    let (old, new) =
        (run("linux-3.11"), run("linux-3.11,kswapd_wake=zone_balanced,fair=all_zones"));
    let value = |run: &Run, name: &str| run.samples[name][0];
    for size in ["2639M", "4487M"] {
        let both = |name: &str| {
            let name = format!("{name}-{size}");
            (value(&old, &name), value(&new, &name))
        };
        let (before, after) = both("memcachetest");
        assert!(after * 100 > before * 105, "{size}: {before} to {after} operations a second");
        for name in ["io-duration", "swaptotal", "swapin", "majorfaults"] {
            let (before, after) = both(name);
            assert!(after < before, "{name}-{size}: {before} to {after}");
        }
    }
    assert_eq!(value(&new, "io-duration-0M"), 0);
    let efficiency = |run: &Run| {
        let count = |name| run.counters.get(name).unwrap() as f64;
        count("pgsteal_kswapd") / count("pgscan_kswapd")
    };
    assert!(efficiency(&old) < 0.7 && efficiency(&new) > 0.8);
}

/// Fairness equalizes ages: pages get as old in one zone as in another before they are reclaimed.
#[test]
fn fairness_equalizes_page_ages() {
    let spread = |name: &str| {
        let run = run(name);
        let ages = run.samples.iter().filter(|(name, _)| name.starts_with("reclaim-age-"));
        let means: Vec<u64> =
            ages.map(|(_, ms)| ms.iter().sum::<u64>() / ms.len() as u64).collect();
        assert_eq!(means.len(), 4, "{means:?}");
        means.iter().max().unwrap() * 100 / means.iter().min().unwrap().max(&1)
    };
    let (old, new) = (spread("linux-3.11"), spread("linux-3.11,fair=all_zones"));
    assert!(old > 200 && new < 150, "oldest to youngest: {old} %, {new} %");
}

/// The names of the published rows, and its items (docs/experiments/sources.md#parallelio).
#[test]
fn sizes_are_those_published_for_parallelio() {
    for scale in ["1", "1/8", "1/16", "1/32"] {
        let machine = machine_file::parse(NUMA, Scale::parse(scale).unwrap()).unwrap();
        let sizes = Sizes::of(&machine).unwrap();
        let names: Vec<u64> = sizes.files.iter().map(|(_, mib)| *mib).collect();
        assert_eq!(names, [0, 791, 2639, 4487]);
        if scale == "1" {
            assert_eq!(sizes.items, 324_403);
        }
    }
    let without = NUMA.replace("swap_mib = 7920", "swap_mib = 0");
    let machine = machine_file::parse(&without, Scale::WHOLE).unwrap();
    let error = Sizes::of(&machine).unwrap_err().to_string();
    assert_eq!(error, "parallelio needs swap space; machine numa-8g has none");
}
