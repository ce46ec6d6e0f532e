//! A part of a recording has the same events, and the states whose marks it has; a folder written of it is the same.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pageblock_recording::{Columnar, Part, Position, Recording, Written, salvage};

use crate::TempDir;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m")
}

/// Returns the shipped recording and its columns, which are made once.
fn whole() -> &'static (Recording, Columnar) {
    static WHOLE: OnceLock<(Recording, Columnar)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let recording = Recording::open(&shipped()).unwrap();
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let columnar = recording.columnar(cache, &mut |_, _| {}).unwrap();
        (recording, columnar)
    })
}

fn cut(temp: &TempDir, name: &str, part: Part) -> (Recording, Written) {
    let (recording, columnar) = whole();
    let out = temp.0.join(name);
    let written = recording.write_part(columnar, &part, &out, &mut |_, _| {}).unwrap();
    (Recording::open(&out).unwrap(), written)
}

fn part(from: Option<Position>, to: Option<Position>) -> Part {
    Part { from, to, anonymous: false }
}

#[test]
fn a_part_from_the_start_has_the_state_at_the_start() {
    let temp = TempDir::new("part-start");
    let (of, written) = cut(&temp, "a.pbrec", part(None, Some(Position::Event(100_000))));
    assert_eq!((written.first, written.events), (0, 100_000));
    assert!(written.start && of.start_known && of.end.is_none());
    let (whole, _) = whole();
    assert_eq!((&of.start, &of.settings, &of.comms), (&whole.start, &whole.settings, &whole.comms));
    let expected = whole.events().unwrap().take(100_000).map(Result::unwrap);
    assert!(of.events().unwrap().map(Result::unwrap).eq(expected));
}

#[test]
fn a_part_from_the_middle_has_no_state_and_begins_at_its_time() {
    let temp = TempDir::new("part-middle");
    let (_, columnar) = whole();
    let (from, to) = (Position::Time(2_000_000), Position::Event(200_000));
    let (of, written) = cut(&temp, "m.pbrec", part(Some(from), Some(to)));
    assert!(!written.start && !of.start_known && of.start.zones.is_empty());
    assert_eq!(written.first + written.events, 200_000);
    let records: Vec<_> = of.events().unwrap().map(Result::unwrap).collect();
    assert!(records[0].t_us >= columnar.first_t_us + 2_000_000);
    let mut expected = columnar.records_from(written.first - 1).unwrap().map(Result::unwrap);
    assert!(expected.next().unwrap().t_us < columnar.first_t_us + 2_000_000);
    assert!(expected.take(records.len()).eq(records));
}

#[test]
fn a_part_without_events_is_refused_and_leaves_nothing() {
    let temp = TempDir::new("part-none");
    let (recording, columnar) = whole();
    let out = temp.0.join("none.pbrec");
    let none = part(Some(Position::Time(u64::MAX)), None);
    let error = recording.write_part(columnar, &none, &out, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("no events from"), "{error}");
    assert!(!out.exists());
}

#[test]
fn without_names_the_events_stay() {
    let temp = TempDir::new("part-anonymous");
    let (of, _) = cut(&temp, "x.pbrec", Part { anonymous: true, ..Part::default() });
    let (whole, columnar) = whole();
    assert_eq!(of.kernel.to_string(), whole.kernel.to_string());
    assert_eq!(of.kernel.text, format!("Linux version {}", whole.kernel));
    assert!(of.settings.keys().all(|path| path.starts_with("proc/sys/vm/")
        || path.starts_with("sys/kernel/mm/")
        || path.starts_with("events/")
        || path == "proc/version"));
    let is_thread = |name: &str| name.starts_with('k') || name == "jbd2";
    let known = |name: &String| name.starts_with("command-") || is_thread(name);
    assert!(of.comms.values().all(known), "{:?}", of.comms);
    assert_eq!(of.comms.len(), whole.comms.len());
    let events = of.events().unwrap().map(Result::unwrap);
    assert!(events.eq(columnar.records().unwrap().map(Result::unwrap)), "no event has a name");
    // The name of a command that the whole recording has is nowhere in the file.
    let bytes = std::fs::read(temp.0.join("x.pbrec")).unwrap();
    let secret = "init.sh";
    assert!(whole.comms.values().any(|name| name == secret));
    assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
}

#[test]
fn a_folder_written_of_a_file_is_the_same_recording() {
    let temp = TempDir::new("folder");
    let (file, _) = cut(&temp, "f.pbrec", part(None, Some(Position::Event(50_000))));
    let dir = temp.0.join("f");
    file.write_folder(&dir, &mut |_, _| {}).unwrap();
    let folder = Recording::open(&dir).unwrap();
    assert_eq!((&folder.start, &folder.settings), (&file.start, &file.settings));
    assert_eq!((&folder.kernel, &folder.comms), (&file.kernel, &file.comms));
    assert!(
        folder.events().unwrap().map(Result::unwrap).eq(file.events().unwrap().map(Result::unwrap))
    );
    let error = file.write_folder(&dir, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("it exists"), "{error}");
}

#[test]
fn a_changed_byte_in_a_folder_is_detected() {
    let temp = TempDir::new("folder-damaged");
    let (file, _) = cut(&temp, "f.pbrec", part(None, Some(Position::Event(50_000))));
    let dir = temp.0.join("f");
    file.write_folder(&dir, &mut |_, _| {}).unwrap();
    let events = dir.join("events.tsv.zst");
    let mut bytes = std::fs::read(&events).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&events, bytes).unwrap();
    let damaged = Recording::open(&dir).unwrap();
    assert!(damaged.events().is_err() || damaged.events().unwrap().any(|event| event.is_err()));
}

#[test]
fn a_cut_file_is_saved_up_to_its_last_whole_batch() {
    let temp = TempDir::new("salvage");
    let (file, _) = cut(&temp, "c.pbrec", part(None, Some(Position::Event(200_000))));
    let bytes = std::fs::read(temp.0.join("c.pbrec")).unwrap();
    let torn = temp.0.join("torn.pbrec");
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    assert!(Recording::open(&torn).is_err());
    let saved = temp.0.join("saved.pbrec");
    let events = salvage(&torn, &saved, &mut |_| {}).unwrap();
    assert!(events > 10_000, "{events}");
    let saved = Recording::open(&saved).unwrap();
    assert_eq!((&saved.start, &saved.comms), (&file.start, &file.comms));
    let expected = file.events().unwrap().take(events as usize).map(Result::unwrap);
    assert!(saved.events().unwrap().map(Result::unwrap).eq(expected));

    std::fs::write(&torn, &bytes[..200]).unwrap();
    let none = temp.0.join("none.pbrec");
    let error = salvage(&torn, &none, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("torn.pbrec: not a whole recording: "), "{error}");
    assert!(!none.exists());
}

#[test]
fn a_note_is_kept_in_the_file_and_the_rest_stays() {
    let temp = TempDir::new("note");
    let (file, _) = cut(&temp, "n.pbrec", part(None, Some(Position::Event(1_000))));
    assert_eq!(file.note(), None);
    for note in ["grade B", "a longer text\nof two lines"] {
        assert!(file.keep_note(note).unwrap());
        let again = Recording::open(&temp.0.join("n.pbrec")).expect("its checksum holds");
        assert_eq!(again.note().as_deref(), Some(note));
    }
    let text: String = (0..40_000u32).map(|n| char::from(33 + (n * n % 89) as u8)).collect();
    let long: String =
        text.chars().zip(0u32..).map(|(c, n)| if n.is_power_of_two() { 'x' } else { c }).collect();
    let kept = file.keep_note(&long).unwrap();
    assert_eq!(
        file.note().as_deref(),
        Some(if kept { &long } else { "a longer text\nof two lines" })
    );
    let (whole, _) = whole();
    assert!(!whole.keep_note("x").unwrap(), "a folder keeps none");
}
