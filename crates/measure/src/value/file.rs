//! JSON files: read with one-line errors, written whole or not at all.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::Path;

use pageblock_files::Access;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::value::error::Error;
use crate::value::parse_words;

/// Reads a file that should be `kind`, of at most `limit` bytes. Devices and pipes are read too; a
/// named pipe without a writer is an error instead of a wait.
///
/// # Errors
/// [`Error::Read`], [`Error::TooLong`], [`Error::NoWriter`].
pub fn read(path: &Path, kind: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
    read_while(path, kind, limit, |_| true)
}

/// Reads like [`read`], but stops after a first part that `goes_on` rejects, so that the parser can
/// report it.
fn read_while(
    path: &Path,
    kind: &'static str,
    limit: u64,
    goes_on: impl FnOnce(&[u8]) -> bool,
) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let too_long = || Error::TooLong { path: path.to_owned(), kind, limit };
    if fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > limit) {
        return Err(too_long());
    }
    let mut file = open(path)?;
    let mut bytes = Vec::new();
    Read::take(&mut file, FIRST_BYTES.min(limit)).read_to_end(&mut bytes).map_err(failed)?;
    if goes_on(&bytes) {
        let rest = (limit + 1).saturating_sub(bytes.len() as u64);
        file.take(rest).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Opens a file, a device or a pipe to be read from its beginning to its end. A named pipe without a writer is an error
/// instead of a wait.
///
/// # Errors
/// [`Error::Read`], [`Error::NoWriter`].
pub fn open(path: &Path) -> Result<impl Read + use<>, Error> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

    let failed = |source| Error::Read { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(failed)?.file_type().is_fifo() {
        let file = File::open(path).map_err(failed)?;
        return Ok(Cursor::new(Vec::new()).chain(file));
    }
    // To open a pipe without a writer must not block.
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(failed)?;
    // With a writer, reads block as usual.
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty()).map_err(|e| failed(e.into()))?;
    let mut first = Vec::new();
    Read::take(&file, 1).read_to_end(&mut first).map_err(failed)?;
    match first.is_empty() {
        true => Err(Error::NoWriter { path: path.to_owned() }),
        false => Ok(Cursor::new(first).chain(file)),
    }
}

/// The bytes that are checked for whether a text can be JSON at all.
const FIRST_BYTES: u64 = 64 << 10;
/// The size limit of saved runs. Samples dominate: the full-size runs of all six workloads with ten
/// seeds stay far below it.
const RUNS_BYTES: u64 = 1 << 30;

/// Reads the bytes of saved runs.
pub(crate) fn read_runs(path: &Path) -> Result<Vec<u8>, Error> {
    read_while(path, "a file of saved runs", RUNS_BYTES, |first| {
        matches!(first.trim_ascii_start().first(), Some(b'[' | b'{'))
    })
}

/// Parses JSON; `path` is used only in errors.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let failed = |error: &serde_json::Error, key: &str| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        let cut = if error.is_eof() { "; it is truncated" } else { "" };
        let key = if key == "." || error.is_eof() { String::new() } else { format!("{key}: ") };
        Error::Parse {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: in_one_line(&format!("{key}{}{cut}", parse_words::words(what))),
        }
    };
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| failed(error.inner(), &error.path().to_string()))?;
    json.end().map_err(|error| failed(&error, "."))?;
    Ok(value)
}

/// Escapes control characters: a key of the file can hold any, and an error is one line.
fn in_one_line(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
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

/// Writes a value as JSON, whole or not at all (`pageblock_files`).
pub(crate) fn save<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<(), Error> {
    save_bytes(path, format(value).as_bytes())
}

/// Writes bytes likewise.
///
/// # Errors
/// [`Error::Write`].
pub fn save_bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    pageblock_files::write(path, bytes, Access::Shared)
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Checks that a file could be written there, by making an empty one beside it.
///
/// # Errors
/// [`Error::Write`].
pub fn can_save(path: &Path) -> Result<(), Error> {
    pageblock_files::can_write(path)
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}
