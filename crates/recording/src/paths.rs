//! The names of the files of a recording, which files name themselves: none may lead out of the recording's folder.

use std::path::Path;

use crate::error::Error;

/// The greatest depth of folders in a recording.
pub(crate) const DEPTH: u32 = 8;
/// The limit of a name between slashes in bytes, as of Linux's file systems.
const NAME_BYTES: usize = 255;
/// The limit of a whole path in bytes.
const PATH_BYTES: usize = 1024;
/// Files of events, which are not attached: the first that exists is the recording's.
pub(crate) const EVENTS: [&str; 4] = ["events.tsv", "trace.dat", "perf.data", "trace.txt"];
/// Other files and folders of a recording that are never attached under their own names.
const NEVER_ATTACHED: [&str; 2] = ["static.tar", "trace.raw"];

/// Reports whether a name at the top of a folder, plain or compressed, is the events' or the settings'.
pub(crate) fn is_reserved(name: &str) -> bool {
    let plain = name.trim_end_matches(".xz").trim_end_matches(".zst");
    EVENTS.contains(&plain) || NEVER_ATTACHED.contains(&plain)
}

/// Checks the path of a file beside the events, which the file `of` names. Every path that comes from a file is
/// checked here before it is used.
///
/// # Errors
/// [`Error::Name`] if the path is absolute, has an empty part, `.` or `..`, a control character, is too long or too
/// deep, or is a name under which a recording keeps something else.
pub(crate) fn check_name(of: &Path, path: &str) -> Result<(), Error> {
    let good = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= NAME_BYTES;
    let allowed = path.len() <= PATH_BYTES
        && path.split('/').all(good)
        && path.split('/').count() <= DEPTH as usize + 1
        && !path.contains(char::is_control)
        && !path.split('/').next().is_some_and(is_reserved);
    match allowed {
        true => Ok(()),
        false => Err(Error::name(of, path)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pageblock_files::Access;

    use super::*;
    use crate::files::Attachments;
    use crate::pbrec::start_file;
    use crate::recording::Recording;

    #[test]
    fn only_names_inside_the_folder_pass() {
        let of = Path::new("of");
        for good in [
            "start/zoneinfo",
            "static/proc/sys/vm/min_free_kbytes",
            "README.md",
            "static/events/kmem/mm_page_alloc/format",
            "a/b/c/d/e/f/g/h/i",
            "notes..txt",
            "start/events.tsv",
        ] {
            assert!(check_name(of, good).is_ok(), "{good}");
        }
        let long = "a".repeat(256);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "start/../../x",
            "start/..",
            "./x",
            "start//x",
            "start/",
            "a\0b",
            "a\nb",
            "a/b/c/d/e/f/g/h/i/j",
            "events.tsv",
            "trace.dat.xz",
            "static.tar",
            "static.tar.zst",
            "trace.raw/cpu0.raw",
            &long,
        ] {
            let error = check_name(of, bad).unwrap_err().to_string();
            assert!(error.starts_with("of: ") && !error.contains('\n'), "{bad:?}: {error}");
        }
    }

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
            let error = crate::salvage(&evil, &temp.path().join("s.pbrec"), &mut |_| {});
            assert!(matches!(error, Err(Error::Name { .. })), "{error:?}");
            std::fs::remove_file(&evil).unwrap();
        }
        let good = with_attachment(temp.path(), "notes/victim");
        let out = temp.path().join("folder");
        Recording::open(&good).unwrap().write_folder(&out, &mut |_, _| {}).unwrap();
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
}
