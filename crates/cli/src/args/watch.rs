//! Arguments of `pageblock watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::CaptureArgs;
use crate::suggest::policy;

pub(crate) const WATCH_HELP: &str = "\
Without FILE it shows this machine; root sees the map, orders by type and fallback events, others what everybody may read.
FILE is a recording, a flight file, or a file of saved runs (run --pictures --save FILE). In the view, ? lists the keys.
It needs a terminal of 60 columns and 20 lines; --once prints one screen as text. docs/watch.md explains what is seen.";

#[derive(clap::Args, Debug)]
pub(crate) struct WatchArgs {
    /// Play back a recording, a flight file or saved runs instead
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The time between two samples of this machine, such as 1s, 500ms or 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pageblock_plan::doctor::interval, conflicts_with = "file")]
    pub(crate) interval: Duration,
    /// Print one screen as text; of a file, its last moment
    #[arg(long)]
    pub(crate) once: bool,
    /// The moment of a file to begin with, as a share: 0 is its beginning, 1 its end
    #[arg(long, value_name = "SHARE", requires = "file")]
    pub(crate) at: Option<f64>,
    /// Switch no tracepoint on: fallback events are not seen
    #[arg(long, conflicts_with = "file")]
    pub(crate) no_events: bool,
    /// The folder that has proc and sys of the machine, such as /host in a container
    #[arg(long, value_name = "DIR", default_value = "/", conflicts_with = "file")]
    pub(crate) root: PathBuf,
    /// The folder for moments that `s` saves
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "file")]
    pub(crate) save_in: PathBuf,
    /// The colours of the terminal
    #[arg(long, value_name = "COLORS", default_value = "auto")]
    pub(crate) colors: ColorChoice,
    /// Write ASCII only
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Replay a recording under this policy too; repeatable
    #[arg(long = "policy", value_name = "POLICY", value_parser = policy(), hide_possible_values = true, requires = "file")]
    pub(crate) policies: Vec<String>,
    /// Of runs with several seeds, show this one; by default the first
    #[arg(long, value_name = "SEED", requires = "file")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// The colours of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ColorChoice {
    /// By NO_COLOR, COLORTERM and TERM
    Auto,
    /// None
    Never,
    /// Sixteen
    #[value(name = "16")]
    Sixteen,
    /// 256
    #[value(name = "256")]
    Palette,
    /// All
    Truecolor,
}
