//! Recordings as users name them.

use std::path::PathBuf;

use pageblock_recording::{CaptureOptions, KernelVersion};

use crate::error::{Result, bail};

/// Checks that a path can be a recording's.
///
/// # Errors
/// If nothing is there.
pub fn path(path: PathBuf) -> Result<PathBuf> {
    if path.is_dir() || path.is_file() {
        return Ok(path);
    }
    let problem = if path.exists() { "is no folder or file" } else { "does not exist" };
    bail!(
        "recording {} {problem}; a recording is a .pbrec, a folder with start/ and events, or a capture; `pageblock record` makes one, `pageblock demo` reads the one that is included",
        path.display()
    )
}

/// Returns what a capture does not say: the kernel's version, and the folder with the machine's `/proc`.
///
/// # Errors
/// If the version is none.
pub fn capture(kernel: Option<&str>, proc: Option<PathBuf>) -> Result<CaptureOptions> {
    let kernel = match kernel {
        None => None,
        Some(text) => match KernelVersion::parse(text) {
            Some(version) => Some(version),
            None => bail!("--kernel '{text}' is no version such as 6.1 or 6.12.94"),
        },
    };
    Ok(CaptureOptions { kernel, proc })
}
