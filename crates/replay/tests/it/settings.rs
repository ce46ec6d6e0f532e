//! The settings of a recorded machine hold in what is replayed of it.

use pageblock_kernel::rules::reclaim::LruLists;
use pageblock_kernel::{Kernel, Named};
use pageblock_replay::machine::recorded_kernel;
use pageblock_replay::settings::Settings;

use crate::replay::shipped;

/// Returns a preset's kernel on the machine.
fn on(settings: &Settings, preset: &str) -> Kernel {
    let named = Named::parse(preset).unwrap();
    named.resolve(|kernel| settings.apply(named.base, kernel))
}

#[test]
fn settings_that_are_no_defaults_hold_under_every_kernel_that_has_them() {
    let mut recording = shipped("settings").recording;
    // It does not say which LRU lists it used: Debian's 6.12 uses generations.
    assert_eq!(Settings::of(&recording).words(), ["lru=mglru"]);
    let mut set = |file: &str, content: &str| {
        recording.settings.insert(file.to_owned(), content.to_owned());
    };
    set("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
    set("proc/sys/vm/watermark_boost_factor", "0\n");
    set("proc/sys/vm/min_free_kbytes", "99999\n");
    set("proc/sys/vm/swappiness", "60\n");
    let settings = Settings::of(&recording);
    assert_eq!(settings.words(), ["watermark_boost_factor=0"]);
    assert_eq!(recorded_kernel(&recording).allocator.watermark_boost_factor, 0);
    assert_eq!(on(&settings, "debian-7.2").allocator.watermark_boost_factor, 0);
    // What the user sets stays.
    let boosted = on(&settings, "debian-7.2,watermark_boost_factor=15000");
    assert_eq!(boosted.allocator.watermark_boost_factor, 15_000);

    recording.settings.insert("sys/kernel/mm/lru_gen/enabled".into(), "0x0007\n".into());
    recording.settings.insert("proc/sys/vm/watermark_boost_factor".into(), "30000".into());
    let settings = Settings::of(&recording);
    assert_eq!(on(&settings, "linux-6.9").reclaim.lru, LruLists::Mglru);
    // There are no generations yet.
    assert_eq!(on(&settings, "linux-4.20").reclaim.lru, LruLists::Node);
}

#[test]
fn what_is_not_simulated_is_named() {
    let mut recording = shipped("settings-unknown").recording;
    recording.settings.insert("sys/kernel/mm/lru_gen/enabled".into(), "0x0013\n".into());
    let settings = Settings::of(&recording);
    assert_eq!(settings.unknown, ["/sys/kernel/mm/lru_gen/enabled=0x0013"]);
    assert!(settings.words().is_empty());
}

#[test]
fn counters_tell_which_lru_lists_were_used() {
    let mut recording = shipped("settings-counters").recording;
    let mut uses_generations = |refilled, deactivated| {
        let mut end = recording.start.clone();
        let counters = &mut end.vmstat.as_mut().unwrap().0;
        *counters.entry("pgrefill".to_owned()).or_default() += refilled;
        *counters.entry("pgdeactivate".to_owned()).or_default() += deactivated;
        recording.end = Some(end);
        recorded_kernel(&recording).reclaim.lru == LruLists::Mglru
    };
    assert!(uses_generations(1000, 0) && !uses_generations(1000, 990));
    // Too few to tell: Debian's default.
    assert!(uses_generations(10, 10));
}
