//! Real kernels in QEMU.

use std::path::PathBuf;
use std::time::Duration;

use pageblock_guest::qemu::Accelerator;
use pageblock_plan::guest::{self, GuestRequest};
use pyo3::prelude::*;

use crate::error::{Failure, asked};
use crate::runs::Runs;
use crate::simulate::scale_text;
use crate::work::{watcher, work};

/// One path or several.
#[derive(FromPyObject)]
pub(crate) enum Paths {
    /// One.
    One(PathBuf),
    /// Several.
    Several(Vec<PathBuf>),
}

impl From<Paths> for Vec<PathBuf> {
    fn from(paths: Paths) -> Self {
        match paths {
            Paths::One(one) => vec![one],
            Paths::Several(several) => several,
        }
    }
}

/// Boots real kernels in QEMU, runs a workload that is also simulated, and returns the runs, which `compare` puts beside
/// simulations. The arguments are those of `pageblock guest run`.
///
/// `kernels` are packages, folders, images, or names of packages that apt can download; `sysctls` settings `KEY=VALUE,...`,
/// each of which every kernel runs under; `repeat` times each; `out` keeps everything, and a run that is there is not
/// repeated; `program` is the program `pageblock`, by default the one of the path: the guest's program is beside it;
/// `accelerator` is `"kvm"`, `"tcg"` or None: KVM where it runs a guest; `timeout` in seconds.
#[pyfunction]
#[pyo3(signature = (workload, kernels, *, sysctls = Vec::new(), repeat = 1, machine = None, scale = None, memory = None,
                    cpus = 8, nodes = 1, record = false, out = None, qemu = None, accelerator = None, timeout = 3600,
                    jobs = None, program = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn guest_run(
    py: Python<'_>,
    workload: String,
    kernels: Paths,
    sysctls: Vec<String>,
    repeat: u64,
    machine: Option<PathBuf>,
    scale: Option<&Bound<'_, PyAny>>,
    memory: Option<u64>,
    cpus: u64,
    nodes: u64,
    record: bool,
    out: Option<PathBuf>,
    qemu: Option<PathBuf>,
    accelerator: Option<&str>,
    timeout: u64,
    jobs: Option<u16>,
    program: Option<PathBuf>,
) -> PyResult<Runs> {
    let accelerator = match accelerator {
        None => None,
        Some("kvm") => Some(Accelerator::Kvm),
        Some("tcg") => Some(Accelerator::Tcg),
        Some(other) => {
            return Err(asked(format!("accelerator '{other}': allowed: kvm, tcg, or None")));
        }
    };
    let asked_for = GuestRequest {
        workload,
        kernels: kernels.into(),
        sysctls,
        repeat,
        machine: machine.map(|machine| machine.display().to_string()),
        scale: scale.map(|scale| scale_text(Some(scale))).transpose()?,
        memory,
        cpus,
        nodes,
        record,
        out: out.unwrap_or_else(|| PathBuf::from("guest-runs")),
        qemu,
        accelerator,
        timeout: Duration::from_secs(timeout),
        jobs,
        program: Some(own_program(program)?),
    };
    let runs = work(py, move |quiet| {
        let watch = watcher(quiet);
        let mut plan = guest::plan(&asked_for)?;
        guest::settle(&mut plan, &asked_for, watch.as_ref())?;
        let runs = plan.run(&|| watch.stopped(), &|_| {})?;
        match runs.len() == plan.runs() {
            true => Ok(runs),
            false => Err(Failure::Python(asked(format!(
                "stopped: {} of {} runs are in {}",
                runs.len(),
                plan.runs(),
                plan.out.display()
            )))),
        }
    })?;
    Ok(Runs::new(runs))
}

/// Finds the program `pageblock`, beside which the guest's program is.
fn own_program(given: Option<PathBuf>) -> PyResult<PathBuf> {
    if let Some(program) = given {
        return match program.is_file() {
            true => Ok(program),
            false => Err(asked(format!("program {}: there is no such file", program.display()))),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("pageblock"));
    found.into_iter().find(|program| program.is_file()).ok_or_else(|| {
        asked("the program pageblock is not in the path; name it with program=, as the guest's program is beside it")
    })
}
