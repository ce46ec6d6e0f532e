//! Comparisons of kernels: of runs, of files, and of tables of runs.

use std::path::PathBuf;

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::run::policies::Policies;
use pageblock_measure::statistics::multiops::StarRule;
use pageblock_plan::compare::{Given, compared, groups, is_table, load_file, published_table};
use pageblock_plan::error::Error;
use pageblock_plan::sweep::runs_of;
use pageblock_report::chosen::Tables;
use pageblock_report::json::one_or_several;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments;
use crate::error::{asked, failed};
use crate::import;
use crate::kernel::KernelArgument;
use crate::report::Report;
use crate::run_tables;
use crate::runs::Runs;
use crate::work::work;

/// How runs are compared.
pub(crate) struct Wanted {
    baseline: Option<String>,
    published: bool,
    stars: StarRule,
    tables: Tables,
}

impl Wanted {
    /// Reads what was asked for.
    pub(crate) fn new(
        baseline: Option<KernelArgument<'_>>,
        published: bool,
        stars: &str,
        tables: &str,
    ) -> PyResult<Self> {
        let stars = match stars {
            "classic" => StarRule::Classic,
            "modern" => StarRule::Modern,
            "off" => StarRule::Off,
            _ => return Err(asked(format!("stars '{stars}': allowed: classic, modern, off"))),
        };
        // Of a policy file, and of what saved runs have, the name is enough.
        let baseline = match baseline {
            Some(KernelArgument::Kernel(kernel)) => Some(kernel.get().policy.name.clone()),
            Some(KernelArgument::Text(text)) => Some(text),
            Some(KernelArgument::File(path)) => Some(path.display().to_string()),
            None => None,
        };
        Ok(Self { baseline, published, stars, tables: Tables::parse(tables) })
    }

    fn comparison(&self, runs: Vec<Run>) -> Result<FullComparison, Error> {
        let published = self.published.then(|| published_table(&runs)).transpose()?;
        let mut options = Options { stars: self.stars, ..Options::default() };
        if let Some(baseline) = &self.baseline {
            let names: Vec<&str> =
                Policies::of(&runs).iter().map(|policy| policy[0].policy.as_str()).collect();
            let Some(at) = names.iter().position(|name| name == baseline) else {
                return Err(Error::Asked(format!(
                    "baseline '{baseline}': there is no such kernel among {}",
                    names.join(" ")
                )));
            };
            options.baseline = at;
        }
        compared(runs, &options, published)
    }
}

/// Runs, a file of saved ones, or a table of runs.
enum Source<'py> {
    Runs(Bound<'py, Runs>),
    Table(Bound<'py, PyAny>),
    File(PathBuf),
}

impl<'py> Source<'py> {
    fn of(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(runs) = given.cast::<Runs>() {
            return Ok(Self::Runs(runs.clone()));
        }
        if given.hasattr("__arrow_c_stream__")? {
            return Ok(Self::Table(given.clone()));
        }
        match given.extract::<PathBuf>() {
            Ok(path) => Ok(Self::File(path)),
            Err(_) => {
                let kind = given.get_type().name()?;
                Err(asked(format!(
                    "runs: a {kind}; allowed: Runs, a path, and a table of runs (of a sweep, Polars, pandas, PyArrow, DuckDB)"
                )))
            }
        }
    }

    /// Returns its name, its runs, and whether it is a table, which may have several workloads.
    fn read(self, py: Python<'_>) -> PyResult<(String, Vec<Run>, bool)> {
        match self {
            Self::Runs(runs) => Ok(("runs".to_owned(), Vec::clone(&runs.get().runs), false)),
            Self::Table(table) => {
                let batches = import::stream(&table)?;
                let read = batches
                    .map(|batch| batch.map_err(|error| Error::Asked(import::unread(&error))));
                Ok(("table".to_owned(), runs_of(read).map_err(failed)?, true))
            }
            Self::File(path) => {
                let (name, tabular) = (path.display().to_string(), is_table(&path));
                Ok((name, work(py, move |_| Ok(load_file(&path)?))?, tabular))
            }
        }
    }
}

/// Compares runs: of `Runs`, of files that `save`, `pageblock run --save` or `pageblock guest run` wrote, or of a table: what
/// `sweep` returns, its folder or its Parquet file, or the rows that a data frame or a query has left of it. The first kernel is the
/// baseline, or the one that `baseline` names. Tables are compared for each workload, machine and scale of their own.
///
/// The table has a row for each measure and kernel: `workload`, `machine`, `scale`, `measure` (its name in `measures()`), `column_name` (its
/// name in a table of runs), `label` (what is printed), `unit`, `direction` (`lower` or `higher` is better), `is_primary` (whether the
/// workload names it as one that decides), `kernel`, `baseline` (the kernel that it is compared with), `runs`, `mean`, `least` and `most`,
/// `change` (a share of the baseline; null for the baseline), `low` and `high` (its interval over seeds), `p` (rank-sum test; adjusted for
/// measures that are not primary), `level` (the p that decides a primary measure), `verdict` (`better`, `worse`, `unchanged`,
/// `undecided`, `identical`, `open`); of replays also `supported` (`yes`, `large changes`, `no`, `none recorded`, `rare`, `unknown`), `margin`
/// (the replay's own error, a share), `least_ratio` (what a change exceeds to be marked; null where what-ifs were not shown to be right)
/// and `grade` (of the recording). `force` compares what runs of different
/// workloads, machines or scales have in common; `published` puts the published table beside; `stars` is mmtests' rule. The text has
/// the `tables` below its summary that `pageblock compare --tables` has: `summary` (none), `all`, those with a text in their title.
#[pyfunction]
#[pyo3(signature = (*runs, baseline = None, force = false, published = false, stars = "classic".to_owned(), tables = "summary".to_owned()))]
pub(crate) fn compare(
    py: Python<'_>,
    runs: &Bound<'_, PyTuple>,
    #[pyo3(from_py_with = arguments::baseline)] baseline: Option<KernelArgument<'_>>,
    #[pyo3(from_py_with = arguments::force)] force: bool,
    #[pyo3(from_py_with = arguments::published)] published: bool,
    #[pyo3(from_py_with = arguments::stars)] stars: String,
    #[pyo3(from_py_with = arguments::tables)] tables: String,
) -> PyResult<Report> {
    let wanted = Wanted::new(baseline, published, &stars, &tables)?;
    let (mut sources, mut tabular) = (Vec::new(), false);
    for given in runs {
        let (name, runs, is_table) = Source::of(&given)?.read(py)?;
        sources.push((name, runs));
        tabular |= is_table;
    }
    compare_groups(py, groups(sources, Given::with(tabular), force).map_err(failed)?, wanted)
}

/// Compares the runs of each group among themselves.
pub(crate) fn compare_groups(
    py: Python<'_>,
    groups: Vec<Vec<Run>>,
    wanted: Wanted,
) -> PyResult<Report> {
    let (text, json, summaries) = work(py, move |_| {
        let (mut texts, mut compared, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
        for runs in groups {
            let place = runs.first().map(|run| (run.workload.clone(), run.machine.clone()));
            let comparison = wanted.comparison(runs)?;
            wanted.tables.check(&comparison).map_err(Error::Asked)?;
            texts.push(wanted.tables.print(&comparison));
            summaries.push((place.unwrap_or_default(), comparison.summary.clone()));
            compared.push(comparison);
        }
        Ok((texts.join("\n"), one_or_several(&compared), summaries))
    })?;
    Report::new(py, text, json, run_tables::summaries(&summaries)?)
}
