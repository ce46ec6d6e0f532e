//! Runs: what simulations, replays and guests give.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::statistics::multiops::StarRule;
use pageblock_plan::compare::{compared, gather, load_file, published_table};
use pageblock_report::chosen::Tables;
use pageblock_report::json::to_json;
use pageblock_report::note::words;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::error::{asked, failed};
use crate::report::Report;
use crate::run_tables;
use crate::table::Table;
use crate::work::work;

/// Runs: one for each kernel and seed.
///
/// As a table it has a row a run (`table()`); the other tables are longer. All counts are of the whole run, sizes in
/// pages, and times in nanoseconds, simulated unless a real kernel ran.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Runs {
    pub(crate) runs: Arc<Vec<Run>>,
}

impl Runs {
    pub(crate) fn new(runs: Vec<Run>) -> Self {
        Self { runs: Arc::new(runs) }
    }
}

#[pymethods]
impl Runs {
    /// The number of runs.
    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// Returns a row a run: `kernel`, `workload`, `machine`, `seed`, `event_hash`, `ended` (null where the workload was
    /// complete), then the measures that decide (counts, or percent where the name says so).
    fn table(&self) -> PyResult<Table> {
        run_tables::wide(&self.runs)
    }

    /// Returns a row for each run and counter: `kernel`, `seed`, `counter` (the name of /proc/vmstat or a tracepoint), `count`.
    fn counters(&self) -> PyResult<Table> {
        run_tables::counters(&self.runs)
    }

    /// Returns a row for each sample of what the workload measures: `kernel`, `seed`, `operation`, `number` (from 0),
    /// `value` (nanoseconds unless the notes say otherwise).
    fn samples(&self) -> PyResult<Table> {
        run_tables::samples(&self.runs)
    }

    /// Returns a row for each run, zone and order: `kernel`, `seed`, `zone`, `order`, `blocks` (free at the end),
    /// `unusable` (the share of free memory that cannot serve the order, thousandths).
    fn free_blocks(&self) -> PyResult<Table> {
        run_tables::free_blocks(&self.runs)
    }

    /// Returns a row for each run and kind of fallback: `kernel`, `seed`, `requested`, `taken_from` (types),
    /// `requested_order`, `taken_order`, `change_ownership`, `count`.
    fn fallbacks(&self) -> PyResult<Table> {
        run_tables::fallbacks(&self.runs)
    }

    /// The notes that a reader needs to interpret the numbers, each once.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.runs.iter().flat_map(|run| &run.notes).map(words) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Compares the kernels of these runs with the first one, as `pageblock.compare` does.
    #[pyo3(signature = (*, published = false, stars = "classic", tables = "summary"))]
    fn compare(
        &self,
        py: Python<'_>,
        published: bool,
        stars: &str,
        tables: &str,
    ) -> PyResult<Report> {
        compare_runs(py, Arc::clone(&self.runs), published, stars, tables)
    }

    /// Returns the JSON that `pageblock run --json` prints.
    fn to_json(&self) -> String {
        pageblock_measure::run::saved::to_json(&self.runs)
    }

    /// Saves the runs, whole or not at all, as `pageblock run --save` does.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        pageblock_measure::run::saved::save(&path, &self.runs).map_err(failed)
    }

    /// Returns the rows of `table()`, a dict each.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.table()?.to_dicts(py)
    }

    /// Returns the stream of `table()` (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.table()?.__arrow_c_stream__(py, requested_schema)
    }

    fn __add__(&self, other: &Self) -> Self {
        Self::new(self.runs.iter().chain(other.runs.iter()).cloned().collect())
    }

    fn __repr__(&self) -> String {
        let Some(first) = self.runs.first() else { return "<pageblock.Runs: none>".to_owned() };
        let place = match first.machine.as_str() {
            "" => first.workload.clone(),
            machine => format!("{} on {machine}", first.workload),
        };
        format!("<pageblock.Runs: {} of {place}>", self.runs.len())
    }
}

/// Runs, or a file of saved ones.
#[derive(FromPyObject)]
enum Source<'py> {
    Runs(Bound<'py, Runs>),
    File(PathBuf),
}

/// Compares runs: of `Runs`, or of files that `save`, `pageblock run --save` or `pageblock guest run` wrote. The first
/// kernel is the baseline.
///
/// The table has a row for each measure and kernel: `measure` (with its unit in brackets), `kernel`, `mean`, `change` (a
/// share of the baseline; null for the baseline), `low` and `high` (its interval over seeds), `p` (rank-sum test; adjusted for
/// measures that are not primary), `level` (the p that decides a primary measure), `verdict` (`better`, `worse`, `unchanged`,
/// `undecided`, `identical`, `open`). `force` compares what runs of different
/// workloads, machines or scales have in common; `published` puts the published table beside; `stars` is mmtests' rule. The text has
/// the `tables` below its summary that `pageblock compare --tables` has: `summary` (none), `all`, those with a text in their title.
#[pyfunction]
#[pyo3(signature = (*runs, force = false, published = false, stars = "classic", tables = "summary"))]
pub(crate) fn compare(
    py: Python<'_>,
    runs: &Bound<'_, PyTuple>,
    force: bool,
    published: bool,
    stars: &str,
    tables: &str,
) -> PyResult<Report> {
    let mut sources = Vec::new();
    for source in runs {
        sources.push(match source.extract::<Source<'_>>()? {
            Source::Runs(runs) => ("runs".to_owned(), Vec::clone(&runs.get().runs)),
            Source::File(path) => {
                let name = path.display().to_string();
                (name, work(py, move |_| Ok(load_file(&path)?))?)
            }
        });
    }
    let runs = gather(sources, force).map_err(failed)?;
    compare_runs(py, Arc::new(runs), published, stars, tables)
}

/// Reads saved runs.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Runs> {
    Ok(Runs::new(work(py, move |_| Ok(load_file(&path)?))?))
}

fn compare_runs(
    py: Python<'_>,
    runs: Arc<Vec<Run>>,
    published: bool,
    stars: &str,
    tables: &str,
) -> PyResult<Report> {
    let tables = Tables::parse(tables);
    let options = Options { stars: star_rule(stars)?, ..Options::default() };
    let (text, json, summary) = work(py, move |_| {
        let table = match published {
            true => Some(published_table(&runs)?),
            false => None,
        };
        let comparison = compared(Vec::clone(&runs), &options, table)?;
        Ok((tables.print(&comparison), to_json(&comparison), comparison.summary))
    })?;
    Report::new(py, text, json, run_tables::summary(&summary)?)
}

fn star_rule(name: &str) -> PyResult<StarRule> {
    match name {
        "classic" => Ok(StarRule::Classic),
        "modern" => Ok(StarRule::Modern),
        "off" => Ok(StarRule::Off),
        _ => Err(asked(format!("stars '{name}': allowed: classic, modern, off"))),
    }
}
