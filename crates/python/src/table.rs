//! Tables: columns with names.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pageblock_measure::catalogue::Measure;
use pageblock_plan::columns::{counts, field};
use pageblock_plan::sweep::columns::measure_field;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};

use crate::arrow;
use crate::error::asked;

/// Columns that become a table.
pub(crate) struct Columns {
    /// The table, by which their definitions are found.
    table: &'static str,
    all: Vec<(Field, ArrayRef)>,
}

impl Columns {
    /// Begins a table of those that `pageblock_plan::columns` defines.
    pub(crate) const fn of(table: &'static str) -> Self {
        Self { table, all: Vec::new() }
    }

    fn push(mut self, name: &str, array: ArrayRef) -> Self {
        self.all.push((field(self.table, name, array.data_type().clone()), array));
        self
    }

    /// Adds a column of a measure, whose field says what it is: counts are whole numbers.
    pub(crate) fn measure(
        mut self,
        measure: &Measure,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let array: ArrayRef = if measure.unit.is_whole() {
            let whole = values.into_iter().map(|value| value.map(|value| value as i64));
            Arc::new(Int64Array::from_iter(whole))
        } else {
            Arc::new(Float64Array::from_iter(values))
        };
        self.all.push((measure_field(measure), array));
        self
    }

    /// Adds a column of text.
    pub(crate) fn text<T: AsRef<str>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Self {
        self.push(name, Arc::new(StringArray::from_iter(values)))
    }

    /// Adds a column of counts: with a sign where they fit.
    pub(crate) fn counts(self, name: &str, values: impl IntoIterator<Item = Option<u64>>) -> Self {
        self.push(name, counts(values))
    }

    /// Adds a column of whole numbers.
    pub(crate) fn numbers(self, name: &str, values: impl IntoIterator<Item = Option<i64>>) -> Self {
        self.push(name, Arc::new(Int64Array::from_iter(values)))
    }

    /// Adds a column of numbers.
    pub(crate) fn floats(self, name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        self.push(name, Arc::new(Float64Array::from_iter(values)))
    }

    /// Adds a column of truth values.
    pub(crate) fn flags(self, name: &str, values: impl IntoIterator<Item = Option<bool>>) -> Self {
        self.push(name, Arc::new(BooleanArray::from_iter(values)))
    }

    /// Returns the table.
    pub(crate) fn table(self) -> PyResult<Table> {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = self.all.into_iter().unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok(Table { batch: batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))? })
    }
}

impl Table {
    /// Makes a table of a batch.
    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

/// A table in Arrow's columns.
///
/// pandas (`DataFrame.from_arrow`), Polars (`DataFrame`), PyArrow (`table`) and DuckDB (the variable's name in a query)
/// take it without copies, as any library with Arrow's PyCapsule interface does. Without one, `to_dicts` has the rows.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// Returns the stream of the table (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows to give another schema than the requested one.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        arrow::stream(py, Box::new(batches))
    }

    /// Returns the schema of the table (Arrow's PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, &self.batch.schema())
    }

    /// Pickles are Arrow's own stream format.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let broken = |error: ArrowError| PyRuntimeError::new_err(error.to_string());
        let batch = &slf.get().batch;
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(broken)?;
        writer.write(batch).map_err(broken)?;
        let bytes = PyBytes::new(slf.py(), &writer.into_inner().map_err(broken)?);
        (slf.getattr("_from_stream")?, (bytes,)).into_pyobject(slf.py())
    }

    /// Makes a table again of what a pickle keeps.
    #[staticmethod]
    fn _from_stream(bytes: &[u8]) -> PyResult<Self> {
        let read = StreamReader::try_new(bytes, None).and_then(|mut batches| {
            batches.next().unwrap_or_else(|| Err(ArrowError::IpcError("no batch".to_owned())))
        });
        read.map(Self::of).map_err(|error| asked(format!("the pickle of a table: {error}")))
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the rows, a dict each.
    pub(crate) fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.columns();
        let rows = PyList::empty(py);
        for row in 0..self.batch.num_rows() {
            let dict = PyDict::new(py);
            for (name, array) in names.iter().zip(self.batch.columns()) {
                dict.set_item(name, cell(py, array, row)?)?;
            }
            rows.append(dict)?;
        }
        Ok(rows)
    }

    fn __repr__(&self) -> String {
        let rows = self.batch.num_rows();
        format!("<pageblock.Table, {rows} rows: {}>", self.columns().join(", "))
    }
}

fn cell<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        _ => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
    })
}
