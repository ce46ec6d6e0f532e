//! A kernel's log.

use std::io::Read;
use std::path::Path;

use pageblock_doctor::{Explained, explain_log};
use pageblock_measure::value::file;

use crate::error::{Place, Result, bail};

/// The size of a log above which it is refused: a year of a busy machine's kernel messages. Devices have no end.
const LIMIT_MIB: u64 = 1024;

/// Explains the reports in a file. A named pipe without a writer is an error instead of a wait.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn explain(path: &Path) -> Result<Explained> {
    explain_from(file::open(path)?, &path.display().to_string())
}

/// Explains the reports of a log; errors name it.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn explain_from(reader: impl Read + Send, name: &str) -> Result<Explained> {
    let mut limited = reader.take((LIMIT_MIB << 20) + 1);
    let explained = explain_log(&mut limited).at(|| name)?;
    if limited.limit() == 0 {
        bail!("{name}: a log of more than {LIMIT_MIB} MiB; give the part with the report");
    }
    Ok(explained)
}

/// Explains the reports of a log that was read.
///
/// # Errors
/// If it has too many reports.
pub fn explain_bytes(log: &[u8]) -> Result<Explained> {
    explain_log(log).at(|| "the log")
}
