//! The tables of a workload, computed from its runs as [`crate::run::tables`] says.

mod emulated;
pub mod iterations;
pub mod operations;
pub mod state;

use serde::Serialize;

use self::iterations::Iterations;
use self::operations::Operations;
use self::state::States;
use crate::run::Run;
use crate::run::policies::{Policies, of_workloads, titled};
use crate::run::tables::{OperationsSpec, TableSpec};
use crate::statistics::multiops::StarRule;
use crate::value::error::Error;

/// A table with its values.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Table {
    /// A row for each operation, or each statistic of one.
    Operations(Operations),
    /// Values of consecutive iterations.
    Iterations(Iterations),
    /// The state of the machine at the end under each policy.
    State(States),
}

impl Table {
    /// Puts in the title where the runs come from.
    fn of_origin(mut self, runs: &[Run]) -> Self {
        if let Self::Operations(Operations { title, .. })
        | Self::Iterations(Iterations { title, .. }) = &mut self
        {
            *title = titled(title, runs);
        }
        self
    }
}

/// Computes the tables of the runs' workload; tables without data in the runs are omitted.
///
/// # Errors
/// [`Error::Baseline`] (of the policies).
pub fn of(policies: &Policies<'_>, baseline: usize, stars: StarRule) -> Result<Vec<Table>, Error> {
    let runs = policies.runs();
    let timed = |table, spec: &OperationsSpec| {
        let is_count = |operation: &str| spec.is_count(operation);
        emulated::without_emulated_times(table, &is_count, policies, baseline)
    };
    let mut tables = Vec::new();
    for spec in of_workloads(runs).flat_map(|tables| &tables.tables) {
        let table = match spec {
            TableSpec::Statistics(spec) => {
                let table = spec.statistics(policies, baseline, stars)?;
                table.and_then(|table| timed(table, spec)).map(Table::Operations)
            }
            TableSpec::Means(spec) => {
                let table = spec.means(policies, baseline)?;
                table.and_then(|table| timed(table, spec)).map(Table::Operations)
            }
            TableSpec::Shares(spec) => spec.table(policies, baseline)?.map(Table::Operations),
            TableSpec::Iterations(spec) => spec.table(policies, baseline)?.map(Table::Iterations),
            TableSpec::State(spec) => spec.table(policies).map(Table::State),
        };
        tables.extend(table.map(|table| table.of_origin(runs)));
    }
    Ok(tables)
}
