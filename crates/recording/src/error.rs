//! What can go wrong with a recording: always one line with what, where and what is allowed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A position in an input file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or a name that stands for it.
    pub file: Arc<Path>,
    /// The line, counted from 1, of a text file.
    pub line: Option<u64>,
    /// The byte, counted from 0, in the decompressed stream.
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

/// A place in a text or binary file that does not hold what it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where.
    pub at: Place,
    /// What was found there, shortened and printable.
    pub found: String,
    /// What is allowed there.
    pub expected: String,
}

/// A compressed file that cannot be decompressed further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, and how much of it was decompressed.
    pub at: Place,
    /// `xz` or `zstd`.
    pub form: &'static str,
    /// How many bytes of the compressed file had been read.
    pub compressed_offset: u64,
    /// What the decompressor says.
    pub why: String,
}

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// A compressed file is damaged or cut short.
    #[error(
        "{}: the {} data is damaged or cut short at byte {} of the file (byte {} decompressed): {}; \
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
        /// What is wrong with it.
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
    /// An error of the operating system on `file`.
    pub(crate) fn io(file: &Path, source: io::Error) -> Self {
        Self::Io { file: file.to_owned(), source }
    }

    /// A columnar file is wrong.
    pub(crate) fn columnar(file: &Path, why: impl fmt::Display) -> Self {
        Self::Columnar { file: file.to_owned(), why: why.to_string().replace('\n', " ") }
    }

    /// The content at `at` is `found` where `expected` is allowed.
    pub(crate) fn malformed(at: Place, found: &[u8], expected: impl Into<String>) -> Self {
        Self::Malformed(Box::new(Malformed { at, found: quoted(found), expected: expected.into() }))
    }

    /// As [`Error::malformed`], with a description in place of the bytes.
    pub(crate) fn unexpected(
        at: Place,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Malformed(Box::new(Malformed { at, found: found.into(), expected: expected.into() }))
    }
}

/// The bytes in quotes, escaped and cut to a length that fits a line.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 80;
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("\"{}{more}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

/// What a parser of one line says: the caller adds the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
