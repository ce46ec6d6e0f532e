//! Errors of reading and writing recordings, each in one line: what, where and what is allowed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A position in an input file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or a name for another source.
    pub file: Arc<Path>,
    /// The line of a text file, counted from 1.
    pub line: Option<u64>,
    /// The byte in the decompressed stream, counted from 0.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, " (byte {})", self.offset)
    }
}

/// Content of a text or binary file that is not in the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The position.
    pub at: Place,
    /// What was found there, shortened and printable.
    pub found: String,
    /// What is allowed there.
    pub expected: String,
}

/// A compressed file that cannot be decompressed further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, and the position in the decompressed stream.
    pub at: Place,
    /// `xz` or `zstd`.
    pub form: &'static str,
    /// The number of bytes of the compressed file that had been read.
    pub compressed_offset: u64,
    /// The decompressor's error.
    pub why: String,
}

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file failed.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A compressed file is damaged or truncated.
    #[error(
        "{}: the {} data is damaged or truncated at byte {} of the file (byte {} decompressed): {}; \
         allowed: a complete {} file",
        .0.at.file.display(), .0.form, .0.compressed_offset, .0.at.offset, .0.why, .0.form
    )]
    Damaged(Box<Damage>),
    /// The content is not in the format.
    #[error("{}: found {}; allowed: {}", .0.at, .0.found, .0.expected)]
    Malformed(Box<Malformed>),
    /// A columnar file cannot be read or written.
    #[error(
        "{}: not a complete columnar file: {why}; allowed: a file that this version wrote (delete it \
         to have it written again)",
        file.display()
    )]
    Columnar {
        /// The file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
    /// A recording in one file is cut or damaged.
    #[error(
        "{}: not a whole recording: {why}; allowed: a .pbrec as it was written (pageblock recording \
         convert writes one of what is whole)",
        file.display()
    )]
    Pbrec {
        /// The file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file names another by a name that no recording has, such as one outside its folder.
    #[error(
        "{}: the file name {name} in it; allowed: the names of a recording's files, inside its folder",
        file.display()
    )]
    Name {
        /// The file that has the name.
        file: PathBuf,
        /// The name, quoted and shortened.
        name: String,
    },
    /// The events do not fit another format.
    #[error("{}: {why}", file.display())]
    Convert {
        /// The file with the events.
        file: PathBuf,
        /// What does not fit, and what is allowed.
        why: String,
    },
    /// A part of a recording is absent.
    #[error("{}: no {what}; allowed: {expected}", path.display())]
    Missing {
        /// The folder or file that lacks it.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// Where it may be.
        expected: &'static str,
    },
}

impl Error {
    /// Makes an error of the operating system on `file`.
    pub(crate) fn io(file: &Path, source: io::Error) -> Self {
        Self::Io { file: file.to_owned(), source }
    }

    /// Makes an error for a columnar file.
    pub(crate) fn columnar(file: &Path, why: impl fmt::Display) -> Self {
        Self::Columnar { file: file.to_owned(), why: printable(&why.to_string()) }
    }

    /// Makes an error for a recording in one file.
    pub(crate) fn pbrec(file: &Path, why: impl fmt::Display) -> Self {
        Self::Pbrec { file: file.to_owned(), why: printable(&why.to_string()) }
    }

    /// Makes an error for a name in `file`.
    pub(crate) fn name(file: &Path, name: &str) -> Self {
        Self::Name { file: file.to_owned(), name: quoted(name.as_bytes()) }
    }

    /// Makes an error for content at `at` that is `found` where `expected` is allowed.
    pub(crate) fn malformed(at: Place, found: &[u8], expected: impl Into<String>) -> Self {
        Self::Malformed(Box::new(Malformed { at, found: quoted(found), expected: expected.into() }))
    }

    /// Does the same as [`Error::malformed`], with a description instead of the bytes.
    pub(crate) fn unexpected(
        at: Place,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let (found, expected) = (printable(&found.into()), expected.into());
        Self::Malformed(Box::new(Malformed { at, found, expected }))
    }
}

/// Returns a text that may quote a file as one line without control characters, shortened: a terminal obeys those.
fn printable(text: &str) -> String {
    const SHOWN: usize = 300;
    let shown = text.chars().take(SHOWN).map(|c| if c == '\n' { ' ' } else { c });
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    shown.map(escaped).collect::<String>() + more
}

/// Returns the bytes in quotes, escaped and shortened to fit in a line.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 80;
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("\"{}{more}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

/// What a parser of single lines allows: the caller adds the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
