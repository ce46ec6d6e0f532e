//! Command-line arguments. [`plan`](crate::plan) checks them.

#[cfg(feature = "full")]
pub(crate) mod bisect;
pub(crate) mod doctor;
#[cfg(feature = "full")]
pub(crate) mod fleet;
#[cfg(feature = "full")]
pub(crate) mod fragment;
#[cfg(feature = "full")]
pub(crate) mod guest;
mod policy;
pub(crate) mod recording;
#[cfg(feature = "full")]
pub(crate) mod report;
mod run;
#[cfg(feature = "full")]
pub(crate) mod sweep;
#[cfg(feature = "full")]
pub(crate) mod tune;
#[cfg(feature = "full")]
pub(crate) mod watch;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pageblock_doctor::log::Moment;
use pageblock_measure::certificate::Grade;
use pageblock_plan::machines;
use pageblock_recording::CaptureOptions;
use pageblock_simulate::workload;

use crate::remedies::TrialArgs;
use crate::suggest::{machine, policy};

pub(crate) use self::policy::{PolicyCommand, PolicyNewArgs, PolicyTryArgs};
pub(crate) use self::run::{CompareArgs, RepeatArgs, RunArgs, TablesArgs};

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

/// Lists every workload with its summary, and every machine.
fn run_help() -> String {
    let width = workload::ALL.iter().map(|w| w.name().len()).max().unwrap_or(0);
    let mut text = "Workloads:\n".to_owned();
    for workload in workload::ALL {
        text += &format!("  {:width$}  {}\n", workload.name(), workload.head().summary);
    }
    text + &format!(
        "\nA policy is NAME, NAME,switch=value,... or the path of a TOML file.\n\
         A machine is {} or the path of a TOML file.\n\
         Times are simulated: they come from a cost model.",
        machines::names().collect::<Vec<_>>().join(", ")
    )
}

/// The JSON output of a command that makes or reads runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Json {
    /// The list of runs
    Runs,
    /// Their comparison
    Comparison,
}

/// The least grade of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MinGrade {
    /// Every part of a what-if is supported
    #[value(name = "A")]
    A,
    /// Every part is, some for large changes only
    #[value(name = "B")]
    B,
    /// Some parts are
    #[value(name = "C")]
    C,
    /// Decisions are judged
    #[value(name = "D")]
    D,
}

impl From<MinGrade> for Grade {
    fn from(min: MinGrade) -> Self {
        match min {
            MinGrade::A => Self::A,
            MinGrade::B => Self::B,
            MinGrade::C => Self::C,
            MinGrade::D => Self::D,
        }
    }
}

/// The rule for stars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Stars {
    /// Student's t at 10 %
    Classic,
    /// Intervals of 1.96 standard deviations of the samples
    Modern,
    /// No stars
    Off,
}

const EXIT_HELP: &str =
    "Exit status: 0; 1 where a comparison says no; 2 for wrong usage or input; 130 after Ctrl-C.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Policies: kernel versions as values of switches
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Check the allocator against a recording of a real kernel, decision by decision
    #[command(after_help = POLICY_HELP)]
    Verify(VerifyArgs),
    /// Explain the allocation failures and OOM reports in a kernel's log
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Examine this machine, or copied files: is its memory fragmented, does it hurt, what first?
    #[command(after_help = doctor::DOCTOR_HELP)]
    Doctor(doctor::DoctorArgs),
    /// Record what this machine's memory does for weeks, in a file of a fixed size; keep the hour around a failure
    #[command(after_help = doctor::FLIGHT_HELP, args_conflicts_with_subcommands = true)]
    Flight(doctor::FlightArgs),
    /// Tell how many large blocks compaction could make, and what holds the others; needs root on a live machine
    #[command(after_help = FORECAST_HELP)]
    Forecast(ForecastArgs),
    /// Bring the memory of this machine to a stated degree of fragmentation, for tests of what it does to others; needs root
    #[cfg(feature = "full")]
    #[command(after_help = fragment::FRAGMENT_HELP)]
    Fragment(fragment::FragmentArgs),
    /// Examine many machines at once: a summary on one screen, and a table with a row a host
    #[cfg(feature = "full")]
    #[command(after_help = fleet::FLEET_HELP)]
    Fleet(fleet::FleetArgs),
    /// Watch this machine's memory in the terminal, or play back a recording, a flight file or a run
    #[cfg(feature = "full")]
    #[command(after_help = watch::WATCH_HELP)]
    Watch(watch::WatchArgs),
    /// Print the state of memory for Prometheus (node_exporter's textfile collector)
    #[command(after_help = METRICS_HELP)]
    Metrics(MetricsArgs),
    /// Record the page allocator of this machine while a command runs; needs root
    #[command(after_help = RECORD_HELP)]
    Record(RecordArgs),
    /// Look into recordings, cut them, write them in other formats
    #[command(subcommand)]
    Recording(recording::RecordingCommand),
    /// Simulate a machine with a workload under one or more policies, and compare
    #[command(after_help = run_help())]
    Run(RunArgs),
    /// Real kernels in QEMU under the simulated workloads
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Guest(guest::GuestCommand),
    /// Repeat saved runs from their file alone, and tell whether their event hashes are the same
    #[command(after_help = REPEAT_HELP)]
    Repeat(RepeatArgs),
    /// Find which of the switches in which two kernels differ makes a difference, under a workload or in a recording
    #[cfg(feature = "full")]
    #[command(after_help = bisect::BISECT_HELP)]
    Bisect(bisect::BisectArgs),
    /// Simulate every combination of kernels, switches, machines, workloads, scales and seeds: a table with a row a run
    #[cfg(feature = "full")]
    #[command(after_help = sweep::SWEEP_HELP)]
    Sweep(sweep::SweepArgs),
    /// Search for the settings under which a workload, or a recorded machine, does best
    #[cfg(feature = "full")]
    #[command(after_help = tune::TUNE_HELP)]
    Tune(Box<tune::TuneArgs>),
    /// Compare saved runs
    Compare(CompareArgs),
    /// Replay the requests of a recording under other policies, and compare
    #[command(after_help = POLICY_HELP)]
    Replay(ReplayArgs),
    /// Draw runs and recordings on one page: pageblocks over time, free memory, who took what
    #[cfg(feature = "full")]
    #[command(after_help = report::REPORT_HELP)]
    Report(report::ReportArgs),
    /// Draw one picture of runs and recordings: SVG, PNG, or text for a mail
    #[cfg(feature = "full")]
    #[command(after_help = report::PLOT_HELP)]
    Plot(report::PlotArgs),
    /// Replay and draw the recording that is part of the program: what the tools show, in ten seconds
    #[cfg(feature = "full")]
    Demo(report::DemoArgs),
    /// Measure how fast the allocator is, and how often verdicts are wrong
    #[command(subcommand)]
    Bench(crate::bench::args::BenchCommand),
    /// What other builds have
    #[cfg(not(feature = "full"))]
    #[command(external_subcommand)]
    Other(Vec<String>),
    /// Machines to simulate: what there is, and a file of one that exists
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Print a shell's completions
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the manual pages
    #[command(after_help = MAN_HELP)]
    Man {
        /// The folder to write to; created if it does not exist
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

const RECORD_HELP: &str = "\
pageblock record -- make -j8          until the command ends; its exit status is passed on
pageblock record --duration 60        for a minute
pageblock record                      until Ctrl-C
Tracing is switched on in an instance of its own and off again at the end, whatever happens. After the program was
killed, --clean (and the next recording) switches off what it left on, and --salvage makes a recording of NAME.partial.";

const EXPLAIN_HELP: &str = "\
dmesg | pageblock explain, journalctl -k | pageblock explain, or files with a pasted report, compressed or not. Times,
names of hosts, quotes and wrapped lines do not matter. Equal reports are one answer. Exit status: 1 where no report is
found.";

const FORECAST_HELP: &str = "\
Reads /proc/kpageflags, /proc/kpagecount and /proc/zoneinfo, and changes nothing. A state that `pageblock record` saved
(FOLDER, FOLDER/start, FOLDER/end) or a copied tree with these files is read instead where it is named.
docs/forecast.md says what the bounds stand on.";

const METRICS_HELP: &str = "\
pageblock metrics --out /var/lib/node_exporter/textfile/pageblock.prom, from cron or a timer. docs/metrics.md has the
metrics and alert rules.";

const REPEAT_HELP: &str = "\
The file holds the workload, the machine, the scale, the kernel with every switch, and the seed: no policy file and
no machine file is read. Exit status: 1 where a repeated run differs from the saved one.";

const COMPLETIONS_HELP: &str = "\
bash: pageblock completions bash > ~/.local/share/bash-completion/completions/pageblock
zsh:  pageblock completions zsh > FOLDER/_pageblock, with a FOLDER of $fpath
fish: pageblock completions fish > ~/.config/fish/completions/pageblock.fish";

const MAN_HELP: &str = "\
pageblock man ~/.local/share/man/man1 installs the pages for you: man pageblock-run shows one.";

#[derive(Subcommand, Debug)]
pub(crate) enum MachineCommand {
    /// Print the name of every machine
    List,
    /// Print a machine's TOML
    Show {
        /// The machine
        #[arg(value_name = "MACHINE", value_parser = machine(), hide_possible_values = true)]
        machine: String,
    },
    /// Describe an existing machine as TOML, from its /proc
    #[command(after_help = FROM_HELP)]
    From {
        /// /proc, or a folder with copies of its files: zoneinfo, and optionally meminfo, buddyinfo, swaps, partitions
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The machine's name; by default that of the host or of the folder
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

const FROM_HELP: &str = "\
pageblock machine from /proc > mine.toml, then pageblock run ... --machine mine.toml --scale 1/8.
docs/machines.md has every key; what /proc does not say, such as the speed of the disk, is marked in the file.";

/// What a capture does not say.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// The kernel that was recorded, where a capture does not say it or says another
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// A folder with copies of zoneinfo, buddyinfo and pagetypeinfo of the machine of a capture, or /proc
    #[arg(long, value_name = "FOLDER")]
    pub(crate) proc: Option<PathBuf>,
}

impl CaptureArgs {
    /// Checks the arguments.
    pub(crate) fn options(&self) -> anyhow::Result<CaptureOptions> {
        Ok(pageblock_plan::recording::capture(self.kernel.as_deref(), self.proc.clone())?)
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The recording: a .pbrec, a folder, or a capture (trace.dat, perf.data, a printed trace, a trace of LLFree)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// The policy to replay under; by default the recorded kernel's own
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) policy: Option<String>,
    /// Exit with 1 if, of any kind with at least 100 decisions, fewer than this share (0 to 1) have the right
    /// shape, or if the recording has gaps
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_shape: Option<f64>,
    /// Exit with 1 if, of any kind with at least 100 decisions, fewer than this share (0 to 1) are exact, or if
    /// the recording has gaps
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_exact: Option<f64>,
    /// Exit with 1 if there are at least 100 drains and fewer than this share (0 to 1) are in both the recording
    /// and the replay, or if the recording has gaps
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_drains: Option<f64>,
    /// Exit with 1 if the recording's grade is below this
    #[arg(long, value_name = "GRADE", conflicts_with_all = ["decisions_only", "policy"])]
    pub(crate) min_grade: Option<MinGrade>,
    /// Judge decisions only: no free replay, and no grade
    #[arg(long)]
    pub(crate) decisions_only: bool,
    /// Print this many of the first mismatches, with their context
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) mismatches: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct RecordArgs {
    /// What to write: NAME.pbrec is one file, any other NAME a folder. By default recording.pbrec, recording-2.pbrec, ...
    #[arg(short, long, value_name = "NAME")]
    pub(crate) out: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) duration: Option<u64>,
    /// Keep only the last SECONDS until the end; SIGUSR1 saves them and continues
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) ring: Option<u64>,
    /// Stop when the events take this many MiB; with --ring the oldest are dropped instead
    #[arg(long, value_name = "MIB", default_value_t = 16_384, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_size: u64,
    /// The size of each CPU's buffer in KiB; by default 65536, less where all would take more than a 64th of the memory
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(64..=4_194_304))]
    pub(crate) buffer_size: Option<u64>,
    /// Record every event of compaction, vmscan, migrate and huge_memory, not only those that a replay reads
    #[arg(long)]
    pub(crate) all_events: bool,
    /// Set no probes on the kernel's functions that move pages without an event
    #[arg(long)]
    pub(crate) no_probes: bool,
    /// Record who asks: a stack for each fallback and each request for an unmovable page or for several; a table at the end
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Print what would be switched on, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Switch off what a killed recorder left on, and stop
    #[arg(long, conflicts_with_all = ["dry_run", "command", "duration", "ring"])]
    pub(crate) clean: bool,
    /// Make a recording of the NAME.partial that a killed recorder left behind
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["dry_run", "command", "duration", "ring", "clean"])]
    pub(crate) salvage: Option<PathBuf>,
    /// The command to run
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Logs, and folders of logs such as /var/log or a sosreport; - or nothing is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) files: Vec<PathBuf>,
    /// Only reports from this time on: 03:12, 'Nov 23 03:12', 2026-11-23T03:12, in the log's own time; with Z in UTC
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) since: Option<Moment>,
    /// Only reports up to this time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) until: Option<Moment>,
    /// Only reports within five minutes of this time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, conflicts_with_all = ["since", "until"])]
    pub(crate) at: Option<Moment>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct MetricsArgs {
    /// The root of a copied tree; by default this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Write a file, completely or not at all, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Add how many huge pages could be had; reads /proc/kpageflags (root): about 1.4 s of CPU for 24 GiB each time
    #[arg(long)]
    pub(crate) forecast: bool,
}

/// How a forecast is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Verify {
    /// Pages of the size of a pageblock, 2 MiB on most machines
    Huge,
    /// Pages of 1 GiB
    Gigantic,
    /// Writes 1 to /proc/sys/vm/compact_memory, which cannot be undone
    Compaction,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ForecastArgs {
    /// A copied tree, a recording (its start), or one end of a recording's folder; by default this machine
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Print the map with a cell for each pageblock
    #[arg(long)]
    pub(crate) map: bool,
    /// Then try it on this machine: ask for 2 MiB or 1 GiB pages (nr_hugepages) and put them back, or compact all memory
    #[arg(long, value_name = "HOW", conflicts_with = "snapshot", num_args = 0..=1, require_equals = true,
          default_missing_value = "huge")]
    pub(crate) verify: Option<Verify>,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The recording: a .pbrec, a folder, or a capture (trace.dat, perf.data, a printed trace, a trace of LLFree)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// A policy to replay beside the recorded one; repeatable
    #[arg(long = "policy", value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) policies: Vec<String>,
    /// The policy of the first column, with which the others are compared; by default the recorded one
    #[arg(long, value_name = "POLICY", value_parser = policy(), hide_possible_values = true)]
    pub(crate) baseline: Option<String>,
    /// Take reclaim and compaction from the recording; by default the loop that its grade says supports more
    #[arg(long, conflicts_with = "closed_loop")]
    pub(crate) open_loop: bool,
    /// Let the replayed machine decide reclaim and compaction
    #[arg(long)]
    pub(crate) closed_loop: bool,
    /// Replay N times, 1 to 1000: from the second time on the free lists begin rotated, which shows what is chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seeds: u64,
    /// Print what the recording does not support as well
    #[arg(long)]
    pub(crate) uncertified: bool,
    #[command(flatten)]
    pub(crate) tables: TablesArgs,
    /// Print JSON: the list of runs, or their comparison (docs/json.md)
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "runs")]
    pub(crate) json: Option<Json>,
}
