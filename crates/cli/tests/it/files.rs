//! What is written for a user: no device node, link or file of others is replaced, and nothing half written stays.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{pageblock, ran, refuses};

const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../doctor/tests/machines/6.18-24g");

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Makes a private node of the device that swallows what is written; `None` where this user may not.
fn null_node(folder: &Path) -> Option<PathBuf> {
    let path = folder.join("node");
    let made = Command::new("mknod").args(["-m", "666"]).arg(&path).args(["c", "1", "3"]).output();
    let is_made = made.is_ok_and(|made| made.status.success());
    if !is_made {
        eprintln!("skipped: no device node can be made here");
    }
    is_made.then_some(path)
}

/// Makes a flight file.
fn flight(folder: &Path) -> PathBuf {
    let ring = folder.join("a.ring");
    let shown = ring.display();
    let ran = pageblock(&format!(
        "flight --root {MACHINE} --ring {shown} --size 1 --interval 0.5s --duration 0.5s"
    ));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ring
}

#[test]
fn a_device_node_stays_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(node) = null_node(folder.path()) else { return };
    let shown = node.display();
    refuses(
        &format!("flight --root {MACHINE} --ring {shown} --size 1 --duration 1s"),
        &format!("error: {shown}: no regular file; allowed: a regular file"),
    );
    let file = flight(folder.path());
    for command in [
        format!("metrics --root {MACHINE} --out {shown}"),
        format!("flight bundle {} -o {shown}", file.display()),
    ] {
        let ran = pageblock(&command);
        assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
    }
    let meta = fs::symlink_metadata(&node).expect("it stays");
    assert!(meta.file_type().is_char_device() && meta.mode() & 0o777 == 0o666);
    assert_eq!(names(folder.path()), ["a.ring", "node"]);
}

#[test]
fn an_error_removes_nothing_that_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    // A file of no bytes is as good as a new ring; there is no space for 2^44 bytes.
    let ring = folder.path().join("mine");
    fs::write(&ring, "").expect("it is ours");
    let ran = pageblock(&format!(
        "flight --root {MACHINE} --ring {} --size 16777216 --duration 1s",
        ring.display()
    ));
    assert_eq!((ran.status, ring.exists()), (2, true), "{}", ran.stderr);
}

#[test]
fn what_only_root_may_read_is_its_owners_alone_and_modes_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let ring = flight(folder.path());
    assert_eq!(mode(&ring), 0o600);
    let (bundle, metrics) = (folder.path().join("bundle"), folder.path().join("metrics"));
    let make = || {
        let (ring, bundle, metrics) = (ring.display(), bundle.display(), metrics.display());
        for command in [
            format!("flight bundle {ring} -o {bundle}"),
            format!("metrics --root {MACHINE} --out {metrics}"),
        ] {
            assert_eq!(pageblock(&command).status, 0, "{command}");
        }
    };
    make();
    assert_eq!((mode(&bundle), mode(&metrics)), (0o600, 0o644));
    for path in [&bundle, &metrics] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).expect("it is ours");
    }
    make();
    assert_eq!((mode(&bundle), mode(&metrics)), (0o640, 0o640));
}

/// Returns what is being written below a folder.
fn half_written(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if name.starts_with(".pageblock-") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(half_written(&path));
        }
    }
    found
}

/// Starts a command that writes in `folder`, and sends it a signal when it has begun to write.
#[expect(clippy::disallowed_methods, reason = "a program is watched")]
fn signalled(folder: &Path, cache: &str, arguments: &[&str], signal: Signal) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .args(arguments)
        .current_dir(folder)
        .envs([("PAGEBLOCK_CACHE", cache), ("TMPDIR", "."), ("HOME", ""), ("XDG_CACHE_HOME", "")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program was built");
    let is_written = || !half_written(folder).is_empty();
    let began = Instant::now();
    while !is_written() {
        assert!(began.elapsed() < Duration::from_secs(60), "{arguments:?} writes nothing");
        assert!(child.try_wait().expect("a child").is_none(), "{arguments:?} ended");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    let status = child.wait().expect("a child");
    assert_eq!(status.signal(), Some(signal.as_raw()), "{arguments:?}: {status}");
}

#[test]
fn a_signal_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n";
    fs::write(folder.path().join("capture.txt"), line.repeat(1_000_000)).expect("it is ours");
    fs::create_dir(folder.path().join("cache")).expect("a folder");
    // A folder needs a state at the start, which a capture has not.
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/debian-6.12-640m");
    for (of, out, signal) in
        [("capture.txt", "x.pbrec", Signal::INT), (recording, "folder", Signal::TERM)]
    {
        let arguments = ["recording", "convert", of, "-o", out];
        signalled(folder.path(), "cache", &arguments, signal);
    }
    for command in ["slice", "anonymise"] {
        let arguments = ["recording", command, "capture.txt", "-o", "x.pbrec"];
        // In the cache, and where there is none.
        signalled(folder.path(), "cache", &arguments, Signal::INT);
        signalled(folder.path(), "", &arguments, Signal::TERM);
    }
    assert_eq!(names(folder.path()), ["cache", "capture.txt"]);
    assert_eq!(half_written(folder.path()), Vec::<PathBuf>::new());
}

/// Others can make a folder of any name in the folder for temporary files first.
#[test]
fn without_a_home_there_is_no_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("capture.txt");
    let line = "  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n";
    fs::write(&capture, line).expect("it is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    for name in ["HOME", "XDG_CACHE_HOME", "PAGEBLOCK_CACHE"] {
        command.env_remove(name);
    }
    let run = ran(command.env("TMPDIR", folder.path()).args(["recording", "info"]).arg(&capture));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(names(folder.path()), ["capture.txt"]);
}
