//! The table of a fleet: a row a machine, as Arrow and as Parquet.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use pageblock_doctor::fleet::Row;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::columns::{counts, described, field};
use crate::error::{Result, bail};

/// Returns the table: columns of what is known of every machine, then `held_*_mib` and the rates that some have.
///
/// # Errors
/// If there is a column twice, which is a defect.
pub fn batch(rows: &[Row]) -> Result<RecordBatch> {
    let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
    let named =
        |name: &str, array: ArrayRef| (field("fleet", name, array.data_type().clone()), array);
    type Text = fn(&Row) -> Option<String>;
    let texts: [(&str, Text); 17] = [
        ("host", |row| Some(row.host.clone())),
        ("source", |row| Some(row.source.clone())),
        ("path", |row| Some(row.path.clone())),
        ("error", |row| row.error.clone()),
        ("missing", |row| row.missing.clone()),
        ("kernel", |row| row.kernel.clone()),
        ("kernel_version", Row::kernel_version),
        ("fragmented", |row| row.fragmented.clone()),
        ("hurts", |row| row.hurts.clone()),
        ("severity", |row| row.severity.clone()),
        ("finding", |row| row.findings.first().cloned()),
        ("findings", |row| (!row.findings.is_empty()).then(|| row.findings.join(","))),
        ("first", |row| row.first.clone()),
        ("class", |row| row.class.clone()),
        ("last_failure", |row| row.last_failure.clone()),
        ("last_kill", |row| row.last_kill.clone()),
        ("holder", |row| row.holder().map(str::to_owned)),
    ];
    for (name, of) in texts {
        let array: StringArray = rows.iter().map(of).collect();
        columns.push(named(name, Arc::new(array)));
    }
    type Count = fn(&Row) -> Option<u64>;
    let whole: [(&str, Count); 5] = [
        ("total_mib", |row| row.total_mib),
        ("free_mib", |row| row.free_mib),
        ("failures", |row| row.error.is_none().then_some(row.failures)),
        ("page_order", |row| row.page_order.map(u64::from)),
        ("oom_kills", |row| row.error.is_none().then_some(row.oom_kills)),
    ];
    for (name, of) in whole {
        columns.push(named(name, counts(rows.iter().map(of))));
    }
    type Figure = fn(&Row) -> Option<f64>;
    let figures: [(&str, Figure); 4] = [
        ("uptime_s", |row| row.uptime_s),
        ("unusable_order_3", |row| row.unusable_order_3),
        ("unusable_pageblock", |row| row.unusable_pageblock),
        ("index_pageblock", |row| row.index_pageblock),
    ];
    for (name, of) in figures {
        let array: Float64Array = rows.iter().map(of).collect();
        columns.push(named(name, Arc::new(array)));
    }
    let held: BTreeSet<&String> = rows.iter().flat_map(|row| row.held_mib.keys()).collect();
    for holder in held {
        let array = counts(rows.iter().map(|row| row.held_mib.get(holder).copied()));
        let name = format!("held_{holder}_mib");
        let defined = format!("memory of {}", holder.replace('_', " "));
        columns.push((figure(&name, &array, "MiB", &defined), array));
    }
    let rates: BTreeSet<&String> = rows.iter().flat_map(|row| row.rates.keys()).collect();
    for name in rates {
        let array: Float64Array = rows.iter().map(|row| row.rates.get(name).copied()).collect();
        let (unit, defined) = match name {
            _ if name.ends_with("_per_hour") => ("events an hour", "since boot"),
            _ if name.ends_with("_percent") => {
                ("percent of time", "some task waited for memory (avg300)")
            }
            _ => ("a second", "between two samples"),
        };
        let array: ArrayRef = Arc::new(array);
        columns.push((figure(name, &array, unit, defined), array));
    }
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    match RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays) {
        Ok(batch) => Ok(batch),
        Err(error) => bail!("the table of the fleet: {error}"),
    }
}

/// Returns the field of a figure that some hosts have.
fn figure(name: &str, array: &ArrayRef, unit: &str, defined: &str) -> Field {
    let label = name.replace('_', " ");
    described(
        Field::new(name, array.data_type().clone(), true),
        [("label", label.as_str()), ("unit", unit), ("defined", defined)],
    )
}

/// Saves the table as Parquet.
///
/// # Errors
/// If the file cannot be written.
pub fn save(path: &Path, rows: &[Row]) -> Result<()> {
    let batch = batch(rows)?;
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let wrong = |error| crate::error::Error::Asked(format!("{}: {error}", path.display()));
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(wrong)?;
    writer.write(&batch).map_err(wrong)?;
    let bytes = writer.into_inner().map_err(wrong)?;
    Ok(pageblock_measure::value::file::save_bytes(path, &bytes)?)
}
