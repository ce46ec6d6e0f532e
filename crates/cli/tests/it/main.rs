//! Tests of the built program: its output and exit status.

mod arguments;
mod bench;
mod bisect;
mod demo;
mod docs;
mod doctor;
mod explain;
mod files;
mod fleet;
mod flight;
mod fragment;
mod gaps;
mod grid;
mod guest;
mod guest_build;
mod inputs;
mod json;
mod machines;
mod manual;
mod metrics;
mod own;
mod pictures;
mod policy;
mod programs;
mod record;
mod recordings;
mod repeat;
mod runs;
mod scenarios;
mod steps;
mod sweep;
mod switches;
mod tune;
mod watch;
mod words;
mod workload_files;

use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(crate) use json::is_documented;

/// The outcome of a run of the program.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program with arguments separated by blanks.
#[track_caller]
pub(crate) fn pageblock(arguments: &str) -> Ran {
    ran(Command::new(env!("CARGO_BIN_EXE_pageblock")).args(arguments.split_whitespace()))
}

/// Runs a command without input.
#[track_caller]
pub(crate) fn ran(command: &mut Command) -> Ran {
    let out = command.stdin(Stdio::null()).output().expect("the program was built");
    Ran {
        status: out.status.code().expect("it was not killed"),
        stdout: String::from_utf8(out.stdout).expect("it prints UTF-8"),
        stderr: String::from_utf8(out.stderr).expect("it prints UTF-8"),
    }
}

/// Runs the program, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn prints(arguments: &str) -> String {
    let ran = pageblock(arguments);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{arguments}");
    ran.stdout
}

/// Runs a comparison, which must succeed, and returns its output; before it says in a line what its seeds can decide.
#[track_caller]
pub(crate) fn compares(arguments: &str) -> String {
    let Ran { status, stdout, stderr } = pageblock(arguments);
    assert_eq!((status, stderr.lines().count()), (0, 1), "{arguments}: {stderr}");
    assert!(stderr.contains("seed"), "{arguments}: {stderr}");
    stdout
}

/// Runs the program, which must fail with one line that starts like this.
#[track_caller]
pub(crate) fn refuses(arguments: &str, expect: &str) {
    let Ran { status, stdout, stderr } = pageblock(arguments);
    assert_eq!((status, stdout.as_str()), (2, ""), "{arguments}: {stderr}");
    assert!(stderr.starts_with(expect), "{arguments}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments}: {stderr}");
}

/// Writes a file with this content; each name has its own file.
pub(crate) fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("cargo gives a folder to write to");
    path
}
