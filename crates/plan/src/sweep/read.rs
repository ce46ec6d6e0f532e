//! Tables of runs, read again: what a comparison needs of each row.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pageblock_kernel::Switch;
use pageblock_measure::catalogue::Measure;
use pageblock_measure::value::ended::Ended;
use pageblock_measure::{EventUnit, Origin, Run};
use pageblock_simulate::workload;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::columns::{IDENTITY, measures_of};
use super::journal::{JOURNAL, RESULT};
use crate::error::{Error, Place, Result, bail};
use crate::policy::NamedPolicy;

/// Reports whether a path is that of a table: a Parquet file, or the folder of a sweep.
#[must_use]
pub fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
        || path.join(RESULT).exists()
        || path.join(JOURNAL).exists()
}

/// Reads the runs of a Parquet file, or of the folder of a sweep.
///
/// # Errors
/// If it cannot be read, or is no table of runs.
pub fn runs_of_file(path: &Path) -> Result<Vec<Run>> {
    let file: PathBuf = if path.is_dir() { path.join(RESULT) } else { path.to_owned() };
    if path.is_dir() && !file.exists() {
        bail!("{}: the sweep is not finished: it has no {RESULT} yet", path.display());
    }
    let wrong = |error: &dyn std::fmt::Display| Error::Asked(error.to_string());
    let opened = File::open(&file).at(|| file.display())?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|error| wrong(&error))
        .at(|| file.display())?;
    let batches = reader.map(|batch| batch.map_err(|error| wrong(&error)));
    runs_of(batches).at(|| file.display())
}

/// Reads the runs of batches: the columns of a sweep, or those that are left of them.
///
/// # Errors
/// If a column that says what a run is, is missing or has another type.
pub fn runs_of(batches: impl IntoIterator<Item = Result<RecordBatch>>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for batch in batches {
        read(&batch?, &mut runs)?;
    }
    match runs.is_empty() {
        true => bail!("the table has no runs"),
        false => Ok(runs),
    }
}

fn read(batch: &RecordBatch, runs: &mut Vec<Run>) -> Result<()> {
    let text = |name: &str| -> Result<Vec<Option<String>>> {
        let Some(column) = batch.column_by_name(name) else {
            bail!(
                "the table has no column '{name}'; a table of runs has workload, kernel, machine, seed and event_hash"
            );
        };
        texts(column).at(|| format!("column '{name}'"))
    };
    let [workloads, kernels, machines, hashes] =
        ["workload", "kernel", "machine", "event_hash"].map(text);
    let (workloads, kernels, machines, hashes) = (workloads?, kernels?, machines?, hashes?);
    let optional = |name: &str| match batch.column_by_name(name) {
        Some(_) => text(name),
        None => Ok(vec![None; batch.num_rows()]),
    };
    let (scales, ended, origins) = (optional("scale")?, optional("ended")?, optional("origin")?);
    let Some(seeds) = batch.column_by_name("seed").map(wholes).transpose()?.flatten() else {
        bail!("the table has no column 'seed' of whole numbers");
    };
    let first = runs.len();
    for row in 0..batch.num_rows() {
        let needed = |of: &[Option<String>], name: &str| match &of[row] {
            Some(text) => Ok(text.clone()),
            None => bail!("row {row}: {name} is null"),
        };
        let Some(seed) = seeds[row] else { bail!("row {row}: seed is null") };
        let mut run = Run {
            policy: needed(&kernels, "kernel")?,
            workload: needed(&workloads, "workload")?,
            machine: place(&needed(&machines, "machine")?, scales[row].as_deref()),
            event_hash: needed(&hashes, "event_hash")?,
            seed,
            ended: ended[row].as_deref().map(end).transpose()?,
            origin: origin(origins[row].as_deref())?,
            ..Run::default()
        };
        described(&mut run, runs[first..].last())?;
        runs.push(run);
    }
    measured(batch, &mut runs[first..])
}

/// Returns the machine with its scale, as runs have it.
fn place(machine: &str, scale: Option<&str>) -> String {
    match scale {
        None | Some("1") => machine.to_owned(),
        Some(scale) => format!("{machine} at {scale}"),
    }
}

fn end(text: &str) -> Result<Ended> {
    match Ended::printed(text) {
        Some(ended) => Ok(ended),
        None => bail!(
            "ended '{text}': allowed: null for a run that finished, or how a run of a table ended"
        ),
    }
}

fn origin(word: Option<&str>) -> Result<Origin> {
    let Some(word) = word else { return Ok(Origin::Simulated) };
    let all = [Origin::Simulated, Origin::Replayed, Origin::Real];
    match all.into_iter().find(|origin| origin.word() == word) {
        Some(origin) => Ok(origin),
        None => bail!("origin '{word}': allowed: simulated, replayed, real"),
    }
}

/// Sets what is known of a run's kernel and workload; the run before may have the same.
fn described(run: &mut Run, before: Option<&Run>) -> Result<()> {
    let unit =
        |policy: &str| NamedPolicy::parse(policy).ok().map(|named| EventUnit::of(&named.policy));
    run.extfrag_unit = match before {
        Some(before) if before.policy == run.policy => before.extfrag_unit,
        _ => unit(&run.policy),
    };
    run.tables = match before {
        Some(before) if before.workload == run.workload => before.tables.clone(),
        _ => workload::find(&run.workload).map(workload::tables).transpose()?,
    };
    Ok(())
}

/// Sets the measures and the counters.
fn measured(batch: &RecordBatch, runs: &mut [Run]) -> Result<()> {
    let measures = measures_of(runs.iter().filter_map(|run| run.tables.as_ref()));
    let measures: Vec<(String, Measure)> =
        measures.into_iter().map(|of| (of.column(), of)).collect();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let name = field.name();
        if IDENTITY.contains(&name.as_str()) || Switch::find(name).is_some() {
            continue;
        }
        let measure = measures.iter().find(|(column, _)| column == name);
        let values = match (numbers(column)?, measure) {
            (Some(values), _) => values,
            (None, Some(_)) => {
                bail!("column '{name}' is of type {}; allowed: numbers", column.data_type());
            }
            (None, None) => continue,
        };
        for (run, value) in runs.iter_mut().zip(values) {
            match (value, measure) {
                (Some(value), Some((_, measure))) => run.measured.set(&measure.id, value),
                (Some(value), None) if value >= 0.0 => run.counters.set(name, value as u64),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the values of a column of text.
fn texts(column: &ArrayRef) -> Result<Vec<Option<String>>> {
    let own = |text: Option<&str>| text.map(str::to_owned);
    Ok(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().map(own).collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().map(own).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(own).collect(),
        DataType::Null => vec![None; column.len()],
        DataType::Dictionary(..) => {
            let of = column.as_any_dictionary();
            let words = texts(of.values())?;
            let keys = of.normalized_keys();
            let word = |(row, key): (usize, usize)| {
                if column.is_null(row) { None } else { words[key].clone() }
            };
            keys.into_iter().enumerate().map(word).collect()
        }
        other => bail!("the type is {other}; allowed: text"),
    })
}

/// Returns the values of a column of whole numbers from 0 on; `None` if it is none.
fn wholes(column: &ArrayRef) -> Result<Option<Vec<Option<u64>>>> {
    if column.data_type() == &DataType::UInt64 {
        return Ok(Some(column.as_primitive::<UInt64Type>().iter().collect()));
    }
    let whole = |value: Option<f64>| {
        value.filter(|value| *value >= 0.0 && value.fract() == 0.0).map(|value| value as u64)
    };
    Ok(numbers(column)?.map(|values| values.into_iter().map(whole).collect()))
}

/// Returns the values of a column of numbers; `None` if it is none.
fn numbers(column: &ArrayRef) -> Result<Option<Vec<Option<f64>>>> {
    fn of<T: ArrowPrimitiveType>(
        column: &ArrayRef,
        real: fn(T::Native) -> f64,
    ) -> Vec<Option<f64>> {
        // Not a number is what pandas has for a null.
        let value = |value: Option<T::Native>| value.map(real).filter(|value| !value.is_nan());
        column.as_primitive::<T>().iter().map(value).collect()
    }
    Ok(Some(match column.data_type() {
        DataType::UInt64 => of::<UInt64Type>(column, |value| value as f64),
        DataType::Int64 => of::<Int64Type>(column, |value| value as f64),
        DataType::Float64 => of::<Float64Type>(column, |value| value),
        DataType::Float32 => of::<Float32Type>(column, f64::from),
        DataType::UInt32 => of::<UInt32Type>(column, f64::from),
        DataType::UInt16 => of::<UInt16Type>(column, f64::from),
        DataType::UInt8 => of::<UInt8Type>(column, f64::from),
        DataType::Int32 => of::<Int32Type>(column, f64::from),
        DataType::Int16 => of::<Int16Type>(column, f64::from),
        DataType::Int8 => of::<Int8Type>(column, f64::from),
        DataType::Null => vec![None; column.len()],
        _ => return Ok(None),
    }))
}
