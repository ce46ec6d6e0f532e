//! Arguments of `pageblock doctor` and `pageblock flight`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pageblock_doctor::flight::When;

pub(crate) const DOCTOR_HELP: &str = "\
Reads files of /proc and /sys twice, and changes nothing; what is missing or not permitted is said. DIR is a copied tree
with proc and sys, such as a sosreport, or a folder with the files of /proc themselves. A moment of a flight file is a
local time (03:12 of its last day, 2026-11-23 03:12:05), one in UTC (the same with a Z), or -10m before its last sample.
Exit status: 0 where nothing is wrong or only notices, 1 for warnings, 3 where it hurts now, 2 for wrong usage or input.";

pub(crate) const FLIGHT_HELP: &str = "\
pageblock flight --ring FILE --on-failure   until Ctrl-C or SIGTERM; contrib/systemd has a unit
pageblock flight show FILE                  what was recorded, and when it hurt
pageblock flight bundle FILE                the report for a mailing list
pageblock doctor --flight FILE              the examination of a minute of it
Reads files of /proc and /sys and writes FILE alone: at most 1 MB an hour, under 0.5 % of a CPU. docs/flight.md has more.";

const SHOW_HELP: &str = "\
A TIME is local (03:12 of the last day, 2026-11-23 03:12:05), in UTC (the same with a Z), or before the last sample (-10m).
Exit status: 0 where nothing happened, 1 for stalls and for parts that cannot be read, 3 for failed allocations and OOM, 2 for wrong usage or input.";

const BUNDLE_HELP: &str = "\
By default of the last failure, else the last stall, else the last five minutes. It has no names of this host or its disks
but those in lines of the kernel's log around a failure: read it before it is sent.";

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The root of a copied tree; by default this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The same tree copied later, for rates
    #[arg(long, value_name = "DIR", requires = "root")]
    pub(crate) later: Option<PathBuf>,
    /// The time between the two samples, such as 10s, 500ms or 2m; 0 takes one sample and gives no rates
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = pageblock_plan::doctor::interval, conflicts_with = "root")]
    pub(crate) interval: Duration,
    /// Trace this machine for this time, such as 10s (root): who waited for compaction or reclaim, how long, for which order, from
    /// where, and who took pages that do not move and still holds them. Tracing is off again afterwards
    #[arg(long, value_name = "TIME", value_parser = pageblock_plan::doctor::interval,
          conflicts_with_all = ["root", "later", "interval", "flight"])]
    pub(crate) trace: Option<Duration>,
    /// Examine a machine that a flight file recorded, between two moments; the log is that of all its failures
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "later", "interval"])]
    pub(crate) flight: Option<PathBuf>,
    /// The first moment; by default a minute before the second
    #[arg(long, value_name = "TIME", requires = "flight", value_parser = When::new, allow_hyphen_values = true)]
    pub(crate) from: Option<When>,
    /// The second moment; by default the last sample
    #[arg(long, value_name = "TIME", requires = "flight", value_parser = When::new, allow_hyphen_values = true)]
    pub(crate) to: Option<When>,
    /// Print the zones, every command, and advice that does nothing here
    #[arg(long)]
    pub(crate) details: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FlightArgs {
    #[command(subcommand)]
    pub(crate) command: Option<FlightCommand>,
    #[command(flatten)]
    pub(crate) record: FlyArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum FlightCommand {
    /// Print the content of a flight file: its time span, failures and stalls, and rates per row
    #[command(after_help = SHOW_HELP)]
    Show(ShowArgs),
    /// Write the data that a mailing list would ask for about a failure, as one text
    #[command(after_help = BUNDLE_HELP)]
    Bundle(BundleArgs),
}

#[derive(Args, Debug)]
pub(crate) struct FlyArgs {
    /// The ring file; an existing one is continued
    #[arg(long, value_name = "FILE", default_value = "/var/lib/pageblock/flight.ring")]
    pub(crate) ring: PathBuf,
    /// The size of a new ring in MiB, 1 to 1024: at least one hour each; 24 by default
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) size: Option<u64>,
    /// The time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pageblock_plan::doctor::interval)]
    pub(crate) interval: Duration,
    /// Keep the hour around a failed allocation, an OOM or a stall, in a file beside the ring
    #[arg(long)]
    pub(crate) on_failure: bool,
    /// Keep this many of these files, the newest
    #[arg(long, value_name = "N", default_value_t = 20, requires = "on_failure",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) keep: u64,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = pageblock_plan::doctor::interval)]
    pub(crate) duration: Option<Duration>,
    /// The folder that has proc, sys and dev of the machine, such as /host in a container
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// A ring, or a file that --on-failure kept
    #[arg(value_name = "FILE", default_value = "/var/lib/pageblock/flight.ring")]
    pub(crate) file: PathBuf,
    /// From this time on
    #[arg(long, value_name = "TIME", value_parser = When::new, allow_hyphen_values = true)]
    pub(crate) from: Option<When>,
    /// Up to this time
    #[arg(long, value_name = "TIME", value_parser = When::new, allow_hyphen_values = true)]
    pub(crate) to: Option<When>,
    /// The time span of a row; by default a twentieth of the whole
    #[arg(long, value_name = "TIME", value_parser = pageblock_plan::doctor::interval)]
    pub(crate) every: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BundleArgs {
    /// A ring, or a file that --on-failure kept
    #[arg(value_name = "FILE", default_value = "/var/lib/pageblock/flight.ring")]
    pub(crate) file: PathBuf,
    /// For this time instead of the last failure
    #[arg(long, value_name = "TIME", value_parser = When::new, allow_hyphen_values = true)]
    pub(crate) at: Option<When>,
    /// Write a file, completely or not at all, instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
