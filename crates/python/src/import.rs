//! Arrow's PyCapsule interface, the other way: batches of other libraries. The one place with `unsafe`.

use std::ffi::CStr;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::asked;

const STREAM: &CStr = c"arrow_array_stream";

/// Returns the batches of an object with `__arrow_c_stream__`.
pub(crate) fn stream(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: the name says that this is a valid `ArrowArrayStream`. `from_raw` moves it out and leaves a released one, which the
    // capsule's destructor lets be; the capsule lives until the end, and under the interpreter's lock nobody else takes it.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) };
    reader.map_err(|error| asked(unread(&error)))
}

/// Says why a table of another library cannot be read. Two of Arrow's reasons speak of its interface; the others are its own.
pub(crate) fn unread(error: &ArrowError) -> String {
    let said = error.to_string();
    let why = if said.contains("\"Null\"") {
        "a column has nothing but nulls and no type; leave it out, or give it one"
    } else if said.contains("as a Schema") {
        "it is one column, no table"
    } else {
        said.lines().next().unwrap_or_default()
    };
    format!("the table cannot be read: {why}")
}
