//! Arrow's PyCapsule interface, the other way: batches of other libraries. The one place with `unsafe`.

use std::ffi::CStr;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::asked;

const STREAM: &CStr = c"arrow_array_stream";

/// Returns the batches of an object with `__arrow_c_stream__`.
pub(crate) fn stream(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY:
    // - The capsule has the name by which Arrow's interface says that it points to a valid `ArrowArrayStream`.
    // - The stream is moved out, as the interface demands of a consumer: `from_raw` leaves one that is released, which the
    //   capsule's destructor does not release again.
    // - The capsule lives until the end of this function, and the interpreter's lock is held: nobody else takes the stream.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) };
    reader.map_err(|error| asked(error.to_string()))
}
