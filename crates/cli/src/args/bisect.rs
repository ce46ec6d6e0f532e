//! Arguments of `pageblock bisect`.

use std::path::PathBuf;

use pageblock_plan::bisect::SEEDS;

use crate::suggest::{machine, policy};

pub(crate) const BISECT_HELP: &str = "\
Every switch in which A and B differ is tried in the order of versions, alone on A, and left out of B. Kernels with the same
events under two seeds count as one, and take no more. Effects are differences of means; a * is decided (rank sums, Holm over
the switches of a measure). docs/bisect.md explains an answer.";

#[derive(clap::Args, Debug)]
pub(crate) struct BisectArgs {
    /// A workload, or a recording
    #[arg(value_name = "WORKLOAD|RECORDING")]
    pub(crate) of: PathBuf,
    /// The first kernel
    #[arg(value_name = "A", value_parser = policy(), hide_possible_values = true)]
    pub(crate) from: String,
    /// The second kernel
    #[arg(value_name = "B", value_parser = policy(), hide_possible_values = true)]
    pub(crate) to: String,
    /// A measure, such as mismatched-pages; repeatable. By default the workload's primary measures
    #[arg(long = "measure", value_name = "MEASURE")]
    pub(crate) measures: Vec<String>,
    /// The machine; by default the one for which the workload was published
    #[arg(long, value_name = "MACHINE", value_parser = machine(), hide_possible_values = true)]
    pub(crate) machine: Option<String>,
    /// Scale the machine and the workload, such as 1/64; 1 by default
    #[arg(long, value_name = "FRACTION")]
    pub(crate) scale: Option<String>,
    /// Draw each kernel that stands for itself with N seeds
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    pub(crate) seeds: u64,
    /// The first seed of simulations; 1 by default
    #[arg(long, value_name = "SEED")]
    pub(crate) first_seed: Option<u64>,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Write the answer as a waterfall too: a page (.html) or a picture (.svg, .png)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}
