//! Every simulation ends: commands that once did not, and workloads under random kernels.

use std::process::Command;

use pageblock_simulate::workload::{self, Workload};
use serde_json::Value;

use crate::{Ran, file, pageblock, prints, ran, refuses};

/// Runs the program with what a run may use, in seconds of CPU time and KiB: the tests are built without all optimizations.
#[track_caller]
fn bounded(arguments: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t 600 && ulimit -d 524288 && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_pageblock")).args(arguments.split_whitespace());
    ran(&mut command)
}

/// Returns why a run ended early, if it did.
#[track_caller]
fn ends(workload: &str, policy: &str, scale: &str, more: &str) -> Option<String> {
    let run = bounded(&format!(
        "run {workload} --policy {policy} --scale {scale} {more} --jobs 1 --json=runs"
    ));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{workload} {policy}");
    let runs: Value = serde_json::from_str(&run.stdout).expect("it is a list of runs");
    assert!(runs[0]["event_hash"].is_string(), "{}", run.stdout);
    runs[0]["ended"]["why"].as_str().map(str::to_owned)
}

/// Sweeps workloads under random kernels, each run in a process of its own.
#[track_caller]
fn swept(name: &str, workloads: &[&str], scale: &str, limits: &str) -> Ran {
    let grid = format!(
        "workloads = {workloads:?}\nscales = [{scale:?}]\n[random]\nkernels = 2\nseed = 3\n"
    );
    let grid = file(name, &grid);
    let _ = std::fs::remove_dir_all(grid.with_extension("sweep"));
    pageblock(&format!("sweep {} {limits}", grid.display()))
}

#[test]
fn workloads_end_under_random_kernels() {
    let loads = workload::ALL.iter().map(|workload| workload.name());
    let loads = loads.filter(|name| !name.starts_with("thpfioscale"));
    // The loads of recordings have a small machine.
    let small = |name: &&str| workload::mixed::Form::ALL.iter().any(|form| form.name() == *name);
    let (small, large): (Vec<&str>, Vec<&str>) = loads.partition(small);
    let limits = "--limit-cpu 600 --limit-memory 512";
    for (name, loads, scale) in
        [("random-large.toml", &large[..], "1/128"), ("random-small.toml", &small[..], "1/8")]
    {
        let run = swept(name, loads, scale, limits);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert!(run.stdout.ends_with(&format!(": {} runs\n", 2 * loads.len())), "{}", run.stdout);
    }
}

#[test]
fn a_run_that_needs_too_much_is_named_and_the_others_are_kept() {
    let run = swept("random-memory.toml", &["netperf-udp"], "1/64", "--limit-memory 1");
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.starts_with("more than 1 MiB:\n  pageblock run netperf-udp --policy linux-"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.starts_with("2 of 2 runs failed, 0 are in "), "{}", run.stdout);
    let grid = "workloads = [\"thpfioscale\"]\nkernels = [\"linux-6.12\"]\nscales = [\"1/4\"]\n";
    let grid = file("much-time.toml", grid);
    let run = pageblock(&format!("sweep {} --limit-cpu 1", grid.display()));
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.starts_with("not done after 1 s of CPU time:\n"), "{}", run.stderr);
}

/// Two random kernels on two random machines that took minutes to hours: compaction walked all pageblocks for each request.
#[test]
fn runs_that_looked_endless_end() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/long");
    for (number, workload, scale, seed) in
        [(92, "thpfioscale-defrag", "1/4", 2), (96, "hugealloc-short", "1/64", 6)]
    {
        let policy = format!("{folder}/policy-{number}.toml");
        let more =
            format!("--seeds 1 --first-seed {seed} --machine {folder}/machine-{number}.toml");
        assert_eq!(ends(workload, &policy, scale, &more), None);
    }
}

#[test]
fn a_request_that_circles_in_the_slow_path_is_a_livelock() {
    // No kernel combines these: unlimited retries, and no OOM kill for a request without __GFP_FS.
    let policy = "linux-5.19,slowpath=compact_each_round,oom_reach=with_fs,suitability=zone";
    let options = format!("apppressure-kill --policy {policy} --scale 1/128 --tables all");
    assert_eq!(ends("apppressure-kill", policy, "1/128", "").as_deref(), Some("livelock"));
    let text = prints(&format!("run {options}"));
    let first = text.lines().next().expect("it says so first");
    assert!(
        first.starts_with("linux-5.19 slowpath=compact_each_round")
            && first.contains(": 1 of 1 runs did not finish; seed 1: livelock, "),
        "{first}"
    );
    assert!(
        first.contains("(order 0, GFP_NOFS") && first.contains("no progress since "),
        "{first}"
    );
    assert!(text.contains("Ended livelock"), "{text}");
}

#[test]
fn kilobytes_of_the_real_machine_shrink_with_it() {
    // A server's 64 MiB are 1 MiB on 1/64 of the machine.
    assert_eq!(ends("netperf-udp", "linux-6.9,min_free_kbytes=65536", "1/64", ""), None);
    let hash = |options: &str| {
        let json = prints(&format!("run netperf-udp {options} --json"));

        json.lines().find(|line| line.contains("event_hash")).expect("a hash").to_owned()
    };
    // 1/64 of 4 GiB computes 33 huge pages, a 64th of 67584 kB: setting it changes nothing.
    assert_eq!(
        hash("--scale 1/64 --policy linux-6.9"),
        hash("--scale 1/64 --policy linux-6.9,min_free_kbytes=67584")
    );
}

#[test]
fn watermarks_above_all_memory_are_refused() {
    let options =
        |policy: &str| format!("run netperf-udp --scale 1/64 --policy linux-6.9,{policy}");
    refuses(
        &options("min_free_kbytes=4000000"),
        "error: --policy linux-6.9,min_free_kbytes=4000000: min_free_kbytes=4000000: the high watermark would be \
         above all of the machine's 4096 MiB of memory; allowed: up to ",
    );
    refuses(
        &options("extra_free_kbytes=1073741824"),
        "error: --policy linux-6.9,extra_free_kbytes=1073741824: extra_free_kbytes=1073741824: the high watermark",
    );
    // The largest value is allowed, the next is not.
    let stderr = pageblock(&options("min_free_kbytes=4000000")).stderr;
    let largest: u64 =
        stderr.trim().rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    refuses(&options(&format!("min_free_kbytes={}", largest + 1)), "error: --policy");
    let ended = ends("netperf-udp", &format!("linux-6.9,min_free_kbytes={largest}"), "1/64", "");
    assert!(ended.is_none_or(|why| ["livelock", "out_of_memory"].contains(&why.as_str())));
}
