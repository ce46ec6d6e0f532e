//! Errors as Python exceptions, with the words of the program.

use pageblock_plan::error::line;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    pageblock,
    Error,
    PyException,
    "Something that was asked for cannot be done: what, where and what is allowed, in one line."
);

/// Why work failed.
pub(crate) enum Failure {
    /// In the words of the program.
    Plan(pageblock_plan::Error),
    /// By the user's own code, or for the interpreter's reasons.
    Python(PyErr),
}

impl<E: Into<pageblock_plan::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Plan(error) => asked(in_python(&line(&error))),
            Failure::Python(error) => error,
        }
    }
}

/// The options of the program that are arguments here, with their names where these are others.
const ARGUMENTS: [(&str, &str); 17] = [
    ("--policy", "kernels"),
    ("--first-seed", "seeds"),
    ("--seeds", "seeds"),
    ("--seed", "seed"),
    ("--scale", "scale"),
    ("--machine", "machine"),
    ("--jobs", "jobs"),
    ("--save", "save"),
    ("--published", "published=True"),
    ("--force", "force=True"),
    ("--kernel", "kernel"),
    ("--proc", "proc"),
    ("--measure", "measures"),
    ("--interval", "interval"),
    ("--later", "later"),
    ("--repeat", "repeat"),
    ("--sysctl", "sysctls"),
];

/// What the program says where the package has other words.
const WORDS: [(&str, &str); 6] = [
    ("`pageblock policy list` prints every name", "kernels() has every one"),
    ("`pageblock policy show NAME` prints every switch", "switches() has every one"),
    ("unknown policy", "unknown kernel"),
    ("at least one policy", "at least one kernel"),
    (" (--seeds 5)", " (seeds=5)"),
    (" (--closed-loop)", ""),
];

/// Returns words in which options have the names of arguments.
pub(crate) fn in_python(words: &str) -> String {
    let words = WORDS.iter().fold(words.to_owned(), |words, (from, to)| words.replace(from, to));
    let parts = words.split_inclusive([' ', '(', ':', ',']);
    let renamed = parts.map(|part| {
        let name = part.trim_end_matches([' ', '(', ':', ',', ')', ';']);
        match ARGUMENTS.iter().find(|(option, _)| *option == name) {
            Some((_, argument)) => part.replacen(name, argument, 1),
            None => part.to_owned(),
        }
    });
    renamed.collect()
}

/// Makes the exception of words.
pub(crate) fn asked(words: impl Into<String>) -> PyErr {
    Error::new_err(words.into())
}

/// Makes the exception of a library's error.
pub(crate) fn failed(error: impl Into<pageblock_plan::Error>) -> PyErr {
    Failure::from(error).into()
}
