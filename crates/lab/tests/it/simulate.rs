//! Whole simulations, small.

use pageblock::policy::Policy;
use pageblock::preset;
use pageblock_lab::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_lab::simulate::Simulation;
use pageblock_lab::workload::thpfioscale::{Form, Sizes};
use pageblock_measure::Run;

fn machine(nodes: u64, mib: u64) -> MachineSpec {
    let mut text = "name = \"tiny\"\ndma32_end_mib = 32\n".to_owned();
    for node in 0..nodes {
        let (start, end) = (node * mib, (node + 1) * mib);
        text += &format!("[[node]]\ncpus = 8\nmemory_mib = [[{start}, {end}]]\n");
    }
    text += "[disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n";
    machine_file::parse(&text, Scale::WHOLE).unwrap()
}

fn simulate(machine: &MachineSpec, name: &str, form: Form, seed: u64) -> Run {
    let base = name.split(',').next().unwrap();
    let simulation = Simulation {
        machine,
        policy: (name, Policy::parse(name).unwrap()),
        version: preset::find(base).unwrap().version().unwrap(),
        workload: &form,
        seed,
    };
    // Every phase verifies that no page was lost.
    simulation.run(&mut |_| true).unwrap().unwrap()
}

/// The same bytes, alone and among others.
#[test]
fn a_run_is_a_function_of_its_seed() {
    let machine = machine(1, 256);
    let alone = simulate(&machine, "linux-4.20", Form::Madvhugepage, 3);
    let others = std::thread::scope(|scope| {
        let runs: Vec<_> = [3, 4, 3]
            .map(|seed| {
                let machine = &machine;
                scope.spawn(move || simulate(machine, "linux-4.20", Form::Madvhugepage, seed))
            })
            .into_iter()
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(alone, others[0]);
    assert_eq!(alone, others[2]);
    assert_ne!(alone.event_hash, others[1].event_hash);
}

#[test]
fn every_kernel_gets_to_the_end() {
    let (one, two) = (machine(1, 256), machine(2, 192));
    for (at, name) in [
        "linux-3.10",
        "linux-3.16",
        "linux-4.4",
        "linux-4.12",
        "linux-4.20,nofragment=on",
        "linux-5.2",
        "linux-5.14",
        "linux-6.10",
        "linux-6.18",
        "linux-6.18,nofragment=defrag_mode",
        "linux-7.3,nofragment=defrag_mode",
    ]
    .into_iter()
    .enumerate()
    {
        let machine = if at % 2 == 0 { &one } else { &two };
        let form = Form::ALL[at % 3];
        let run = simulate(machine, name, form, 1);
        let sizes = Sizes::of(machine).unwrap();
        let faults: usize = run.samples.values().map(Vec::len).sum();
        assert_eq!(faults as u64, sizes.threads * sizes.regions, "{name}");
        let written = run.counters.get("nr_written").unwrap();
        assert_eq!(written, sizes.files * 4 * 16, "{name}");
        assert_eq!(run.counters.get("oom_kill"), Some(0), "{name}");
    }
}

#[test]
fn huge_pages_come_to_those_who_ask() {
    let machine = machine(1, 256);
    let huge = |form| {
        let run = simulate(&machine, "linux-4.20", form, 1);
        run.samples.get("fault-huge-1").map_or(0, Vec::len)
    };
    let (default, madvised) = (huge(Form::Default), huge(Form::Madvhugepage));
    assert!(madvised > default, "{default} by default, {madvised} with MADV_HUGEPAGE");
}

#[test]
fn a_run_can_be_stopped() {
    let machine = machine(1, 256);
    let simulation = Simulation {
        machine: &machine,
        policy: ("linux-4.20", Policy::parse("linux-4.20").unwrap()),
        version: (4, 20),
        workload: &Form::Default,
        seed: 1,
    };
    assert!(simulation.run(&mut |_| false).unwrap().is_none());
}

#[test]
fn the_benchmark_needs_eight_cpus_a_node() {
    let text = "name = \"few\"\n[[node]]\ncpus = 7\nmemory_mib = [[0, 512]]\n\
        [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n";
    let machine = machine_file::parse(text, Scale::WHOLE).unwrap();
    let error = Sizes::of(&machine).unwrap_err().to_string();
    assert_eq!(error, "thpfioscale needs 8 CPUs a node; machine few has 7");
}

/// Seed 1's sizes (facts/benchmarks.md 1.1).
#[test]
fn sizes_are_those_of_seed_1() {
    let machine = |text| machine_file::parse(text, Scale::WHOLE).unwrap();
    let one = machine(include_str!("../../../../machines/skylake-1s.toml"));
    let two = machine(include_str!("../../../../machines/haswell-2s.toml"));
    assert_eq!(Sizes::of(&one).unwrap(), Sizes { files: 192_672, threads: 1, regions: 6021 });
    assert_eq!(Sizes::of(&two).unwrap(), Sizes { files: 384_336, threads: 5, regions: 1201 });
}
