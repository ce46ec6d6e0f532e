//! No name that a file says leads out of the recording's folder.

use std::path::{Path, PathBuf};

use pageblock_files::Access;

use super::salvage::salvage;
use crate::input::error::Error;
use crate::state::files::Attachments;
use crate::state::recording::Recording;
use crate::store::pbrec::start_file;

/// Writes a whole `.pbrec` with an attachment of this name, as its sender could.
fn with_attachment(folder: &Path, name: &str) -> PathBuf {
    let capture = folder.join("capture.txt");
    let line = "  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n";
    std::fs::write(&capture, line).unwrap();
    let recording = Recording::open(&capture).unwrap();
    let mut files = Attachments::of(&capture);
    let content = zstd::encode_all(&b"escaped\n"[..], 3).unwrap();
    files.files.insert(name.to_owned(), content);
    let out = folder.join("evil.pbrec");
    let file = start_file(&out, Access::Private, &recording, &files).unwrap();
    file.write_all(recording.events().unwrap(), &capture, &mut |_, _| {}).unwrap();
    out
}

#[test]
fn an_attachment_cannot_leave_the_folder() {
    let temp = tempfile::tempdir().unwrap();
    let victim = temp.path().join("victim");
    for name in ["../victim", victim.to_str().unwrap(), "static/../../victim", "events.tsv"] {
        let evil = with_attachment(temp.path(), name);
        let error = Recording::open(&evil).unwrap_err().to_string();
        assert!(error.contains("evil.pbrec: the file name "), "{error}");
        let error = salvage(&evil, &temp.path().join("s.pbrec"), &mut |_| {});
        assert!(matches!(error, Err(Error::Name { .. })), "{error:?}");
        std::fs::remove_file(&evil).unwrap();
    }
    let good = with_attachment(temp.path(), "notes/victim");
    let out = temp.path().join("folder");
    std::fs::create_dir(&out).unwrap();
    Recording::open(&good).unwrap().write_state(&out).unwrap();
    assert_eq!(std::fs::read(out.join("notes/victim")).unwrap(), b"escaped\n");
    assert!(!victim.exists());
}

#[test]
fn a_setting_cannot_leave_the_folder() {
    let temp = tempfile::tempdir().unwrap();
    let mut settings = tar::Builder::new(Vec::new());
    for (name, content) in [("proc__version", "Linux version 6.12.1"), ("..__..__x", "1")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        settings.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    let archive = settings.into_inner().unwrap();
    std::fs::write(temp.path().join("static.tar"), archive).unwrap();
    let error = Recording::open_states(temp.path()).unwrap_err().to_string();
    assert!(error.contains("the file name \"static/../../x\" in it; allowed"), "{error}");
}
