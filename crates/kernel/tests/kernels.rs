//! Presets, names and files of kernels.

use std::collections::BTreeMap;

use pageblock::policy::{Value, Values};
use pageblock::preset::PRESETS;
use pageblock_kernel::{Kernel, Named, Switch, file};

#[track_caller]
fn check_diff(a: &str, b: &str, expect: &[&str]) {
    let kernel = |name| Named::parse(name).unwrap().kernel;
    let (a, b) = (kernel(a), kernel(b));
    let changed: Vec<_> = a.diff(&b).map(|(switch, ..)| switch.name()).collect();
    assert_eq!(changed, expect);
}

#[track_caller]
fn check_error(text: &str, expect: &str) {
    let error = Named::parse(text).unwrap_err().to_string();
    assert!(error.starts_with(expect), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn neighbours_differ_in_what_changed() {
    check_diff(
        "linux-4.20",
        "linux-5.0",
        &["boost", "slab_min_scan", "cached_inodes", "multi_queue", "thp_placement"],
    );
    check_diff("linux-3.12", "linux-3.13", &["fair"]);
    check_diff("linux-5.2", "linux-5.4", &["reclaim_until", "thp_placement", "hugetlb_remembers"]);
    check_diff("linux-6.3", "linux-6.4", &["compact_counts"]);
    check_diff("linux-6.8", "linux-6.9", &["without_io", "moves_folios", "order_1_folios"]);
    check_diff("linux-6.13", "linux-6.14", &["gen_uses", "gen_ageing", "gen_type"]);
    check_diff("linux-6.15", "linux-6.17", &["pcp_free", "cache_folios", "ra_order"]);
    check_diff(
        "linux-6.14",
        "linux-6.15",
        &["fallback_pick", "capture", "highatomic_high", "ready_mark", "proactive"],
    );
    let of_7_2 = ["reserve", "slowpath", "compact_try", "compact_gap", "async_source", "gen_batch"];
    check_diff("linux-7.0", "linux-7.2", &of_7_2);
    check_diff("linux-6.19", "linux-7.0", &["slab_cpu"]);
    check_diff("debian-7.2", "linux-7.2", &["defrag_blocks"]);
}

/// A rule that changed back is one that Linux reverted; 7.2 tries after compaction as kernels up to 5.0 do.
#[test]
fn switches_change_in_one_direction_along_mainline() {
    let kernels: Vec<_> =
        PRESETS.iter().filter(|p| p.version().is_some()).map(Kernel::from).collect();
    for switch in Switch::all() {
        let mut values: Vec<_> = kernels.iter().map(|k| switch.get(k).to_string()).collect();
        values.dedup();
        let len = values.len();
        values.sort();
        values.dedup();
        let reverted = matches!(
            switch.name(),
            "fair"
                | "compact_try"
                | "anon_counts_twice"
                | "slab_min_scan"
                | "cached_inodes"
                | "thp_placement"
                | "max_sectors_kb"
        );
        assert_eq!(len > values.len(), reverted, "{}", switch.name());
    }
}

#[test]
fn names_are_unique_and_everything_is_described() {
    let mut names: Vec<_> = Switch::all().map(Switch::name).collect();
    names.sort_unstable();
    let len = names.len();
    names.dedup();
    assert_eq!(names.len(), len);
    for switch in Switch::all() {
        assert!(!switch.about().summary().is_empty(), "{}", switch.name());
        match switch.about().values {
            Values::Number { min, max } => assert!(min < max, "{}", switch.name()),
            values => assert!(values.names().count() > 1, "{}", switch.name()),
        }
    }
}

#[test]
fn every_value_is_read_back() {
    for switch in Switch::all() {
        for name in switch.about().values.names() {
            let named = Named::parse(&format!("linux-6.12,{}={name}", switch.name())).unwrap();
            assert_eq!(switch.get(&named.kernel), Value::Name(name), "{}", switch.name());
        }
    }
}

#[test]
fn a_file_is_read_back() {
    for base in PRESETS {
        let mut named = Named::of_preset(base);
        named.assign("slab_min_scan", "on").unwrap();
        named.assign("swappiness", "7").unwrap();
        let again = file::parse(&file::print(&named), &named.label).unwrap();
        assert_eq!((again.base.name, again.kernel), (base.name, named.kernel));
        let set = |n: &Named| n.set.iter().map(|(s, v)| (s.name(), *v)).collect::<Vec<_>>();
        assert_eq!(set(&again).len(), set(&named).len());
    }
}

#[test]
fn mistakes_say_what_is_allowed() {
    check_error(
        "linux-6.9,slab_min_scna=on",
        "unknown switch 'slab_min_scna'; the most similar is slab_min_scan",
    );
    check_error(
        "linux-6.9,swappiness=201",
        "switch 'swappiness' has no value '201'; a whole number from 0 to 200",
    );
    check_error("linux-6.9,lru=both", "switch 'lru' has no value 'both'; one of zone, node, mglru");
    check_error(
        "linux-6.9,nofragment=off,nofragment=on",
        "'nofragment=off' and 'nofragment=on' set the same switch; give it once",
    );
    check_error("linux-6.9,lru", "'lru' is not of the form switch=value");
    let error = |text| file::parse(text, "mine").unwrap_err().to_string();
    assert!(
        error("base = \"linux-6.9\"\n\nlru = 4\n")
            .starts_with("line 3: switch 'lru' has no value '4'")
    );
    assert!(error("lru = \"zone\"\n").starts_with("there is no `base`"));
    check_error("linux-6.9,placement=packed", "placement=packed is for kernels from linux-6.12 on");
    assert!(
        error("base = \"linux-6.12\"\nplacement = \"packed\"\nsplit_large = \"off\"\n")
            .starts_with("line 2: placement=packed is for kernels from linux-6.12 on")
    );
}

/// Switches set by hand override a workload's settings, even if set to the preset's own value.
#[test]
fn switches_set_by_hand_override_a_workload() {
    let resolve =
        |text| Named::parse(text).unwrap().resolve(|k| k.sysctl.swappiness = 100).sysctl.swappiness;
    assert_eq!(resolve("linux-6.9"), 100);
    assert_eq!(resolve("linux-6.9,swappiness=60"), 60);
    assert_eq!(resolve("linux-6.9,swappiness=10"), 10);
}

#[test]
fn a_kernel_is_made_again_of_what_was_kept() {
    let named = Named::parse("linux-5.10,nofragment=off,swappiness=90").unwrap();
    let switches: BTreeMap<_, _> = Switch::all()
        .map(|switch| (switch.name().to_owned(), switch.get(&named.kernel).to_string()))
        .collect();
    let set: Vec<_> = named.set.iter().map(|(switch, _)| switch.name().to_owned()).collect();
    // Another preset to start from makes no difference: every switch was kept.
    for base in ["linux-5.10", "linux-3.10"] {
        let again = Named::from_kept("mine", base, &set, &switches).unwrap();
        assert_eq!((again.label.as_str(), again.kernel), ("mine", named.kernel));
        assert_eq!((again.base.name, again.set), (base, named.set.clone()));
    }
    let mut fewer = switches.clone();
    fewer.remove("boost");
    let error = Named::from_kept("mine", "linux-5.10", &set, &fewer).unwrap_err().to_string();
    assert_eq!(error, "switch 'boost' is missing");
}
