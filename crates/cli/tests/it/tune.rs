//! `pageblock tune`: what it asks for, and what it says where the package is missing.

use std::path::Path;
use std::process::Command;

use crate::{file, ran, refuses};

const TUNE: [&str; 6] = ["tune", "netperf-udp", "--kernel", "linux-6.12", "--objective", "stalls"];

/// Runs the program with an interpreter.
fn with_python(python: &Path, more: &[&str]) -> crate::Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    ran(command.env("PAGEBLOCK_PYTHON", python).args(TUNE).args(more))
}

/// Makes an interpreter of a shell script.
fn interpreter(name: &str, script: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = file(name, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

#[test]
fn where_the_package_is_missing_it_says_what_to_install() {
    let ran = with_python(&interpreter("python-without", "exit 9"), &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("pip install 'pageblock[tune]'"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1);
    let ran = with_python(Path::new("/nonexistent/python"), &[]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.starts_with("error: /nonexistent/python: "), "{}", ran.stderr);
}

#[test]
fn the_package_gets_what_was_asked_for_and_its_status_is_the_programs() {
    let python = interpreter("python-echo", "[ $# = 2 ] && exit 0\necho \"$3\"\nexit 7");
    let ran = with_python(
        &python,
        &["--objective", "huge-pages", "--knob", "swappiness", "--scale", "1/64"],
    );
    let asked: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(asked["objectives"], serde_json::json!(["stalls", "huge-pages"]));
    assert_eq!(asked["knobs"], serde_json::json!(["swappiness"]));
    assert_eq!((&asked["out"], &asked["scale"]), (&"netperf-udp.tune".into(), &"1/64".into()));
    assert_eq!(ran.status, 7);
}

/// What lies in the current folder may be anybody's: whether the package is there or not, none of it runs.
#[test]
fn python_of_the_current_folder_is_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let trap = format!("open({:?}, 'w')", path("EXECUTED"));
    std::fs::create_dir(path("pageblock")).expect("a folder");
    for name in
        ["pageblock/__init__.py", "pageblock/__main__.py", "optuna.py", "runpy.py", "importlib.py"]
    {
        std::fs::write(path(name), &trap).expect("it is ours");
    }
    let run = |python: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
        command.env("PAGEBLOCK_PYTHON", python).env_remove("PYTHONPATH");
        ran(command.current_dir(folder.path()).args(TUNE).args(["--trials", "0"]))
    };
    if run("python3").stderr.starts_with("error: python3: ") {
        eprintln!("skipped: there is no python3");
        return;
    }
    assert!(!path("EXECUTED").exists());
    // Where a probe finds the package, the run does not take it from there either.
    let script = "#!/bin/sh\n[ $# = 2 ] && exit 0\nunset PYTHONSAFEPATH\nexec python3 \"$@\"\n";
    let python = interpreter("python-found", script.trim_start_matches("#!/bin/sh\n"));
    run(&python.display().to_string());
    assert!(!path("EXECUTED").exists());
}

#[test]
fn objectives_are_listed() {
    refuses(
        "tune netperf-udp --kernel linux-6.12 --objective speed",
        "error: invalid value 'speed' for '--objective <WHAT>' [possible values: huge-pages, stalls, work, spread, unmovable, small-blocks]",
    );
    refuses("tune netperf-udp --kernel linux-6.12", "error: the following required arguments");
}
