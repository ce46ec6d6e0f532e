//! `pageblock bench`: its own tests run with `--features bench`.

#[cfg(feature = "bench")]
use serde_json::Value;

#[cfg(feature = "bench")]
use crate::pageblock;
use crate::refuses;

#[cfg(feature = "bench")]
#[test]
fn native_prints_times_packing_and_noise() {
    let small = "bench native --gib 0.25 --rounds 1 --order 3 --pattern pair --pattern turn_over";
    let ran = pageblock(small);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("pattern "), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nnoise: a fixed piece of work took "), "{}", ran.stdout);

    let ran = pageblock(&format!("{small} --json"));
    assert!(ran.stderr.contains("noise: "), "{}", ran.stderr);
    let rows: Value = serde_json::from_str(&ran.stdout).unwrap();
    crate::is_documented(&rows);
    let rows = rows.as_array().unwrap();
    let time = rows.iter().find(|r| r["pattern"] == "pair" && r["threads"] == 2).unwrap();
    let keys: Vec<&String> = time.as_object().unwrap().keys().collect();
    let expect = "allocator pattern order threads memory_gib ns_median ns_low ns_high";
    assert_eq!(keys, expect.split(' ').collect::<Vec<_>>());
    assert_eq!((&time["order"], &time["memory_gib"]), (&Value::from(3), &Value::from(0.25)));
    let packing = rows.iter().find(|r| r["placement"] == "packed").unwrap();
    let keys: Vec<&String> = packing.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["allocator", "placement", "blocks_won_back", "possible"]);
    assert_eq!(packing["allocator"], "pageblock");
    assert!(packing["blocks_won_back"].as_u64().unwrap() >= 60, "{packing}");
    assert_eq!(packing["possible"], 64);
}

#[cfg(feature = "bench")]
#[test]
fn impossible_benchmarks_are_refused() {
    refuses("bench native --pattern walk", "error: --pattern 'walk' is not one of pair, bulk_fill");
    refuses("bench native --gib 0", "error: --gib 0 is not a size from 0.25 to 64");
    refuses("bench native --gib NaN", "error: --gib NaN is not a size from 0.25 to 64");
    refuses("bench native --order 10", "error: --order 10 is not an order from 0 to 9");
    refuses("bench native --rounds 0", "error: --rounds 0 measures nothing");
}

#[cfg(not(feature = "bench"))]
#[test]
fn a_program_without_benchmarks_says_how_to_build_them() {
    refuses(
        "bench native --order 3",
        "error: this program was built without other allocators; cargo build --release",
    );
}

#[test]
fn verdicts_are_held_against_kernels_that_are_the_same() {
    let small =
        "bench verdicts --workload hugealloc-short --scale 1/64 --pool 16 --splits 100 --json";
    let rates: serde_json::Value = serde_json::from_str(&crate::prints(small)).unwrap();
    crate::is_documented(&rates);
    let sizes = rates[0]["sizes"].as_array().unwrap();
    // Five, eight, and as many as needed up to eight.
    assert_eq!(sizes.len(), 3, "{rates}");
    for size in sizes {
        // Three standard errors of a hundred splits above 5 %.
        assert!(size["false_alarms"].as_f64().unwrap() <= 0.12, "{size}");
    }
    assert!(rates[0]["measures"].as_array().unwrap().len() >= 2, "{rates}");
    refuses("bench verdicts --pool 9", "error: --pool 9: at least 10 runs are needed");
    refuses("bench verdicts --workload nothing", "error: there is no workload 'nothing'");
}
