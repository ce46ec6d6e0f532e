//! Simulations of small machines.

use pageblock::mobility::Migratetype;
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::android::AndroidUptime;
use pageblock_simulate::workload::netperf::NetperfUdp;
use pageblock_simulate::workload::thpfioscale::{Form, Sizes};
use pageblock_vm::slab::SlabAllocator;

pub(crate) fn machine(nodes: u64, mib: u64) -> MachineSpec {
    let mut text = "name = \"tiny\"\ndma32_end_mib = 32\n".to_owned();
    for node in 0..nodes {
        let (start, end) = (node * mib, (node + 1) * mib);
        text += &format!("[[node]]\ncpus = 8\nmemory_mib = [[{start}, {end}]]\n");
    }
    text += "[disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n";
    machine_file::parse(&text, Scale::WHOLE).unwrap()
}

fn simulate(machine: &MachineSpec, name: &str, form: Form, seed: u64) -> Run {
    let simulation =
        Simulation { machine, kernel: &Named::parse(name).unwrap(), workload: &form, seed };
    // Every phase verifies that no page was lost.
    simulation.run(&mut |_| true).unwrap().unwrap()
}

/// A run yields the same bytes, alone and beside others.
#[test]
fn a_run_is_a_function_of_its_seed() {
    let machine = machine(1, 256);
    let alone = simulate(&machine, "linux-4.20", Form::Madvhugepage, 3);
    #[expect(clippy::disallowed_methods, reason = "a caller that spreads runs over cores")]
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

/// Each checkpoint of the log frees what the next one allocates: a smaller log allocates more often.
#[test]
fn the_log_allocates_unmovable_pages_repeatedly() {
    let large = machine(1, 256);
    let mut small = large.clone();
    small.disk.bytes = 1 << 30;
    let counts = |machine: &MachineSpec| {
        let run = simulate(machine, "linux-4.20", Form::Default, 1);
        assert_eq!(run, simulate(machine, "linux-4.20", Form::Default, 1));
        let count = |name| run.counters.get(name).unwrap();
        (count("alloc_pages_Unmovable"), count("pgpgout") / 4 - count("nr_written"))
    };
    let (large, small) = (counts(&large), counts(&small));
    assert!(small.0 > large.0 * 5 / 4, "{large:?} with a large log, {small:?} with a small one");
    assert!(small.1 > large.1, "pages of the log: {large:?}, {small:?}");
}

/// A workload faults its memory in the sizes that are enabled for it; what is mapped then does not fault again.
#[test]
fn programs_fault_in_the_enabled_sizes() {
    let machine = machine(1, 256);
    let faults = |settings: &str, form| {
        // As high as khugepaged raises it: with less free memory few blocks of 64 KiB are free.
        let kernel = format!("linux-6.12,min_free_kbytes=67584,{settings}");
        let run = simulate(&machine, &kernel, form, 1);
        let count = |name| run.counters.get(name).unwrap();
        (count("anon_fault_alloc"), count("pgfault"))
    };
    let small = faults("thp_enabled=never", Form::Default);
    let sized = faults("thp_enabled=never,hugepages_64kb=always", Form::Default);
    assert_eq!(small.0, 0);
    assert!(sized.0 > 500, "{sized:?}");
    // Fifteen of sixteen faults of each block.
    assert_eq!(small.1 - sized.1, 15 * sized.0);
    // Only where the program asked for huge pages.
    let madvise = "thp_enabled=never,hugepages_64kb=madvise";
    assert_eq!(faults(madvise, Form::Default).0, 0);
    assert!(faults(madvise, Form::Madvhugepage).0 > 500);
}

/// SLAB was removed for 6.8: no later kernel has it, whatever the machine's other kernels have.
#[test]
fn kernels_without_slab_have_slub() {
    let slub = machine(1, 256);
    let mut slab = slub.clone();
    slab.slab = SlabAllocator::Slab;
    let hash = |machine, name| simulate(machine, name, Form::Default, 1).event_hash;
    assert_ne!(hash(&slab, "linux-6.7"), hash(&slub, "linux-6.7"));
    assert_eq!(hash(&slab, "linux-6.8"), hash(&slub, "linux-6.8"));
}

/// From 6.10 on each page of a block that is not claimed is an event (6.8 has 5,599 in QEMU, 6.11 216,131:
/// docs/experiments/thpfioscale.md).
#[test]
fn freelist_hygiene_multiplies_events() {
    let text = include_str!("../../../../machines/skylake-1s.toml");
    let machine = machine_file::parse(text, Scale { numerator: 1, denominator: 64 }).unwrap();
    let events = |name| simulate(&machine, name, Form::Default, 1).extfrag.fragmenting(9);
    let (before, after) = (events("linux-6.9"), events("linux-6.10"));
    assert!(after > 2 * before, "{before} in 6.9, {after} in 6.10");
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
fn madvise_gets_more_huge_pages() {
    let machine = machine(1, 256);
    let huge = |form| {
        let run = simulate(&machine, "linux-4.20", form, 1);
        run.samples.get("fault-huge-1").map_or(0, Vec::len)
    };
    let (default, madvised) = (huge(Form::Default), huge(Form::Madvhugepage));
    assert!(madvised > default, "{default} by default, {madvised} with MADV_HUGEPAGE");
}

/// A phone with large pageblocks and CMA, such as ChengYi He's.
#[test]
fn a_phone_keeps_its_cma() {
    let text = "name = \"phone\"\npageblock_order = 10\ncma_mib = 40\ndma_end_mib = 4096\n\
        [[node]]\ncpus = 8\nmemory_mib = [[0, 256]]\n\
        [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n";
    let machine = machine_file::parse(text, Scale::WHOLE).unwrap();
    let run = simulate(&machine, "linux-3.10", Form::Default, 1);
    let blocks = run.blocks_by_type.unwrap();
    assert_eq!((blocks[Migratetype::Cma], blocks.total()), (10, 64));
    assert_eq!(run.free_blocks.len(), 1);
}

#[test]
fn a_run_can_be_stopped() {
    let machine = machine(1, 256);
    let simulation = Simulation {
        machine: &machine,
        kernel: &Named::parse("linux-4.20").unwrap(),
        workload: &Form::Default,
        seed: 1,
    };
    assert!(simulation.run(&mut |_| false).unwrap().is_none());
}

/// The progress callback is told how much of the run is done.
#[test]
fn the_share_done_rises_to_one() {
    let machine = machine(1, 256);
    for (policy, form) in [("linux-4.20", Form::Default), ("linux-6.10", Form::Madvhugepage)] {
        let simulation = Simulation {
            machine: &machine,
            kernel: &Named::parse(policy).unwrap(),
            workload: &form,
            seed: 1,
        };
        let mut shares = vec![];
        let run = simulation.run(&mut |world| {
            shares.push(world.share_done());
            true
        });
        assert!(run.unwrap().is_some());
        assert!(shares.is_sorted(), "{shares:?}");
        let (first, last) = (shares[0], shares[shares.len() - 1]);
        assert!((0.0..0.3).contains(&first) && (0.8..=1.0).contains(&last), "{shares:?}");
        // It advances in both halves of the run.
        let half = shares[shares.len() / 2];
        assert!((0.1..0.9).contains(&half), "{shares:?}");
    }
}

/// Every workload counts pages in a block of another type: the measure that is comparable across 6.10.
#[test]
fn every_workload_counts_pages_in_blocks_of_another_type() {
    for workload in pageblock_simulate::workload::ALL {
        // The loads of recordings have a small machine.
        let small = workload.head().machine == "guest-640m";
        let scale = Scale::parse(if small { "1/8" } else { "1/64" }).unwrap();
        let name = format!("../../machines/{}.toml", workload.head().machine);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let machine = machine_file::parse(&std::fs::read_to_string(path).unwrap(), scale).unwrap();
        let simulation = Simulation {
            machine: &machine,
            kernel: &Named::parse("linux-6.9").unwrap(),
            workload: *workload,
            seed: 1,
        };
        let run = simulation.run(&mut |_| true).unwrap().unwrap();
        let count = |name: &str| run.counters.get(name);
        let total = count("type_mismatch_pages").unwrap_or_else(|| panic!("{}", workload.name()));
        let fallbacks = run.extfrag.sum(|key| key.fragmenting(9));
        assert_eq!(total == 0, fallbacks == 0, "{}: {total} of {fallbacks}", workload.name());
        let pairs = ["UinM", "UinE", "MinU", "MinE", "EinU", "EinM"];
        let sum: u64 = pairs.iter().map(|p| count(&format!("type_mismatch_{p}")).unwrap()).sum();
        assert!(sum <= total, "{}", workload.name());
    }
}

#[test]
fn thpfioscale_needs_eight_cpus_a_node() {
    let text = "name = \"few\"\n[[node]]\ncpus = 7\nmemory_mib = [[0, 512]]\n\
        [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n";
    let machine = machine_file::parse(text, Scale::WHOLE).unwrap();
    let error = Sizes::of(&machine).unwrap_err().to_string();
    assert_eq!(error, "thpfioscale needs 8 CPUs a node; machine few has 7");
}

/// The sizes of Mel Gorman's machine (docs/experiments/sources.md#thpfioscale).
#[test]
fn sizes_are_those_published_for_thpfioscale() {
    let machine = |text| machine_file::parse(text, Scale::WHOLE).unwrap();
    let one = machine(include_str!("../../../../machines/skylake-1s.toml"));
    let two = machine(include_str!("../../../../machines/haswell-2s.toml"));
    assert_eq!(Sizes::of(&one).unwrap(), Sizes { files: 192_672, threads: 1, regions: 6021 });
    assert_eq!(Sizes::of(&two).unwrap(), Sizes { files: 384_336, threads: 5, regions: 1201 });
}

/// High-order per-CPU lists serve requests that go straight to the page allocator, and change nothing for small
/// datagrams.
#[test]
fn high_order_lists_speed_up_large_datagrams() {
    let machine = machine(1, 256);
    let run = |name: &str| {
        let simulation = Simulation {
            machine: &machine,
            kernel: &Named::parse(name).unwrap(),
            workload: &NetperfUdp,
            seed: 1,
        };
        simulation.run(&mut |_| true).unwrap().unwrap()
    };
    let (old, new) = (run("linux-5.13"), run("linux-5.13,pcp_orders=0-3+thp"));
    let rate = |run: &Run, size: u32| run.samples[&format!("send-{size}")].iter().sum::<u64>();
    for size in [8192, 16384] {
        let gain = rate(&new, size) as f64 / rate(&old, size) as f64;
        assert!((1.01..1.2).contains(&gain), "{size}: {gain}");
    }
    assert_eq!(old.counters.get("datagrams_dropped"), Some(0));
    let locks = |run: &Run| run.counters.get("stream_zone_locks").unwrap();
    assert!(locks(&new) * 3 < locks(&old), "{} {}", locks(&new), locks(&old));
}

/// Blocks of orders 2 and 3 that fallbacks spare are available for stacks, whose allocation then does not
/// stall.
#[test]
fn sparing_blocks_of_order_2_and_3_ends_the_stalls_of_stacks() {
    let text = include_str!("../../../../machines/phone-2g8.toml");
    let machine = machine_file::parse(text, Scale::parse("1/16").unwrap()).unwrap();
    let run = |name: &str| {
        let simulation = Simulation {
            machine: &machine,
            kernel: &Named::parse(name).unwrap(),
            workload: &AndroidUptime,
            seed: 1,
        };
        simulation.run(&mut |_| true).unwrap().unwrap()
    };
    let (old, new) = (run("linux-3.10"), run("linux-3.10,fallback_pick=hybrid(3)"));
    let count = |run: &Run, name: &str| run.counters.get(name).unwrap();
    for run in [&old, &new] {
        assert_eq!(count(run, "android_apps_out_of_memory"), 0);
        assert_eq!(count(run, "android_background_failures"), 0);
    }
    for (name, factor) in [
        ("allocstall_order_2", 10),
        ("compact_stall", 5),
        ("compact_migrate_scanned", 2),
        ("compact_free_scanned", 5),
    ] {
        let (old, new) = (count(&old, name), count(&new, name));
        assert!(old > factor * new, "{name}: {old} and {new}");
    }
    let (old, new) = (old.blocks_by_type.unwrap(), new.blocks_by_type.unwrap());
    assert!(new[Migratetype::Movable] > old[Migratetype::Movable], "{old:?} {new:?}");
}
