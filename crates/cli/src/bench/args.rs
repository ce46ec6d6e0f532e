//! What was typed after `pageblock bench`. [`plan`](super::plan) checks it.

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    /// Time the allocator on this machine, beside other page allocators, and count what packing wins
    #[command(after_help = NATIVE_HELP)]
    Native(NativeArgs),
    /// Time the memory of UDP datagrams between two CPUs, with and without per-CPU lists of high orders
    #[command(after_help = NETPERF_HELP)]
    Netperf(NetperfArgs),
}

const NETPERF_HELP: &str = "\
One thread takes a socket buffer for each datagram, as Linux 5.13 does, another on another CPU frees it.
Nothing is copied: what is timed is memory management alone. Samples of the policies take turns.
A policy is NAME or NAME,switch=value,...";

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

#[derive(clap::Args, Debug)]
pub(crate) struct NetperfArgs {
    /// A policy; give the option once for each. The first is the baseline
    #[arg(
        long = "policy",
        value_name = "POLICY",
        default_values = ["linux-5.13", "linux-5.13,pcp_orders=0-3+thp"]
    )]
    pub(crate) policies: Vec<String>,
    /// A payload in bytes; give the option once for each. Those of mmtests by default
    #[arg(long = "size", value_name = "BYTES")]
    pub(crate) sizes: Vec<u32>,
    /// CPUs of the machine that slabs are sized for
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) slab_cpus: u32,
    /// Samples of each policy and size
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) rounds: usize,
    /// Datagrams of a sample
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) messages: u64,
    /// Print JSON: a list of rows; how quiet the machine was goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}
