//! Passes arbitrary bytes to every reader, for the tests and for the fuzz targets: a reader must return a value
//! or a one-line error.

use std::io::Cursor;
use std::path::Path;

use pageblock::mobility::Numbering;
use pageblock_recording::{
    BuddyInfo, Decoding, Error, Events, Input, PageTypeInfo, Recording, Snapshot, VmStat,
};

const DECODING: Decoding = Decoding { numbering: Numbering::Modern, cma: true };
/// The maximum number of events that are read from one input.
const EVENTS: usize = 100_000;

/// Reads the bytes as a snapshot and as each file of `/proc`.
pub(crate) fn read_state(bytes: &[u8]) {
    let input = || Input::from_reader(Cursor::new(bytes.to_vec()), Path::new("input"));
    one_line(input().and_then(|input| Snapshot::read(input, DECODING)));
    one_line(input().and_then(PageTypeInfo::read));
    one_line(input().and_then(BuddyInfo::read));
    one_line(input().and_then(VmStat::read));
}

/// Reads the bytes as a file of events, whose format its first bytes determine.
pub(crate) fn read_events(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("pageblock-events-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    for numbering in [Numbering::Modern, Numbering::Legacy] {
        let events = Events::open(&path, Decoding { numbering, cma: true });
        one_line(events.and_then(|events| events.take(EVENTS).try_for_each(|e| e.map(drop))));
    }
    std::fs::remove_file(&path).unwrap();
}

/// Reads the bytes as a `perf.data`, whatever they begin with.
pub(crate) fn read_perf_data(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("pageblock-perf-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let events = pageblock_recording::PerfData::open(&path, DECODING);
    one_line(events.and_then(|events| events.take(EVENTS).try_for_each(|e| e.map(drop))));
    std::fs::remove_file(&path).unwrap();
}

/// Reads the bytes as a `.pbrec`, as it is and, without its checksum, as one that was cut.
pub(crate) fn read_pbrec(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("pageblock-{}.pbrec", std::process::id()));
    let out = path.with_extension("saved.pbrec");
    std::fs::write(&path, bytes).unwrap();
    one_line(Recording::open(&path));
    let saved = pageblock_recording::salvage(&path, &out, &mut |_| {});
    if saved.is_ok() {
        // What was written is whole, even if its states are not those of a recording.
        one_line(Recording::open(&out).map(|saved| saved.events().unwrap().for_each(drop)));
        std::fs::remove_file(&out).unwrap();
    }
    one_line(saved);
    std::fs::remove_file(&path).unwrap();
}

fn one_line<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        let text = error.to_string();
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
}

/// Calls `read` with every file of a target's seed corpus.
#[cfg(test)]
fn each_seed(target: &str, read: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        read(&std::fs::read(file.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0);
}

#[test]
fn every_seed_of_snapshots_is_read_or_refused_in_a_line() {
    each_seed("snapshot", read_state);
}

#[test]
fn every_seed_of_events_is_read_or_refused_in_a_line() {
    each_seed("events", read_events);
}

#[test]
fn every_seed_of_perf_data_is_read_or_refused_in_a_line() {
    each_seed("perf_data", read_perf_data);
}

#[test]
fn every_seed_of_pbrec_is_read_or_refused_in_a_line() {
    each_seed("pbrec", read_pbrec);
}
