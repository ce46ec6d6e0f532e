//! Simulations.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_plan::run::{RunPlan, RunRequest};
use pyo3::prelude::*;

use crate::error::{Failure, asked};
use crate::kernel::KernelArguments;
use crate::runs::Runs;
use crate::work::{watcher, work};

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

/// Simulates a workload on a machine, under each kernel and seed, and returns the runs.
///
/// The arguments are those of `pageblock run`: `workload` is a name of `workloads()`; `kernels` one or several, the first
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
    workload: String,
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
    let request = RunRequest {
        workload,
        policies: kernels.map(|kernels| kernels.policies()).transpose()?.unwrap_or_default(),
        machine: machine.map(|machine| machine.display().to_string()),
        published,
        seeds,
        first_seed,
        scale: scale_text(scale)?,
        jobs,
        save,
        pictures,
    };
    let runs: Vec<Run> = work(py, move |quiet| {
        let jobs = Arc::new(RunPlan::new(request)?.jobs);
        let runs = jobs.run(watcher(quiet).as_ref())?;
        if runs.len() < jobs.list.len() {
            return Err(Failure::Python(asked(format!("stopped: {}", jobs.finished(runs.len())))));
        }
        Ok(runs.into_values().collect())
    })?;
    Ok(Runs::new(runs))
}

/// Returns a scale as text: a number, a fraction or text.
pub(crate) fn scale_text(scale: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    match scale {
        None => Ok("1".to_owned()),
        Some(scale) => Ok(scale.str()?.to_string()),
    }
}
