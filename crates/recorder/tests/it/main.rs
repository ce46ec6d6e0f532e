//! Records the machine that the tests run on, where they may.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pageblock_recorder::{Error, Plan, RingPlan, Session, Tracefs, salvage};
use pageblock_recording::{Recording, What};

const GO_ON: fn() -> bool = || false;

/// Returns whether this machine can be recorded; says so where it cannot.
fn can_record() -> bool {
    match Tracefs::clean() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: this machine cannot be recorded: {error}");
            false
        }
    }
}

fn plan(folder: &Path) -> Plan {
    Plan {
        out: folder.join("r"),
        buffer_kib: Some(4096),
        all_events: false,
        probes: true,
        stacks: false,
        ring: None,
    }
}

fn instances() -> Vec<PathBuf> {
    let own = format!("pageblock-{}-", std::process::id());
    let mounts = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new);
    // The same instance may be seen at both.
    let found = mounts.into_iter().find_map(|at| {
        let entries = std::fs::read_dir(at.join("instances")).ok()?.filter_map(Result::ok);
        let paths = entries.map(|entry| entry.path());
        let is_own = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&own);
        Some(paths.filter(is_own).collect::<Vec<_>>()).filter(|found| !found.is_empty())
    });
    found.unwrap_or_default()
}

/// Does what allocates and frees memory.
fn work() {
    for _ in 0..20 {
        Command::new("true").status().expect("there is such a command");
    }
}

/// One test after the other: an instance has the process's name.
#[test]
fn machines_are_recorded() {
    if !can_record() {
        return;
    }
    a_recording_has_events_marks_and_states();
    a_recording_is_one_file_without_a_copy_of_its_pages();
    what_a_killed_recorder_leaves_is_salvaged();
    a_discarded_recording_leaves_nothing();
    what_stops_a_recording_leaves_nothing_on();
    a_ring_keeps_the_last_segments_with_a_state();
}

fn a_recording_has_events_marks_and_states() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::start(plan(folder.path()), &GO_ON).unwrap();
    assert_eq!(instances().len(), 1);
    work();
    let summary = session.finish(&GO_ON, &mut |_, _| {}).unwrap();
    assert_eq!(instances(), Vec::<PathBuf>::new());
    assert!(summary.lost.iter().all(|(_, lost)| *lost == 0), "{summary:?}");
    let recording = Recording::open(&summary.out).unwrap();
    assert!(!recording.start.zones.is_empty() && !recording.start.exact);
    assert!(recording.end.is_some());
    for table in ["start/kpageflags", "start/kpagecount", "end/kpageflags", "end/kpagecount"] {
        assert!(summary.out.join(format!("{table}.zst")).is_file(), "{table}");
    }
    let records: Vec<_> = recording.events().unwrap().map(Result::unwrap).collect();
    let marks: Vec<_> = records.iter().filter_map(|record| record.what.marker()).collect();
    assert_eq!(marks, ["S1", "S2", "E1", "E2"]);
    let count = |of: fn(&What) -> bool| records.iter().filter(|record| of(&record.what)).count();
    assert!(count(|what| matches!(what, What::Alloc { .. })) > 1000);
    assert!(count(|what| matches!(what, What::Free { .. })) > 1000);
    let written: u64 = summary.events.iter().map(|(_, events)| events).sum();
    assert_eq!(written, records.len() as u64);
    let names = |name: &str| recording.comms.values().any(|comm| comm == name);
    assert!(names("kswapd0") && names("kcompactd0"));
    let own = own_threads(&summary.out);
    let recorders = records.iter().filter(|record| own.contains(&record.pid)).count();
    // A thread for each CPU beside the one that takes the states.
    assert!(own.len() > summary.events.len() && recorders > 0, "{own:?}");
    assert!(matches!(Session::start(plan(folder.path()), &GO_ON), Err(Error::Exists(_))));
}

#[expect(clippy::disallowed_methods, reason = "the kernel works in real time")]
fn what_a_killed_recorder_leaves_is_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::start(plan(folder.path()), &GO_ON).unwrap();
    work();
    std::thread::sleep(Duration::from_millis(300));
    // As after SIGKILL: nothing is finished. A page is cut, as by a full disk.
    drop(session);
    let partial = folder.path().join("r.partial");
    let raw = partial.join("trace.raw/cpu0.raw");
    let mut bytes = std::fs::read(&raw).unwrap();
    bytes.extend([7; 100]);
    std::fs::write(&raw, bytes).unwrap();
    // What was written of an end state does not belong to events that were not all written.
    std::fs::create_dir(partial.join("end")).unwrap();
    std::fs::write(partial.join("end/snapshot.txt.zst"), "cut").unwrap();
    // A table that was being written.
    std::fs::write(partial.join("start/kpageflags.part"), "cut").unwrap();
    let copy = folder.path().join("elsewhere/copy/");
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let stopped = salvage(&partial, &copy, &|| true, &mut |_, _| {});
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
    salvage(&partial, &copy, &GO_ON, &mut |_, _| {}).unwrap();
    assert!(partial.exists());
    let of_copy: Vec<_> = Recording::open(&copy).unwrap().events().unwrap().collect();
    let out = folder.path().join("r");
    salvage(&partial, &out, &GO_ON, &mut |_, _| {}).unwrap();
    assert!(!partial.exists());
    let recording = Recording::open(&out).unwrap();
    assert!(recording.end.is_none());
    assert!(
        !out.join("start/kpageflags.part").exists() && !copy.join("start/kpageflags.part").exists()
    );
    let events: Result<Vec<_>, _> = recording.events().unwrap().collect();
    let events = events.unwrap();
    assert!(!events.is_empty() && events.len() == of_copy.len());
    assert!(matches!(
        salvage(&out, &folder.path().join("x"), &GO_ON, &mut |_, _| {}),
        Err(Error::NotPartial { .. })
    ));
}

fn a_recording_is_one_file_without_a_copy_of_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let to = |name: &str| Plan { out: file(name), ..plan(folder.path()) };
    let session = Session::start(to("r.pbrec"), &GO_ON).unwrap();
    work();
    let mut told = 0;
    let summary = session.finish(&GO_ON, &mut |done, _| told = done).unwrap();
    assert!(told > 0 && summary.whole_cost.cpu >= summary.cost.cpu);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let recording = Recording::open(&file("r.pbrec")).unwrap();
    assert!(recording.end.is_some() && recording.settings.contains_key("pageblock/recorder.json"));
    let events = summary.events.iter().map(|(_, events)| *events).sum();
    assert_eq!(whole(&file("r.pbrec"), Some(events)) as u64, events);

    let session = Session::start(to("s.pbrec"), &GO_ON).unwrap();
    work();
    let stopped = session.finish(&|| true, &mut |_, _| {});
    let Err(Error::Kept { partial, .. }) = stopped else { panic!("{stopped:?}") };
    assert!(partial == file("s.pbrec.partial") && !file("s.pbrec").exists());
    salvage(&partial, &file("copy"), &GO_ON, &mut |_, _| {}).unwrap();
    salvage(&partial, &file("s.pbrec"), &GO_ON, &mut |_, _| {}).unwrap();
    assert!(!partial.exists());
    assert_eq!(whole(&file("copy"), None), whole(&file("s.pbrec"), None));
}

fn a_discarded_recording_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    Session::start(plan(folder.path()), &GO_ON).unwrap().discard().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(instances(), Vec::<PathBuf>::new());
}

/// A second Ctrl-C, or one while the start state is taken, and a name with a slash at its end.
fn what_stops_a_recording_leaves_nothing_on() {
    let folder = tempfile::tempdir().unwrap();
    let stopped = Session::start(plan(folder.path()), &|| true);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(instances(), Vec::<PathBuf>::new());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let out = folder.path().join("r/");
    let session = Session::start(Plan { out, ..plan(folder.path()) }, &GO_ON).unwrap();
    work();
    let stopped = session.finish(&|| true, &mut |_, _| {});
    let Err(Error::Kept { partial, why }) = stopped else { panic!("{stopped:?}") };
    assert!(matches!(*why, Error::Stopped));
    assert_eq!(instances(), Vec::<PathBuf>::new());
    assert_eq!(partial, folder.path().join("r.partial"));
    salvage(&partial, &folder.path().join("r"), &GO_ON, &mut |_, _| {}).unwrap();
    Recording::open(&folder.path().join("r"))
        .unwrap()
        .events()
        .unwrap()
        .for_each(|e| drop(e.unwrap()));
}

/// Works for a while, and lets the ring do what it needs.
#[expect(clippy::disallowed_methods, reason = "the kernel works in real time")]
fn run(session: &mut Session, time: Duration) {
    let began = std::time::Instant::now();
    while began.elapsed() < time {
        session.tick(&GO_ON).unwrap();
        work();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a recording begins with its start state, and has all that it needs to be replayed; returns its events.
fn whole(out: &Path, written: Option<u64>) -> usize {
    let recording = Recording::open(out).unwrap();
    let mut events = recording.events().unwrap();
    let records: Vec<_> = events.by_ref().map(Result::unwrap).collect();
    assert_eq!(events.lost_unplaced().len(), 0);
    let marks: Vec<_> = records.iter().filter_map(|record| record.what.marker()).collect();
    assert_eq!(marks[..2], ["S1", "S2"]);
    if let Some(written) = written {
        assert_eq!(marks[marks.len() - 2..], ["E1", "E2"]);
        assert_eq!(written, records.len() as u64);
        let window = recording.windows().unwrap();
        assert_eq!(window.end.unwrap().markers.end + 1, window.events - after_end(&records));
    }
    assert!(!recording.start.zones.is_empty());
    records.len()
}

/// Returns the number of events after the last mark.
fn after_end(records: &[pageblock_recording::Record]) -> u64 {
    records.iter().rev().take_while(|record| record.what.marker() != Some("E2")).count() as u64
}

fn a_ring_keeps_the_last_segments_with_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let ring = RingPlan { keep: Duration::from_secs(1), bytes: 1 << 30 };
    let plan = Plan { ring: Some(ring), ..plan(folder.path()) };
    let mut session = Session::start(plan, &GO_ON).unwrap();
    let raw = folder.path().join("r.partial/trace.raw");
    // States of a large machine take long, and segments are made longer then.
    let began = std::time::Instant::now();
    while raw.join("000000").exists() && began.elapsed() < Duration::from_secs(300) {
        run(&mut session, Duration::from_millis(500));
    }
    assert!(!raw.join("000000").exists(), "the oldest segment is removed");
    let saved = session.save(&GO_ON, &mut |_, _| {}).unwrap().unwrap();
    assert_eq!(saved.out, folder.path().join("r-1"));
    let events = |summary: &pageblock_recorder::Summary| {
        assert!(summary.lost.iter().all(|(_, lost)| *lost == 0), "{summary:?}");
        Some(summary.events.iter().map(|(_, events)| events).sum())
    };
    assert!(whole(&saved.out, events(&saved)) > 1000);
    run(&mut session, Duration::from_millis(100));
    let last = session.finish(&GO_ON, &mut |_, _| {}).unwrap();
    assert!(whole(&last.out, events(&last)) > 1000);
    assert!(last.kept.is_some_and(|(_, shortened)| !shortened));
    assert_eq!(instances(), Vec::<PathBuf>::new());
    a_killed_ring_is_salvaged();
}

fn a_killed_ring_is_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    // So few bytes that the oldest is given up.
    let ring = RingPlan { keep: Duration::from_secs(3600), bytes: 1 << 16 };
    let plan = Plan { ring: Some(ring), ..plan(folder.path()) };
    let mut session = Session::start(plan, &GO_ON).unwrap();
    let partial = folder.path().join("r.partial");
    let began = std::time::Instant::now();
    while partial.join("trace.raw/000000").exists() && began.elapsed() < Duration::from_secs(300) {
        run(&mut session, Duration::from_millis(500));
    }
    drop(session);
    let (copy, out) = (folder.path().join("copy"), folder.path().join("r"));
    salvage(&partial, &copy, &GO_ON, &mut |_, _| {}).unwrap();
    salvage(&partial, &out, &GO_ON, &mut |_, _| {}).unwrap();
    assert!(!partial.exists());
    assert_eq!(whole(&copy, None), whole(&out, None));
}

/// Returns the threads that a recording names as the recorder's.
fn own_threads(recording: &Path) -> Vec<u32> {
    let tar = std::fs::File::open(recording.join("static.tar")).unwrap();
    let mut tar = tar::Archive::new(tar);
    let mut entries = tar.entries().unwrap().map(Result::unwrap);
    let mut own = entries
        .find(|entry| entry.path().unwrap().as_os_str() == "pageblock__recorder.json")
        .unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut own, &mut text).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let threads = json["recorder_threads"].as_array().unwrap();
    threads.iter().map(|thread| thread.as_u64().unwrap() as u32).collect()
}
