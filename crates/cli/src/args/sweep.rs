//! Arguments of `pageblock sweep`.

use std::num::NonZeroU32;
use std::path::PathBuf;

pub(crate) const SWEEP_HELP: &str = "\
workloads = [\"hugealloc-short\"]
kernels = [\"linux-6.9\", \"linux-6.10\"]
scales = [\"1/64\"]            # machines = [...] too; by default the workload's
seeds = 30                   # or a list
[switches]                   # and sysctls: every combination
placement = [\"linux\", \"packed\"]
[random]                     # beside them: kernels with random values of switches
kernels = 100
The folder keeps a journal with a line for each finished run, and at the end runs.parquet, which depends
on the grid alone. The same command goes on with what is there. docs/python.md has more: clusters, other executors.";

#[derive(clap::Args, Debug)]
pub(crate) struct SweepArgs {
    /// The grid: a TOML file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The folder of the runs; by default beside the file, with its name and .sweep
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Check the grid and print the number of its runs, without running them
    #[arg(long)]
    pub(crate) count: bool,
    /// Run each simulation in a process of its own, which may use this much CPU time; what fails is named, and the others go on
    #[arg(long, value_name = "SECONDS")]
    pub(crate) limit_cpu: Option<NonZeroU32>,
    /// The same with this much memory
    #[arg(long, value_name = "MIB")]
    pub(crate) limit_memory: Option<NonZeroU32>,
    /// Run one cell, from JSON on standard input to a row on standard output: what a process of such a sweep does
    #[arg(long, hide = true)]
    pub(crate) cell: bool,
}
