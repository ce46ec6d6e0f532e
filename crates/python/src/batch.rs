//! Batches of requests as Python has them: columns of numbers, in Arrow, in buffers such as NumPy's arrays, or in lists.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pageblock::request::Gfp;
use pageblock_simulate::workload::requests::{Ask, Operation};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};

use crate::arguments;
use crate::error::asked;
use crate::import;

/// The columns; the last three may be missing, and are 0 then.
const NAMES: [&str; 6] = ["time_ns", "op", "id", "amount", "offset", "flags"];
const NEEDED: usize = 3;

/// Reads a batch.
pub(crate) fn read(batch: &Bound<'_, PyAny>) -> PyResult<Vec<Ask>> {
    if batch.hasattr("__arrow_c_stream__")? {
        return of_arrow(batch);
    }
    let Ok(dict) = batch.cast::<PyDict>() else {
        let kind = batch.get_type().name()?;
        return Err(asked(format!(
            "a batch is a dict of columns or a table of Arrow with {}; found {kind}",
            NAMES.join(", ")
        )));
    };
    let given: Vec<String> = dict.keys().extract()?;
    check_names(&given)?;
    let mut columns: [Vec<u64>; NAMES.len()] = Default::default();
    for (name, column) in NAMES.iter().zip(&mut columns) {
        if let Some(values) = dict.get_item(name)? {
            *column = of_buffer(name, &values)?;
        }
    }
    asks(&columns)
}

fn check_names(given: &[String]) -> PyResult<()> {
    if let Some(unknown) = given.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(asked(format!(
            "a batch has no column '{unknown}'; there are {}",
            NAMES.join(", ")
        )));
    }
    match NAMES[..NEEDED].iter().find(|name| !given.iter().any(|given| given == *name)) {
        Some(missing) => Err(asked(format!("the batch lacks the column '{missing}'"))),
        None => Ok(()),
    }
}

fn asks(columns: &[Vec<u64>; NAMES.len()]) -> PyResult<Vec<Ask>> {
    let rows = columns[0].len();
    for (number, (name, column)) in NAMES.iter().zip(columns).enumerate() {
        if column.len() != rows && (number < NEEDED || !column.is_empty()) {
            let found = column.len();
            return Err(asked(format!("the column '{name}' has {found} rows, time_ns has {rows}")));
        }
    }
    let [times, operations, ids, amounts, offsets, flags] = columns;
    let ask = |row: usize| {
        let code = operations[row];
        let Some((_, operation)) = usize::try_from(code).ok().and_then(|at| Operation::ALL.get(at))
        else {
            return Err(asked(format!(
                "row {row}: there is no op {code}; allowed: {}",
                operations_by_code()
            )));
        };
        let Ok(id) = u32::try_from(ids[row]) else {
            return Err(asked(format!("row {row}: id {} is too large", ids[row])));
        };
        let bits = flags.get(row).copied().unwrap_or(0);
        let Ok(bits) = u32::try_from(bits) else {
            return Err(asked(format!(
                "row {row}: there are no flags {bits}; pageblock.flags makes them"
            )));
        };
        Ok(Ask {
            time_ns: times[row],
            operation: *operation,
            id,
            amount: amounts.get(row).copied().unwrap_or(0),
            offset: offsets.get(row).copied().unwrap_or(0),
            flags: Gfp(bits),
        })
    };
    (0..rows).map(ask).collect()
}

fn operations_by_code() -> String {
    let names = Operation::ALL.iter().enumerate().map(|(code, (name, _))| format!("{code} {name}"));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the number that a name stands for: the code of an operation, or the bits of flags.
fn code(column: &str, name: &str) -> PyResult<u64> {
    if column == "flags" {
        return bits(name).map(u64::from);
    }
    match Operation::ALL.iter().position(|(of, _)| *of == name) {
        Some(at) => Ok(at as u64),
        None => {
            let names: Vec<_> = Operation::ALL.iter().map(|(name, _)| *name).collect();
            Err(asked(format!("there is no op '{name}'; there are {}", names.join(", "))))
        }
    }
}

/// Returns the bits of flags that the kernel's tracepoints print, such as `GFP_ATOMIC|__GFP_NOWARN`, for the column `flags` of a
/// `Workload`'s batches. They are this package's own: kernels renumber theirs.
#[pyfunction]
#[pyo3(signature = (names, /))]
pub(crate) fn flags(#[pyo3(from_py_with = arguments::flag_names)] names: String) -> PyResult<u32> {
    bits(&names)
}

fn bits(names: &str) -> PyResult<u32> {
    match Gfp::parse(names) {
        Ok(gfp) => Ok(gfp.0),
        Err(part) => Err(asked(format!(
            "there is no flag '{part}'; allowed: names as GFP_KERNEL, GFP_ATOMIC, GFP_NOWAIT, __GFP_NORETRY, joined by |"
        ))),
    }
}

/// Reads a column: a buffer of whole numbers, a list of them, or a list of names.
fn of_buffer(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let Ok(view) = PyMemoryView::from(values) else {
        if let Ok(numbers) = values.extract::<Vec<u64>>() {
            return Ok(numbers);
        }
        if matches!(name, "op" | "flags")
            && let Ok(names) = values.extract::<Vec<String>>()
        {
            return names.iter().map(|text| code(name, text)).collect();
        }
        let kind = values.get_type().name()?;
        return Err(asked(format!(
            "the column '{name}' is a {kind}; allowed: an array or a list of whole numbers that are not negative"
        )));
    };
    let format: String = view.getattr("format")?.extract()?;
    let size: usize = view.getattr("itemsize")?.extract()?;
    let copied = view.call_method0("tobytes")?;
    let bytes = copied.cast::<PyBytes>()?.as_bytes();
    let kind = format.trim_start_matches(['@', '=', '<']);
    match (kind, size) {
        ("B" | "?", 1) => Ok(bytes.iter().map(|&byte| byte.into()).collect()),
        ("H", 2) => Ok(chunks(bytes, u16::from_ne_bytes).map(u64::from).collect()),
        ("I" | "L", 4) => Ok(chunks(bytes, u32::from_ne_bytes).map(u64::from).collect()),
        ("L" | "Q" | "N", 8) => Ok(chunks(bytes, u64::from_ne_bytes).collect()),
        ("b", 1) => positive(name, bytes.iter().map(|&byte| i64::from(byte.cast_signed()))),
        ("h", 2) => positive(name, chunks(bytes, i16::from_ne_bytes).map(i64::from)),
        ("i" | "l", 4) => positive(name, chunks(bytes, i32::from_ne_bytes).map(i64::from)),
        ("l" | "q" | "n", 8) => positive(name, chunks(bytes, i64::from_ne_bytes)),
        // An array of texts, as `numpy.where` makes it of names.
        _ if format.ends_with('w') && values.hasattr("tolist")? => {
            of_buffer(name, &values.call_method0("tolist")?)
        }
        _ => Err(asked(format!(
            "the column '{name}' has values of format '{format}'; allowed: whole numbers of 8 to 64 bits"
        ))),
    }
}

fn chunks<const N: usize, T>(bytes: &[u8], make: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |chunk| make(*chunk))
}

fn positive(name: &str, values: impl Iterator<Item = i64>) -> PyResult<Vec<u64>> {
    let value = |value: i64| {
        u64::try_from(value)
            .map_err(|_| asked(format!("the column '{name}' has {value}; allowed: 0 and above")))
    };
    values.map(value).collect()
}

fn of_arrow(table: &Bound<'_, PyAny>) -> PyResult<Vec<Ask>> {
    let mut columns: [Vec<u64>; NAMES.len()] = Default::default();
    for batch in import::stream(table)? {
        let batch = batch.map_err(|error| asked(import::unread(&error)))?;
        let schema = batch.schema();
        let given: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        check_names(&given)?;
        for (name, column) in NAMES.iter().zip(&mut columns) {
            if let Some(array) = batch.column_by_name(name) {
                column.extend(of_array(name, array)?);
            }
        }
    }
    asks(&columns)
}

fn of_array(name: &str, array: &ArrayRef) -> PyResult<Vec<u64>> {
    if array.null_count() > 0 {
        return Err(asked(format!("the column '{name}' has nulls")));
    }
    match array.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(name, array),
        DataType::UInt16 => numbers::<UInt16Type>(name, array),
        DataType::UInt32 => numbers::<UInt32Type>(name, array),
        DataType::UInt64 => Ok(array.as_primitive::<UInt64Type>().values().to_vec()),
        DataType::Int8 => numbers::<Int8Type>(name, array),
        DataType::Int16 => numbers::<Int16Type>(name, array),
        DataType::Int32 => numbers::<Int32Type>(name, array),
        DataType::Int64 => numbers::<Int64Type>(name, array),
        DataType::Utf8 => {
            array.as_string::<i32>().iter().flatten().map(|text| code(name, text)).collect()
        }
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().flatten().map(|text| code(name, text)).collect()
        }
        DataType::Utf8View => {
            array.as_string_view().iter().flatten().map(|text| code(name, text)).collect()
        }
        other => Err(asked(format!(
            "the column '{name}' is of type {other}; allowed: whole numbers, and text for op and flags"
        ))),
    }
}

fn numbers<T: ArrowPrimitiveType>(name: &str, array: &ArrayRef) -> PyResult<Vec<u64>>
where
    T::Native: TryInto<i64>,
{
    let values = array.as_primitive::<T>().values().iter();
    positive(name, values.map(|&value| value.try_into().unwrap_or(-1)))
}
