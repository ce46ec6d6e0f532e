//! The table of a sweep: a row a run, as Arrow.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pageblock_kernel::Switch;
use pageblock_measure::catalogue::Measure;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::columns::{
    IDENTITY, counter_field, measure_field, measures_of, provenance, switch_field, switches_of,
    tables_of,
};
use super::{Journal, Row, to_json};
use crate::columns::field;
use crate::error::{Error, Result, bail};

/// So many rows are in memory at a time when the table is written.
const ROWS: usize = 1024;

/// A column as it grows.
enum Builder {
    Text(StringBuilder),
    Count(UInt64Builder),
    Number(Int64Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn of(field: &Field) -> Self {
        match field.data_type() {
            DataType::UInt64 => Self::Count(UInt64Builder::new()),
            DataType::Int64 => Self::Number(Int64Builder::new()),
            DataType::Float64 => Self::Real(Float64Builder::new()),
            DataType::Boolean => Self::Flag(BooleanBuilder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    /// Appends what a switch, or an identity, is as text.
    fn text(&mut self, value: Option<&str>) {
        match self {
            Self::Text(of) => of.append_option(value),
            Self::Count(of) => of.append_option(value.and_then(|text| text.parse().ok())),
            Self::Number(of) => of.append_option(value.and_then(|text| text.parse().ok())),
            Self::Real(of) => of.append_option(value.and_then(|text| text.parse().ok())),
            Self::Flag(of) => of.append_option(value.map(|text| text == "on")),
        }
    }

    /// Appends a measured value: counts are whole numbers.
    fn value(&mut self, value: Option<f64>) {
        match self {
            Self::Number(of) => of.append_option(value.map(|value| value as i64)),
            Self::Real(of) => of.append_option(value),
            _ => debug_assert!(false, "a measure is a count or a real number"),
        }
    }

    /// Appends a counter.
    fn count(&mut self, name: &str, value: Option<u64>) -> Result<()> {
        let Self::Number(of) = self else {
            debug_assert!(false, "a counter is a whole number");
            return Ok(());
        };
        match value.map(i64::try_from).transpose() {
            Ok(value) => of.append_option(value),
            Err(_) => bail!("the table of the sweep: {name} is larger than {}", i64::MAX),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Text(of) => Arc::new(of.finish()),
            Self::Count(of) => Arc::new(of.finish()),
            Self::Number(of) => Arc::new(of.finish()),
            Self::Real(of) => Arc::new(of.finish()),
            Self::Flag(of) => Arc::new(of.finish()),
        }
    }
}

/// The table as it grows: what was run, the switches that differ, the complete kernel as JSON, the measures, every counter.
struct Columns {
    schema: SchemaRef,
    switches: Vec<Switch>,
    measures: Vec<Measure>,
    counters: Vec<String>,
    builders: Vec<Builder>,
}

impl Columns {
    fn new(journal: &Journal) -> Result<Self> {
        let switches = switches_of(journal.cells())?;
        let measures = measures_of(&tables_of(journal.cells(), journal.loads())?);
        let counters: Vec<String> = journal.counters().iter().cloned().collect();
        let fits = journal.cells().iter().all(|cell| i64::try_from(cell.seed).is_ok());
        let seed = if fits { DataType::Int64 } else { DataType::UInt64 };
        let identity = IDENTITY.iter().map(|name| {
            let kind = if *name == "seed" { seed.clone() } else { DataType::Utf8 };
            field("sweep", name, kind)
        });
        let fields: Vec<Field> = identity
            .chain(switches.iter().map(|switch| switch_field(*switch)))
            .chain(measures.iter().map(measure_field))
            .chain(counters.iter().map(|name| counter_field(name)))
            .collect();
        let builders = fields.iter().map(Builder::of).collect();
        let about = provenance(journal.grid(), journal.cells())?;
        let schema = Arc::new(Schema::new_with_metadata(fields, about));
        Ok(Self { schema, switches, measures, counters, builders })
    }

    fn push(&mut self, row: &Row) -> Result<()> {
        let (cell, resolved) = (&row.cell, to_json(&row.resolved)?);
        let seed = cell.seed.to_string();
        let identity: [Option<&str>; IDENTITY.len()] = [
            Some(&cell.workload),
            Some(&cell.kernel),
            Some(&cell.machine),
            Some(&cell.scale),
            Some(&seed),
            Some(&row.event_hash),
            row.ended.as_deref(),
            Some(&resolved),
        ];
        let mut builders = self.builders.iter_mut();
        for (value, builder) in identity.into_iter().zip(&mut builders) {
            builder.text(value);
        }
        for (switch, builder) in self.switches.iter().zip(&mut builders) {
            builder.text(row.resolved.get(switch.name()).map(String::as_str));
        }
        for (measure, builder) in self.measures.iter().zip(&mut builders) {
            builder.value(row.measures.get(&*measure.id).copied());
        }
        for (name, builder) in self.counters.iter().zip(&mut builders) {
            builder.count(name, row.counters.get(name).copied())?;
        }
        Ok(())
    }

    /// Returns what was pushed, and begins again.
    fn finish(&mut self) -> Result<RecordBatch> {
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        match RecordBatch::try_new(Arc::clone(&self.schema), arrays) {
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
    let mut columns = Columns::new(journal)?;
    for row in journal.rows()? {
        columns.push(&row?)?;
    }
    columns.finish()
}

/// Saves the table as Parquet, a part of the rows at a time.
pub(super) fn save(path: &Path, journal: &Journal) -> Result<()> {
    let mut columns = Columns::new(journal)?;
    let schema = Arc::clone(&columns.schema);
    // Readers without Arrow's schema, such as DuckDB, have the file's own entries.
    let mut about: Vec<KeyValue> = schema
        .metadata()
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
        .collect();
    about.sort_by(|a, b| a.key.cmp(&b.key));
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_key_value_metadata(Some(about))
        .build();
    let wrong = |error| Error::Asked(format!("{}: {error}", path.display()));
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
