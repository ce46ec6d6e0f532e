//! The table of a sweep: a row a run, as Arrow.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use pageblock_measure::summary::measures;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::Row;
use crate::error::{Result, bail};

/// Returns the table: what was run, the complete kernel as JSON, the event hash, the measures that decide, every counter.
///
/// # Errors
/// If Arrow refuses a column.
pub fn batch(rows: &[&Row]) -> Result<RecordBatch> {
    let text = |get: fn(&Row) -> &str| {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| get(row)))) as ArrayRef
    };
    let kernels = rows.iter().map(|row| serde_json::to_string(&row.resolved).unwrap_or_default());
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("workload".into(), text(|row| &row.cell.workload)),
        ("kernel".into(), text(|row| &row.cell.kernel)),
        ("machine".into(), text(|row| &row.cell.machine)),
        ("scale".into(), text(|row| &row.cell.scale)),
        (
            "seed".into(),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.cell.seed))),
        ),
        ("event_hash".into(), text(|row| &row.event_hash)),
        (
            "ended".into(),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.ended.as_ref()))),
        ),
        ("resolved_kernel".into(), Arc::new(StringArray::from_iter_values(kernels))),
    ];
    for spec in measures() {
        let values = rows.iter().map(|row| row.measures.get(spec.name()).copied());
        columns.push((spec.name().to_owned(), Arc::new(Float64Array::from_iter(values))));
    }
    let counters: BTreeSet<&String> = rows.iter().flat_map(|row| row.counters.keys()).collect();
    for name in counters {
        let values = rows.iter().map(|row| row.counters.get(name).copied());
        columns.push((name.clone(), Arc::new(UInt64Array::from_iter(values))));
    }
    let field =
        |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    match RecordBatch::try_new(Arc::new(schema), arrays) {
        Ok(batch) => Ok(batch),
        Err(error) => bail!("the table of the sweep: {error}"),
    }
}

/// Saves the table as Parquet.
pub(super) fn save<'r>(path: &Path, rows: impl Iterator<Item = &'r Row>) -> Result<()> {
    let rows: Vec<&Row> = rows.collect();
    let batch = batch(&rows)?;
    let written = || -> std::result::Result<Vec<u8>, ParquetError> {
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.into_inner()
    };
    match written() {
        Ok(bytes) => Ok(pageblock_measure::file::save_bytes(path, &bytes)?),
        Err(error) => bail!("{}: {error}", path.display()),
    }
}
