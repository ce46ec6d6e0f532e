//! Results of mmtests, as its `work/log` keeps them: a folder for each kernel that was tested, in it a folder for each
//! iteration, in that what the tests logged.
//!
//! | file | holds |
//! |---|---|
//! | `iter-N/kernel.version` | `uname -a` |
//! | `iter-N/tests-sysstate` | for each test its beginning and end, with `/proc/vmstat`, `zoneinfo` and `meminfo` at both |
//! | `iter-N/tests-timestamp` | the same beginnings and ends, and the times of `time(1)` |
//! | `iter-N/ftrace-TEST.gz` | events of the monitor `ftrace` |
//! | `iter-N/TEST/logs/` | what the benchmark printed, one format for each benchmark |
//! | `iter-N/pageblock.json` | the run itself, where [`write()`] made the folder |
//!
//! Files may be packed with gzip or xz (mmtests of 2026-06-24: `run-mmtests.sh`, `shellpacks/common.sh`, `bin/lib/MMTests`).

mod events;
mod read;
mod system;
#[cfg(test)]
mod tests;
mod write;

use std::fs::File;
use std::path::{Path, PathBuf};

use pageblock_recording::{Input, decompressed};

pub use read::runs;
pub use write::write;

use crate::error::{Place, Result};

/// A benchmark of mmtests that is a workload here.
struct Benchmark {
    /// How the names of its tests begin; `thpfioscale` until 2023, `thpchallenge` since.
    tests: &'static [&'static str],
    /// The workload.
    workload: &'static str,
    /// The test's name in what is written, which the mmtests of 2026 have.
    written: &'static str,
}

const BENCHMARKS: [Benchmark; 2] = [
    Benchmark {
        tests: &["thpfioscale", "thpchallenge"],
        workload: "thpfioscale",
        written: "thpchallenge",
    },
    Benchmark {
        tests: &["netperf-udp", "netperf-ipv4-udp"],
        workload: "netperf-udp",
        written: "netperf-ipv4-udp",
    },
];

/// The file that has a run of ours whole; mmtests ignores it.
const OWN: &str = "pageblock.json";

/// Reports whether a path is a folder of mmtests: a kernel's, with iterations, or one of such folders.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() && kernels(path).is_ok_and(|kernels| !kernels.is_empty())
}

/// Returns the folders of kernels: the path itself, or those in it.
fn kernels(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !iterations(path)?.is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    let mut kernels = Vec::new();
    for entry in path.read_dir()? {
        let folder = entry?.path();
        if folder.is_dir() && !iterations(&folder)?.is_empty() {
            kernels.push(folder);
        }
    }
    kernels.sort();
    Ok(kernels)
}

/// Returns the folders of a kernel's iterations with their numbers, in order.
fn iterations(kernel: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut iterations = Vec::new();
    for entry in kernel.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("iter-")?.parse().ok());
        iterations.extend(number.filter(|_| entry.path().is_dir()).map(|n| (n, entry.path())));
    }
    iterations.sort();
    Ok(iterations)
}

/// Returns a log that exists under its name, or packed.
fn log(folder: &Path, name: &str) -> Option<PathBuf> {
    ["", ".gz", ".xz"]
        .into_iter()
        .map(|packed| folder.join(format!("{name}{packed}")))
        .find(|path| path.is_file())
}

/// Opens a log, whatever packed it.
fn open(path: &Path) -> Result<Input> {
    let reader = File::open(path).and_then(decompressed).at(|| path.display())?;
    Ok(Input::from_reader(reader, path)?)
}
