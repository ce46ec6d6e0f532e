//! Simulations.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_plan::jobs::Load;
use pageblock_plan::run::{RunPlan, RunRequest};
use pyo3::prelude::*;

use crate::error::{Failure, asked};
use crate::kernel::KernelArguments;
use crate::runs::Runs;
use crate::work::{watcher, work};
use crate::workload::{Workload, requests, taken};

/// How many seeds, or which.
#[derive(FromPyObject)]
pub(crate) enum Seeds {
    /// As many, from 1.
    Count(u64),
    /// These, one after the other: a range.
    These(Vec<u64>),
}

impl Seeds {
    /// Returns the first one and how many there are.
    pub(crate) fn range(&self) -> PyResult<(u64, u64)> {
        match self {
            Self::Count(count) => Ok((1, *count)),
            Self::These(seeds) => {
                let first = seeds.first().copied().unwrap_or(1);
                if seeds.iter().zip(first..).any(|(seed, expected)| *seed != expected) {
                    return Err(asked(
                        "seeds: a number of seeds, or a range such as range(11, 21); each one above the last",
                    ));
                }
                Ok((first, seeds.len() as u64))
            }
        }
    }
}

/// A workload that is included, or one's own.
#[derive(FromPyObject)]
pub(crate) enum WorkloadArgument<'py> {
    /// One's own.
    Own(Bound<'py, Workload>),
    /// A name.
    Name(String),
}

/// Simulates a workload on a machine, under each kernel and seed, and returns the runs.
///
/// The arguments are those of `pageblock run`: `workload` is a name of `workloads()`, or a `Workload` of your own; `kernels` one or several, the first
/// is the baseline of comparisons; `machine` a name of `machines()` or the path of a TOML file, by default the one that the
/// workload was published for; `seeds` how many, 1 to 1000, or a range; `scale` shrinks machine and workload (`"1/8"` or a
/// `Fraction`); `jobs` simulations at a time, by default one a CPU; `save` a file that gets each run when it is done;
/// `pictures` keeps the history of memory, for `report`; `published` runs the kernels of the published table.
#[pyfunction]
#[pyo3(signature = (workload, kernels = None, machine = None, seeds = Seeds::Count(1), scale = None, *, jobs = None,
                    save = None, pictures = false, published = false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn run(
    py: Python<'_>,
    workload: WorkloadArgument<'_>,
    kernels: Option<KernelArguments<'_>>,
    machine: Option<PathBuf>,
    seeds: Seeds,
    scale: Option<&Bound<'_, PyAny>>,
    jobs: Option<usize>,
    save: Option<PathBuf>,
    pictures: bool,
    published: bool,
) -> PyResult<Runs> {
    let (first_seed, seeds) = seeds.range()?;
    let (name, own, raised) = match workload {
        WorkloadArgument::Own(workload) => {
            let (requests, raised) = requests(py, workload.get());
            (requests.name.clone(), Some(Arc::new(requests)), Some(raised))
        }
        WorkloadArgument::Name(name) => (name, None, None),
    };
    let request = RunRequest {
        workload: name,
        policies: kernels.map(|kernels| kernels.policies()).transpose()?.unwrap_or_default(),
        machine: machine.map(|machine| machine.display().to_string()),
        published,
        seeds: Some(pageblock_plan::run::Seeds::Fixed(seeds)),
        first_seed,
        scale: scale_text(scale)?,
        jobs,
        save,
        pictures,
    };
    let made: PyResult<Vec<Run>> = work(py, move |quiet| {
        let plan = match own {
            Some(own) => RunPlan::of(&Load::Own(own), request)?,
            None => RunPlan::new(request)?,
        };
        let jobs = Arc::new(plan.jobs);
        let runs = jobs.run(watcher(quiet).as_ref())?;
        if runs.len() < jobs.list.len() {
            return Err(Failure::Python(asked(format!("stopped: {}", jobs.finished(runs.len())))));
        }
        Ok(runs.into_values().collect())
    });
    // What the generator raised says more than that the simulation failed.
    if let Some(error) = made.is_err().then(|| raised.as_ref().and_then(taken)).flatten() {
        return Err(error);
    }
    Ok(Runs::new(made?))
}

/// Returns a scale as text: a number, a fraction or text.
pub(crate) fn scale_text(scale: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    match scale {
        None => Ok("1".to_owned()),
        Some(scale) => Ok(scale.str()?.to_string()),
    }
}
