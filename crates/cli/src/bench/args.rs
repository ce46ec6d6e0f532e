//! What was typed after `pageblock bench`. [`plan`](super::plan) checks it.

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    /// Time the allocator on this machine, beside other page allocators, and count what packing wins
    #[command(after_help = NATIVE_HELP)]
    Native(NativeArgs),
}

const NATIVE_HELP: &str = "\
Times are nanoseconds an operation: the median of the rounds and the interval of the median that holds
95 % of its resamples. A pair is one allocation and one free, all other operations are one of the two.";

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
