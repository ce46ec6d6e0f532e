//! Recordings with gaps: the gap is reported, figures that it makes meaningless are omitted, and requested
//! bounds fail.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pageblock_recording::{Record, Recording, What, write_line};

use crate::Ran;
use crate::recordings::{pageblock, shipped};

/// Makes a copy of the shipped recording without its events.
fn folder(name: &str) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gaps").join(name);
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("start")).expect("cargo gives a folder to write to");
    for file in ["static.tar.xz", "comms.json", "start/snapshot.txt.xz", "start/pagetypeinfo"] {
        std::fs::copy(shipped().join(file), copy.join(file)).expect("the recording has it");
    }
    copy
}

/// Returns events of the shipped recording, up to the number `events`.
fn events(events: usize) -> (Recording, Vec<Record>) {
    let recording = Recording::open(&shipped()).expect("it is whole");
    let records = recording.events().expect("it has events").take(events);
    let records = records.collect::<Result<_, _>>().expect("they can be read");
    (recording, records)
}

/// Makes a recording of the first 200,000 events of the shipped recording without those for which `drop` is
/// true.
fn without(name: &str, drop: impl Fn(&What) -> bool) -> String {
    let (recording, records) = events(200_000);
    let mut lines = String::new();
    for record in records.iter().filter(|record| !drop(&record.what)) {
        write_line(&mut lines, record, recording.decoding);
    }
    let copy = folder(name);
    let file = File::create(copy.join("events.tsv.zst")).expect("the folder is there");
    zstd::stream::copy_encode(lines.as_bytes(), file, 1).expect("it can be written");
    copy.to_str().expect("the path is UTF-8").to_owned()
}

/// Returns the output of `verify --json` for a recording, with a bound that fails only because of a gap.
fn judged(path: &str) -> (Ran, serde_json::Value) {
    let ran = pageblock("gaps", &["verify", path, "--min-shape", "0.000001", "--json"]);
    let json = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    (ran, json)
}

#[test]
fn a_missing_kind_of_event_leaves_no_figure_that_needs_it() {
    type Drop = fn(&What) -> bool;
    let every = 7;
    let cases: [(&str, Drop, usize); 6] = [
        ("mm_page_alloc", |what| matches!(what, What::Alloc { .. }), 4),
        ("mm_page_free", |what| matches!(what, What::Free { .. }), every),
        ("mm_page_free_batched", |what| matches!(what, What::FreeBatched { .. }), 2),
        ("mm_page_alloc_zone_locked", |what| matches!(what, What::ZoneLocked { .. }), every),
        ("mm_page_pcpu_drain", |what| matches!(what, What::Drain { .. }), every),
        ("nothing", |_| false, 0),
    ];
    for (event, drop, not_judged) in cases {
        let path = without(event, drop);
        let (ran, json) = judged(&path);
        let listed = json["not_judged"].as_array().expect("it is a list");
        assert_eq!(listed.len(), not_judged, "{event}: {listed:?}");
        for kind in listed {
            assert!(json["kinds"].get(kind.as_str().expect("a name")).is_none(), "{event}: {kind}");
        }
        if event == "nothing" {
            assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
            assert_eq!(json["gaps"].as_array().map(Vec::len), Some(0));
            continue;
        }
        assert_eq!(ran.status, 1, "{event}");
        let reason = format!("no {event} was recorded: ");
        assert!(ran.stderr.contains(&reason), "{event}: {}", ran.stderr);
        let text = pageblock("gaps", &["verify", &path]);
        assert_eq!(text.status, i32::from(not_judged == every), "{event}");
        let table = text.stdout.find("decision  ").unwrap_or(text.stdout.len());
        assert!(text.stdout[..table].contains(&reason), "{event}: {}", text.stdout);
        assert_eq!(text.stdout.matches("not judged  ").count(), not_judged % every, "{event}");
    }
}

#[test]
fn without_marks_or_events_nothing_is_judged_or_replayed() {
    let cases = [
        ("marks", without("marks", |what| matches!(what, What::Marker(_))), "no marks S1 and S2"),
        ("empty", without("empty", |_| true), "the recording has no events"),
        ("only", without("only", |what| !matches!(what, What::Marker(_))), "has no events"),
    ];
    for (case, path, reason) in cases {
        let verify = pageblock("gaps", &["verify", &path]);
        assert_eq!(verify.status, 1, "{case}");
        assert!(verify.stdout.contains(&"not judged: ".to_string()), "{case}: {}", verify.stdout);
        assert!(verify.stdout.contains(reason), "{case}: {}", verify.stdout);
        assert!(!verify.stdout.contains(" % "), "{case}: {}", verify.stdout);
        let replay = pageblock("gaps", &["replay", &path, "--policy", "linux-6.9"]);
        assert_eq!((replay.status, replay.stdout.as_str()), (1, ""), "{case}");
        assert!(replay.stderr.contains(reason), "{case}: {}", replay.stderr);
    }
}

/// Formats a record as ftrace prints it.
fn printed(record: &Record, recording: &Recording) -> String {
    let number = |mt| recording.decoding.number(mt);
    let text = match &record.what {
        What::Alloc { pfn, order, mt, gfp } => format!(
            "mm_page_alloc: pfn=0x{:x} order={order} migratetype={} gfp_flags={gfp}",
            pfn.map_or(0, |pfn| pfn.0),
            number(*mt)
        ),
        What::Free { pfn, order } => format!("mm_page_free: pfn=0x{:x} order={order}", pfn.0),
        What::FreeBatched { pfn } => format!("mm_page_free_batched: pfn=0x{:x} order=0", pfn.0),
        What::ZoneLocked { pfn, order, mt, refill } => format!(
            "mm_page_alloc_zone_locked: pfn=0x{:x} order={order} migratetype={} percpu_refill={}",
            pfn.0,
            number(*mt),
            u8::from(*refill)
        ),
        What::Drain { pfn, order, mt } => format!(
            "mm_page_pcpu_drain: pfn=0x{:x} order={order} migratetype={}",
            pfn.0,
            number(*mt)
        ),
        What::Extfrag(x) => format!(
            "mm_page_alloc_extfrag: pfn=0x{:x} alloc_order={} fallback_order={} \
             alloc_migratetype={} fallback_migratetype={} change_ownership={}",
            x.pfn.0,
            x.alloc_order,
            x.fallback_order,
            number(x.alloc_migratetype),
            number(x.fallback_migratetype),
            u8::from(x.change_ownership)
        ),
        What::Marker(name) => format!("tracing_mark_write: PB {name}"),
        What::Other(other) => format!("{}: {}", other.name, other.args),
        other => panic!("{other:?} is not among the first events"),
    };
    let Record { t_us, cpu, pid, .. } = record;
    format!(" t-{pid} [{cpu:03}] ..... {}.{:06}: {text}\n", t_us / 1_000_000, t_us % 1_000_000)
}

/// Decisions after a loss depend on unseen events: figures cover only the events before it.
#[test]
fn nothing_after_a_loss_is_judged() {
    let (recording, mut records) = events(100_000);
    // No tool prints the recorder's own probes in this way.
    records.retain(|r| !matches!(r.what, What::Isolate { .. } | What::Bulk { .. }));
    let lossy = |name: &str, place: usize| {
        let mut text = String::new();
        for (at, record) in records.iter().enumerate() {
            // The events were lost after the last event of CPU 0.
            if at == place {
                text += "CPU:0 [LOST 25000 EVENTS]\n";
            }
            text += &printed(record, &recording);
        }
        let copy = folder(name);
        std::fs::write(copy.join("trace.txt"), text).expect("the folder is there");
        copy.to_str().expect("the path is UTF-8").to_owned()
    };
    let after = 60_000 + records[60_000..].iter().position(|r| r.cpu == 0).expect("it has events");
    let (ran, json) = judged(&lossy("loss", after + 1));
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("CPU 0 lost 25000 of "), "{}", ran.stderr);
    let followed = after as u64 + 1 - 2;
    assert_eq!(json["events"].as_u64(), Some(followed + 1), "the mark S2 is one of them");
    let cut = json["gaps"].as_array().and_then(|gaps| gaps.last()).expect("there are gaps");
    assert_eq!(cut["gap"], "cut");
    assert_eq!(json["end_state_equal"], serde_json::Value::Null);
    // With a loss before the first event nothing is left.
    let text = pageblock("gaps", &["verify", &lossy("loss-first", 0)]);
    assert_eq!(text.status, 1);
    assert!(text.stdout.contains("not judged: CPU 0 lost 25000 of "), "{}", text.stdout);
    assert!(!text.stdout.contains("decision  "), "{}", text.stdout);
}

/// A real trace; the ring buffer retained 3 % of it.
#[test]
fn an_overwritten_trace_is_not_judged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join("shared/repro/lost-events-6.18");
    if !path.is_dir() {
        println!("skipped: {} is not there", path.display());
        return;
    }
    let ran = pageblock("overwritten", &["verify", path.to_str().expect("the path is UTF-8")]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("CPU 0 lost 1140775 of 11"), "{}", ran.stdout);
    assert!(ran.stdout.contains("CPU 1 lost 1238631 of 12"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("decision  "), "{}", ran.stdout);
}

#[test]
fn a_reader_that_closes_standard_error_does_not_change_the_exit_status() {
    let path = without("unheard", |what| matches!(what, What::Free { .. }));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .args(["verify", &path, "--min-shape", "0.000001"])
        .env("PAGEBLOCK_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("gaps"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}
