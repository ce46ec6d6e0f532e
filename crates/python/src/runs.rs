//! Runs: what simulations, replays and guests give.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_plan::compare::load_file;
use pageblock_report::note::words;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator, PyList, PyTuple, PyType};

use crate::arguments;
use crate::compare::{Wanted, compare_groups};
use crate::error::failed;
use crate::kernel::KernelArgument;
use crate::pictures::{Picture, history_table, plot, series_table};
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

    /// Returns a row a run: `workload`, `kernel`, `machine`, `scale`, `origin` (`simulated`, `replayed`, `real`), `seed`, `event_hash`,
    /// `ended` (null where the workload was complete), then the measures that decide and the workload's own primary ones, by their
    /// `column_name` in `measures()`.
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

    /// Returns a row for each run, zone and order: `kernel`, `seed`, `zone`, `page_order`, `blocks` (free at the end),
    /// `unusable` (the share of free memory that cannot serve the order, thousandths).
    fn free_blocks(&self) -> PyResult<Table> {
        run_tables::free_blocks(&self.runs)
    }

    /// Returns a row for each run and kind of fallback: `kernel`, `seed`, `requested`, `taken_from` (types),
    /// `requested_order`, `taken_order`, `change_ownership`, `count`.
    fn fallbacks(&self) -> PyResult<Table> {
        run_tables::fallbacks(&self.runs)
    }

    /// Returns a row for each run with a history, zone, order and moment: `kernel`, `seed`, `time_us` (of the machine's time), `zone`
    /// (`0-Normal`: node and zone), `page_order`, `blocks` (free).
    fn history(&self) -> PyResult<Table> {
        history_table(&self.runs)
    }

    /// Returns a row for each run with a history, curve and moment: `kernel`, `seed`, `series` (what it shows, with its unit), `time_us`,
    /// `value`.
    fn series(&self) -> PyResult<Table> {
        series_table(&self.runs)
    }

    /// Draws the runs of a seed (by default the first with a history), which `run(..., pictures=True)` keeps: `kind` is `map` (the pageblocks at
    /// a moment: `at`, from 0 to 1), `series` (free memory, held pageblocks and work over time), `orders` (free memory by order over
    /// time), `matrix` (claims, pollutions and steals by types), or `frontier` (huge pages against the work for them, of every seed,
    /// which needs no history). The picture shows itself in a notebook.
    #[pyo3(signature = (kind = "map".to_owned(), *, seed = None, at = 1.0))]
    fn plot(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::kind)] kind: String,
        #[pyo3(from_py_with = arguments::seed)] seed: Option<u64>,
        #[pyo3(from_py_with = arguments::at)] at: f64,
    ) -> PyResult<Picture> {
        plot(py, &self.runs, &kind, seed, at)
    }

    /// Returns each run as runs of one.
    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyIterator>> {
        let runs = &slf.get().runs;
        let each: Vec<Self> = runs.iter().map(|run| Self::new(vec![run.clone()])).collect();
        Ok(PyList::new(
            slf.py(),
            each.into_iter().map(|one| Py::new(slf.py(), one)).collect::<PyResult<Vec<_>>>()?,
        )?
        .try_iter()?
        .unbind())
    }

    /// Returns the run at a place as runs of one.
    fn __getitem__(&self, at: isize) -> PyResult<Self> {
        let count = self.runs.len().cast_signed();
        let place = if at < 0 { at + count } else { at };
        match usize::try_from(place).ok().and_then(|place| self.runs.get(place)) {
            Some(run) => Ok(Self::new(vec![run.clone()])),
            None => Err(PyIndexError::new_err(format!("run {at} of {count}"))),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let kept = (slf.get().to_json(),);
        (slf.getattr("_from_kept")?, kept).into_pyobject(slf.py())
    }

    /// Makes runs again of what a pickle keeps.
    #[classmethod]
    fn _from_kept(_class: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        let runs = pageblock_measure::run::saved::parse(Path::new("a pickle"), json.as_bytes())
            .map_err(failed)?;
        Ok(Self::new(runs))
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
    #[pyo3(signature = (*, baseline = None, published = false, stars = "classic".to_owned(), tables = "summary".to_owned()))]
    fn compare(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::baseline)] baseline: Option<KernelArgument<'_>>,
        #[pyo3(from_py_with = arguments::published)] published: bool,
        #[pyo3(from_py_with = arguments::stars)] stars: String,
        #[pyo3(from_py_with = arguments::tables)] tables: String,
    ) -> PyResult<Report> {
        let wanted = Wanted::new(baseline, published, &stars, &tables)?;
        compare_groups(py, vec![Vec::clone(&self.runs)], wanted)
    }

    /// Returns the JSON that `pageblock run --json` prints.
    fn to_json(&self) -> String {
        pageblock_measure::run::saved::to_json(&self.runs)
    }

    /// Saves the runs, whole or not at all, as `pageblock run --save` does.
    fn save(&self, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> PyResult<()> {
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

/// Reads saved runs.
#[pyfunction]
pub(crate) fn load(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::path)] path: PathBuf,
) -> PyResult<Runs> {
    Ok(Runs::new(work(py, move |_| Ok(load_file(&path)?))?))
}
