//! The text of source files, for tests of how code is laid out (those of `crates/vm`, `crates/recording` and `crates/measure` too).

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all Rust files below a folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the code of a line without its comment, which may name anything.
pub(crate) fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// Returns the identifiers that follow a prefix in a text; not those that a macro names for its callers (`$crate::`).
pub(crate) fn named_after<'t>(text: &'t str, prefix: &str) -> impl Iterator<Item = &'t str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let starts = move |at: usize| !text[..at].ends_with(|c| is_part(c) || c == '.' || c == '$');
    text.match_indices(prefix).filter(move |&(at, _)| starts(at)).map(move |(at, _)| {
        text[at + prefix.len()..].split(|c| !is_part(c)).next().unwrap_or_default()
    })
}
