//! Results that people read: text, data, and a table.

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::table::Table;

/// A result: what the program prints (`text`, and `str()` of it), what it prints with --json (`data`; docs/json.md has the
/// keys and units), and the part of it that is a table (`table`, which pandas and others take from the report itself too).
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) json: String,
    pub(crate) table: Py<Table>,
}

impl Report {
    /// Makes a result.
    pub(crate) fn new(py: Python<'_>, text: String, json: String, table: Table) -> PyResult<Self> {
        Ok(Self { text, json, table: Py::new(py, table)? })
    }
}

#[pymethods]
impl Report {
    /// What the program prints.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// What the program prints with --json, parsed.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.json,))
    }

    /// The part that is a table.
    #[getter]
    fn table(&self, py: Python<'_>) -> Py<Table> {
        self.table.clone_ref(py)
    }

    /// Returns the JSON that the program prints.
    fn to_json(&self) -> &str {
        &self.json
    }

    /// Returns the rows of the table, a dict each.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.table.get().to_dicts(py)?.into_any())
    }

    /// Returns the stream of the table (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.table.get().__arrow_c_stream__(py, requested_schema)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let of = slf.get();
        let kept = (&of.text, &of.json, of.table.bind(slf.py()));
        (slf.getattr("_from_kept")?, kept).into_pyobject(slf.py())
    }

    /// Makes a result again of what a pickle keeps.
    #[staticmethod]
    fn _from_kept(text: String, json: String, table: Py<Table>) -> Self {
        Self { text, json, table }
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let first = self.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("<pageblock.Report: {first}>")
    }
}
