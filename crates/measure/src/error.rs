//! What can go wrong: files, their content, and choices that the given runs do not allow.

use std::path::PathBuf;

/// An error of this crate. Each prints as one line that says where, what, and the wrong value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file has more than anything of its kind needs.
    #[error("{}: more than {limit} bytes; {kind} has at most so many", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What it should be.
        kind: &'static str,
        /// The most bytes that are read.
        limit: u64,
    },
    /// A named pipe has no writer.
    #[error("{}: nothing writes to this pipe", path.display())]
    NoWriter {
        /// The pipe.
        path: PathBuf,
    },
    /// A file could not be written; the file of that name, if any, is as it was.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error("{}: line {line}, column {column}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1; 0 where only the line is known.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// There is nothing to compare.
    #[error("no run to compare")]
    NoRuns,
    /// The chosen baseline is not one of the runs.
    #[error("baseline {baseline} of {columns} columns (the first is 0)")]
    Baseline {
        /// The chosen column, from 0.
        baseline: usize,
        /// How many there are.
        columns: usize,
    },
    /// Policies that are compared over seeds ran different ones.
    #[error("policy {policy} did not run the same seeds as {first}")]
    Seeds {
        /// The policy.
        policy: String,
        /// The first policy.
        first: String,
    },
    /// A policy ran a seed twice.
    #[error("two of the runs are of policy {policy} with seed {seed}")]
    Twice {
        /// The policy.
        policy: String,
        /// The seed.
        seed: u64,
    },
    /// Two lists of paired samples differ in length.
    #[error("paired samples: {base} of the baseline, {new} of the other")]
    Unpaired {
        /// Samples of the baseline.
        base: usize,
        /// Samples of the other side.
        new: usize,
    },
}
