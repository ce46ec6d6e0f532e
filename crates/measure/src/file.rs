//! JSON files: read with one-line errors, written whole or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::plain;

/// Reads a file that is `kind`, of at most `limit` bytes. Devices and pipes are read too, but a named
/// pipe without a writer is an error, and not waited for.
///
/// # Errors
/// [`Error::Read`], [`Error::TooLong`], [`Error::NoWriter`].
pub fn read(path: &Path, kind: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
    read_while(path, kind, limit, |_| true)
}

/// As [`read`], but no further than a first part that `goes_on` refuses, for the parser to refuse too.
fn read_while(
    path: &Path,
    kind: &'static str,
    limit: u64,
    goes_on: impl FnOnce(&[u8]) -> bool,
) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let too_long = || Error::TooLong { path: path.to_owned(), kind, limit };
    let (mut file, is_pipe) = open(path).map_err(failed)?;
    if file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > limit) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    Read::take(&mut file, FIRST_BYTES.min(limit)).read_to_end(&mut bytes).map_err(failed)?;
    if is_pipe && bytes.is_empty() {
        return Err(Error::NoWriter { path: path.to_owned() });
    }
    if goes_on(&bytes) {
        let rest = (limit + 1).saturating_sub(bytes.len() as u64);
        file.take(rest).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Opens a file; tells whether it is a pipe. Opening one without a writer would wait for the writer.
fn open(path: &Path) -> std::io::Result<(File, bool)> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

    if !fs::metadata(path)?.file_type().is_fifo() {
        return Ok((File::open(path)?, false));
    }
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    // With a writer, reads wait as they do everywhere.
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok((file, true))
}

/// The bytes that tell whether a text can be JSON at all.
const FIRST_BYTES: u64 = 64 << 10;
/// The most bytes of saved runs. The samples make them large: README's command for six workloads at
/// their full size and ten seeds stays far below.
const RUNS_BYTES: u64 = 1 << 30;

/// Reads the bytes of saved runs.
pub(crate) fn read_runs(path: &Path) -> Result<Vec<u8>, Error> {
    read_while(path, "a file of saved runs", RUNS_BYTES, |first| {
        matches!(first.trim_ascii_start().first(), Some(b'[' | b'{'))
    })
}

/// Parses JSON; `path` is only named in the error.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let failed = |error: &serde_json::Error, key: &str| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        let cut = if error.is_eof() { "; the file is cut short" } else { "" };
        let key = if key == "." || error.is_eof() { String::new() } else { format!("{key}: ") };
        Error::Parse {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: format!("{key}{}{cut}", plain::words(what)),
        }
    };
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| failed(error.inner(), &error.path().to_string()))?;
    json.end().map_err(|error| failed(&error, "."))?;
    Ok(value)
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
