//! The tables of a workload.

mod iterations;
mod operations;
mod state;

use pageblock_measure::compare::common::Column;
use pageblock_measure::tables::Table;

/// Prints the tables one after another.
#[must_use]
pub fn print(columns: &[Column], tables: &[Table]) -> String {
    let one = |table: &Table| match table {
        Table::Operations(operations) => operations::print(columns, operations),
        Table::Iterations(iterations) => iterations::print(columns, iterations),
        Table::State(states) => state::print(states),
    };
    tables.iter().map(one).collect()
}
