use std::process::{Command, Stdio};

use crate::{pageblock, prints, refuses};

#[test]
fn wrong_usage_is_one_line() {
    refuses("", "error: a command is missing (see --help)");
    refuses("polish", "error: unrecognized subcommand 'polish'");
    refuses("verify", "error: the following required arguments were not provided: <RECORDING>");
    refuses(
        "replay /",
        "error: the following required arguments were not provided: --policy <POLICY>",
    );
    refuses(
        "policy show --json --toml linux-5.0",
        "error: the argument '--json' cannot be used with",
    );
    refuses("verify / --mismatches many", "error: invalid value 'many' for '--mismatches <N>'");
}

#[test]
fn plans_are_checked_before_work_starts() {
    refuses("verify /nowhere", "error: recording /nowhere does not exist; a recording is a folder");
    refuses("verify /dev/null", "error: recording /dev/null is no folder; ");
    refuses("verify / --min-shape 99", "error: --min-shape 99 is not a share from 0 to 1");
    refuses("verify / --min-exact=-1", "error: --min-exact -1 is not a share from 0 to 1");
    refuses("verify / --policy linux", "error: unknown policy 'linux'; there are ");
    refuses(
        "replay / --policy linux-5.0 --baseline linux-5.1",
        "error: --baseline 'linux-5.1' is not among the policies: linux-5.0",
    );
    refuses(
        "replay / --policy linux-5.0 --policy linux-5.0",
        "error: --policy 'linux-5.0' is given twice",
    );
}

#[test]
fn help_and_version_are_no_errors() {
    assert!(prints("--help").contains("Exit status: 0; 1 where a comparison says no; 2 "));
    assert!(prints("replay --help").contains("NAME,switch=value"));
    assert!(prints("--version").starts_with("pageblock "));
    assert_eq!(pageblock("help").status, 0);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .args(["policy", "show", "linux-6.12", "--toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stderr.is_empty());
}
