//! Text files of users, and messages of the system.

use std::path::Path;

use crate::error::{Result, bail};

/// Reads a user's text file; rejects files above the limit, endless ones too.
///
/// # Errors
/// If the file cannot be read, is too long, or is no text.
pub fn read_text(path: &Path, kind: &'static str, limit: u64) -> Result<String> {
    let bytes = pageblock_measure::value::file::read(path, kind, limit)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{}: {kind} is a text in UTF-8", path.display()),
    }
}

/// Removes the error number that the standard library appends to the system's message.
#[must_use]
pub fn without_os_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => kept += rest,
            _ => kept += &[" (os error ", part].concat(),
        }
    }
    kept
}
