//! Writing results. A closed pipe is an error here, which `main` takes as the reader's wish.

use std::io::{self, Write};

/// Writes whole lines to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
