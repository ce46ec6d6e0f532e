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
            Failure::Plan(error) => asked(line(&error)),
            Failure::Python(error) => error,
        }
    }
}

/// Makes the exception of words.
pub(crate) fn asked(words: impl Into<String>) -> PyErr {
    Error::new_err(words.into())
}

/// Makes the exception of a library's error.
pub(crate) fn failed(error: impl Into<pageblock_plan::Error>) -> PyErr {
    Failure::from(error).into()
}
