//! The columnar form has the same events, and a damaged or stale file is detected.

use std::path::PathBuf;

use pageblock_recording::{Columnar, Part, Recording};

use crate::{TempDir, shared};

#[test]
fn columns_hold_the_same_events_and_windows() {
    for name in ["qemu-6.12-osc640-s31", "host-6.18-compile"] {
        let Some(dir) = shared(name) else { return };
        let temp = TempDir::new("columns");
        let recording = Recording::open(&dir).unwrap();
        let mut last = (0, None);
        let columnar =
            recording.columnar(&temp.0, &mut |done, total| last = (done, total)).unwrap();
        assert_eq!(Some(last.0), last.1);
        assert_eq!(columnar.windows, recording.windows().unwrap());
        let mut count = 0;
        let mut records = columnar.records().unwrap();
        for expected in recording.events().unwrap() {
            let (expected, record) = (expected.unwrap(), records.next().unwrap().unwrap());
            assert_eq!(record, expected);
            count += 1;
        }
        assert!(records.next().is_none());
        assert_eq!(count, columnar.events);
        // The second conversion comes from the cache.
        let again = recording.columnar(&temp.0, &mut |_, _| panic!("converted again")).unwrap();
        assert_eq!(again.path, columnar.path);
    }
}

#[test]
fn unfinished_files_of_killed_runs_are_removed_and_those_of_live_runs_are_not() {
    let temp = TempDir::new("abandoned");
    let recording = Recording::open(&small_recording(&temp, EVENTS)).unwrap();
    let cache = temp.0.join("cache");
    std::fs::create_dir_all(&cache).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let left = |name: &str| {
        let path = cache.join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_modified(old).unwrap();
        (path, file)
    };
    let (killed, _) = left(".pageblock-a1B2c3D4e5F6.tmp");
    let (written, writer) = left(".pageblock-b1B2c3D4e5F6.tmp");
    writer.lock().unwrap();
    let (whole, _) = left("c.pbrec");
    let young = cache.join(".pageblock-d1B2c3D4e5F6.tmp");
    std::fs::write(&young, "").unwrap();
    let others = [
        "thesis.unfinished",
        "e.pbrec.14-0.unfinished",
        ".pageblock-short.tmp",
        ".pageblock-f1B2c3D4e5F6.tmp.old",
    ];
    let others = others.map(|name| left(name).0);
    recording.columnar(&cache, &mut |_, _| {}).unwrap();
    let are_there = [killed, written, whole, young].map(|path| path.exists());
    assert_eq!(are_there, [false, true, true, true]);
    assert!(others.iter().all(|path| path.exists()), "files of other programs stay");
}

#[test]
fn nothing_is_removed_beside_an_output() {
    let temp = TempDir::new("beside");
    let recording = Recording::open(&small_recording(&temp, EVENTS)).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let others = ["thesis.unfinished", ".pageblock-a1B2c3D4e5F6.tmp"].map(|name| {
        let path = temp.0.join(name);
        std::fs::File::create(&path).unwrap().set_modified(old).unwrap();
        path
    });
    let columnar = recording.columnar(&temp.0.join("cache"), &mut |_, _| {}).unwrap();
    let out = temp.0.join("x.pbrec");
    recording.write_part(&columnar, &Part::default(), &out, &mut |_, _| {}).unwrap();
    assert!(out.exists() && others.iter().all(|path| path.exists()));
}

/// Makes a recording of a few lines in a folder of its own.
pub(crate) fn small_recording(temp: &TempDir, events: &str) -> PathBuf {
    let dir = temp.0.join("small-6.1");
    std::fs::create_dir_all(dir.join("start")).unwrap();
    std::fs::write(
        dir.join("start/snapshot.txt"),
        "# page-allocator snapshot v1: a test\n\
         zone node=0 zone=Normal start_pfn=0 spanned=1024 present=1024 managed=1024 wmark=1/2/3/4 \
         watermark_boost=0 lowmem_reserve=0/0 nr_free_pages=512\n\
         free 0 Normal 9 1 512\n\
         block 0 Normal 0 0 0\nblock 0 Normal 512 1 0\nused kernel 0 512\n",
    )
    .unwrap();
    std::fs::write(dir.join("events.tsv"), events).unwrap();
    dir
}

pub(crate) const EVENTS: &str = "\
10 0 1 M S1
11 1 7 A 512 0 1 GFP_HIGHUSER_MOVABLE|__GFP_ZERO
11 1 7 A - 9 1 GFP_TRANSHUGE
12 1 7 Z 513 0 1 1
13 0 8 X 600 0 3 0 1 1
14 0 8 I 640 5 -1
15 0 8 I 640 5 32
15 0 8 K 4
16 0 8 D 513 0 1
16 0 8 B 512
17 0 8 F 512 0
18 0 8 E mm_compaction_begin zone_start=0x0 mode=sync
19 0 1 M S2
";

#[test]
fn every_kind_of_event_survives() {
    let temp = TempDir::new("kinds");
    for (name, events) in [
        ("narrow", EVENTS.to_owned()),
        ("backwards", format!("{EVENTS}18 0 1 K 1\n")),
        ("far", format!("{EVENTS}99999999999999 0 1 K 1\n")),
        ("large", format!("{EVENTS}20 300 1 F 8589934592 3\n")),
        ("empty", String::new()),
    ] {
        let dir = small_recording(&temp, &events);
        let recording = Recording::open(&dir).unwrap();
        let columnar = recording.columnar(&temp.0.join(name), &mut |_, _| {}).unwrap();
        let expected: Vec<_> = recording.events().unwrap().map(Result::unwrap).collect();
        let records: Vec<_> = columnar.records().unwrap().map(Result::unwrap).collect();
        assert_eq!(records, expected, "{name}");
        assert_eq!(expected.len(), events.lines().count());
    }
}

#[test]
fn a_changed_source_is_converted_again() {
    let temp = TempDir::new("stale");
    let dir = small_recording(&temp, EVENTS);
    let cache = temp.0.join("cache");
    let first = Recording::open(&dir).unwrap().columnar(&cache, &mut |_, _| {}).unwrap();
    std::fs::write(dir.join("events.tsv"), format!("{EVENTS}20 0 1 K 1\n")).unwrap();
    let second = Recording::open(&dir).unwrap().columnar(&cache, &mut |_, _| {}).unwrap();
    assert_eq!(first.events + 1, second.events);
    assert_ne!(first.path, second.path);
    // The first content again is what it was.
    std::fs::write(dir.join("events.tsv"), EVENTS).unwrap();
    let again = Recording::open(&dir).unwrap().columnar(&cache, &mut |_, _| panic!("converted"));
    assert_eq!(again.unwrap().path, first.path);
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 2);
}

#[test]
fn a_fingerprint_is_of_the_content_of_every_file() {
    let temp = TempDir::new("fingerprint");
    let dir = small_recording(&temp, EVENTS);
    let fingerprint = |of: &std::path::Path| Recording::open(of).unwrap().fingerprint().unwrap();
    let mut seen = vec![fingerprint(&dir)];
    let mut is_new = |of: &std::path::Path, what: &str| {
        let found = fingerprint(of);
        assert!(!seen.contains(&found), "{what}");
        seen.push(found);
    };
    let replaced = |name: &str, old: &str, new: &str| {
        let path = dir.join(name);
        let modified = path.metadata().unwrap().modified().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(old.len(), new.len());
        std::fs::write(&path, text.replacen(old, new, 1)).unwrap();
        // Neither the size nor the time tells.
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    };
    replaced("start/snapshot.txt", "used kernel", "used anon  ");
    is_new(&dir, "the state at the start");
    replaced("events.tsv", "15 0 8 K 4", "15 0 8 K 5");
    is_new(&dir, "an event");
    for (name, text) in
        [("comms.json", "{\"7\": \"ls\"}"), ("start/slabinfo", "x"), ("slabinfo", "x")]
    {
        std::fs::write(dir.join(name), text).unwrap();
        is_new(&dir, name);
    }
    let moved = temp.0.join("another-6.1");
    std::fs::rename(&dir, &moved).unwrap();
    is_new(&moved, "the name, which certificates print");

    let packed = temp.0.join("a.pbrec");
    pageblock_recording::pack(&moved, &packed, &mut |_, _| {}).unwrap();
    is_new(&packed, "one file");
    let recording = Recording::open(&packed).unwrap();
    let before = recording.fingerprint().unwrap();
    assert!(recording.keep_note("a grade").unwrap());
    assert_eq!(recording.fingerprint().unwrap(), before, "a note is no part of the recording");
}

#[test]
fn a_failed_conversion_leaves_nothing() {
    let temp = TempDir::new("failed");
    let dir = small_recording(&temp, &format!("{EVENTS}broken\n"));
    let cache = temp.0.join("cache");
    let error = Recording::open(&dir).unwrap().columnar(&cache, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains(":14 (byte "), "{error}");
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
}

#[test]
fn a_damaged_columnar_file_is_an_error() {
    let temp = TempDir::new("damaged");
    let dir = small_recording(&temp, EVENTS);
    let recording = Recording::open(&dir).unwrap();
    let columnar = recording.columnar(&temp.0, &mut |_, _| {}).unwrap();
    let good = std::fs::read(&columnar.path).unwrap();
    let path = temp.0.join("bad.pbrec");
    for cut in (0..good.len()).step_by(7) {
        std::fs::write(&path, &good[..cut]).unwrap();
        assert!(Columnar::open(&path).is_err(), "cut at {cut}");
    }
    for at in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        std::fs::write(&path, &bad).unwrap();
        assert!(Columnar::open(&path).is_err(), "byte {at}");
    }
    // A damaged file in the cache is replaced.
    std::fs::write(&columnar.path, &good[..good.len() / 2]).unwrap();
    let again = recording.columnar(&temp.0, &mut |_, _| {}).unwrap();
    assert_eq!(again.records().unwrap().map(Result::unwrap).count() as u64, again.events);
}
