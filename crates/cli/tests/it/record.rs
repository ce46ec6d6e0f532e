//! `pageblock record` on this machine, where it may be recorded.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Ran, pageblock, ran, refuses};

fn program(folder: &Path, arguments: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    ran(command.current_dir(folder).args(arguments.split_whitespace()))
}

fn instance_of(pid: u32) -> bool {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].iter().any(|tracefs| {
        let instances = std::fs::read_dir(Path::new(tracefs).join("instances"));
        let mut names = instances.into_iter().flatten().filter_map(Result::ok);
        let begin = format!("pageblock-{pid}-");
        names.any(|entry| entry.file_name().to_string_lossy().starts_with(&begin))
    })
}

/// Reports whether the marks of the start state are in the files of a recording under way.
fn has_marks(raw: &Path) -> bool {
    let files = std::fs::read_dir(raw).into_iter().flatten().filter_map(Result::ok);
    let stored: Vec<u8> =
        files.flat_map(|file| std::fs::read(file.path()).unwrap_or_default()).collect();
    let has = |mark: &[u8]| stored.windows(mark.len()).any(|bytes| bytes == mark);
    has(b"S1\n") && has(b"S2\n")
}

/// A command's recording is verified, and its exit status passed on. A recorder that was killed leaves tracing on,
/// which the next one switches off, and a folder that becomes a recording.
#[test]
#[expect(clippy::disallowed_methods, reason = "the recorder works in real time")]
fn a_machine_is_recorded_and_left_as_it_was() {
    let dry = pageblock("record --dry-run");
    if dry.status != 0 {
        eprintln!("skipped: this machine cannot be recorded: {}", dry.stderr.trim_end());
        return;
    }
    assert!(dry.stdout.contains("kmem/mm_page_alloc\n"), "{}", dry.stdout);
    let folder = tempfile::tempdir().expect("there is room");
    let folder = folder.path();
    let recorded = program(folder, "record --buffer-size 8192 -- false");
    assert_eq!(recorded.status, 1, "{}", recorded.stderr);
    assert!(recorded.stderr.contains("no event was lost\n"), "{}", recorded.stderr);
    assert!(!folder.join("recording.pbrec.partial").exists());
    let cache = format!("PAGEBLOCK_CACHE={}", folder.join("cache").display());
    let verified = ran(Command::new("env").current_dir(folder).args([
        &cache,
        env!("CARGO_BIN_EXE_pageblock"),
        "verify",
        "recording.pbrec",
        "--json",
    ]));
    assert_eq!(verified.status, 0, "{}", verified.stderr);
    let json: serde_json::Value = serde_json::from_str(&verified.stdout).expect("it prints JSON");
    assert_eq!(
        (&json["gaps"], &json["end_state_recorded"]),
        (&serde_json::json!([]), &true.into())
    );
    assert!(json["kinds"]["CPU-list frame"]["cases"].as_u64() > Some(100));

    let mut killed = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .current_dir(folder)
        .args(["record", "--buffer-size", "8192", "-o", "k"])
        .spawn()
        .expect("the program was built");
    let raw = folder.join("k.partial/trace.raw");
    let began = Instant::now();
    while !has_marks(&raw) && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().expect("it runs");
    killed.wait().expect("it was killed");
    assert!(instance_of(killed.id()));
    let cleaned = program(folder, "record --clean");
    assert_eq!(cleaned.status, 0, "{}", cleaned.stderr);
    assert!(!instance_of(killed.id()), "{}", cleaned.stderr);
    let left = program(folder, "verify k.partial");
    assert!(left.status == 2 && left.stderr.contains("record --salvage"), "{}", left.stderr);
    let saved = program(folder, "record --salvage k.partial");
    assert_eq!((saved.status, saved.stderr.as_str()), (0, ""));
    assert!(folder.join("k/trace.dat").is_file() && !folder.join("k.partial").exists());
    let stats = program(folder, "recording stats k --json");
    let json: serde_json::Value = serde_json::from_str(&stats.stdout).expect("it prints JSON");
    assert_eq!(json["by_event"]["marker"], 2, "{}", stats.stdout);

    let mut begun = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .current_dir(folder)
        .args(["record", "--buffer-size", "8192", "-o", "c/"])
        .spawn()
        .expect("the program was built");
    let pid = begun.id().to_string();
    let pages = folder.join("c.partial/start/kpagecount.zst");
    let began = Instant::now();
    while !pages.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ctrl_c in 0..2 {
        Command::new("kill").args(["-INT", &pid]).status().expect("there is such a command");
    }
    let status = begun.wait().expect("it was interrupted").code();
    assert!(matches!(status, Some(0 | 130)), "{status:?}");
    assert!(!instance_of(begun.id()));
    a_command_that_does_not_exist_leaves_nothing(folder);
    a_recorder_killed_in_a_container_is_found(folder);
}

/// The first process of a container has the number of the machine's first process, which runs.
#[expect(clippy::disallowed_methods, reason = "the recorder works in real time")]
fn a_recorder_killed_in_a_container_is_found(folder: &Path) {
    let started = Command::new("unshare")
        .current_dir(folder)
        .args(["-pf", "--mount-proc", env!("CARGO_BIN_EXE_pageblock"), "record"])
        .args(["--buffer-size", "8192", "-o", "n"])
        .spawn();
    let Ok(mut container) = started else {
        eprintln!("skipped: there is no unshare");
        return;
    };
    let raw = folder.join("n.partial/trace.raw");
    let began = Instant::now();
    while !has_marks(&raw) && began.elapsed() < Duration::from_secs(60) {
        if container.try_wait().expect("it is a child").is_some() {
            eprintln!("skipped: no namespace of process ids can be made here");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(instance_of(1));
    let clean = |expect: bool| {
        let cleaned = program(folder, "record --clean");
        assert_eq!(cleaned.status, 0, "{}", cleaned.stderr);
        assert_eq!(instance_of(1), expect, "{}", cleaned.stderr);
        cleaned.stderr
    };
    let told = clean(true);
    assert_eq!(told, "", "its recorder runs");
    let id = container.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let recorder = children.expect("it is a child").trim().to_owned();
    Command::new("kill").args(["-KILL", &recorder]).status().expect("there is such a command");
    container.wait().expect("it is a child");
    assert!(instance_of(1), "as after SIGKILL");
    let told = clean(false);
    assert!(told.contains("which a killed recorder had left on"), "{told}");
}

fn a_command_that_does_not_exist_leaves_nothing(folder: &Path) {
    let wrong = program(folder, "record -o w -- no-such-command");
    assert_eq!(wrong.status, 2);
    assert!(
        wrong.stderr.ends_with("error: no-such-command: no such command\n"),
        "{}",
        wrong.stderr
    );
    assert!(!folder.join("w.partial").exists());
}

#[test]
fn what_is_no_remainder_of_a_recorder_is_refused() {
    refuses("record --salvage /proc", "error: /proc: name the folder to write with -o");
    refuses(
        "record --salvage /proc -o /tmp/none",
        "error: /proc is not what a killed recorder leaves",
    );
}
