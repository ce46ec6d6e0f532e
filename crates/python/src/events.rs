//! The events of a recording, as a stream of Arrow's batches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchReader,
    StringArray,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pageblock_plan::Session;
use pageblock_plan::columns;
use pageblock_recording::Columnar;
use pageblock_recording::table::TableReader;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow;
use crate::error::{asked, failed};

/// The events of a recording, a row each; docs/recordings.md describes the columns. The file's `order` is `page_order` here, a name
/// that SQL takes without quotes, and what does not apply is null. Nothing is read before a library takes them, then batch by
/// batch, as often as it is asked to.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Events {
    /// Keeps the columns in place.
    session: Arc<Session>,
    columns: Vec<&'static str>,
}

impl Events {
    /// Chooses columns; all where none are named.
    pub(crate) fn new(session: &Arc<Session>, columns: Option<Vec<String>>) -> PyResult<Self> {
        let all: Vec<_> = Columnar::column_names().into_iter().map(public).collect();
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
        let stored = Columnar::column_names();
        let wanted: Vec<_> =
            stored.into_iter().filter(|name| self.columns.contains(&public(name))).collect();
        let table = self.session.columnar.batches_of(&wanted).map_err(failed)?;
        let whole = table.schema();
        let field = |name: &&'static str| {
            let kind = whole.field_with_name(name).ok()?.data_type().clone();
            Some(columns::field("events", public(name), kind))
        };
        let schema = Arc::new(Schema::new(wanted.iter().filter_map(field).collect::<Vec<_>>()));
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
                let named = self.schema.fields().iter().map(|field| field.name().as_str());
                let batch = RecordBatch::from(batch?);
                let columns = named.zip(batch.columns()).map(|(name, of)| with_nulls(name, of));
                Some(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect()))
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

/// Returns the name in Python of a file's column: `order` is a word of SQL.
fn public(stored: &'static str) -> &'static str {
    if stored == "order" { "page_order" } else { stored }
}

/// Returns a column with nulls where it does not apply: a file has -1, the type `none`, or an empty text there.
fn with_nulls(name: &str, column: &ArrayRef) -> ArrayRef {
    fn numbers<T: ArrowPrimitiveType>(
        of: &PrimitiveArray<T>,
        none: T::Native,
    ) -> PrimitiveArray<T> {
        let applies = BooleanArray::from_unary(of, |value| value != none);
        PrimitiveArray::new(of.values().clone(), Some(applies.into_parts().0.into()))
    }
    match (name, column.data_type()) {
        ("pfn", DataType::Int64) => Arc::new(numbers(column.as_primitive::<Int64Type>(), -1)),
        (_, DataType::Int8) => Arc::new(numbers(column.as_primitive::<Int8Type>(), -1)),
        (_, DataType::Utf8) => {
            let of: &StringArray = column.as_string();
            let applies = BooleanArray::from_unary(of, |text| !text.is_empty());
            let (offsets, values, _) = of.clone().into_parts();
            Arc::new(StringArray::new(offsets, values, Some(applies.into_parts().0.into())))
        }
        ("migratetype" | "fallback_migratetype", DataType::Dictionary(..)) => {
            let of: &DictionaryArray<Int8Type> = column.as_dictionary();
            let none = of.values().as_string::<i32>().iter().position(|name| name == Some("none"));
            match none.and_then(|at| i8::try_from(at).ok()) {
                Some(none) => {
                    let keys = numbers(of.keys(), none);
                    Arc::new(DictionaryArray::new(keys, Arc::clone(of.values())))
                }
                None => Arc::clone(column),
            }
        }
        _ => Arc::clone(column),
    }
}
