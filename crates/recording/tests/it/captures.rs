//! Captures that other tools wrote, on a machine with Linux 6.18: `perf record` (`mm`, `kmem`; `mmz` with `-z`,
//! `mmpipe` to a pipe, `lossy` with a buffer of a page a CPU), `perf kmem --page record` (`page`), `perf script`, and
//! `trace_pipe`. The numbers are those of `perf script | grep -c`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock_recording::{CaptureOptions, KernelVersion, Record, Recording, What, llfree};
use proptest::prelude::*;

use crate::TempDir;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Alloc { .. } => "A",
        What::Free { .. } => "F",
        What::FreeBatched { .. } => "B",
        What::ZoneLocked { .. } => "Z",
        What::Drain { .. } => "D",
        What::Extfrag(_) => "X",
        _ => "other",
    }
}

fn records(recording: &Recording) -> Vec<Record> {
    recording.events().unwrap().map(Result::unwrap).collect()
}

#[track_caller]
fn check(name: &str, expect: &[(&str, u64)]) {
    let recording = Recording::open(&file(name)).unwrap();
    assert_eq!(recording.kernel.to_string(), "6.18.44", "{name}");
    assert!(!recording.start_known && !recording.kernel_assumed);
    assert!(recording.comms.values().any(|comm| comm.starts_with("kworker")), "{name}");
    let mut counts = BTreeMap::new();
    let records = records(&recording);
    for record in &records {
        *counts.entry(kind(&record.what)).or_insert(0u64) += 1;
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expect, "{name}");
    assert!(records.is_sorted_by_key(|record| record.t_us), "{name}");
}

#[test]
fn each_form_of_perf_data_has_the_events_that_perf_script_prints() {
    check("mm.data.xz", &[("A", 59), ("B", 87), ("F", 95)]);
    check("kmem.data.xz", &[("A", 62), ("B", 70), ("F", 78)]);
    check("mmz.data.xz", &[("A", 151), ("B", 89), ("F", 97)]);
    check("page.data.xz", &[("A", 65), ("F", 94)]);
    let pipe = [("A", 82), ("B", 1387), ("D", 1359), ("F", 1445), ("Z", 1)];
    check("mmpipe.data.xz", &pipe);
}

#[test]
fn perf_data_and_perf_script_are_one_recording() {
    let binary = records(&Recording::open(&file("mmpipe.data.xz")).unwrap());
    let text = Recording::open(&file("mmpipe.txt.xz")).unwrap();
    assert!(text.kernel_assumed);
    let text = records(&text);
    assert_eq!(binary.len(), text.len());
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!(binary, text);
    }
}

#[test]
fn the_names_among_the_events_are_kept_in_one_file() {
    let dir = TempDir::new("names");
    for (capture, pid, name) in [
        ("mmpipe.txt.xz", 15240, "rustc"),
        ("mmpipe.data.xz", 15240, "rustc"),
        ("trace_pipe.txt.xz", 16422, "lto cgu.2.rcgu."),
    ] {
        let capture = Recording::open(&file(capture)).unwrap();
        let out = dir.0.join(format!("{}.pbrec", capture.name));
        capture.save(&out, &mut |_, _| {}).unwrap();
        assert_eq!(Recording::open(&out).unwrap().comms.get(&pid).map(String::as_str), Some(name));
        // A file in the cache names them too.
        let cached = capture.columnar(&dir.0, &mut |_, _| {}).unwrap();
        assert_eq!(cached.comms().unwrap().get(&pid).map(String::as_str), Some(name));
    }
}

#[test]
fn lost_samples_are_counted_once_and_by_cpu() {
    let mut events = Recording::open(&file("lossy.data.xz")).unwrap().events().unwrap();
    assert_eq!(events.by_ref().filter(Result::is_ok).count(), 1585);
    // `perf script --show-lost-events`; perf counts the same events once more when it ends.
    assert_eq!(events.lost_by_cpu(), BTreeMap::from([(Some(0), 258), (Some(1), 10)]));
    assert_eq!(events.lost_unplaced(), BTreeMap::new());
}

#[test]
fn a_trace_pipe_is_read_with_its_losses() {
    let recording = Recording::open(&file("trace_pipe.txt.xz")).unwrap();
    let mut events = recording.events().unwrap();
    assert_eq!(events.by_ref().filter(Result::is_ok).count(), 300);
    assert_eq!(events.lost_by_cpu(), BTreeMap::from([(Some(1), 1017)]));
}

#[test]
fn the_user_names_the_kernel_that_a_text_does_not() {
    let path = file("mmpipe.txt.xz");
    let kernel = KernelVersion::parse("6.1");
    let options = CaptureOptions { kernel, proc: None };
    let recording = Recording::open_with(&path, &options).unwrap();
    assert_eq!((recording.kernel.to_string().as_str(), recording.kernel_assumed), ("6.1.0", false));
    // What is kept of one is not taken for the other.
    let other = Recording::open(&path).unwrap();
    assert_ne!(recording.fingerprint().unwrap(), other.fingerprint().unwrap());
}

#[test]
fn a_lone_trace_dat_is_a_recording() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/events");
    for name in ["real-v6.dat", "real-v6.dat.zst", "v7-le-zstd.dat", "v7-be-none.dat"] {
        let recording = Recording::open(&seeds.join(name)).unwrap();
        assert!(!recording.start_known, "{name}");
        assert!(!records(&recording).is_empty(), "{name}");
    }
}

#[test]
fn a_trace_for_llfree_has_the_same_requests() {
    let temp = TempDir::new("llfree");
    let out = temp.0.join("trace");
    let recording = Recording::open(&file("mmpipe.data.xz")).unwrap();
    let written = llfree::write(&recording, &out, &mut |_| {}).unwrap();
    assert_eq!(written.entries, 82 + 1445);
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(bytes.len(), 4096 * (written.pages as usize + 1));
    let first = records(&recording)[0].t_us;
    let plain = |record: Record| match record.what {
        What::Alloc { .. } | What::Free { .. } => {
            Some((record.t_us, record.cpu, record.pid, record.what))
        }
        _ => None,
    };
    let mut expected: Vec<_> = records(&recording).into_iter().filter_map(plain).collect();
    expected.iter_mut().for_each(|(t_us, ..)| *t_us -= first);
    let read = Recording::open(&out).unwrap();
    let mut read: Vec<_> = records(&read).into_iter().filter_map(plain).collect();
    // Of one microsecond those of different CPUs have no order.
    let key =
        |(t_us, cpu, pid, what): &(u64, u16, u32, What)| (*t_us, *cpu, *pid, format!("{what:?}"));
    expected.sort_by_key(key);
    read.sort_by_key(key);
    assert_eq!(read, expected);
}

#[test]
fn what_does_not_fit_llfree_is_refused_and_leaves_nothing() {
    let temp = TempDir::new("llfree-far");
    let (tsv, out) = (temp.0.join("events.tsv"), temp.0.join("trace"));
    std::fs::write(&tsv, "5 0 1 F 16777215 0\n6 0 1 F 16777215 1\n").unwrap();
    let recording = Recording::open(&tsv).unwrap();
    let error = llfree::write(&recording, &out, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "frame 16777216; allowed in a trace of LLFree: frames below 16777216, 64 GiB"
        ),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(&temp.0).unwrap().count(), 1);
}

fn unpacked(name: &str) -> Vec<u8> {
    let path = file(name);
    pageblock_recording::Input::open(&path).unwrap().read_to_end(1 << 20).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_perf_data_is_read_or_refused_in_a_line(
        name in prop::sample::select(vec!["mm.data.xz", "mmz.data.xz", "mmpipe.data.xz"]),
        at in any::<prop::sample::Index>(),
        len in 1usize..9,
        byte: u8,
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = unpacked(name);
        // Most of what can be damaged stands in the first bytes.
        let at = if byte % 2 == 0 { at.index(bytes.len()) } else { at.index(2000) };
        let end = (at + len).min(bytes.len());
        bytes[at..end].fill(byte);
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        crate::readers::read_perf_data(&bytes);
    }
}
