//! No crate writes, replaces or removes a user's file but through this one.

use std::fs;
use std::path::{Path, PathBuf};

/// What makes, replaces or removes a file.
const WORDS: [&str; 17] = [
    "fs::write(",
    "File::create",
    "File::options",
    "OpenOptions",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "remove_file(",
    "remove_dir",
    "create_dir(",
    "DirBuilder",
    "set_permissions(",
    "NamedTempFile",
    "TempDir",
    "tempdir(",
    ".persist",
    "generate_to(",
];

/// Where such words stand for something else, and why: `CRATE/src/FILE` or a folder, and the words.
const ALLOWED: [(&str, &[&str]); 22] = [
    // The writer itself.
    ("files/src", &WORDS),
    // Inside a guest, whose files are its own.
    ("guest/src/inside", &WORDS),
    ("guest/src/load", &WORDS),
    // Only opened to be read.
    ("measure/src/value/file.rs", &["File::options", "OpenOptions"]),
    ("doctor/src/checkup/klog.rs", &["OpenOptions"]),
    ("doctor/src/flight/kmsg.rs", &["OpenOptions"]),
    ("recorder/src/fallbacks.rs", &["File::options", "OpenOptions"]),
    ("recorder/src/drain.rs", &["File::options", "OpenOptions"]),
    // The program's own cache of kernel builds: a copy of a source, patched, with what make leaves there.
    ("guest/src/build", &WORDS),
    // Files of the kernel.
    ("guest/src/fragment", &["fs::write("]),
    ("guest/src/qemu.rs", &["File::options"]),
    ("doctor/src/forecast/mod.rs", &["OpenOptions"]),
    ("doctor/src/forecast/pool.rs", &["OpenOptions", "fs::write("]),
    ("recorder/src/error.rs", &["File::options"]),
    ("recorder/src/probes.rs", &["File::options"]),
    ("recorder/src/tracefs.rs", &["create_dir(", "remove_dir"]),
    // The recorder's own folder, which ends in `.partial`: its segments, states and pages.
    ("recorder/src", &["fs::rename(", "remove_dir", "remove_file("]),
    // What this run made: the disks of a guest, a ring without space.
    ("guest/src/series/start.rs", &["remove_file("]),
    ("doctor/src/flight/ring.rs", &["remove_file("]),
    // Files of failures beyond the number that is kept, by their names.
    ("doctor/src/flight/recorder.rs", &["remove_file("]),
    // The program's own cache: its lock, and entries by their names.
    ("plan/src/cache.rs", &["DirBuilder", "File::options", "remove_file("]),
    // A page cache of a simulated machine.
    ("vm/src/fs/file.rs", &["remove_file("]),
];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the code of a file before its unit tests.
fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text[..text.find("\nmod tests {").unwrap_or(text.len())].to_owned()
}

/// Tells whether a line has a word, not as the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| word.starts_with('.') || !line[..at].ends_with(inside))
}

fn is_allowed(file: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(place, words)| {
        let inside =
            file.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        inside && words.contains(&word)
    })
}

#[test]
fn one_crate_writes_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut read = 0;
    for entry in fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if !source.is_dir() {
            continue;
        }
        for path in rust_files(&source).into_iter().filter(|path| !path.ends_with("tests.rs")) {
            let file = path.strip_prefix(&crates).unwrap().display().to_string();
            // A simulated machine has files too.
            if file.starts_with("simulate/src/workload/") {
                continue;
            }
            read += 1;
            for (number, line) in (1..).zip(code_of(&path).lines()) {
                let code = line.split_once("//").map_or(line, |(code, _)| code);
                let found = WORDS.iter().filter(|word| has_word(code, word));
                let found = found.filter(|word| !is_allowed(&file, word));
                wrong.extend(found.map(|word| format!("{file}:{number}: {word}")));
            }
        }
    }
    assert!(read > 300, "only {read} files were read");
    assert!(
        wrong.is_empty(),
        "a user's file is written past pageblock-files:\n{}",
        wrong.join("\n")
    );
}

/// A place that has no such word any more is no reason to allow it there.
#[test]
fn what_is_allowed_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (place, words) in ALLOWED {
        let path = crates.join(place);
        let files = if path.is_dir() { rust_files(&path) } else { vec![path] };
        let code: String = files.iter().map(|path| code_of(path)).collect();
        assert!(words.iter().any(|word| has_word(&code, word)), "{place}");
    }
}
