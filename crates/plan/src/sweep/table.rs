//! The table of a sweep: a row a run, as Arrow.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use pageblock_measure::catalogue::deciding::measures;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Journal, Row, to_json};
use crate::error::{Result, bail};

/// So many rows are in memory at a time when the table is written.
const ROWS: usize = 1024;

/// The table as it grows: what was run, the complete kernel as JSON, the event hash, the measures that decide, every counter.
struct Columns {
    workload: StringBuilder,
    kernel: StringBuilder,
    machine: StringBuilder,
    scale: StringBuilder,
    seed: UInt64Builder,
    event_hash: StringBuilder,
    ended: StringBuilder,
    resolved: StringBuilder,
    measures: Vec<(&'static str, Float64Builder)>,
    counters: Vec<(String, UInt64Builder)>,
}

impl Columns {
    fn new(counters: &BTreeSet<String>) -> Self {
        let measure = |name| (name, Float64Builder::new());
        Self {
            workload: StringBuilder::new(),
            kernel: StringBuilder::new(),
            machine: StringBuilder::new(),
            scale: StringBuilder::new(),
            seed: UInt64Builder::new(),
            event_hash: StringBuilder::new(),
            ended: StringBuilder::new(),
            resolved: StringBuilder::new(),
            measures: measures().iter().map(|of| measure(&*of.label)).collect(),
            counters: counters.iter().map(|name| (name.clone(), UInt64Builder::new())).collect(),
        }
    }

    fn push(&mut self, row: &Row) -> Result<()> {
        self.workload.append_value(&row.cell.workload);
        self.kernel.append_value(&row.cell.kernel);
        self.machine.append_value(&row.cell.machine);
        self.scale.append_value(&row.cell.scale);
        self.seed.append_value(row.cell.seed);
        self.event_hash.append_value(&row.event_hash);
        self.ended.append_option(row.ended.as_ref());
        self.resolved.append_value(to_json(&row.resolved)?);
        for (name, column) in &mut self.measures {
            column.append_option(row.measures.get(*name).copied());
        }
        for (name, column) in &mut self.counters {
            column.append_option(row.counters.get(name).copied());
        }
        Ok(())
    }

    /// Returns what was pushed, and begins again.
    fn finish(&mut self) -> Result<RecordBatch> {
        let text = |name: &str, column: &mut StringBuilder| -> (String, ArrayRef) {
            (name.to_owned(), Arc::new(column.finish()))
        };
        let mut columns: Vec<(String, ArrayRef)> = vec![
            text("workload", &mut self.workload),
            text("kernel", &mut self.kernel),
            text("machine", &mut self.machine),
            text("scale", &mut self.scale),
            ("seed".to_owned(), Arc::new(self.seed.finish())),
            text("event_hash", &mut self.event_hash),
            text("ended", &mut self.ended),
            text("resolved_kernel", &mut self.resolved),
        ];
        for (name, column) in &mut self.measures {
            columns.push(((*name).to_owned(), Arc::new(column.finish())));
        }
        for (name, column) in &mut self.counters {
            columns.push((name.clone(), Arc::new(column.finish())));
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
}

/// Returns the table of what is done.
///
/// # Errors
/// If the journal cannot be read.
pub fn batch(journal: &Journal) -> Result<RecordBatch> {
    let mut columns = Columns::new(journal.counters());
    for row in journal.rows()? {
        columns.push(&row?)?;
    }
    columns.finish()
}

/// Saves the table as Parquet, a part of the rows at a time.
pub(super) fn save(path: &Path, journal: &Journal) -> Result<()> {
    let mut columns = Columns::new(journal.counters());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let schema = columns.finish()?.schema();
    let wrong = |error| crate::error::Error::Asked(format!("{}: {error}", path.display()));
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).map_err(wrong)?;
    for (number, row) in (1..).zip(journal.rows()?) {
        columns.push(&row?)?;
        if number % ROWS == 0 {
            writer.write(&columns.finish()?).map_err(wrong)?;
        }
    }
    writer.write(&columns.finish()?).map_err(wrong)?;
    let bytes = writer.into_inner().map_err(wrong)?;
    Ok(pageblock_measure::value::file::save_bytes(path, &bytes)?)
}
