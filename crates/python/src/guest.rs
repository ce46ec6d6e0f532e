//! Real kernels in QEMU.

use std::path::PathBuf;
use std::time::Duration;

use pageblock_guest::qemu::Accelerator;
use pageblock_plan::guest::{self, GuestRequest};
use pyo3::prelude::*;

use crate::arguments;
use crate::error::{Failure, asked};
use crate::runs::Runs;
use crate::work::{watcher, work};

/// Boots real kernels in QEMU, runs a workload that is also simulated, and returns the runs, which `compare` puts beside
/// simulations. The arguments are those of `pageblock guest run`.
///
/// `kernels` are packages, folders, images, or names of packages that apt can download; `sysctls` settings `KEY=VALUE,...`,
/// and every kernel runs under each; `repeat` times each; `out` keeps everything, and a run that is there is not
/// repeated; `program` is the program `pageblock`, by default the one of the path: the guest's program is beside it;
/// `accelerator` is `"kvm"`, `"icount"`, `"tcg"` or None: KVM where it runs a guest, else icount (tcg with QEMU 7); `timeout` in seconds.
#[pyfunction]
#[pyo3(signature = (workload, kernels, *, sysctls = Vec::new(), repeat = 1, machine = None, scale = None, memory = None,
                    cpus = 8, nodes = 1, record = false, out = None, qemu = None, accelerator = None, timeout = 3600,
                    jobs = None, program = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn guest_run(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::workload_name)] workload: String,
    #[pyo3(from_py_with = arguments::guests)] kernels: Vec<PathBuf>,
    #[pyo3(from_py_with = arguments::sysctls)] sysctls: Vec<String>,
    #[pyo3(from_py_with = arguments::repeat)] repeat: u64,
    #[pyo3(from_py_with = arguments::machine)] machine: Option<String>,
    #[pyo3(from_py_with = arguments::guest_scale)] scale: Option<String>,
    #[pyo3(from_py_with = arguments::memory)] memory: Option<u64>,
    #[pyo3(from_py_with = arguments::cpus)] cpus: u64,
    #[pyo3(from_py_with = arguments::nodes)] nodes: u64,
    #[pyo3(from_py_with = arguments::record)] record: bool,
    #[pyo3(from_py_with = arguments::out)] out: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::qemu)] qemu: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::accelerator)] accelerator: Option<String>,
    #[pyo3(from_py_with = arguments::timeout)] timeout: u64,
    #[pyo3(from_py_with = arguments::guest_jobs)] jobs: Option<u16>,
    #[pyo3(from_py_with = arguments::program)] program: Option<PathBuf>,
) -> PyResult<Runs> {
    let accelerator = match accelerator.as_deref() {
        None => None,
        Some("kvm") => Some(Accelerator::Kvm),
        Some("tcg") => Some(Accelerator::Tcg),
        Some("icount") => Some(Accelerator::Icount),
        Some(other) => {
            return Err(asked(format!(
                "accelerator '{other}': allowed: kvm, icount, tcg, or None"
            )));
        }
    };
    let asked_for = GuestRequest {
        workload,
        kernels,
        source: None,
        patches: Vec::new(),
        sysctls,
        repeat,
        machine,
        scale,
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
        let mut plan = guest::plan(&asked_for, watch.as_ref())?;
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
