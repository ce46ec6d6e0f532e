//! The regression by freelist hygiene, on small machines: what holds by construction, whatever the latencies.

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::value::names as common;
use pageblock_simulate::sim::machine_file::{self, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::apppressure::{Form, names};

const PHONE: &str = include_str!("../../../../machines/phone-3g.toml");
const SHORT_PHONE: &str = include_str!("../../../../machines/phone-3g-kill.toml");
const CHROMEBOOK: &str = include_str!("../../../../machines/chromebook-4g.toml");

/// Runs a form on its machine; the Chromebook has 256 MiB less, so that memory is short there too.
fn run(form: Form, policy: &str, seed: u64) -> Run {
    let text = match form {
        Form::Launch => PHONE.to_owned(),
        Form::Kill => SHORT_PHONE.to_owned(),
        Form::Tabs => CHROMEBOOK.replace("5760", "5504"),
    };
    let machine = machine_file::parse(&text, Scale::parse("1/16").unwrap()).unwrap();
    let simulation = Simulation {
        machine: &machine,
        kernel: &Named::parse(policy).unwrap(),
        workload: &form,
        seed,
    };
    // Every phase ends with a check that no page was lost, in the pool of compressed ones either.
    simulation.run(&mut |_| true).unwrap().unwrap()
}

fn count(run: &Run, name: &str) -> u64 {
    run.counters.get(name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_seed_determines_the_run() {
    let runs = [1, 1, 2].map(|seed| run(Form::Launch, "linux-6.9", seed));
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].event_hash, runs[2].event_hash);
}

#[test]
fn hygiene_ends_mixed_lists_and_lengthens_the_search() {
    let (old, new) = (run(Form::Launch, "linux-6.9", 1), run(Form::Launch, "linux-6.10", 1));
    assert!(count(&old, common::LIST_MISMATCH_PAGES) > 0);
    assert_eq!(count(&new, common::LIST_MISMATCH_PAGES), 0);
    // Each page that cannot claim its block counts again, as often as a per-CPU list is refilled.
    let most = |policy, first: &Run| -> u64 {
        let others =
            [2, 3].map(|seed| count(&run(Form::Launch, policy, seed), common::BLOCK_LOOKS_MOST));
        count(first, common::BLOCK_LOOKS_MOST) + others.iter().sum::<u64>()
    };
    let (before, after) = (most("linux-6.9", &old), most("linux-6.10", &new));
    assert!(after > 10 * before, "{before} and {after}");
    for run in [&old, &new] {
        let launches = count(run, names::COLD) + count(run, names::WARM);
        assert_eq!(launches, run.samples[names::LATENCY].len() as u64);
        let (some, full) = (count(run, common::PSI_SOME_US), count(run, common::PSI_FULL_US));
        assert!(0 < full && full <= some, "{full} of {some}");
        assert!(some < 1000 * count(run, common::SIMULATED_ELAPSED_MS));
        assert!(count(run, "pswpin") > 0 && count(run, "pgmadvise_pageout") > 0);
        assert_eq!(count(run, names::FAILED), 0);
    }
}

#[test]
fn without_boosts_kswapd_has_no_rounds_for_them() {
    let run = |policy| run(Form::Launch, policy, 1);
    let boosted = |run: &Run| count(run, "pageoutrun_boosted");
    assert!(boosted(&run("linux-6.10")) > 0);
    let off = run("linux-6.10,watermark_boost_factor=0");
    assert_eq!((boosted(&off), count(&off, "pgsteal_boosted")), (0, 0));
}

#[test]
fn kcompactd_finds_room_for_what_it_moves() {
    let runs = [1, 2].map(|seed| run(Form::Launch, "linux-6.10", seed));
    let sum = |name| runs.iter().map(|run| count(run, name)).sum::<u64>();
    // compact_isolated counts the pages to migrate and the free blocks isolated for them, whose unused parts
    // are returned.
    let (moved, isolated) = (sum("pgmigrate_success"), sum("compact_isolated"));
    assert!(0 < isolated && isolated < 3 * moved, "{moved} moved, {isolated} isolated");
}

#[test]
fn apps_are_killed_where_swap_is_short() {
    let run = run(Form::Kill, "linux-6.10", 1);
    let [cold, warm] = [names::COLD, names::WARM].map(|name| count(&run, name));
    assert!(cold > warm && warm > 0, "{cold} and {warm}");
    let killed = count(&run, names::KILLED) + count(&run, names::OUT_OF_MEMORY);
    // Each cold launch follows a kill; some apps were already dead when counting started.
    assert!(killed + 22 >= cold, "{killed} of {cold}");
    // The system is not killed and continues to work.
    assert_eq!(count(&run, names::FAILED), 0);
}

#[test]
fn hygiene_stalls_by_boosts_where_apps_are_killed() {
    let stalled = |policy| -> u64 {
        (1..=3)
            .flat_map(|seed| run(Form::Kill, policy, seed).samples["stall-order-0"].clone())
            .sum()
    };
    let [old, new, without] =
        ["linux-6.9", "linux-6.10", "linux-6.10,watermark_boost_factor=0"].map(stalled);
    assert!(new > old && old > without, "{old}, {new} and {without} ns");
}

#[test]
fn hygiene_boosts_more_often_where_tabs_are_switched() {
    let rounds = |policy| -> u64 {
        (1..=3).map(|seed| count(&run(Form::Tabs, policy, seed), "pageoutrun_boosted")).sum()
    };
    let (old, new) = (rounds("linux-6.9"), rounds("linux-6.10"));
    assert!(new > old, "{old} and {new} rounds of kswapd");
}

#[test]
fn tabs_are_switched_and_come_back_from_swap() {
    let run = run(Form::Tabs, "linux-6.10", 1);
    assert!(run.samples[names::LATENCY].len() > 200);
    assert!(count(&run, "workingset_refault_anon") > count(&run, "pswpin") / 2);
    assert_eq!(count(&run, names::FAILED), 0);
}

#[test]
fn it_needs_zram() {
    let text = PHONE.replace("zram = true", "");
    let machine = machine_file::parse(&text, Scale::parse("1/16").unwrap()).unwrap();
    let error = pageblock_simulate::workload::Workload::fits(&Form::Launch, &machine).unwrap_err();
    assert!(error.to_string().contains("zram = true"), "{error}");
}
