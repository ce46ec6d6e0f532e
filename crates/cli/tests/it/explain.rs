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
