//! A sweep on the threads of one machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::{Cell, Journal};
use crate::error::{Error, Result};
use crate::own::Loads;
use crate::watch::{Quiet, Watch};

/// How often the watcher is asked, and the bar drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs what is not done, as many at a time; returns whether all is done, which it is not if it was stopped.
///
/// # Errors
/// If a run fails, or cannot be written; what was done before is kept.
pub fn run(journal: &mut Journal, at_a_time: usize, watch: &dyn Watch) -> Result<bool> {
    let here = |cell: &Cell, loads: &Loads, stop: &Quiet| cell.run(loads, stop);
    run_by(journal, at_a_time, watch, here, |_, error| Err(error))
}

/// Runs what is not done as `one` does it, as [`run`] does; `failed` takes what fails, and says whether that ends the sweep.
///
/// # Errors
/// Those of `failed`, or if a run cannot be written.
pub fn run_by(
    journal: &mut Journal,
    at_a_time: usize,
    watch: &dyn Watch,
    one: impl Fn(&Cell, &Loads, &Quiet) -> Result<String> + Send + Sync + 'static,
    mut failed: impl FnMut(&Cell, Error) -> Result<()>,
) -> Result<bool> {
    let one = Arc::new(one);
    let mut failures = 0;
    let to_do: Arc<Vec<(usize, Cell)>> = Arc::new(journal.to_do());
    let (next, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(Quiet::default()));
    let (done, results) = sync_channel::<(usize, Result<String>)>(0);
    for _ in 0..at_a_time.min(to_do.len()) {
        let (to_do, next, stop, done) =
            (Arc::clone(&to_do), Arc::clone(&next), Arc::clone(&stop), done.clone());
        let one = Arc::clone(&one);
        let loads = journal.loads().clone();
        std::thread::spawn(move || {
            while let Some((at, cell)) = to_do.get(next.fetch_add(1, Relaxed)) {
                if stop.stopped() || done.send((*at, one(cell, &loads, &stop))).is_err() {
                    return;
                }
            }
        });
    }
    drop(done);
    let bar = watch.bar("sweeping", journal.len() as u64, "runs");
    let ended = loop {
        bar.set(journal.done() as u64);
        if watch.stopped() {
            break Ok(false);
        }
        match results.recv_timeout(LOOK_EVERY) {
            Ok((at, row)) => {
                let taken = match row {
                    Ok(row) => journal.take(at, &row),
                    Err(error) => {
                        failures += 1;
                        failed(&journal.cells()[at], error)
                    }
                };
                if let Err(error) = taken {
                    break Err(error);
                }
                watch.keep(format!("{} of {} runs are finished", journal.done(), journal.len()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if journal.done() + failures == journal.len() => {
                break Ok(true);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let lost = journal.to_do().first().map(|(_, cell)| cell.named());
                let lost = lost.unwrap_or_default();
                break Err(Error::Asked(format!("{lost}: the simulation panicked")));
            }
        }
    };
    stop.stop();
    ended
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Grid;
    use super::*;

    const GRID: &str = "workloads = [\"hugealloc-short\"]\nkernels = [\"linux-6.9\", \"linux-6.10\"]\n\
                        scales = [\"1/64\"]\nseeds = 3\n";

    fn cells(grid: &Grid) -> Vec<Cell> {
        grid.cells(&Loads::default()).unwrap()
    }

    fn open(grid: &Grid, folder: &Path, cells: Vec<Cell>) -> Result<Journal> {
        Journal::open(folder, grid, cells, Loads::default())
    }

    /// Runs what is not done of a grid; returns the table.
    fn whole(grid: &Grid, folder: &Path) -> Vec<u8> {
        let mut journal = open(grid, folder, cells(grid)).unwrap();
        assert!(run(&mut journal, 2, &Quiet::default()).unwrap());
        std::fs::read(journal.finish().unwrap()).unwrap()
    }

    #[test]
    fn a_sweep_goes_on_after_what_is_whole_and_gives_the_same_bytes() {
        let grid = Grid::from_toml(GRID, "grid.toml").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let table = whole(&grid, folder.path());
        let path = folder.path().join("runs.jsonl");
        let lines: Vec<String> =
            std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        // The head, three runs, and half of one.
        std::fs::write(&path, format!("{}\n{}", lines[..4].join("\n"), &lines[4][..50])).unwrap();
        let journal = open(&grid, folder.path(), cells(&grid)).unwrap();
        assert_eq!((journal.done(), journal.to_do().len()), (3, 3));
        drop(journal);
        std::fs::remove_file(folder.path().join("runs.parquet")).unwrap();
        assert_eq!(whole(&grid, folder.path()), table);
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with(&lines[..4].join("\n")), "what was done is not run again");
    }

    #[test]
    fn a_folder_of_another_sweep_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let grid = Grid::from_toml(GRID, "grid.toml").unwrap();
        let other = || open(&grid, folder.path(), cells(&grid)[1..].to_vec());
        let refused = |error: Result<Journal>, words: &str| {
            let error = error.unwrap_err().to_string();
            assert!(error.ends_with(words), "{error}");
        };
        // At its first run.
        let running = open(&grid, folder.path(), cells(&grid)).unwrap();
        refused(
            other(),
            "line 1: the folder has another sweep, or that of another version; name another folder",
        );
        drop(running);
        // It ended without one.
        drop(other().unwrap());
        // One at a time: the first run has the first line.
        let mut journal = open(&grid, folder.path(), cells(&grid)).unwrap();
        assert!(run(&mut journal, 1, &Quiet::default()).unwrap());
        drop(journal);
        refused(
            other(),
            "line 2: the folder has another sweep: hugealloc-short under linux-6.9 on weiner-1g8 at 1/64 with seed 1 is not one of this grid, \
             or of another file; a grid may only grow; name another folder",
        );
    }

    #[test]
    fn a_grid_that_grows_runs_only_what_is_new_and_gives_the_bytes_of_one_sweep() {
        let [small, large, wide] =
            [("3", ""), ("5", ""), ("5", ", \"linux-6.12\"")].map(|(seeds, kernel)| {
                let text = GRID.replace("seeds = 3", &format!("seeds = {seeds}"));
                Grid::from_toml(
                    &text.replace(", \"linux-6.10\"", &format!("{kernel}, \"linux-6.10\"")),
                    "grid.toml",
                )
                .unwrap()
            });
        let [at_once, grown] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let expected = whole(&wide, at_once.path());
        for (grid, before) in [(&small, 0), (&large, 6), (&wide, 10)] {
            let journal = open(grid, grown.path(), cells(grid)).unwrap();
            assert_eq!(journal.done(), before);
            drop(journal);
            whole(grid, grown.path());
        }
        assert_eq!(std::fs::read(grown.path().join("runs.parquet")).unwrap(), expected);
    }
}
