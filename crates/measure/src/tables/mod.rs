//! A workload's tables and measures as data: they are stored beside the workload and in each of its
//! saved runs, so that a comparison needs no knowledge of workloads.

pub mod iterations;
pub mod measures;
pub mod operations;
pub mod state;

use serde::{Deserialize, Serialize};

use self::iterations::{Iterations, IterationsSpec};
use self::measures::MeasuresSpec;
use self::operations::{Operations, OperationsSpec, SharesSpec};
use self::state::{StateSpec, States};
use crate::clock;
use crate::error::Error;
use crate::multiops::StarRule;
use crate::origin::Origin;
use crate::run::Run;
use crate::seeds::by_policy;

/// What stands in a title for where the runs come from: `simulated`.
const ORIGIN: &str = "{origin}";

/// The tables and measures of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// The tables, in the order in which they are printed.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableSpec>,
    /// Measures over seeds in addition to those that every run has.
    #[serde(default, rename = "measures", skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasuresSpec>,
}

/// The specification of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TableSpec {
    /// Statistics of samples, one operation after another, as in mmtests.
    Statistics(OperationsSpec),
    /// The mean of the samples of each operation.
    Means(OperationsSpec),
    /// The share of one kind of samples in the sum of two.
    Shares(SharesSpec),
    /// Values of consecutive iterations.
    Iterations(IterationsSpec),
    /// The state of the machine at the end, as in the files of `/proc`.
    State(StateSpec),
}

/// The layout of an mmtests table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Since 2017: fields of 12 characters, percentages of seven.
    #[serde(rename = "mmtests-2018")]
    Mmtests2018,
    /// Before 2017: fields of 18 characters, percentages of six.
    #[serde(rename = "mmtests-before-2017")]
    MmtestsBefore2017,
}

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

/// Returns a title that says where the runs come from.
pub(crate) fn titled(title: &str, runs: &[Run]) -> String {
    title.replace(ORIGIN, &Origin::words(runs))
}

/// Computes the tables of the runs' workload; tables without data in the runs are omitted.
///
/// # Errors
/// [`Error::Baseline`] (of the policies).
pub fn of_runs(runs: &[Run], baseline: usize, stars: StarRule) -> Result<Vec<Table>, Error> {
    let policies = by_policy(runs);
    let timed = |table, spec: &OperationsSpec| {
        let is_count = |operation: &str| spec.is_count(operation);
        clock::without_emulated_times(table, &is_count, &policies, baseline)
    };
    let mut tables = Vec::new();
    for spec in of_workloads(runs).flat_map(|tables| &tables.tables) {
        let table = match spec {
            TableSpec::Statistics(spec) => {
                let table = spec.statistics(&policies, baseline, stars)?;
                table.and_then(|table| timed(table, spec)).map(Table::Operations)
            }
            TableSpec::Means(spec) => {
                let table = spec.means(&policies, baseline)?;
                table.and_then(|table| timed(table, spec)).map(Table::Operations)
            }
            TableSpec::Shares(spec) => spec.table(&policies, baseline)?.map(Table::Operations),
            TableSpec::Iterations(spec) => spec.table(&policies, baseline)?.map(Table::Iterations),
            TableSpec::State(spec) => spec.table(&policies).map(Table::State),
        };
        tables.extend(table.map(|table| table.of_origin(runs)));
    }
    Ok(tables)
}

/// Returns the tables and measures of the runs' workloads, of each workload once; forms of a workload share them.
pub(crate) fn of_workloads(runs: &[Run]) -> impl Iterator<Item = &Tables> {
    let mut seen: Vec<(&str, &Tables)> = Vec::new();
    for run in runs {
        if let Some(tables) = &run.tables
            && !seen.iter().any(|&(name, known)| name == run.workload || known == tables)
        {
            seen.push((&run.workload, tables));
        }
    }
    seen.into_iter().map(|(_, tables)| tables)
}
