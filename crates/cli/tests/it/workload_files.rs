//! Workloads that files describe.

use crate::{file, pageblock, refuses};

/// The workspace's folder.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn every_example_runs_and_its_primary_measures_decide() {
    let folder = std::fs::read_dir(format!("{ROOT}/examples/workloads")).unwrap();
    let mut seen = 0;
    for entry in folder {
        let path = entry.unwrap().path();
        let command = format!(
            "run {} --policy linux-6.9 --policy linux-6.12 --scale 1/16 --seeds 2 --json=comparison",
            path.display()
        );
        let ran = pageblock(&command);
        assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
        assert_eq!(ran.stdout, pageblock(&command).stdout, "the same seed, the same bytes");
        let comparison: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let text = comparison.to_string();
        assert!(text.contains("Pages in a block of another type"), "{command}");
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn a_file_is_bisected() {
    let path = format!("{ROOT}/examples/workloads/swing.toml");
    let ran = pageblock(&format!("bisect {path} linux-6.9 linux-6.10 --scale 1/64 --seeds 2"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("claim_rule=types_agree"), "{}", ran.stdout);
}

#[test]
fn mistakes_name_file_and_line() {
    let check = |name: &str, text: &str, expect: &str| {
        let path = file(name, text).display().to_string();
        refuses(&format!("run {path} --policy linux-6.12"), &format!("error: {path}: {expect}"));
    };
    check("untasked.toml", "name = \"x\"\n", "line 1: `[[task]]` is missing");
    check(
        "taken.toml",
        "name = \"mixed\"\n[[task]]\n[[task.step]]\ndo = \"sleep\"\nms = 1\n",
        "workload 'mixed' exists already; choose another name",
    );
    check(
        "unmeasured.toml",
        "name = \"x\"\nprimary = [\"speed\"]\n[[task]]\n",
        "line 2: `primary` is [\"speed\"]; allowed: a list of some of ",
    );
    refuses("run /nowhere/x.toml --policy linux-6.12", "error: /nowhere/x.toml: cannot read: ");
}
