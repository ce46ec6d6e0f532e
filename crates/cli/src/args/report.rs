//! Arguments of `pageblock report`.

use std::path::PathBuf;

use super::CaptureArgs;
use crate::suggest::policy;

pub(crate) const REPORT_HELP: &str = "\
A RUN is a file of saved runs: what `pageblock run --pictures --save FILE` wrote. Runs without --pictures have tables
only. A RECORDING is replayed as it happened, and with --policy under others too. docs/pictures.md explains the pictures.";

#[derive(clap::Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) of: PicturedArgs,
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
}

/// What is drawn.
#[derive(clap::Args, Debug)]
pub(crate) struct PicturedArgs {
    /// Files of saved runs, and recordings: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RUN|RECORDING", required = true)]
    pub(crate) sources: Vec<PathBuf>,
    /// Replay the recordings under this policy too; repeatable
    #[arg(long = "policy", value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) policies: Vec<String>,
    /// Of runs with several seeds, draw this one; by default the first
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}
