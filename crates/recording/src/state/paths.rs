//! The names of the files of a recording, which files name themselves: none may lead out of the recording's folder.

use std::path::{Path, PathBuf};

use crate::input::error::Error;

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

/// Finds the file with this name in a folder, plain or compressed.
pub(crate) fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    ["", ".zst", ".xz"].iter().map(|end| dir.join(format!("{name}{end}"))).find(|p| p.is_file())
}

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
    use super::*;

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
}
