//! Sweeps: the grid, the journal and one run, for whoever runs them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pageblock_plan::jobs;
use pageblock_plan::own::Loads;
use pageblock_plan::sweep::{Cell, Grid, Journal, batch, run};
use pyo3::prelude::*;

use crate::error::{Failure, asked, failed};
use crate::table::Table;
use crate::work::{Look, watcher, work, work_watched};
use crate::workload::{Raised, Workload, raised_at, requests, taken};

/// A sweep in a folder; `pageblock.sweep` uses it.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Sweep {
    journal: Arc<Mutex<Journal>>,
    raised: Vec<Raised>,
}

impl Sweep {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what names of workloads mean with users' own, and where exceptions of their generators will be.
pub(crate) fn loads(py: Python<'_>, own: &[Bound<'_, Workload>]) -> PyResult<(Loads, Vec<Raised>)> {
    let (mut all, mut raised) = (Vec::new(), Vec::new());
    for workload in own {
        let (requests, of) = requests(py, workload.get())?;
        all.push(Arc::new(requests));
        raised.push(of);
    }
    Ok((Loads::with(all).map_err(failed)?, raised))
}

/// Returns a result, or what a generator raised: it says more than that a simulation failed.
fn raised_first<T>(py: Python<'_>, result: PyResult<T>, raised: &[Raised]) -> PyResult<T> {
    result.map_err(|error| match raised.iter().find_map(taken) {
        Some(theirs) => raised_at(py, theirs, &error),
        None => error,
    })
}

#[pymethods]
impl Sweep {
    /// Checks a grid, as JSON, with users' own workloads, and opens the folder.
    #[new]
    #[pyo3(signature = (grid, folder, own = Vec::new()))]
    fn new(
        py: Python<'_>,
        grid: String,
        folder: PathBuf,
        own: Vec<Bound<'_, Workload>>,
    ) -> PyResult<Self> {
        let (loads, raised) = loads(py, &own)?;
        let journal = work(py, move |_| {
            let grid = Grid::from_json(&grid)?;
            let cells = grid.cells(&loads)?;
            Ok(Journal::open(&folder, &grid, cells, loads)?)
        });
        let journal = raised_first(py, journal, &raised)?;
        Ok(Self { journal: Arc::new(Mutex::new(journal)), raised })
    }

    /// Returns what is not done: places, and runs as JSON.
    fn to_do(&self) -> PyResult<Vec<(usize, String)>> {
        let text = |(at, cell): (usize, Cell)| match serde_json::to_string(&cell) {
            Ok(text) => Ok((at, text)),
            Err(error) => Err(asked(error.to_string())),
        };
        self.journal().to_do().into_iter().map(text).collect()
    }

    /// Takes a finished run.
    fn take(&self, at: usize, row: &str) -> PyResult<()> {
        self.journal().take(at, row).map_err(failed)
    }

    /// The number of runs that are done.
    #[getter]
    fn done(&self) -> usize {
        self.journal().done()
    }

    fn __len__(&self) -> usize {
        self.journal().len()
    }

    /// Runs what is not done on the threads of this machine.
    #[pyo3(signature = (jobs = None, bar = None, stop = None))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        bar: Option<Bound<'_, PyAny>>,
        stop: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let journal = Arc::clone(&self.journal);
        let at_a_time = jobs::at_a_time(jobs).map_err(failed)?;
        let done = work_watched(py, &Look::part(bar, stop), move |quiet| {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            match run(&mut journal, at_a_time, watcher(quiet).as_ref())? {
                true => Ok(()),
                false => Err(Failure::Python(asked("stopped"))),
            }
        });
        raised_first(py, done, &self.raised)
    }

    /// Says that nothing more will be written: an exception keeps what raised it.
    fn release(&self) -> PyResult<()> {
        self.journal().release().map_err(failed)
    }

    /// Writes the table.
    fn finish(&self) -> PyResult<PathBuf> {
        self.journal().finish().map_err(failed)
    }

    /// Returns the table of what is done.
    fn table(&self) -> PyResult<Table> {
        Ok(Table::of(batch(&self.journal()).map_err(failed)?))
    }
}

/// Does one run of a sweep, from JSON to JSON: what a worker calls, with the user's own workload if it is one.
#[pyfunction]
#[pyo3(signature = (cell, own = None))]
pub(crate) fn sweep_run(
    py: Python<'_>,
    cell: &str,
    own: Option<Bound<'_, Workload>>,
) -> PyResult<String> {
    let cell: Cell = serde_json::from_str(cell).map_err(|error| asked(error.to_string()))?;
    let (loads, raised) = loads(py, own.as_slice())?;
    let done = work(py, move |quiet| Ok(cell.run(&loads, watcher(quiet).as_ref())?));
    raised_first(py, done, &raised)
}

/// Reads a grid from a TOML file, and returns it as JSON.
#[pyfunction]
pub(crate) fn sweep_grid_of(path: PathBuf) -> PyResult<String> {
    let name = path.display().to_string();
    let text = pageblock_plan::text::read_text(&path, "a grid", 1 << 20).map_err(failed)?;
    Grid::from_toml(&text, &name).and_then(|grid| grid.to_json()).map_err(failed)
}

/// Returns the version with a digest of the sources: what one build kept answers for no other.
#[pyfunction]
pub(crate) fn build() -> String {
    pageblock_plan::program::build()
}
