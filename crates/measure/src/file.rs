//! JSON files: read with one-line errors, written whole or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Reads the bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// Parses JSON; `path` is only named in the error.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        let cut = if error.is_eof() { "; the file is cut short" } else { "" };
        Error::Parse {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: format!("{what}{cut}"),
        }
    })
}

/// Formats a value as indented JSON that ends with a newline.
///
/// # Panics
/// Never for the types of this crate: their keys are strings and their numbers finite.
pub(crate) fn format<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("string keys and finite numbers");
    text.push('\n');
    text
}

/// Writes a value as JSON to a temporary file beside `path`, which then takes the name: a reader
/// sees the old content or the new, never a part. A symbolic link stays one; what is no regular
/// file, such as a pipe, is written directly.
pub(crate) fn save<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<(), Error> {
    let error = |source| Error::Write { path: path.to_owned(), source };
    let json = format(value);
    let (target, is_special) = target(path);
    if is_special {
        return fs::write(&target, json).map_err(error);
    }
    let temporary = temporary_beside(&target);
    let written =
        write_synced(&temporary, json.as_bytes()).and_then(|()| fs::rename(&temporary, &target));
    written.map_err(|source| {
        // The temporary file may not exist; the error to report is the first one.
        let _ = fs::remove_file(&temporary);
        error(source)
    })
}

/// Tells whether a file could be written there, by writing an empty one beside it.
pub(crate) fn can_save(path: &Path) -> Result<(), Error> {
    let error = |source| Error::Write { path: path.to_owned(), source };
    let (target, is_special) = target(path);
    if is_special {
        return Ok(());
    }
    if target.is_dir() || target.file_name().is_none() {
        return Err(error(ErrorKind::IsADirectory.into()));
    }
    let temporary = temporary_beside(&target);
    File::create(&temporary).and_then(|_| fs::remove_file(&temporary)).map_err(error)
}

/// Where a path leads, and whether that is no regular file.
fn target(path: &Path) -> (PathBuf, bool) {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let special = fs::metadata(&target).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    (target, special)
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}
