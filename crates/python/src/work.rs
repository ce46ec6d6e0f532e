//! Work without the interpreter's lock, which Ctrl-C ends.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pageblock_plan::watch::{Quiet, Watch};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;

use crate::error::Failure;

/// How often the calling thread looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The work that is under way.
static UNDER_WAY: Mutex<Vec<Weak<Quiet>>> = Mutex::new(Vec::new());

/// Does work on a thread of its own. Where Ctrl-C is pressed, the exception is raised at once; the work ends when it
/// looks next, and its result is dropped. Warnings are Python's.
pub(crate) fn work<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Arc<Quiet>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let quiet = Arc::new(Quiet::default());
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
                warn(py, &quiet)?;
                return result.map_err(PyErr::from);
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| quiet.stop())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("pageblock has a defect: the work panicked"));
            }
        }
    }
}

/// Returns the watcher in the form that plans take.
pub(crate) fn watcher(quiet: &Arc<Quiet>) -> Arc<dyn Watch> {
    Arc::<Quiet>::clone(quiet)
}

fn register(quiet: &Arc<Quiet>) {
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
