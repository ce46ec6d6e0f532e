//! Arguments of `pageblock run`, `pageblock repeat` and `pageblock compare`.

use std::path::PathBuf;

use pageblock_plan::run::Seeds;

use crate::args::{Json, Stars};
use crate::suggest::{machine, policy, workload_name};

#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// The workload, or a file that describes one (NAME.toml, docs/workloads.md)
    #[arg(value_name = "WORKLOAD", value_parser = workload_name(), hide_possible_values = true)]
    pub(crate) workload: String,
    /// A policy to run; repeatable. The first is the baseline
    #[arg(long = "policy", value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) policies: Vec<String>,
    /// The machine; by default the one for which the workload was published
    #[arg(long, value_name = "MACHINE", value_parser = machine(), hide_possible_values = true)]
    pub(crate) machine: Option<String>,
    /// Also print the published table, and run its policies if none is given
    #[arg(long)]
    pub(crate) published: bool,
    /// Run with N seeds, 1 to 1000, with these (1,3,4), or with as many as the primary measures need to be decided: auto (at most 40), or
    /// auto:N. By default auto where policies are compared, else 1
    #[arg(long, value_name = "N", value_parser = Seeds::parse)]
    pub(crate) seeds: Option<Seeds>,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) first_seed: u64,
    /// Scale the machine and the workload, such as 1/8; values in kilobytes that a policy sets, such as
    /// min_free_kbytes, apply to the whole machine and shrink too
    #[arg(long, value_name = "FRACTION", default_value = "1")]
    pub(crate) scale: String,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// mmtests' rule for stars: classic (2018 to 2024), modern (since), or off
    #[arg(long, value_name = "RULE", default_value = "classic")]
    pub(crate) stars: Stars,
    /// Save each run to a file when it is done, for `pageblock compare`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Keep the history of memory in each run, for `pageblock report` and `pageblock plot`
    #[arg(long)]
    pub(crate) pictures: bool,
    #[command(flatten)]
    pub(crate) tables: TablesArgs,
    /// Print JSON: the list of runs, or their comparison (docs/json.md); with --published the comparison
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    pub(crate) json: Option<Option<Json>>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct RepeatArgs {
    /// A file of saved runs: what `run --save` wrote, or `run --json` printed
    #[arg(value_name = "RUN")]
    pub(crate) file: PathBuf,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Save each repeated run to a file when it is done
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

/// The tables below the summary.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TablesArgs {
    /// The tables to print below the summary: summary (none), all, or those with this text in their title
    #[arg(long, value_name = "TABLES", default_value = "summary", conflicts_with = "json")]
    pub(crate) tables: String,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CompareArgs {
    /// Files of saved runs, tables and folders of sweeps, or folders of mmtests (work/log); the first policy is the baseline
    #[arg(value_name = "RUN", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Compare what the runs have in common, even if workload, machine or scale differ
    #[arg(long)]
    pub(crate) force: bool,
    /// mmtests' rule for stars: classic (2018 to 2024), modern (since), or off
    #[arg(long, value_name = "RULE", default_value = "classic")]
    pub(crate) stars: Stars,
    /// Also print the published table
    #[arg(long)]
    pub(crate) published: bool,
    /// Also write the runs as mmtests keeps them in work/log, for its compare-mmtests.pl
    #[arg(long, value_name = "FOLDER")]
    pub(crate) mmtests: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: TablesArgs,
    /// Print JSON: the list of runs, or their comparison (docs/json.md); with --published the comparison
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    pub(crate) json: Option<Option<Json>>,
}
