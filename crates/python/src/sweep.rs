//! Sweeps: the grid, the journal and one run, for whoever runs them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pageblock_plan::jobs;
use pageblock_plan::sweep::{Cell, Grid, Journal, batch, run};
use pyo3::prelude::*;

use crate::error::{Failure, asked, failed};
use crate::table::Table;
use crate::work::{watcher, work};

/// A sweep in a folder; `pageblock.sweep` uses it.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Sweep {
    journal: Arc<Mutex<Journal>>,
}

impl Sweep {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Sweep {
    /// Checks a grid, as JSON, and opens the folder.
    #[new]
    fn new(py: Python<'_>, grid: String, folder: PathBuf) -> PyResult<Self> {
        let journal =
            work(py, move |_| Ok(Journal::open(&folder, Grid::from_json(&grid)?.cells()?)?))?;
        Ok(Self { journal: Arc::new(Mutex::new(journal)) })
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
    #[pyo3(signature = (jobs = None))]
    fn run(&self, py: Python<'_>, jobs: Option<usize>) -> PyResult<()> {
        let journal = Arc::clone(&self.journal);
        let at_a_time = jobs::at_a_time(jobs).map_err(failed)?;
        work(py, move |quiet| {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            match run(&mut journal, at_a_time, watcher(quiet).as_ref())? {
                true => Ok(()),
                false => Err(Failure::Python(asked("stopped"))),
            }
        })
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

/// Does one run of a sweep, from JSON to JSON: what a worker calls.
#[pyfunction]
pub(crate) fn sweep_run(py: Python<'_>, cell: &str) -> PyResult<String> {
    let cell: Cell = serde_json::from_str(cell).map_err(|error| asked(error.to_string()))?;
    work(py, move |quiet| Ok(cell.run(watcher(quiet).as_ref())?))
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
