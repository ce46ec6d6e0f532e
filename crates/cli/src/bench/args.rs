//! What was typed after `pageblock bench`. [`native_plan`](super) checks the patterns.

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    /// Time the allocator on this machine, beside other page allocators, and count what packing wins
    #[cfg(feature = "bench")]
    #[command(after_help = NATIVE_HELP)]
    Native(NativeArgs),
    /// Time the allocator on this machine, in builds with --features bench
    #[cfg(not(feature = "bench"))]
    #[command(disable_help_flag = true)]
    Native {
        #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
        rest: Vec<String>,
    },
    #[cfg(feature = "full")]
    /// Compare kernels with themselves: how often a verdict is wrong, and which changes are found
    #[command(after_help = VERDICTS_HELP)]
    Verdicts(VerdictsArgs),
}

#[cfg(feature = "full")]
const VERDICTS_HELP: &str = "\
The runs of a pool of seeds under one kernel are split into two sides at random, many times, and judged as `run` judges two
policies. What is called changed is a false alarm; one side multiplied by a share is a change of a known size.";

#[cfg(feature = "full")]
#[derive(clap::Args, Debug)]
pub(crate) struct VerdictsArgs {
    /// A workload; give the option again for more. All by default
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<String>,
    /// The kernel that is compared with itself
    #[arg(long, value_name = "POLICY", default_value = "linux-6.12")]
    pub(crate) kernel: String,
    /// The kernel that runs the same seeds, for the correlation
    #[arg(long, value_name = "POLICY", default_value = "linux-6.9")]
    pub(crate) other: String,
    /// Scale machines and workloads; where a workload does not fit, twice as large until it does
    #[arg(long, value_name = "FRACTION", default_value = "1/64")]
    pub(crate) scale: String,
    /// The runs of a pool; twice as many as the most seeds that are tried
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub(crate) pool: u64,
    /// The splits of a pool; a quarter of them for each change that is tried
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) splits: usize,
    /// Run this many simulations at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "bench")]
const NATIVE_HELP: &str = "\
Times are nanoseconds an operation: the median of the rounds and the interval of the median that holds
95 % of its resamples. A pair is one allocation and one free, all other operations are one of the two.";

#[cfg(feature = "bench")]
#[derive(clap::Args, Debug)]
pub(crate) struct NativeArgs {
    /// The size of memory in GiB; give the option again for larger ones, without the other allocators
    #[arg(long, value_name = "GIB", default_values_t = [1.0])]
    pub(crate) gib: Vec<f64>,
    /// The order of blocks; give the option once for each
    #[arg(long = "order", value_name = "ORDER", default_values_t = [0, 3, 9])]
    pub(crate) orders: Vec<u8>,
    /// A pattern; give the option once for each. All by default
    #[arg(long = "pattern", value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Samples of each allocator and pattern
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) rounds: usize,
    /// Print JSON: a list of times and of packings; how quiet the machine was goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}
