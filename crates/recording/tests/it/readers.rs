//! Passes arbitrary bytes to every reader, for the tests and for the fuzz targets: a reader must return a value
//! or a one-line error.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pageblock::mobility::Numbering;
use pageblock_files::{Access, NewFile};

use pageblock_recording::table::{ColumnType, TableWriter};
use pageblock_recording::{
    BuddyInfo, Decoding, Error, Events, Input, PageTypeInfo, Part, Recording, Snapshot, VmStat,
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

/// The columns of a `.pbrec`; without rows the names of events and types do not matter.
const COLUMNS: [(&str, ColumnType); 14] = [
    ("t_us", ColumnType::I64),
    ("cpu", ColumnType::U16),
    ("pid", ColumnType::U32),
    ("event", ColumnType::Names(&["mm_page_free"])),
    ("pfn", ColumnType::I64),
    ("order", ColumnType::I8),
    ("migratetype", ColumnType::Names(&["Movable"])),
    ("gfp", ColumnType::Text),
    ("fallback_order", ColumnType::I8),
    ("fallback_migratetype", ColumnType::Names(&["Movable"])),
    ("change_ownership", ColumnType::I8),
    ("percpu_refill", ColumnType::I8),
    ("value", ColumnType::I64),
    ("args", ColumnType::Text),
];
/// What its footer has at least.
const FOOTER: [(&str, &str); 5] = [
    ("events", "0"),
    ("losses", ""),
    ("first_t_us", "0"),
    ("last_t_us", "0"),
    ("window.start", "0 0 0 0 0"),
];
/// What stands before each text of an input, with its key after it on the line.
const HEADING: &[u8] = b"=== ";

/// Makes a whole `.pbrec` without events whose texts the input holds, each after a line `=== KEY`: what a key
/// `file:PATH` has is attached. It is opened, converted, made anonymous and salvaged, and nothing but what was asked
/// for may be written.
pub(crate) fn read_attachments(input: &[u8]) {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    let schema = ("pageblock.schema".to_owned(), "1".to_owned());
    let kernel = ("kernel".to_owned(), "6.12.1".to_owned());
    let mut head = HashMap::from([schema, kernel]);
    let mut footer: BTreeMap<String, String> =
        FOOTER.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let mut lines = input.split_inclusive(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let key = line.strip_prefix(HEADING).map(|key| String::from_utf8_lossy(key.trim_ascii()));
        let mut content = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(HEADING)) {
            content.extend_from_slice(line);
        }
        let Some(key) = key else { continue };
        let is_file = key.starts_with("file:");
        let value = match is_file {
            true => STANDARD.encode(zstd::encode_all(&content[..], 1).unwrap()),
            false => String::from_utf8_lossy(&content).trim_end().to_owned(),
        };
        if is_file && !key.starts_with("file:end/") {
            head.insert(key.into_owned(), value);
        } else {
            footer.insert(key.clone().into_owned(), value.clone());
            head.insert(key.into_owned(), value);
        }
    }
    let (whole, out) = (path("in.pbrec"), path("salvaged.pbrec"));
    let begun = NewFile::create(&whole, Access::Private).unwrap();
    let table = TableWriter::create_with(&whole, begun, &COLUMNS, head).unwrap();
    table.finish(&footer).unwrap();
    let quiet = &mut |_: u64, _: Option<u64>| {};
    let quiet_part = &mut |_: u64, _: u64| {};
    one_line(Recording::open(&whole).and_then(|recording| {
        one_line(recording.write_folder(&path("folder"), quiet));
        let columnar = recording.columnar(&path("cache"), quiet)?;
        let part = Part { anonymous: true, ..Part::default() };
        one_line(recording.write_part(&columnar, &part, &path("part.pbrec"), quiet_part));
        recording.events()?.try_for_each(|event| event.map(drop))
    }));
    one_line(pageblock_recording::salvage(&whole, &out, &mut |_| {}));
    for entry in std::fs::read_dir(temp.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let asked = ["in.pbrec", "folder", "part.pbrec", "salvaged.pbrec"];
        assert!(asked.contains(&name.as_str()), "{name}");
    }
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
fn every_seed_of_attachments_is_read_or_refused_in_a_line() {
    each_seed("attachments", read_attachments);
}

#[test]
fn every_seed_of_pbrec_is_read_or_refused_in_a_line() {
    each_seed("pbrec", read_pbrec);
}
