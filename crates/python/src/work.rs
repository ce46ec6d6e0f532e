//! Work without the interpreter's lock, which Ctrl-C ends.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pageblock_plan::watch::{Bar, Quiet, Watch};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;

use crate::error::Failure;

/// How often the calling thread looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The work that is under way.
static UNDER_WAY: Mutex<Vec<Weak<Watcher>>> = Mutex::new(Vec::new());

/// Watches work: may stop it, keeps its warnings, and counts what is finished.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    quiet: Quiet,
    finished: AtomicUsize,
}

impl Watcher {
    /// Stops the work as soon as it looks.
    pub(crate) fn stop(&self) {
        self.quiet.stop();
    }
}

impl Watch for Watcher {
    fn bar(&self, what: &str, total: u64, unit: &str) -> Box<dyn Bar> {
        self.quiet.bar(what, total, unit)
    }

    fn shares(&self, what: &str) -> Box<dyn Bar> {
        self.quiet.shares(what)
    }

    fn stopped(&self) -> bool {
        self.quiet.stopped()
    }

    fn keep(&self, _finished: String) {
        self.finished.fetch_add(1, Relaxed);
    }

    fn warn(&self, text: &str) {
        self.quiet.warn(text);
    }
}

/// Who looks at work from Python: a bar as tqdm's, which is told how much more is finished, and an event that stops the work
/// when it is set.
#[derive(Default)]
pub(crate) struct Look<'py> {
    pub(crate) bar: Option<Bound<'py, PyAny>>,
    pub(crate) stop: Option<Bound<'py, PyAny>>,
    /// Whether the bar ends with the work.
    ends: bool,
}

impl<'py> Look<'py> {
    /// Makes a bar for so many units of work, if it is wanted.
    pub(crate) fn begin(
        py: Python<'py>,
        progress: Option<Bound<'py, PyAny>>,
        total: usize,
        what: &str,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let begin = |progress| {
            py.import("pageblock._progress")?.call_method1("begin", (progress, total, what))
        };
        Ok(Self { bar: progress.map(begin).transpose()?, stop, ends: true })
    }

    /// Shows work that is a part of what a bar shows.
    pub(crate) fn part(bar: Option<Bound<'py, PyAny>>, stop: Option<Bound<'py, PyAny>>) -> Self {
        Self { bar, stop, ends: false }
    }

    /// Tells the bar what is finished.
    fn tell(&self, watcher: &Watcher, told: &mut usize) -> PyResult<()> {
        let finished = watcher.finished.load(Relaxed);
        if let Some(bar) = self.bar.as_ref().filter(|_| finished > *told) {
            bar.call_method1("update", (finished - *told,))?;
            *told = finished;
        }
        Ok(())
    }

    /// Tells the bar, and asks the event.
    fn at(&self, watcher: &Watcher, told: &mut usize) -> PyResult<()> {
        self.tell(watcher, told)?;
        if let Some(stop) = &self.stop {
            stop.py().import("pageblock._progress")?.call_method1("look", (stop,))?;
        }
        Ok(())
    }
}

/// Does work on a thread of its own. Where Ctrl-C is pressed, the exception is raised at once; the work ends when it
/// looks next, and its result is dropped. Warnings are Python's.
pub(crate) fn work<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Arc<Watcher>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    work_watched(py, &Look::default(), job)
}

/// Does the same, and shows how far it is.
pub(crate) fn work_watched<T: Send + 'static>(
    py: Python<'_>,
    look: &Look<'_>,
    job: impl FnOnce(&Arc<Watcher>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let done = watched(py, look, job);
    match look.bar.as_ref().filter(|_| look.ends).map(|bar| bar.call_method0("close")) {
        // What failed first is said.
        Some(Err(error)) => done.and(Err(error)),
        _ => done,
    }
}

fn watched<T: Send + 'static>(
    py: Python<'_>,
    look: &Look<'_>,
    job: impl FnOnce(&Arc<Watcher>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let quiet = Arc::new(Watcher::default());
    let mut told = 0;
    register(&quiet);
    let (done, mut result) = sync_channel(1);
    let watch = Arc::clone(&quiet);
    std::thread::Builder::new().name("pageblock".to_owned()).spawn(move || {
        // Nobody waits for it any more after Ctrl-C.
        let _ = done.send(job(&watch));
    })?;
    loop {
        let received;
        (result, received) = py.detach(move || {
            let received = result.recv_timeout(LOOK_EVERY);
            (result, received)
        });
        match received {
            Ok(result) => {
                warn(py, &quiet.quiet)?;
                look.tell(&quiet, &mut told)?;
                return result.map_err(PyErr::from);
            }
            Err(RecvTimeoutError::Timeout) => {
                let looked = py.check_signals().and_then(|()| look.at(&quiet, &mut told));
                looked.inspect_err(|_| quiet.stop())?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("pageblock has a defect: the work panicked"));
            }
        }
    }
}

/// Returns the watcher in the form that plans take.
pub(crate) fn watcher(quiet: &Arc<Watcher>) -> Arc<dyn Watch> {
    Arc::<Watcher>::clone(quiet)
}

fn register(quiet: &Arc<Watcher>) {
    let mut all = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|one| one.strong_count() > 0);
    all.push(Arc::downgrade(quiet));
}

/// Stops all work that is under way in this process, in whatever thread: each call raises an error.
#[pyfunction]
pub(crate) fn stop_all() {
    let all = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(Weak::upgrade).for_each(|quiet| quiet.stop());
}

fn warn(py: Python<'_>, quiet: &Quiet) -> PyResult<()> {
    for text in quiet.warnings() {
        let category = py.get_type::<PyUserWarning>();
        let text = std::ffi::CString::new(text.replace('\0', " "))?;
        PyErr::warn(py, &category, &text, 1)?;
    }
    Ok(())
}
