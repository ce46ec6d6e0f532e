//! Every simulation ends: commands that once did not, and some of the random policies of `examples/sweep`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pageblock_simulate::workload;

use crate::{pageblock, prints, refuses};
use policies::policy;
use runs::{Ending, Limits};

#[path = "../../examples/sweep/policies.rs"]
mod policies;
#[path = "../../examples/sweep/runs.rs"]
mod runs;

/// The limits of a run in the tests, which are built without all optimizations and share the machine.
const LIMITS: Limits = Limits { time: Duration::from_secs(600), mib: 512 };

#[track_caller]
fn ends(name: &str, workload: &str, policy: &str, scale: &str) -> Ending {
    ends_with(name, workload, policy, scale, &[])
}

#[track_caller]
fn ends_with(name: &str, workload: &str, policy: &str, scale: &str, more: &[&str]) -> Ending {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = Path::new(env!("CARGO_BIN_EXE_pageblock"));
    let mut arguments = runs::arguments(workload, policy, scale);
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    let ran = runs::run(program, &arguments, &scratch, LIMITS).expect("the program was built");
    assert!(!matches!(ran.ending, Ending::Failed(_)), "{}: {arguments:?}", ran.ending);
    assert!(ran.mib <= LIMITS.mib && ran.time <= LIMITS.time, "{ran:?}");
    ran.ending
}

#[test]
fn workloads_end_under_random_policies() {
    for number in 0..2 {
        for workload in workload::ALL.iter().filter(|w| !w.name().starts_with("thpfioscale")) {
            ends("sweep", workload.name(), &policy(3, number), "1/128");
        }
    }
    ends("sweep", "thpfioscale", &policy(3, 2), "1/128");
}

/// Two random kernels on two random machines that took minutes to hours: compaction walked all pageblocks for each request.
#[test]
fn runs_that_looked_endless_end() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/long");
    for (number, workload, scale, seed) in
        [(92, "thpfioscale-defrag", "1/4", "2"), (96, "hugealloc-short", "1/64", "6")]
    {
        let policy = format!("{folder}/policy-{number}.toml");
        let machine = format!("{folder}/machine-{number}.toml");
        let more = ["--seeds", "1", "--first-seed", seed, "--machine", &machine];
        assert_eq!(ends_with("long", workload, &policy, scale, &more), Ending::Done);
    }
}

#[test]
fn a_request_that_circles_in_the_slow_path_is_a_livelock() {
    // No kernel combines these: unlimited retries, and no OOM kill for a request without __GFP_FS.
    let policy = "linux-5.19,slowpath=compact_each_round,oom_reach=with_fs,suitability=zone";
    let options = format!("apppressure-kill --policy {policy} --scale 1/128 --tables all");
    let ending = ends("livelock", "apppressure-kill", policy, "1/128");
    assert_eq!(ending, Ending::Early("livelock".to_owned()));
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
    let ending = ends("netperf", "netperf-udp", "linux-6.9,min_free_kbytes=65536", "1/64");
    assert_eq!(ending, Ending::Done);
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
    let ending =
        ends("largest", "netperf-udp", &format!("linux-6.9,min_free_kbytes={largest}"), "1/64");
    assert!(matches!(ending, Ending::Early(_) | Ending::Done), "{ending}");
}

#[test]
fn a_refusal_is_logged_as_a_short_line() {
    let many = policy(3, 3);
    let parts = many.split(',').filter(|part| !part.starts_with("min_free_kbytes="));
    let many = parts.collect::<Vec<_>>().join(",");
    assert!(many.len() > 1000, "{many}");
    let policy = format!("{many},min_free_kbytes=4000000");
    let Ending::Refused(line) = ends("refused", "netperf-udp", &policy, "1/64") else {
        panic!("more than the machine has was not refused")
    };
    assert!(line.starts_with("error: --policy ") && line.len() < 300, "{line}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_nobody_watches_ends_at_its_limit() {
    use std::os::unix::process::ExitStatusExt;
    let mut endless = std::process::Command::new("sh");
    let mut child = endless.args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    runs::bound(&child, Limits { time: Duration::ZERO, mib: 1 }).expect("a limit");
    assert!(child.wait().expect("its end").signal().is_some());
}
