//! The events of a recording, as a stream of Arrow's batches.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pageblock_plan::Session;
use pageblock_recording::Columnar;
use pageblock_recording::table::TableReader;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow;
use crate::error::{asked, failed};

/// The events of a recording, a row each; docs/recordings.md describes the columns. Nothing is read before a library
/// takes them, then batch by batch, as often as it is asked to.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Events {
    /// Keeps the columns in place.
    session: Arc<Session>,
    columns: Vec<&'static str>,
}

impl Events {
    /// Chooses columns; all where none are named.
    pub(crate) fn new(session: &Arc<Session>, columns: Option<Vec<String>>) -> PyResult<Self> {
        let all = Columnar::column_names();
        let wanted = |name: &&&str| columns.as_ref().is_none_or(|c| c.iter().any(|c| c == **name));
        if let Some(unknown) =
            columns.iter().flatten().find(|column| !all.contains(&column.as_str()))
        {
            return Err(asked(format!(
                "events have no column '{unknown}'; there are {}",
                all.join(", ")
            )));
        }
        let columns = all.iter().filter(wanted).copied().collect();
        Ok(Self { session: Arc::clone(session), columns })
    }

    fn reader(&self) -> PyResult<Reader> {
        let table = self.session.columnar.batches_of(&self.columns).map_err(failed)?;
        let whole = table.schema();
        let fields = self.columns.iter().filter_map(|name| whole.field_with_name(name).ok());
        let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        Ok(Reader { table, schema, _session: Arc::clone(&self.session) })
    }
}

#[pymethods]
impl Events {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.columns.clone()
    }

    /// The number of events.
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.session.columnar.events)?)
    }

    /// Returns the stream of the events (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        arrow::stream(py, Box::new(self.reader()?))
    }

    /// Returns the schema of the events (Arrow's PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, &self.reader()?.schema)
    }

    fn __repr__(&self) -> String {
        let (events, columns) = (self.session.columnar.events, self.columns.join(", "));
        format!("<pageblock.Events, {events} rows: {columns}>")
    }
}

/// Reads batches; what the file carries beside its columns is left out.
struct Reader {
    table: TableReader,
    schema: SchemaRef,
    _session: Arc<Session>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.table.next_batch() {
            Ok(batch) => {
                let columns = RecordBatch::from(batch?).columns().to_vec();
                Some(RecordBatch::try_new(Arc::clone(&self.schema), columns))
            }
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
