//! Errors: what was asked for and cannot be done, and what the libraries report.

use std::fmt::Display;

use crate::text::without_os_numbers;

/// The result of what was asked for.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something that was asked for cannot be done. [`line()`] has it with its causes in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for is wrong, or cannot be done.
    #[error("{0}")]
    Asked(String),
    /// Something is wrong at a place: a file, an option.
    #[error("{place}")]
    At {
        /// The place.
        place: String,
        /// What is wrong.
        source: Box<Error>,
    },
    /// A kernel, as text.
    #[error(transparent)]
    Kernel(#[from] pageblock_kernel::KernelError),
    /// A kernel, as a file.
    #[error(transparent)]
    KernelFile(#[from] pageblock_kernel::file::FileError),
    /// A machine.
    #[error(transparent)]
    Machine(#[from] pageblock_simulate::sim::machine_file::MachineError),
    /// A simulation.
    #[error(transparent)]
    Simulate(#[from] pageblock_simulate::Error),
    /// Measures and saved runs.
    #[error(transparent)]
    Measure(#[from] pageblock_measure::Error),
    /// A recording.
    #[error(transparent)]
    Recording(#[from] pageblock_recording::Error),
    /// A replay.
    #[error(transparent)]
    Replay(#[from] pageblock_replay::Error),
    /// An examination.
    #[error(transparent)]
    Doctor(#[from] pageblock_doctor::Error),
    /// Guests.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Guest(#[from] pageblock_guest::error::Error),
    /// A file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// TOML that a machine becomes.
    #[error(transparent)]
    Toml(#[from] toml::ser::Error),
}

/// Adds where something is wrong.
pub(crate) trait Place<T> {
    /// Returns the result; its error is at this place.
    fn at<P: Display>(self, place: impl FnOnce() -> P) -> Result<T>;
}

impl<T, E: Into<Error>> Place<T> for std::result::Result<T, E> {
    fn at<P: Display>(self, place: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|error| Error::At {
            place: place().to_string(),
            source: Box::new(error.into()),
        })
    }
}

/// Returns an error that says what was asked for, in the words of a format.
macro_rules! bail {
    ($($words:tt)*) => {
        return Err($crate::error::Error::Asked(format!($($words)*)))
    };
}
pub(crate) use bail;

/// Returns an error with its causes in one line; a cause that already ends the text before it is not repeated.
#[must_use]
pub fn line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = without_os_numbers(&cause.to_string().replace('\n', ", "));
        if !line.ends_with(&text) {
            line += if line.is_empty() { "" } else { ": " };
            line += &text;
        }
        next = cause.source();
    }
    line
}
