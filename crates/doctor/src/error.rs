//! The reasons why a machine cannot be examined.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has another format than expected.
    #[error("{path}:{line}: found {found:?}; expected {expected}", path = path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text found.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Only root may do this.
    #[error("{path}: root is needed; without it, `pageblock doctor` reads what everybody may", path = path.display())]
    NotRoot {
        /// The file.
        path: PathBuf,
    },
    /// A folder lacks a required file.
    #[error("{path}: no {what}; expected {expected}", path = path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
        /// The missing file.
        what: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
    /// The table of frames lacks necessary information.
    #[error("{path}: {why}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of a recording cannot be read.
    #[error(transparent)]
    Recording(#[from] pageblock_recording::Error),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotRoot { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}
