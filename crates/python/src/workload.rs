//! A user's own workload: a generator of batches of requests.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pageblock_plan::own;
use pageblock_simulate::workload::requests::{Ask, Operation, Requests, Source, Stream};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple, PyType};

use crate::arguments;
use crate::batch;
use crate::error::{Error, asked, failed};

/// A workload whose requests come from a generator.
///
/// `generate(seed, task)` returns an iterable of batches for each of the `tasks`, which start on the CPUs in turn. A batch has
/// a row for each request, in the order of time: a dict of columns (NumPy arrays or other buffers, or lists), or a table of
/// Arrow (PyArrow, Polars):
///
/// `time_ns`: when, in nanoseconds of virtual time after boot; a task that is late goes on at once. `op`: a name of
/// `pageblock.operations()` or its code, which is faster. `id`: a number below 2**24 by which what is made can be named until it is freed.
/// `amount`: the order of a block, the bytes of an object, the pages of a file, a mapping or a transfer. `offset`: the first page of
/// a transfer, or of what is unmapped. `flags`: those of a block or an object instead of `GFP_KERNEL`, as tracepoints print them
/// (`"GFP_ATOMIC|__GFP_NOWARN"`), or the numbers that `pageblock.flags` makes of them. `amount`, `offset` and `flags` may be left out where they
/// are 0.
///
/// The same `seed` must give the same batches under every kernel: then the run has the same bytes. Other batches are refused. An exception of
/// the generator ends the simulation and is raised by `run`, with its lines. `latency` keeps the time of every request: samples
/// `latency-OPERATION`, nanoseconds of virtual time. Where workers of other processes run it, `generate` must be what a pickle can send: a
/// function of a module, or any function on Dask.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Workload {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    machine: String,
    #[pyo3(get)]
    tasks: u32,
    #[pyo3(get)]
    latency: bool,
    made: Made,
}

/// What makes the requests of a workload.
enum Made {
    /// A function that returns batches.
    By(Py<PyAny>),
    /// A workload file, by its text and its path.
    From(String, String),
}

#[pymethods]
impl Workload {
    #[new]
    #[pyo3(signature = (name, generate, *, tasks = 1, machine = "small-4g".to_owned(), latency = false))]
    fn new(
        #[pyo3(from_py_with = arguments::name)] name: String,
        generate: Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::tasks)] tasks: u32,
        #[pyo3(from_py_with = arguments::machine_name)] machine: String,
        #[pyo3(from_py_with = arguments::latency)] latency: bool,
    ) -> PyResult<Self> {
        if !generate.is_callable() {
            return Err(asked(
                "generate: allowed: a function of seed and task that returns batches",
            ));
        }
        if name.is_empty() || name.contains(':') {
            return Err(asked(format!("name '{name}': allowed: a text without a colon")));
        }
        if pageblock_simulate::workload::find(&name).is_some() {
            return Err(asked(format!(
                "'{name}' is a workload that is included; choose another name"
            )));
        }
        Ok(Self { name, machine, tasks, latency, made: Made::By(generate.unbind()) })
    }

    fn __repr__(&self) -> String {
        format!("<pageblock.Workload {}>", self.name)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let of = slf.get();
        let generate = match &of.made {
            Made::By(generate) => generate.bind(slf.py()),
            Made::From(text, file) => {
                return (slf.getattr("_from_text")?, (text, file)).into_pyobject(slf.py());
            }
        };
        let kept = (&of.name, generate, of.tasks, &of.machine, of.latency);
        (slf.getattr("_from_kept")?, kept).into_pyobject(slf.py())
    }

    /// Makes a workload of the text of a file.
    #[staticmethod]
    fn _from_text(text: String, file: String) -> PyResult<Self> {
        let of = own::of_text(&text, &file).map_err(failed)?;
        let (name, machine, tasks, latency) = (of.name, of.machine, of.tasks, of.latency);
        Ok(Self { name, machine, tasks, latency, made: Made::From(text, file) })
    }

    /// Makes a workload again of what a pickle keeps: the function travels as pickles send functions.
    #[classmethod]
    fn _from_kept(
        _class: &Bound<'_, PyType>,
        name: String,
        generate: Bound<'_, PyAny>,
        tasks: u32,
        machine: String,
        latency: bool,
    ) -> PyResult<Self> {
        Self::new(name, generate, tasks, machine, latency)
    }
}

/// Returns the names of the operations of a `Workload`; the place of each is its code.
#[pyfunction]
pub(crate) fn operations() -> Vec<&'static str> {
    Operation::ALL.iter().map(|(name, _)| *name).collect()
}

/// What the generator raised first.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// The workload as the simulation takes it, and where an exception of its generator will be.
///
/// # Errors
/// If the text of its file is not understood: that of another version.
pub(crate) fn requests(py: Python<'_>, workload: &Workload) -> PyResult<(Requests, Raised)> {
    let raised = Raised::default();
    let generate = match &workload.made {
        Made::By(generate) => generate.clone_ref(py),
        Made::From(text, file) => return Ok((own::of_text(text, file).map_err(failed)?, raised)),
    };
    let source = Generator { generate, raised: Arc::clone(&raised) };
    let requests = Requests {
        name: workload.name.clone(),
        machine: workload.machine.clone(),
        tasks: workload.tasks,
        tables: String::new(),
        latency: workload.latency,
        text: String::new(),
        source: Arc::new(source),
    };
    Ok((requests, raised))
}

/// Reads a workload file.
pub(crate) fn of_file<'py>(py: Python<'py>, file: &str) -> PyResult<Bound<'py, Workload>> {
    let text = own::file_text(Path::new(file)).map_err(failed)?;
    Bound::new(py, Workload::_from_text(text, file.to_owned())?)
}

/// Takes what the generator raised.
pub(crate) fn taken(raised: &Raised) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

struct Generator {
    generate: Py<PyAny>,
    raised: Raised,
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generator")
    }
}

impl Source for Generator {
    fn open(&self, seed: u64, task: u32, _pages: u64) -> Result<Box<dyn Stream>, String> {
        let begun = Python::attach(|py| {
            let made = self.generate.bind(py).call1((seed, task))?;
            match made.try_iter() {
                Ok(batches) => Ok(batches.unbind()),
                Err(_) => Err(asked(format!(
                    "the generator returned a {}; allowed: an iterable of batches",
                    made.get_type().name()?
                ))),
            }
        });
        let batches = begun.map_err(|error| keep(&self.raised, error, task))?;
        Ok(Box::new(Batches { task, batches, raised: Arc::clone(&self.raised) }))
    }
}

struct Batches {
    task: u32,
    batches: Py<PyIterator>,
    raised: Raised,
}

impl Stream for Batches {
    fn next(&mut self) -> Result<Option<Vec<Ask>>, String> {
        let next = Python::attach(|py| {
            let mut batches = self.batches.bind(py).clone();
            batches.next().map(|batch| batch.and_then(|batch| batch::read(&batch))).transpose()
        });
        next.map_err(|error| keep(&self.raised, error, self.task))
    }
}

/// How the words of a run end in which a generator raised something.
const RAISED: &str = "the generator raised an exception";

/// Keeps an exception for the caller of `run`; the first one is it.
fn keep(raised: &Raised, error: PyErr, task: u32) -> String {
    let mut raised = raised.lock().unwrap_or_else(PoisonError::into_inner);
    raised.get_or_insert(error);
    format!("task {task}: {RAISED}")
}

/// Returns what a generator raised in place of the error of its run, which says where: before the words of this package, and as a note
/// of the user's own exception.
pub(crate) fn raised_at(py: Python<'_>, theirs: PyErr, run: &PyErr) -> PyErr {
    let words = run.value(py).to_string();
    let Some(place) = words.strip_suffix(RAISED).map(|place| place.trim_end_matches(": ")) else {
        return theirs;
    };
    if theirs.is_instance_of::<Error>(py) {
        return asked(format!("{place}: {}", theirs.value(py)));
    }
    // Python 3.10 has no notes: there the exception is raised as it is.
    match theirs.value(py).call_method1("add_note", (format!("in {place}"),)) {
        Ok(_) | Err(_) => theirs,
    }
}
