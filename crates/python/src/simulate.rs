//! Simulations.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_plan::jobs::Load;
use pageblock_plan::own::Checked;
use pageblock_plan::run::{RunPlan, RunRequest, Seeds};
use pageblock_simulate::workload::requests::Requests;
use pyo3::prelude::*;

use crate::arguments::{self, WorkloadArgument};
use crate::error::{Failure, asked};
use crate::kernel::KernelArguments;
use crate::runs::Runs;
use crate::work::{Look, watcher, work, work_watched};
use crate::workload::{raised_at, requests, taken};

/// Simulates a workload on a machine, under each kernel and seed, and returns the runs.
///
/// The arguments are those of `pageblock run`: `workload` is a name of `workloads()`, or a `Workload` of your own; `kernels` one or several, the first
/// is the baseline of comparisons; `machine` a name of `machines()` or the path of a TOML file, by default the one that the
/// workload was published for; `seeds` how many, 1 to 1000, or which (a range, a list, an array); `scale` shrinks machine and workload
/// (`"1/8"`, `1/8` or a `Fraction`); `jobs` simulations at a time, by default one a CPU; `save` a file that gets each run when it is done;
/// `pictures` keeps the history of memory, for `report`; `published` runs the kernels of the published table; `progress` is True for a line that says how
/// far it is, or what makes a bar, such as `tqdm.auto.tqdm`; `stop` an event (`threading.Event`) that ends these runs alone when it is set.
#[pyfunction]
#[pyo3(signature = (workload, kernels = None, machine = None, seeds = vec![1], scale = "1".to_owned(), *, jobs = None,
                    save = None, pictures = false, published = false, progress = None, stop = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn run(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::workload)] workload: WorkloadArgument<'_>,
    #[pyo3(from_py_with = arguments::some_kernels)] kernels: Option<KernelArguments<'_>>,
    #[pyo3(from_py_with = arguments::machine)] machine: Option<String>,
    #[pyo3(from_py_with = arguments::seeds)] seeds: Vec<u64>,
    #[pyo3(from_py_with = arguments::scale)] scale: String,
    #[pyo3(from_py_with = arguments::jobs)] jobs: Option<usize>,
    #[pyo3(from_py_with = arguments::save)] save: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::pictures)] pictures: bool,
    #[pyo3(from_py_with = arguments::published)] published: bool,
    #[pyo3(from_py_with = arguments::progress)] progress: Option<Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::stop)] stop: Option<Bound<'_, PyAny>>,
) -> PyResult<Runs> {
    let (name, own, raised) = match workload {
        WorkloadArgument::Own(workload) => {
            let (requests, raised) = requests(py, workload.get())?;
            let source = Arc::new(Checked::new(Arc::clone(&requests.source)));
            let checked = Requests { source, ..requests };
            (checked.name.clone(), Some(Arc::new(checked)), Some(raised))
        }
        WorkloadArgument::Name(name) => (name, None, None),
    };
    let request = RunRequest {
        workload: name,
        policies: kernels.map(|kernels| kernels.policies()).transpose()?.unwrap_or_default(),
        machine,
        published,
        seeds: Some(Seeds::These(seeds)),
        first_seed: 1,
        scale,
        jobs,
        save,
        pictures,
    };
    let jobs = work(py, move |_| {
        let plan = match own {
            Some(own) => RunPlan::of(&Load::Own(own), request)?,
            None => RunPlan::new(request)?,
        };
        Ok(Arc::new(plan.jobs))
    })?;
    let look = Look::begin(py, progress, jobs.list.len(), "run", stop)?;
    let made: PyResult<Vec<Run>> = work_watched(py, &look, move |quiet| {
        let runs = jobs.run(watcher(quiet).as_ref())?;
        if runs.len() < jobs.list.len() {
            return Err(Failure::Python(asked(format!("stopped: {}", jobs.finished(runs.len())))));
        }
        Ok(runs.into_values().collect())
    });
    // What the generator raised says more than that the simulation failed.
    let made = made.map_err(|error| match raised.as_ref().and_then(taken) {
        Some(theirs) => raised_at(py, theirs, &error),
        None => error,
    });
    Ok(Runs::new(made?))
}
