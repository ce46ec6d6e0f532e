//! Recordings of unusual machines, damaged recordings, and a cache that cannot be written.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Ran, file, ran};

/// Makes a folder with a snapshot gathered from `/proc` that has these lines after its heading, and a few
/// events.
fn recording(name: &str, snapshot: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-6.18"));
    std::fs::create_dir_all(dir.join("start")).expect("cargo gives a folder to write to");
    let text = format!("# page-allocator snapshot v1 (host): made\n{snapshot}");
    std::fs::write(dir.join("start/snapshot.txt"), text).expect("it can be written");
    let events = "10 0 1 M S1\n11 0 1 M S2\n12 0 7 A 4096 0 1 GFP_KERNEL\n13 0 7 F 4096 0\n";
    std::fs::write(dir.join("events.tsv"), events).expect("it can be written");
    dir
}

/// Describes a machine whose zone `Normal` spans `spanned` frames and has 8192 at either end.
fn machine(spanned: u64) -> String {
    let last = 4096 + spanned - 8192;
    format!(
        "zone node=0 zone=Normal start_pfn=4096 spanned={spanned} present=16384 managed=16384 \
         min=100 low=125 high=150 nr_free_pages=8192\n\
         pcpinfo cpu=0 node=0 zone=Normal count=63 high=500 batch=63 high_min=500 high_max=900\n\
         used kernel-or-pcp 4096 4096\nfree 0 Normal 10 -1 8192\n\
         used file {last} 4096\nfree 0 Normal 10 -1 {}\n",
        last + 4096
    )
}

fn verify(dir: &Path, cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.arg("verify").arg(dir).env("PAGEBLOCK_CACHE", cache);
    command
}

fn cache(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{name}"))
}

#[test]
fn an_unwritable_cache_is_named_once_and_not_needed() {
    let dir = recording("uncached", &machine(1 << 20));
    let kept = ran(&mut verify(&dir, &cache("uncached")));
    assert_eq!((kept.status, kept.stderr.as_str()), (0, ""));
    let blocked = file("no-folder", "").join("cache");
    let Ran { status, stdout, stderr } = ran(&mut verify(&dir, &blocked));
    assert_eq!((status, stdout), (0, kept.stdout), "{stderr}");
    let start = format!("warning: the cache folder {} cannot be written: ", blocked.display());
    assert!(stderr.starts_with(&start) && stderr.contains("PAGEBLOCK_CACHE"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let mut replay = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    replay.arg("replay").arg(&dir).args(["--policy", "linux-6.9"]).env("PAGEBLOCK_CACHE", &blocked);
    let Ran { status, stderr, .. } = ran(&mut replay);
    assert_eq!((status, stderr.lines().count()), (0, 1), "{stderr}");
}

#[test]
fn a_snapshot_that_contradicts_itself_is_one_line_with_the_place() {
    for (name, from, to) in [
        ("spanned", "spanned=1048576", "spanned=1099511627776"),
        ("outside", "spanned=1048576", "spanned=16384"),
        ("limits", "high_min=500", "high_min=5000"),
        ("count", "4096 4096\nfree", "4096 4503599627370496\nfree"),
    ] {
        let dir = recording(name, &machine(1 << 20).replacen(from, to, 1));
        let Ran { status, stdout, stderr } = ran(&mut verify(&dir, &cache(name)));
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        assert!(stderr.contains("snapshot.txt:"), "{stderr}");
    }
}

/// 128 GiB of frames, but only 64 MiB are memory: the tables of all frames would take over 2 GB.
#[test]
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the program's memory is looked at while it runs")]
fn a_hole_takes_almost_no_memory() {
    let dir = recording("hole", &machine(1 << 25));
    let mut command = verify(&dir, &cache("hole"));
    let mut child = command.stdout(Stdio::null()).spawn().expect("the program was built");
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().expect("it can be waited for").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.wait().expect("it ended").code(), Some(0));
    assert!((1..200 << 10).contains(&peak_kib), "{peak_kib} KiB");
}

/// Runs `verify` and `replay` with a cache and returns what they print.
fn answers(dir: &Path, cache: &Path) -> (String, String) {
    let answer = |command: &mut Command| {
        let Ran { status, stdout, stderr } = ran(command.env("PAGEBLOCK_CACHE", cache));
        assert_eq!(status, 0, "{stderr}");
        stdout
    };
    let mut replay = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    replay.arg("replay").arg(dir).args(["--policy", "linux-6.9", "--tables", "summary"]);
    (answer(&mut verify(dir, cache)), answer(&mut replay))
}

#[test]
fn a_cache_answers_for_no_other_content() {
    let cache_of = |name: &str| {
        let folder = cache(name);
        let _ = std::fs::remove_dir_all(&folder);
        folder
    };
    let dir = recording("answers", &machine(1 << 20));
    let (warm, before) = (cache_of("answers"), answers(&dir, &cache_of("answers")));
    // The machine has less memory; the file's length and time are the same.
    let snapshot = dir.join("start/snapshot.txt");
    let modified = snapshot.metadata().and_then(|meta| meta.modified()).expect("it was written");
    let text = std::fs::read_to_string(&snapshot).expect("it is text");
    let other = text.replacen("managed=16384", "managed=15360", 1);
    assert_eq!(text.len(), other.len());
    std::fs::write(&snapshot, &other).expect("it can be written");
    let file = std::fs::File::options().write(true).open(&snapshot).expect("it is there");
    file.set_modified(modified).expect("it is ours");
    let (cached, fresh) = (answers(&dir, &warm), answers(&dir, &cache_of("answers-2")));
    assert_eq!(cached, fresh);
    assert_ne!(cached, before, "the two states give other answers");

    // Another recording of the same name, size and time.
    let packed = |name: &str, events: &str| {
        std::fs::write(dir.join("events.tsv"), events).expect("it can be written");
        let out = dir.with_file_name(format!("{name}.pbrec"));
        let _ = std::fs::remove_file(&out);
        pageblock_recording::pack(&dir, &out, &mut |_, _| {}).expect("it is a recording");
        out
    };
    let events = "10 0 1 M S1\n11 0 1 M S2\n12 0 7 A 4096 0 1 GFP_KERNEL\n13 0 7 F 4096 0\n";
    let one = packed("one", events);
    let two = packed("two", &format!("{events}14 0 7 A 4097 0 1 GFP_KERNEL\n15 0 7 F 4097 0\n"));
    let place = dir.with_file_name("place.pbrec");
    let put = |from: &Path| {
        std::fs::copy(from, &place).expect("it can be copied");
        let file = std::fs::File::options().write(true).open(&place).expect("it is there");
        file.set_modified(modified).expect("it is ours");
    };
    put(&one);
    let first = answers(&place, &warm);
    put(&two);
    let (cached, fresh) = (answers(&place, &warm), answers(&place, &cache_of("answers-3")));
    assert_eq!(cached, fresh);
    assert_ne!(cached, first);
}
