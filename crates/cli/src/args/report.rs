//! Arguments of `pageblock report` and `pageblock plot`.

use std::path::PathBuf;

use clap::ValueEnum;
use pageblock_picture::plot::PlotKind;
use pageblock_plan::subjects::Sources;

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

pub(crate) const PLOT_HELP: &str = "\
map: the pageblocks at one moment. orders: free memory by order over time. matrix: claims, pollutions and steals by
types. timeline: free memory, held pageblocks and the work for memory. frontier: huge pages against that work, for all
policies and seeds. docs/pictures.md explains them.";

#[derive(clap::Args, Debug)]
pub(crate) struct PlotArgs {
    /// What to draw
    #[arg(value_name = "KIND")]
    pub(crate) kind: Kind,
    #[command(flatten)]
    pub(crate) of: PicturedArgs,
    /// The file to write: NAME.svg or NAME.png
    #[arg(short, long, value_name = "FILE", required_unless_present = "plain")]
    pub(crate) out: Option<PathBuf>,
    /// Print text of 72 columns instead, for mails
    #[arg(long, conflicts_with = "out")]
    pub(crate) plain: bool,
    /// The moment of a map, as a share of the run: 0 is the beginning, 1 the end
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) at: f64,
}

#[derive(clap::Args, Debug)]
pub(crate) struct DemoArgs {
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "pageblock-demo.html")]
    pub(crate) out: PathBuf,
    /// Write the recording to this folder instead, which must not exist, for other commands to read
    #[arg(long, value_name = "FOLDER", conflicts_with = "out")]
    pub(crate) extract: Option<PathBuf>,
}

/// What a picture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// The pageblocks at one moment
    Map,
    /// Free memory by order
    Orders,
    /// Claims, pollutions and steals by types
    Matrix,
    /// Free memory, held pageblocks, and the work for memory over time
    Timeline,
    /// Huge pages against the work for them
    Frontier,
}

impl From<Kind> for PlotKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Map => Self::Map,
            Kind::Orders => Self::Orders,
            Kind::Matrix => Self::Matrix,
            Kind::Timeline => Self::Timeline,
            Kind::Frontier => Self::Frontier,
        }
    }
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

impl PicturedArgs {
    /// Checks the arguments.
    pub(crate) fn sources(&self) -> anyhow::Result<Sources> {
        Ok(Sources {
            sources: self.sources.clone(),
            policies: crate::plan::named(&self.policies)?,
            seed: self.seed,
            capture: self.capture.options()?,
        })
    }
}
