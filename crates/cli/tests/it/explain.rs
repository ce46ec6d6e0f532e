//! `pageblock explain` on real reports.

use std::path::Path;

use crate::{is_documented, pageblock, refuses};

fn report(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/reports");
    folder.join(name).to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_failure_is_explained_with_the_lines_that_say_so() {
    let ran = pageblock(&format!("explain {}", report("5.4-arm64-oom-cma.txt")));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(
        ran.stdout.starts_with("Line 1: oom on 5.4.74 invoked the OOM killer: order 0 (4 kB), ")
    );
    assert!(ran.stdout.lines().nth(1).is_some_and(|line| line.starts_with("Only CMA is free: ")));
    let zone = ran.stdout.lines().find(|line| line.starts_with("node 0 DMA32")).expect("a row");
    let cells: Vec<&str> = zone.split_whitespace().collect();
    assert_eq!(cells[3..6], ["529024", "523848", "5396"]);
    assert!(zone.ends_with("14, 16"), "{zone}");
}

#[test]
fn explanations_are_json_for_programs() {
    let name = report("5.10-arm64-order-5.txt");
    let ran = pageblock(&format!("explain {name} --json"));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    is_documented(&json);
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&json[0]["class"], &json[0]["zones"][1]["reserve"]),
        (&"fragmentation".into(), &11_228.into())
    );
}

/// Without the state of memory, it says what the request alone tells.
#[test]
fn excerpts_are_explained_as_far_as_they_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    for (log, why) in [
        (
            "a: page allocation failure: order:7, mode:0x40dc0(GFP_KERNEL)",
            "Most likely fragmentation: order 7 is above 3",
        ),
        (
            "a: page allocation failure: order:2, mode:0xcc0(GFP_KERNEL)",
            "Either what was free had no block of order 2 (fragmentation), or memory was used up: the free lists tell",
        ),
        (
            "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=3, oom_score_adj=0\nCall Trace:\n out_of_memory+0x1/0x2\n \
             __alloc_pages_slowpath+0x1/0x2",
            "Either what was free had no block of order 3 (fragmentation), or memory was used up: the free lists tell",
        ),
        (
            "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=3, oom_score_adj=0",
            "Either what was free had no block of order 3 (fragmentation), or memory was used up (or a memory cgroup reached its limit)",
        ),
        ("kernel: Out of memory and no killable processes...", "No process may be killed"),
    ] {
        std::fs::write(&path, log).expect("it is written");
        let ran = pageblock(&format!("explain {}", path.display()));
        assert!(
            ran.stdout.lines().nth(1).is_some_and(|line| line.starts_with(why)),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_log_without_a_report_says_what_was_looked_for() {
    let sources = report("SOURCES.md");
    let ran = pageblock(&format!("explain {sources}"));
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("Looked for: \"page allocation failure\""), "{}", ran.stdout);
    refuses("explain /there/is/no/such/log", "error: /there/is/no/such/log: ");
}

/// Without a writer there is nothing to wait for.
#[test]
fn a_pipe_is_read_and_one_without_a_writer_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("log").to_str().expect("the path is UTF-8").to_owned();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    refuses(&format!("explain {pipe}"), &format!("error: {pipe}: nothing writes to this pipe"));
    let log = std::fs::read(report("5.10-arm64-order-5.txt")).expect("it is there");
    let writer = std::fs::File::options().read(true).write(true).open(&pipe).expect("it opens");
    let written = std::io::Write::write(&mut &writer, &log).expect("a pipe holds 64 KiB");
    assert_eq!(written, log.len());
    let ran = std::thread::spawn(move || pageblock(&format!("explain {pipe}")));
    // The reader has what was written once it is gone from the pipe; then the last writer leaves.
    while rustix::io::ioctl_fionread(&writer).expect("it is a pipe") > 0 {
        std::thread::yield_now();
    }
    drop(writer);
    assert_eq!(ran.join().expect("it ends").status, 0);
}

/// A folder with the log of a day in three files, two of them with the same event, and what is not read.
#[test]
fn folders_are_read_and_an_event_of_several_files_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it is made");
        std::fs::write(path, bytes).expect("it is written");
    };
    let failure = "a: page allocation failure: order:0, mode:0x20";
    let line =
        |time: &str, us: u32| format!("Nov  8 {time} host kernel: [ 1234.{us:06}] {failure}\n");
    write("dmesg", format!("[ 1234.000001] {failure}\n").as_bytes());
    write("log/messages", (line("03:12:00", 1) + &line("09:00:00", 2)).as_bytes());
    let older = zstd::encode_all(line("02:00:00", 3).as_bytes(), 1).expect("it is packed");
    write("log/messages.1.zst", &older);
    write("log/wtmp", &[0; 64]);
    write("log/system.journal", b"LPKSHHRH\0\0");
    let path = folder.path().to_str().expect("the path is UTF-8");
    let ran = pageblock(&format!("explain {path}"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("log/messages:1: a got no memory: order 0 (4 kB)"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("3 equal reports, log/messages:1 to log/messages.1.zst:1"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("system.journal: a journal of systemd"), "{}", ran.stderr);
    let ran = pageblock(&format!("explain {path} --at 03:10"));
    assert!(!ran.stdout.contains("equal reports"), "{}", ran.stdout);
    assert!(ran.stderr.contains("2 reports are of another time"), "{}", ran.stderr);
    let both = format!("{path}/dmesg {path}/log/messages");
    let ran = pageblock(&format!("explain {both} --json"));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    is_documented(&json);
    let groups = json.as_array().expect("a list of groups");
    assert_eq!((groups.len(), &groups[0]["count"]), (1, &2.into()));
    refuses(
        &format!("explain {path}/log --at 03:10Z"),
        "error: invalid value '03:10Z' for '--at <TIME>'",
    );
    refuses(
        &format!("explain {path}/dmesg --at 03:10"),
        "error: --since, --until, --at: no report in the log has a time",
    );
    std::fs::create_dir(folder.path().join("empty")).expect("it is made");
    refuses(
        &format!("explain {path}/empty"),
        &format!("error: {path}/empty: no log in this folder"),
    );
}
