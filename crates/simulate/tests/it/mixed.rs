//! The loads of recordings on a small machine: what they hold of kernel memory, and what their bursts ask for.

use pageblock::mobility::Migratetype;
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::error::Error;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::Workload;
use pageblock_simulate::workload::mixed::{Form, Sizes};

fn machine(scale: &str) -> MachineSpec {
    let text = include_str!("../../../../machines/guest-640m.toml");
    machine_file::parse(text, Scale::parse(scale).unwrap()).unwrap()
}

fn simulate(form: Form) -> Run {
    let kernel = &Named::parse("linux-6.12").unwrap();
    let simulation = Simulation { machine: &machine("1/8"), kernel, workload: &form, seed: 1 };
    simulation.run(&mut |_| true).unwrap().unwrap()
}

#[test]
fn every_form_ends_and_its_bursts_ask_for_a_tenth_of_memory() {
    for form in Form::ALL {
        let run = simulate(form);
        assert!(run.ended.is_none(), "{}", form.name());
        let sizes = Sizes::of(form, &machine("1/8")).unwrap();
        let asked = |name: &str| run.samples.get(name).map_or(0, Vec::len) as u64;
        let bursts = sizes.rounds / sizes.burst_each;
        assert_eq!(asked("burst-huge-1") + asked("burst-base-1"), bursts * sizes.burst);
        let counted = |name| run.counters.get(name).unwrap();
        assert_eq!(counted("thp_fault_alloc"), asked("burst-huge-1"), "{}", form.name());
    }
}

/// Shrinking inodes frees page cache only where inodes with page cache are on the shrinker's list.
#[test]
fn inodes_take_page_cache_with_them_only_where_they_are_listed() {
    let stolen = |policy: &str| -> u64 {
        let kernel = &Named::parse(policy).unwrap();
        let form = &Form::Oscillating;
        let simulation = Simulation { machine: &machine("1/2"), kernel, workload: form, seed: 1 };
        let run = simulation.run(&mut |_| true).unwrap().unwrap();
        ["kswapd_inodesteal", "pginodesteal"]
            .map(|name| run.counters.get(name).unwrap())
            .iter()
            .sum()
    };
    assert_eq!(stolen("linux-6.12"), 0);
    assert!(stolen("linux-6.12,cached_inodes=freed") > 0 && stolen("linux-5.15") > 0);
}

#[test]
fn kernel_memory_takes_half_of_the_pageblocks_and_a_mixture_few() {
    let [mixed, kernel] = [Form::Mixed, Form::KernelMemory].map(|form| {
        let blocks = simulate(form).blocks_by_type.unwrap();
        blocks[Migratetype::Unmovable] * 512 * 100 / machine("1/8").pages()
    });
    assert!(kernel >= 50 && mixed <= 25, "{kernel} and {mixed} %");
}

#[test]
fn a_machine_below_64_mib_is_refused() {
    let error = Form::Mixed.fits(&machine("1/16")).unwrap_err();
    let Error::Workload(message) = error else { panic!("{error}") };
    assert_eq!(message, "mixed needs 16384 pages; machine guest-640m at 1/16 has 9216");
}
