//! Files that the Python part of the package writes: whole or not at all, as the program does.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::failed;

/// Writes a text, whole or not at all.
#[pyfunction]
pub(crate) fn write_text(path: PathBuf, text: &str) -> PyResult<()> {
    pageblock_measure::value::file::save_bytes(&path, text.as_bytes()).map_err(failed)
}
