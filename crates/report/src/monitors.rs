//! The output of mmtests' monitors below a benchmark: the Duration block and the vmstat block.

use pageblock_measure::compare::common::Column;
use pageblock_measure::compare::monitors::MonitorRow;

use crate::mmtests::{Bracket, Cell, FIELD_DEFAULT, FIELD_VMSTAT, MmtestsRow, Table};

/// Prints the Duration block, in seconds; empty without rows.
#[must_use]
pub fn duration(columns: &[Column], rows: &[MonitorRow]) -> String {
    block("Duration", FIELD_DEFAULT, columns, rows)
}

/// Prints the vmstat block; empty without rows.
#[must_use]
pub fn vmstat(columns: &[Column], rows: &[MonitorRow]) -> String {
    block("Ops", FIELD_VMSTAT, columns, rows)
}

fn block(statistic: &str, field: usize, columns: &[Column], rows: &[MonitorRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cell = |&value: &Option<f64>| Cell { value, ..Cell::default() };
    let row = |row: &MonitorRow| MmtestsRow {
        statistic: statistic.to_owned(),
        operation: row.label.clone(),
        cells: row.values.iter().map(cell).collect(),
    };
    let table = Table {
        columns: columns.to_vec(),
        field,
        bracket: Bracket::None,
        rows: rows.iter().map(row).collect(),
        significance: Vec::new(),
    };
    table.print()
}
