//! Arguments of `pageblock tune`.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};
use pageblock_measure::catalogue::objectives::OBJECTIVES;

use crate::suggest::{machine, policy, workload_name};

pub(crate) const TUNE_HELP: &str = "\
pageblock tune thpfioscale-madvhugepage --kernel linux-6.12 --objective huge-pages --objective stalls --scale 1/64
The search is Optuna's, through the Python package: pip install 'pageblock[tune]'; PAGEBLOCK_PYTHON names an interpreter other than
python3. A recording is replayed: its knobs are those that the allocator itself reads. The folder gets each finished run, the answer as
90-pageblock.conf for /etc/sysctl.d, report.txt and answer.json; the same command goes on with what is there. docs/tuning.md has more.";

/// Reads an objective: one of the catalogue's.
fn objective() -> PossibleValuesParser {
    PossibleValuesParser::new(OBJECTIVES.map(|of| PossibleValue::new(of.id).help(of.help)))
}

/// What is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Over {
    /// The sysctls that exist on the kernel, and the settings of huge pages
    Sysctls,
    /// Switches of the allocator's policy
    Switches,
}

#[derive(clap::Args, Debug)]
pub(crate) struct TuneArgs {
    /// A workload, or the path of a recording
    #[arg(value_name = "WORKLOAD|RECORDING", value_parser = workload_name(), hide_possible_values = true)]
    pub(crate) of: String,
    /// The kernel; for a recording by default the recorded one
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) kernel: Option<String>,
    /// What to improve; repeatable: the answer is then the point of the Pareto front that is best in the first and not worse in another
    #[arg(long = "objective", value_name = "WHAT", required = true, value_parser = objective())]
    pub(crate) objectives: Vec<String>,
    /// What to change
    #[arg(long, value_name = "WHAT", default_value = "sysctls")]
    pub(crate) over: Over,
    /// Change this knob only; repeatable
    #[arg(long = "knob", value_name = "NAME")]
    pub(crate) knobs: Vec<String>,
    /// The machine; by default the workload's
    #[arg(long, value_name = "MACHINE", value_parser = machine(), hide_possible_values = true)]
    pub(crate) machine: Option<String>,
    /// Scale the machine and the workload, as `pageblock run` does
    #[arg(long, value_name = "FRACTION", default_value = "1")]
    pub(crate) scale: String,
    /// How many settings to try
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) trials: u32,
    /// How many settings are proposed at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) batch: u32,
    /// Simulate each with the seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) seeds: u32,
    /// Confirm the answer with this many other seeds
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) held_out: u32,
    /// The seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u32,
    /// Take the answer from this trial of the Pareto front
    #[arg(long, value_name = "TRIAL")]
    pub(crate) pick: Option<u32>,
    /// The folder of the search; by default NAME.tune
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) jobs: Option<u32>,
    /// Run the answer on this real kernel in QEMU beside the default: a package, a folder, an image, as for `pageblock guest run`
    #[arg(long, value_name = "KERNEL")]
    pub(crate) check: Option<PathBuf>,
    /// Run the real kernel this many times with each
    #[arg(long, value_name = "N", requires = "check", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// QEMU; by default qemu-system-x86_64 of the path
    #[arg(long, value_name = "PROGRAM", requires = "check")]
    pub(crate) qemu: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
