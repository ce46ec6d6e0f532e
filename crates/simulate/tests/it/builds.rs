//! Builds on a small guest: what is free in blocks of 2 MiB after each phase.

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::sim::machine_file::{self, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::builds::Form;

fn run(policy: &str) -> Run {
    let text = include_str!("../../../../machines/guest-8g.toml");
    let machine = machine_file::parse(text, Scale::parse("1/8").unwrap()).unwrap();
    let kernel = &Named::parse(policy).unwrap();
    let simulation = Simulation { machine: &machine, kernel, workload: &Form::Linux, seed: 1 };
    simulation.run(&mut |_| true).unwrap().unwrap()
}

/// Returns the shares in hundredths of a percent after the build, the clean and the drop.
fn shares(run: &Run) -> [u64; 3] {
    ["built", "cleaned", "dropped"].map(|phase| {
        let samples = &run.samples[&format!("free-in-2-mib-{phase}")];
        assert!(samples.len() == 1 && samples[0] <= 10_000, "{phase}: {samples:?}");
        samples[0]
    })
}

#[test]
fn small_faults_scatter_what_is_free_and_huge_ones_do_not() {
    let (small, huge) = (run("linux-6.1"), run("linux-6.1,thp_enabled=always"));
    assert!(small.counters.get("pgfault") > huge.counters.get("pgfault"));
    for (small, huge) in shares(&small).into_iter().zip(shares(&huge)) {
        assert!(small < huge, "{small} {huge}");
    }
}

#[test]
fn packed_placement_ends_a_build_with_more_whole_pageblocks_than_linux() {
    let (linux, packed) = (run("linux-6.12"), run("linux-6.12,placement=packed"));
    assert!(shares(&linux)[0] < shares(&packed)[0], "{:?} {:?}", shares(&linux), shares(&packed));
}
