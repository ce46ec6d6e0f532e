//! What was typed. [`plan`](crate::plan) checks it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

const POLICY_HELP: &str = "\
A policy is NAME, NAME,switch=value,... or the path of a TOML file (it ends with .toml or has a /).
`pageblock policy list` prints the names, `pageblock policy show NAME` the switches.";

/// See why memory is fragmented, and which policy would have helped.
#[derive(Parser, Debug)]
#[command(name = "pageblock", version, after_help = EXIT_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_HELP: &str = "Exit status: 0; 1 where a comparison says no; 2 for wrong usage or input.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Policies: kernel versions as values of switches
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Hold the allocator against a recording of a real kernel, decision by decision
    #[command(after_help = POLICY_HELP)]
    Verify(VerifyArgs),
    /// Cut a small recording out of a large one
    Excerpt(ExcerptArgs),
    /// Run the demands of a recording under other policies, and compare
    #[command(after_help = POLICY_HELP)]
    Replay(ReplayArgs),
}

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
        #[arg(value_name = "POLICY")]
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
        #[arg(value_name = "A")]
        a: String,
        /// The second policy
        #[arg(value_name = "B")]
        b: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The folder of the recording
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The policy to hold against it; the recorded kernel's own by default
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// Exit with 1 where a kind of at least 100 decisions has a smaller share of right shapes (0 to 1)
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_shape: Option<f64>,
    /// Exit with 1 where a kind of at least 100 decisions has a smaller share of exact ones (0 to 1)
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_exact: Option<f64>,
    /// Print so many of the first mismatches, with their context
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) mismatches: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExcerptArgs {
    /// The folder of the recording
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The folder to write, which may not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// How many events to keep, from the start snapshot on
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    pub(crate) events: u64,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The folder of the recording
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// A policy to run; give the option once for each
    #[arg(long = "policy", value_name = "POLICY", required = true)]
    pub(crate) policies: Vec<String>,
    /// The policy of the first column, which the others are compared with; the first given by default
    #[arg(long, value_name = "POLICY")]
    pub(crate) baseline: Option<String>,
    /// Print JSON: a list of runs
    #[arg(long)]
    pub(crate) json: bool,
}
