//! Errors in plain words for any content of a user's files, and endless files.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Ran, file, pageblock, ran, refuses};

#[test]
fn an_unknown_version_names_its_neighbours() {
    refuses(
        "policy show linux-6.11",
        "error: unknown policy 'linux-6.11'; 6.11 behaves as linux-6.10, the next version that differs \
         is linux-6.12 (`pageblock policy list` prints every name)\n",
    );
    refuses("policy show linux-99.1", "error: unknown policy 'linux-99.1'; the newest is linux-7.");
    refuses(
        "policy show linux-2.6",
        "error: unknown policy 'linux-2.6'; the oldest is linux-3.10 ",
    );
}

#[test]
fn control_characters_are_escaped() {
    let escapes = "red\u{1b}[31m\u{7}\u{9b}";
    let shown = "red\\u001b[31m\\u0007\\u009b";
    let command =
        |arguments: &[&str]| ran(Command::new(env!("CARGO_BIN_EXE_pageblock")).args(arguments));
    for arguments in [
        &["policy", "show", escapes][..],
        &["policy", "show", &format!("linux-6.9,boost={escapes}")],
        &["verify", escapes],
        &["compare", escapes],
        &["run", escapes, "--policy", "linux-6.9"],
        &["run", "hugealloc", "--policy", "linux-6.9", "--machine", escapes],
        &["run", "hugealloc", "--policy", "linux-6.9", "--scale", escapes],
        &["machine", "from", escapes],
    ] {
        let Ran { status, stderr, .. } = command(arguments);
        assert_eq!(status, 2, "{arguments:?}");
        assert!(stderr.contains(shown), "{arguments:?}: {stderr}");
    }
    // Names from files: of the file itself, and in it.
    let toml = file(&format!("{escapes}.toml"), "base = \"linux-6.9\"\n");
    let ran = command(&["policy", "show", toml.to_str().unwrap()]);
    assert!(ran.stdout.starts_with(shown), "{}", ran.stdout);
    let runs = r#"[{"policy":"a\u001b[2J","workload":"w","machine":"m","seed":1,"event_hash":"0",
        "counters":{},"extfrag":[],"notes":["\u001b]0;title\u0007"]}]"#;
    let runs = file("escapes.json", runs);
    for json in [&[][..], &["--json"]] {
        let ran = command(&[&["compare", runs.to_str().unwrap()], json].concat());
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        assert!(!ran.stdout.contains(['\u{1b}', '\u{7}']), "{}", ran.stdout);
    }
}

#[test]
fn endless_files_are_refused_quickly() {
    let big = file("ten-gigabytes.toml", "");
    std::fs::File::options().write(true).open(&big).unwrap().set_len(10 << 30).unwrap();
    let pipe = big.with_file_name(format!("pipe-{}.toml", std::process::id()));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let (big, pipe) = (big.display(), pipe.display());
    let start = Instant::now();
    let machine = "run hugealloc --policy linux-6.9 --machine";
    for (kind, read) in [("policy", "policy show"), ("machine", machine)] {
        for endless in ["/dev/zero", "/dev/urandom", &big.to_string()] {
            let ran = pageblock(&format!("{read} {endless}"));
            assert_eq!(ran.status, 2);
            let end = format!(" bytes, the limit for a {kind} file\n");
            assert!(ran.stderr.starts_with(&format!("error: {endless}: more than ")));
            assert!(ran.stderr.ends_with(&end), "{}", ran.stderr);
        }
        refuses(
            &format!("{read} {pipe}"),
            &format!("error: {pipe}: nothing writes to this pipe\n"),
        );
    }
    refuses("compare /dev/zero", "error: /dev/zero: line 1, column 1: found no JSON\n");
    refuses(&format!("compare {big}"), &format!("error: {big}: more than 1073741824 bytes, "));
    refuses(&format!("compare {pipe}"), &format!("error: {pipe}: nothing writes to this pipe\n"));
    assert!(start.elapsed() < Duration::from_secs(60));
    std::fs::remove_file(pipe.to_string()).unwrap();
    std::fs::remove_file(big.to_string()).unwrap();
}

#[test]
fn a_pipe_with_a_writer_is_read() {
    let program = env!("CARGO_BIN_EXE_pageblock");
    let script = format!("{program} policy show <({program} policy show linux-6.9 --toml) --json");
    let ran = ran(Command::new("bash").args(["-c", &script]));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains("\"base\": \"linux-6.9\""), "{}", ran.stdout);
}

#[test]
fn a_wrong_value_in_saved_runs_is_named_without_rust_terms() {
    let run = |rest: &str| format!(r#"[{{"policy":"a","workload":"w","machine":"m",{rest}}}]"#);
    for (text, expect) in [
        (run("\"seed\":-7"), "[0].seed: found -7; allowed: a whole number from 0 to "),
        (run("\"seed\":NaN"), "[0].seed: found no JSON"),
        (run("\"seed\":\"x\""), "[0].seed: found \"x\"; allowed: a whole number"),
        (run("\"seed\":1"), "[0]: the key `event_hash` is missing"),
        ("[7]".to_owned(), "[0]: found 7; allowed: an object"),
    ] {
        let runs = file("wrong-value.json", &text);
        let ran = pageblock(&format!("compare {}", runs.display()));
        assert_eq!((ran.status, ran.stderr.lines().count()), (2, 1));
        let (_, message) = ran.stderr.split_once(", column ").unwrap();
        let (_, message) = message.split_once(": ").unwrap();
        assert!(message.starts_with(expect), "{message}");
        assert!(!message.contains("u64") && !message.contains("struct"), "{message}");
    }
}

#[cfg(feature = "bench")]
#[test]
fn benchmarks_that_need_too_much_memory_are_refused() {
    let under = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_pageblock");
        let script = format!("ulimit -v 4000000; {program} bench native {arguments}");
        ran(Command::new("bash").args(["-c", &script]))
    };
    let ran = under("--gib 8");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.starts_with("error: --gib 8: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("of address space are needed, 3.8 GiB are allowed (ulimit -v)"));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    // A benchmark that is said to fit does fit.
    let ran = under("--gib 0.25 --order 9 --pattern pair --rounds 1");
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}
