//! Writes results, errors and notes: the only place where text from a user's arguments and files reaches a
//! terminal. A closed pipe is an error here, which `main` treats as a normal end.

use std::io::{self, Write};

pub(crate) use pageblock_report::text::{in_line, printable};

/// Writes whole lines to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(printable(text).as_bytes())
}

/// Writes this program's own bytes to standard output.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes whole lines to standard error. Failures are ignored, as there is no other place to report them.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(printable(text).as_bytes());
}
