//! Arguments of `pageblock policy`.

use clap::{Parser, Subcommand};

use super::POLICY_HELP;
use crate::suggest::policy;

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Print the name of every policy
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print every switch of a policy
    #[command(after_help = POLICY_HELP)]
    Show {
        /// The policy
        #[arg(value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
        policy: String,
        /// Print JSON
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// Print a policy file
        #[arg(long)]
        toml: bool,
    },
    /// Print the switches in which two policies differ
    #[command(after_help = POLICY_HELP)]
    Diff {
        /// The first policy
        #[arg(value_name = "A", value_parser = policy(), hide_possible_values = true)]
        a: String,
        /// The second policy
        #[arg(value_name = "B", value_parser = policy(), hide_possible_values = true)]
        b: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a policy under every workload beside its base, with what it costs in counted steps
    #[command(after_help = POLICY_HELP)]
    Try(PolicyTryArgs),
    /// Make a package with a policy of your own, written in Rust
    New(PolicyNewArgs),
}

#[derive(Parser, Debug)]
pub(crate) struct PolicyTryArgs {
    /// The policy
    #[arg(value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) policy: String,
    /// What it is compared with; by default the kernel that it starts from
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) base: Option<String>,
    /// A workload to run; repeatable. By default all are run
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<String>,
    /// Scale machines and workloads
    #[arg(long, value_name = "FRACTION", default_value = "1/64")]
    pub(crate) scale: String,
    /// The number of seeds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) seeds: u64,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Parser, Debug)]
pub(crate) struct PolicyNewArgs {
    /// The policy's name, and the package's and its folder's
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Pageblock's sources: a folder, or the URL of a git repository. By default the folder above this program, or above
    /// the current one, that has them
    #[arg(long, value_name = "SOURCE")]
    pub(crate) source: Option<String>,
}
