//! Why there is no view.

use std::io;
use std::path::PathBuf;

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or a flight file cannot be read.
    #[error(transparent)]
    Doctor(#[from] pageblock_doctor::Error),
    /// A run or a recording cannot be shown.
    #[error(transparent)]
    Picture(#[from] pageblock_picture::Error),
    /// A moment cannot be saved.
    #[error(transparent)]
    Recorder(#[from] pageblock_recorder::Error),
    /// A moment of something else than this machine cannot be saved.
    #[error("only this machine can be saved: what is shown is a file already, {0}")]
    NotLive(PathBuf),
    /// The terminal fails.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}
