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
use pageblock_measure::{Origin, Run};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::columns::{IDENTITY, counter_of, measures_of};
use super::journal::{JOURNAL, RESULT};
use crate::by_name;
use crate::error::{Error, Place, Result, bail};

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
    let first = runs.len();
    let seeds = seeds(batch, first)?;
    for row in 0..batch.num_rows() {
        let needed = |of: &[Option<String>], name: &str| match &of[row] {
            Some(text) => Ok(text.clone()),
            None => bail!("row {}: {name} is null", first + row),
        };
        runs.push(Run {
            policy: needed(&kernels, "kernel")?,
            workload: needed(&workloads, "workload")?,
            machine: place(&needed(&machines, "machine")?, scales[row].as_deref()),
            event_hash: needed(&hashes, "event_hash")?,
            seed: seeds[row],
            ended: ended[row].as_deref().map(end).transpose()?,
            origin: origin(origins[row].as_deref())?,
            ..Run::default()
        });
    }
    by_name::complete(&mut runs[first..])?;
    measured(batch, first, &mut runs[first..])
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

/// Sets the measures and the counters of the runs of a batch, whose first row has this number in the table.
fn measured(batch: &RecordBatch, first: usize, runs: &mut [Run]) -> Result<()> {
    let measures = measures_of(runs.iter().filter_map(|run| run.tables.as_ref()));
    let measures: Vec<(String, Measure)> =
        measures.into_iter().map(|of| (of.column(), of)).collect();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let name = field.name();
        if IDENTITY.contains(&name.as_str()) || Switch::find(name).is_some() {
            continue;
        }
        let measure = measures.iter().find(|(column, _)| column == name);
        let values = match (numbers(column), measure) {
            (Some(values), _) => values,
            (None, Some(_)) => {
                bail!("column '{name}' is of type {}; allowed: numbers", column.data_type());
            }
            (None, None) => continue,
        };
        let Some((_, measure)) = measure else {
            // Other numbers than counts are the user's own.
            if values.iter().flatten().all(is_count) {
                for (run, value) in runs.iter_mut().zip(values) {
                    value
                        .into_iter()
                        .for_each(|value| run.counters.set(counter_of(name), value as u64));
                }
            }
            continue;
        };
        for (row, (run, value)) in runs.iter_mut().zip(values).enumerate() {
            let Some(value) = value else { continue };
            if !value.is_finite() || value < 0.0 {
                bail!("row {}: {name} {value}: allowed: numbers from 0 on", first + row);
            }
            run.measured.set(&measure.id, value);
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

/// Returns the seeds of a batch whose first row has this number in the table.
fn seeds(batch: &RecordBatch, first: usize) -> Result<Vec<u64>> {
    let column = batch.column_by_name("seed");
    let Some((column, values)) = column.and_then(|column| Some((column, numbers(column)?))) else {
        bail!("the table has no column 'seed' of whole numbers");
    };
    // A floating-point number does not hold every seed.
    let exact: Vec<Option<u64>> = match column.data_type() {
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().collect(),
        DataType::Int64 => {
            let seed = |seed: Option<i64>| seed.and_then(|seed| u64::try_from(seed).ok());
            column.as_primitive::<Int64Type>().iter().map(seed).collect()
        }
        _ => values.iter().map(|seed| seed.filter(is_count).map(|seed| seed as u64)).collect(),
    };
    let seed = |(row, (exact, value))| match (exact, value) {
        (Some(seed), _) => Ok(seed),
        (None, Some(value)) => {
            bail!("row {}: seed {value}: allowed: whole numbers from 0 on", first + row)
        }
        (None, None) => bail!("row {}: seed is null", first + row),
    };
    exact.into_iter().zip(values).enumerate().map(seed).collect()
}

/// Reports whether a number is a whole one from 0 on.
fn is_count(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0 && value.fract() == 0.0
}

/// Returns the values of a column of numbers; `None` if it is none.
fn numbers(column: &ArrayRef) -> Option<Vec<Option<f64>>> {
    fn of<T: ArrowPrimitiveType>(
        column: &ArrayRef,
        real: fn(T::Native) -> f64,
    ) -> Vec<Option<f64>> {
        // Not a number is what pandas has for a null.
        let value = |value: Option<T::Native>| value.map(real).filter(|value| !value.is_nan());
        column.as_primitive::<T>().iter().map(value).collect()
    }
    Some(match column.data_type() {
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
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    /// Returns two runs with these seeds and further columns.
    fn batch(seeds: ArrayRef, more: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; 2])) };
        let mut columns = vec![
            ("workload", text("hugealloc-short")),
            ("kernel", text("linux-6.9")),
            ("machine", text("weiner-1g8")),
            ("event_hash", text("00")),
            ("seed", seeds),
        ];
        columns.extend(more);
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn whole(seeds: [i64; 2]) -> ArrayRef {
        Arc::new(Int64Array::from(seeds.to_vec()))
    }

    fn real(values: [f64; 2]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    #[track_caller]
    fn refused(batches: Vec<RecordBatch>, words: &str) {
        let error = runs_of(batches.into_iter().map(Ok)).unwrap_err().to_string();
        assert_eq!(error, words);
    }

    #[test]
    fn wrong_rows_are_numbered_in_the_table() {
        let first = || batch(whole([1, 2]), Vec::new());
        refused(
            vec![first(), batch(whole([3, -4]), Vec::new())],
            "row 3: seed -4: allowed: whole numbers from 0 on",
        );
        refused(
            vec![first(), batch(real([3.0, 0.5]), Vec::new())],
            "row 3: seed 0.5: allowed: whole numbers from 0 on",
        );
        refused(vec![first(), batch(real([3.0, f64::NAN]), Vec::new())], "row 3: seed is null");
        for wrong in [-1.0, f64::INFINITY] {
            let stalls = vec![("allocation_stalls", real([5.0, wrong]))];
            refused(
                vec![first(), batch(whole([3, 4]), stalls)],
                &format!("row 3: allocation_stalls {wrong}: allowed: numbers from 0 on"),
            );
        }
    }

    #[test]
    fn large_seeds_are_exact_and_only_counts_are_counters() {
        let large = (1 << 53) + 1;
        let more = vec![
            ("allocation_stalls", real([5.0, f64::NAN])),
            ("pgfault", real([7.0, f64::NAN])),
            ("share", real([0.5, 3.0])),
        ];
        let runs = runs_of([Ok(batch(whole([large - 1, large]), more))]).unwrap();
        assert_eq!([runs[0].seed, runs[1].seed], [(1 << 53), (1 << 53) + 1]);
        assert_eq!(runs[0].measured.get("allocation-stalls"), Some(5.0));
        assert_eq!(runs[1].measured.get("allocation-stalls"), None);
        let counters: Vec<(&str, u64)> = runs[0].counters.iter().collect();
        assert_eq!(counters, [("pgfault", 7)]);
        assert_eq!(runs[1].counters.iter().count(), 0);
    }
}
