//! Arguments of `pageblock fragment`.

use std::time::Duration;

use pageblock_guest::fragment::Share;
use pageblock_plan::doctor::interval;

pub(crate) const FRAGMENT_HELP: &str = "\
pageblock fragment --free 30% --unmovable 5% --spread 0.8            until Ctrl-C
pageblock fragment --free 30% --spread 0.8 --hold -- ./benchmark     while a command runs; its exit status is passed on
Free pageblocks are taken as huge pages, split, and given back in part; some pages are pinned. All of it goes back when this
ends, however it ends. Nothing is reclaimed or moved for it, but with --prepare. Needs root, Linux 5.4 and huge pages of 2 MiB.
Exit status: 1 where the state was not reached.";

#[derive(clap::Args, Debug)]
pub(crate) struct FragmentArgs {
    /// The share of memory that is free, 30% or 0.3
    #[arg(long, value_name = "SHARE")]
    pub(crate) free: Share,
    /// The share of free memory that is in blocks below a pageblock (2 MiB)
    #[arg(long, value_name = "SHARE")]
    pub(crate) spread: Share,
    /// The share of pageblocks with a page that does not move; the machine's own ones count
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(crate) unmovable: Share,
    /// Restore the state every second: the kernel compacts memory, others take it
    #[arg(long)]
    pub(crate) hold: bool,
    /// End after this time, such as 10m; by default at Ctrl-C, or with the command
    #[arg(long = "for", value_name = "TIME", value_parser = interval, conflicts_with = "command")]
    pub(crate) time: Option<Duration>,
    /// First drop clean caches and compact memory, as root would by /proc/sys/vm
    #[arg(long)]
    pub(crate) prepare: bool,
    /// Choose which pages are given back, and which are pinned
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON: a line when the state is there, a line at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// The command to run
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
