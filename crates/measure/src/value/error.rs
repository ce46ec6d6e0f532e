//! Errors: files, their content, and options that do not fit the given runs.

use std::path::PathBuf;

/// An error of this crate. Each prints as one line with the place, the problem, and the wrong value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file is larger than the limit for its kind.
    #[error("{}: more than {limit} bytes, the limit for {kind}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The kind of file that was expected.
        kind: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A named pipe has no writer.
    #[error("{}: nothing writes to this pipe", path.display())]
    NoWriter {
        /// The pipe.
        path: PathBuf,
    },
    /// A file could not be written; an existing file of that name is unchanged.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file does not contain the expected JSON.
    #[error("{}: line {line}, column {column}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1; 0 if only the line is known.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A number in a saved run is out of bounds.
    #[error("{}: run {run}: {what}", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// The run in the file, from 1.
        run: usize,
        /// The key, the number and what is allowed.
        what: String,
    },
    /// There is nothing to compare.
    #[error("no run to compare")]
    NoRuns,
    /// The chosen baseline is not one of the columns.
    #[error("baseline {baseline} of {columns} columns (the first is 0)")]
    Baseline {
        /// The chosen column, from 0.
        baseline: usize,
        /// The number of columns.
        columns: usize,
    },
    /// Policies that are compared over seeds ran different seeds.
    #[error("policy {policy} did not run the same seeds as {first}")]
    Seeds {
        /// The policy.
        policy: String,
        /// The first policy.
        first: String,
    },
    /// A policy has two runs with the same seed.
    #[error("policy {policy} has two runs with seed {seed}")]
    Twice {
        /// The policy.
        policy: String,
        /// The seed.
        seed: u64,
    },
}
