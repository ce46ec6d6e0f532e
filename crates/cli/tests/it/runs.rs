//! `run` and `compare`: what they save, print, and refuse.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::{Ran, compares, file, prints, ran, refuses};

const TINY: &str = "\
name = \"tiny\"
dma32_end_mib = 32
[[node]]
cpus = 8
memory_mib = [[0, 128]]
[disk]
read_us = 90
read_places = 4
write_mib_s = 400
";

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

fn run(options: &str) -> String {
    // Tests run concurrently: none may find the file half written.
    static MACHINE: LazyLock<PathBuf> = LazyLock::new(|| file("tiny-machine.toml", TINY));
    let machine = &*MACHINE;
    format!("run thpfioscale --machine {} {options}", machine.display())
}

fn number_of_runs(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with('[') && text.ends_with("]\n"), "a whole list");
    text.matches("\"event_hash\"").count()
}

/// Waits for a condition that another process establishes.
#[expect(clippy::disallowed_methods, reason = "the other process works in real time")]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Presses Ctrl-C.
fn interrupt(child: &std::process::Child) {
    let killed = ran(Command::new("kill").args(["-INT", &child.id().to_string()]));
    assert_eq!(killed.status, 0);
}

/// A simulation of the whole machine takes minutes here; Ctrl-C does not wait for it.
#[test]
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the other process works in real time")]
fn ctrl_c_before_anything_is_finished_ends_the_program_at_once() {
    // An earlier Ctrl-C ends a program that has not yet installed its handler.
    for wait_ms in [300, 3000, 20_000] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
        command.args(["run", "thpfioscale", "--policy", "linux-6.9"]).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let start = Instant::now();
        interrupt(&child);
        let out = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        if let Some(status) = out.status.code() {
            let stderr = String::from_utf8(out.stderr).unwrap();
            assert_eq!((status, out.stdout.len()), (130, 0), "{stderr}");
            assert_eq!(stderr, "Interrupted: nothing is finished yet.\n");
            return;
        }
    }
    panic!("the program never said what Ctrl-C does");
}

#[test]
fn seeds_have_a_limit_and_its_reason() {
    for seeds in ["1001", "1000000000", "18446744073709551615"] {
        refuses(
            &run(&format!("--policy linux-4.20 --seeds {seeds}")),
            &format!("error: --seeds {seeds}: at most 1000 are allowed; a change compares each"),
        );
    }
}

/// Returns a run of a workload on a machine, as stored in a file.
fn saved_run(policy: &str, workload: &str, machine: &str, samples: &str) -> String {
    format!(
        r#"{{"policy":"{policy}","workload":"{workload}","machine":"{machine}","seed":1,
        "event_hash":"0","counters":{{"pgfault":7,"pgmajfault":0}},"extfrag":[],"samples":{{{samples}}}}}"#
    )
}

#[test]
fn incomparable_runs_are_refused() {
    let one = |name: &str, policy: &str, workload: &str, machine: &str| {
        let samples = format!("\"{workload}\":[1000]");
        file(name, &format!("[{}]", saved_run(policy, workload, machine, &samples)))
            .display()
            .to_string()
    };
    let whole = one("unlike-whole.json", "linux-6.9", "thpfioscale", "skylake-1s");
    let part = one("unlike-part.json", "linux-6.9", "thpfioscale", "skylake-1s at 1/32");
    let other = one("unlike-other.json", "linux-6.10", "netperf-udp", "small-4g");
    let check = |a: &str, b: &str, what: &str| {
        let end = "--force compares what they have in common";
        let expect = format!("error: {a} and {b}: the runs differ in {what}; {end}\n");
        refuses(&format!("compare {a} {b}"), &expect);
        let text = prints(&format!("compare {a} {b} --force --tables all"));
        assert!(!text.contains("NaN"), "{text}");
        assert!(text.contains("Note: The runs differ in their"), "{text}");
        assert!(text.contains("Ops Minor Faults"), "{text}");
        text
    };
    let text = check(&whole, &part, "scale 1 and 1/32");
    assert!(text.contains(" at 1/32\n"), "{text}");
    let text = check(
        &whole,
        &other,
        "workload thpfioscale and netperf-udp, machine skylake-1s and small-4g",
    );
    assert!(!text.contains("fault-base") && !text.contains("Hmean"), "{text}");
    refuses(
        &format!("compare {whole} {whole} --force"),
        &format!("error: {whole}: policy linux-6.9"),
    );
}

#[test]
fn at_a_smaller_scale_published_totals_are_not_compared() {
    let policies = ["linux-4.20", "linux-4.20,nofragment=on"];
    let of = |machine: &str| {
        let one =
            |policy| saved_run(policy, "thpfioscale", machine, "\"fault-base-1\":[600000,700000]");
        let text = format!("[{},{}]", one(policies[0]), one(policies[1]));
        let name = format!("published-{}.json", machine.replace(['/', ' '], "-"));
        file(&name, &text).display().to_string()
    };
    let (whole, part) = (of("skylake-1s"), of("skylake-1s at 1/32"));
    let text = prints(&format!("compare {whole} --published --tables all"));
    assert!(
        text.contains("extfrag events < order 9  predicted       804694     0   0.00 "),
        "{text}"
    );
    assert!(!text.contains("only their changes are comparable"), "{text}");
    let text = prints(&format!("compare {part} --published --tables all"));
    assert!(
        !text.contains("804694") && text.contains("only their changes are comparable"),
        "{text}"
    );
    assert!(text.contains("Amean fault-base-1 (us)  fitted       662.92   650   0.98 "), "{text}");
    for json in ["--json", "--json=comparison"] {
        let text = prints(&format!("compare {part} --published {json}"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        crate::is_documented(&json);
        let row = &json["published"]["rows"][0];
        assert_eq!((&row["values_compare"], &row["kind"]), (&false.into(), &"predicted".into()));
        assert_eq!(row["cells"][1]["published"], 408_912.0);
        assert!((row["changes"][1]["published"].as_f64().unwrap() + 49.18).abs() < 0.01);
    }
    refuses(
        &format!("compare {part} --published --json=runs"),
        "error: --published is part of --json=comparison; the list of runs has no place for it",
    );
    refuses(
        "run thpfioscale --published --policy linux-6.9",
        "error: --published: the table needs runs under linux-4.20 and linux-4.20,nofragment=on",
    );
}

#[test]
fn pages_in_blocks_of_another_type_are_printed_and_event_counts_not_compared() {
    let text = compares(&run("--policy linux-6.9 --policy linux-6.10 --seeds 1 --tables all"));
    let row = |start: &str| text.lines().find(|line| line.starts_with(start)).expect(start);
    assert!(text.contains("\nPages allocated into a block of another type (pages)\n"), "{text}");
    assert!(row("Mismatch total").ends_with("%)"), "{}", row("Mismatch total"));
    for events in ["Extfrag total", "Fallback total"] {
        assert!(row(events).ends_with(" (      - )"), "{}", row(events));
    }
    let note = "(one event is a block before Linux 6.10 and a page from then on: compare \"Pages ";
    assert_eq!(text.matches(note).count(), 2, "{text}");
    let text = compares(&run("--policy linux-5.4 --policy linux-6.9 --seeds 1 --tables all"));
    for events in ["Extfrag total", "Fallback total"] {
        let row = text.lines().find(|line| line.starts_with(events)).expect(events);
        assert!(row.ends_with("%)"), "{row}");
    }
    assert!(!text.contains(note), "{text}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_keeps_finished_runs() {
    let saved = path("interrupted.json");
    let options = format!("--policy linux-4.20 --seeds 1000 --jobs 1 --save {}", saved.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(run(&options).split_whitespace()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a first run is saved while others are made", || saved.exists());
    assert!(number_of_runs(&saved) >= 1);
    interrupt(&child);
    let out = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(out.stdout).unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(130), "{stderr}");
    let done = number_of_runs(&saved);
    let finished = format!("{done} of 1000 runs are finished, saved in {}.", saved.display());
    let note = format!("Note: Interrupted: {finished}");
    assert!(stdout.contains(&note), "{note}: {stdout}");
    // A run that was nearly done when it was said may have come to its end.
    let said = |done| {
        let saved = saved.display();
        format!(
            "Interrupted: {done} of 1000 runs are finished, saved in {saved}. Press Ctrl-C again to quit without printing.\n"
        )
    };
    assert!([done, done - 1].into_iter().any(|done| stderr == said(done)), "{done}: {stderr}");
    // Only the file is left.
    let folder = std::fs::read_dir(saved.parent().unwrap()).unwrap();
    let mut names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.starts_with(".interrupted.json")));
    assert!(
        prints(&format!("compare {} --tables all", saved.display())).contains("Duration Elapsed")
    );
}

#[test]
fn saved_runs_are_what_is_printed() {
    let saved = path("saved.json");
    let policies = "--policy linux-4.20 --policy linux-4.20,nofragment=on --seeds 2";
    let text = compares(&run(&format!("{policies} --jobs 2 --save {}", saved.display())));
    let runs = std::fs::read_to_string(&saved).unwrap();
    assert_eq!(number_of_runs(&saved), 4);
    assert_eq!(prints(&run(&format!("{policies} --jobs 1 --json"))), runs);
    assert_eq!(prints(&format!("compare {}", saved.display())), text);
    assert_eq!(prints(&format!("compare --json {}", saved.display())), runs);
    assert_eq!(prints(&format!("compare --json=runs {}", saved.display())), runs);
    let comparison = prints(&format!("compare --json=comparison {}", saved.display()));
    assert_eq!(prints(&run(&format!("{policies} --json=comparison"))), comparison);
    for key in [
        "summary", "columns", "seeds", "stars", "tables", "duration", "vmstat", "sections", "notes",
    ] {
        assert!(comparison.contains(&format!("\n  \"{key}\": ")), "{key}");
    }
    // Two seeds decide nothing.
    assert!(comparison.contains("\"interval\": null"));
    crate::is_documented(&serde_json::from_str(&runs).unwrap());
    let comparison = prints(&run(
        "--policy linux-4.20 --policy linux-4.20,nofragment=on --seeds 5 --json=comparison",
    ));
    assert!(comparison.contains("\"ratio\": "));
    crate::is_documented(&serde_json::from_str(&comparison).unwrap());
}

#[test]
fn blocks_of_mmtests_and_allocations_are_printed() {
    let text = prints(&run("--policy linux-5.4 --tables all"));
    let row = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).expect(start);
        line[start.len()..].trim().parse::<f64>().expect(line)
    };
    assert!(text.contains("\nDuration (simulated, s)\n"), "{text}");
    let (user, system) = (row("Duration User"), row("Duration System"));
    assert!(user > 0.0 && system > user && row("Duration Elapsed") > (user + system) / 8.0);
    // 48 MiB of files are written, in KiB; more is allocated than memory has.
    assert!((row("Ops Sector Writes") - 1.5 * 128.0 * 1024.0).abs() < 1024.0);
    assert!(row("Ops Normal allocs") + row("Ops DMA32 allocs") > 128.0 * 256.0);
    assert!(row("Ops Kswapd velocity") > 0.0);
}

#[test]
fn the_rule_for_stars_can_be_chosen() {
    let samples = |from: u64| {
        let samples: Vec<String> = (0..30).map(|i| (from + i * 1000).to_string()).collect();
        samples.join(",")
    };
    let one = |policy: &str, from| {
        format!(
            r#"{{"policy":"{policy}","workload":"thpfioscale","machine":"m","seed":1,"event_hash":"0",
            "counters":{{}},"extfrag":[],"samples":{{"fault-base-1":[{}]}}}}"#,
            samples(from)
        )
    };
    let text = format!("[{},{}]", one("linux-4.20", 600_000), one("linux-5.0", 590_000));
    let name = file("stars.json", &text).display().to_string();
    let row = |options: &str| {
        let text = prints(&format!("compare {name} --tables all {options}"));
        text.lines().find(|line| line.starts_with("Amean     fault-base-1")).unwrap().to_owned()
    };
    assert!(row("").ends_with("604.50 *   1.63%*"), "{}", row(""));
    assert_eq!(row("--stars classic"), row(""));
    assert!(row("--stars modern").ends_with("604.50 (   1.63%)"));
    assert!(row("--stars off").ends_with("604.50 (   1.63%)"));
    refuses(
        &format!("compare {name} --stars gold"),
        "error: invalid value 'gold' for '--stars <RULE>' [possible values: classic, modern, off]",
    );
    refuses(
        &format!("compare {name} --json=all"),
        "error: invalid value 'all' for '--json[=<WHAT>]' [possible values: runs, comparison]",
    );
}

#[test]
fn invalid_files_of_runs_are_refused_by_name() {
    let good = prints(&run("--policy linux-4.20 --json"));
    let check = |text: &str, expect: &str| {
        let name = file("bad-runs.json", text).display().to_string();
        refuses(&format!("compare {name}"), &format!("error: {name}: {expect}"));
    };
    for part in [1, 3, 10, 100] {
        check(&good[..good.len() * part / 101], "line ");
    }
    check("", "line 1, column 0: the file ends inside a value; it is truncated");
    check("[]", "the file contains no runs");
    check("null", "line 1, column 4: found null; allowed: a list");
    check(r#"{"policy": 3}"#, "line 1, column 12: policy: found 3; allowed: a string");
    check(r#"[{"policy": "p"}]"#, "line 1, column 16: [0]: the key `workload` is missing");
    check(
        &good.replacen("\"seed\": 1", "\"seed\": -1", 1),
        "line 7, column 14: [0].seed: found -1; allowed: a whole number from 0 to ",
    );
    let name = file("twice.json", &good).display().to_string();
    refuses(
        &format!("compare {name} {name}"),
        &format!("error: {name}: policy linux-4.20 with seed 1 is given twice"),
    );
    let other = good.replace("linux-4.20", "linux-6.10").replace("\"seed\": 1", "\"seed\": 2");
    let other = file("other.json", &other).display().to_string();
    refuses(
        &format!("compare {name} {other}"),
        "error: no seed was run under every policy: linux-4.20 linux-6.10",
    );
    refuses("compare /", "error: /: cannot read: Is a directory\n");
}

#[test]
fn nothing_is_run_if_runs_cannot_be_saved() {
    let refused = |save: &str, expect: &str| {
        let options = format!("--policy linux-4.20 --seeds 1000 --save {save}");
        refuses(&run(&options), &format!("error: --save: {save}: cannot write: {expect}"));
    };
    refused("/nowhere/runs.json", "No such file or directory\n");
    refused("/", "is a directory\n");
    refuses(&run("--policy linux-4.20 --jobs 0"), "error: --jobs 0: allowed: 1 or more");
}

#[test]
fn a_node_may_be_without_a_cpu_but_not_without_memory() {
    let with = |node: &str| {
        let text = TINY.replace("[disk]", &format!("[[node]]\n{node}\n[disk]"));
        file("nodes.toml", &text).display().to_string()
    };
    let name = with("cpus = 0\nmemory_mib = [[128, 256]]");
    // Linux's benchmark divides by all nodes: 8 CPUs on two are too few.
    refuses(
        &format!("run thpfioscale --policy linux-4.20 --machine {name}"),
        "error: thpfioscale needs 8 CPUs a node; machine tiny has 4",
    );
    let name = with("cpus = 8\nmemory_mib = []");
    refuses(
        &format!("run thpfioscale --policy linux-4.20 --machine {name}"),
        &format!("error: {name}: memory_mib: node 1 has no memory"),
    );
    let text = TINY.replace("cpus = 8", "cpus = 16");
    let far = "[[node]]\ncpus = 0\nmemory_mib = [[128, 256]]\n[disk]";
    let name = file("far.toml", &text.replace("[disk]", far)).display().to_string();
    let Ran { status, stdout, stderr } =
        crate::pageblock(&format!("run thpfioscale --policy linux-4.20 --machine {name} --json"));
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("\"1-Normal\""));
}
