//! A recording packed into one file is the same recording, and a cut or changed file is refused in one line.

use std::path::{Path, PathBuf};

use pageblock_recording::{Recording, pack};

use crate::columnar::{EVENTS, small_recording};
use crate::{TempDir, shared};

/// Packs a recording into a file of the folder.
fn packed(source: &Path, temp: &TempDir, name: &str) -> PathBuf {
    let out = temp.0.join(name);
    pack(source, &out, &mut |_, _| {}).unwrap();
    out
}

fn compare(folder: &Path, file: &Path) {
    let (folder, file) = (Recording::open(folder).unwrap(), Recording::open(file).unwrap());
    assert_eq!(file.kernel, folder.kernel);
    assert_eq!((file.decoding, file.pageblock_order), (folder.decoding, folder.pageblock_order));
    assert_eq!((&file.start, &file.end), (&folder.start, &folder.end));
    assert_eq!((&file.comms, &file.settings), (&folder.comms, &folder.settings));
    assert_eq!(file.start_known, folder.start_known);
    let mut records = file.events().unwrap();
    for expected in folder.events().unwrap() {
        assert_eq!(records.next().unwrap().unwrap(), expected.unwrap());
    }
    assert!(records.next().is_none());
}

/// Packs a recording and compares all that both forms hold.
fn is_the_same(dir: &Path, name: &str) {
    let temp = TempDir::new(name);
    let file = packed(dir, &temp, "packed.pbrec");
    compare(dir, &file);
    let recording = Recording::open(&file).unwrap();
    let columnar = recording.columnar(&temp.0, &mut |_, _| panic!("converted")).unwrap();
    assert_eq!(columnar.path, file, "the file is its own columnar form");
    assert_eq!(columnar.windows, Recording::open(dir).unwrap().windows().unwrap());
}

#[test]
fn a_packed_recording_is_the_same() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m");
    is_the_same(&shipped, "packed-shipped");
}

#[test]
fn a_packed_recording_of_a_host_is_the_same() {
    if let Some(dir) = shared("host-6.18-compile") {
        is_the_same(&dir, "packed-host");
    }
}

#[test]
fn packing_twice_gives_the_same_bytes_and_leaves_what_exists() {
    let temp = TempDir::new("packed-twice");
    let dir = small_recording(&temp, EVENTS);
    let (one, two) = (packed(&dir, &temp, "1.pbrec"), packed(&dir, &temp, "2.pbrec"));
    let bytes = std::fs::read(&one).unwrap();
    assert_eq!(bytes, std::fs::read(&two).unwrap());
    let error = pack(&dir, &one, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.ends_with("it exists; allowed: a name that does not exist"), "{error}");
    assert_eq!(bytes, std::fs::read(&one).unwrap());
}

#[test]
fn a_recording_is_its_owners_alone() {
    use std::os::unix::fs::{MetadataExt, symlink};

    let temp = TempDir::new("packed-modes");
    let dir = small_recording(&temp, EVENTS);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    let file = packed(&dir, &temp, "a.pbrec");
    assert_eq!(mode(&file), 0o600);
    let folder = temp.0.join("folder");
    Recording::open(&file).unwrap().write_folder(&folder, &mut |_, _| {}).unwrap();
    assert_eq!((mode(&folder), mode(&folder.join("start"))), (0o700, 0o700));
    assert_eq!(mode(&folder.join("start/snapshot.txt")), 0o600);
    // A link to nothing is something, too.
    let link = temp.0.join("link.pbrec");
    symlink("nothing", &link).unwrap();
    assert!(pack(&dir, &link, &mut |_, _| {}).is_err());
    assert!(link.is_symlink() && !temp.0.join("nothing").exists());
}

#[test]
fn what_cannot_be_packed_leaves_nothing() {
    let temp = TempDir::new("unpackable");
    let dir = small_recording(&temp, &format!("{EVENTS}broken\n"));
    let out = temp.0.join("out.pbrec");
    let error = pack(&dir, &out, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains(":14 (byte "), "{error}");
    assert_eq!(std::fs::read_dir(&temp.0).unwrap().count(), 1, "only the folder is left");
}

#[test]
fn a_capture_is_packed_without_a_state() {
    let temp = TempDir::new("packed-capture");
    let capture = temp.0.join("capture.txt");
    let text = "  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n";
    std::fs::write(&capture, text).unwrap();
    let recording = Recording::open(&packed(&capture, &temp, "capture.pbrec")).unwrap();
    assert!(!recording.start_known && recording.kernel_assumed);
    assert_eq!(recording.events().unwrap().count(), 1);
}

#[test]
fn a_cut_or_changed_file_is_refused_in_a_line() {
    let temp = TempDir::new("cut");
    let good = std::fs::read(packed(&small_recording(&temp, EVENTS), &temp, "a.pbrec")).unwrap();
    let bad = temp.0.join("bad.pbrec");
    let refused = |bytes: &[u8]| {
        std::fs::write(&bad, bytes).unwrap();
        let error = Recording::open(&bad).unwrap_err().to_string();
        assert!(error.contains("bad.pbrec: not a whole recording: "), "{error}");
        assert!(!error.contains('\n'));
    };
    (0..good.len()).step_by(61).for_each(|len| refused(&good[..len]));
    // What is noted later is not of the recording.
    let mark = b"pageblock-note:";
    let note = good.windows(mark.len()).rposition(|part| part == mark).unwrap() + mark.len();
    for at in (0..good.len()).step_by(41).skip(1) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        if (note..note + (16 << 10)).contains(&at) {
            std::fs::write(&bad, bytes).unwrap();
            assert_eq!(Recording::open(&bad).unwrap().note(), None);
        } else {
            refused(&bytes);
        }
    }
}
