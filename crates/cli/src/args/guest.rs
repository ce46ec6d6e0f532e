//! Arguments of `pageblock guest`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::TablesArgs;
use crate::args::{Json, Stars};
use crate::suggest::{guest_workload, machine};

#[derive(Subcommand, Debug)]
pub(crate) enum GuestCommand {
    /// Boot a real kernel in QEMU, run a workload that is also simulated, and save it as simulations are saved
    #[command(after_help = GUEST_HELP)]
    Run(Box<GuestArgs>),
    /// Boot real kernels, and measure what operations cost there beside what the simulation charges for them
    Costs(CostsArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct CostsArgs {
    /// A kernel: a package, a folder, an image, or the name of a package; repeatable
    #[arg(long = "kernel", value_name = "KERNEL", required = true)]
    pub(crate) kernels: Vec<PathBuf>,
    /// The folder that keeps consoles and reports
    #[arg(short, long, value_name = "DIR", default_value = "guest-costs")]
    pub(crate) out: PathBuf,
    /// QEMU; by default qemu-system-x86_64 of the path
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) qemu: Option<PathBuf>,
    /// Who runs the guest's instructions
    #[arg(long, value_name = "WHO", default_value = "auto")]
    pub(crate) accel: Accelerator,
}

const GUEST_HELP: &str = "\
pageblock guest run thpfioscale --kernel linux-image-6.1.0-56-cloud-amd64_6.1.192-2_amd64.deb --repeat 5 -o real
pageblock run thpfioscale --machine skylake-1s-guest --scale 1/64 --policy debian-6.1 --seeds 5 --save sim.json
pageblock compare sim.json real/runs.json
pageblock guest run oscillating --kernel-source linux-source-6.12.tar.xz --patch mine.patch --repeat 10 -o real
A kernel is a Debian or Ubuntu package, a folder that it was unpacked to, a built source tree, an image (bzImage) that has its
drivers built in, or the name of a package that apt can download. Nothing is installed in the guest. Without a KVM that runs
guests QEMU emulates the CPUs: times are then the emulator's, and only counts are compared. A run that is in the folder is not
repeated; each keeps its console, reports and command line. docs/guest.md has more.";

/// Who runs the guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Accelerator {
    /// KVM where it runs a guest, else icount (tcg with QEMU 7)
    Auto,
    /// KVM
    Kvm,
    /// Emulation, with a clock of instructions: results do not depend on what else the host does
    Icount,
    /// Emulation, with the host's clock
    Tcg,
}

#[derive(clap::Args, Debug)]
pub(crate) struct GuestArgs {
    /// The workload
    #[arg(value_name = "WORKLOAD", value_parser = guest_workload(), hide_possible_values = true)]
    pub(crate) workload: String,
    /// A kernel: a package, a folder, an image, or the name of a package; repeatable. The first is the baseline
    #[arg(long = "kernel", value_name = "KERNEL", required_unless_present = "kernel_source")]
    pub(crate) kernels: Vec<PathBuf>,
    /// Build a kernel, small and cached: a folder with its source, linux-*.tar.xz, a package linux-source-*, or its name. It
    /// is the baseline
    #[arg(long, value_name = "SOURCE")]
    pub(crate) kernel_source: Option<PathBuf>,
    /// Also build it with this patch, whose name ends the release; repeatable, a kernel each
    #[arg(long = "patch", value_name = "FILE", requires = "kernel_source")]
    pub(crate) patches: Vec<PathBuf>,
    /// Set KEY=VALUE,... in the guest; repeatable: every kernel runs under every setting, and `default` changes nothing. A
    /// key is a sysctl or a file of /sys; vm.min_free_kbytes shrinks with --scale
    #[arg(long = "sysctl", value_name = "SETTINGS")]
    pub(crate) sysctls: Vec<String>,
    /// Turn the multi-generational LRU on (7) or off (0) where a setting does not say it, and fail if the kernel then has
    /// another; without this it is off where a kernel has it
    #[arg(long, value_name = "N", value_parser = ["0", "7"])]
    pub(crate) lru_gen: Option<String>,
    /// Run every kernel under every setting this many times, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u64,
    /// The simulated machine whose memory and CPUs the guest gets; by default the one of the workload
    #[arg(long, value_name = "MACHINE", value_parser = machine(), hide_possible_values = true)]
    pub(crate) machine: Option<String>,
    /// Scale the machine and the workload, as `pageblock run` does; by default 1/64 for thpfioscale, 1/8 for hugealloc-short
    #[arg(long, value_name = "FRACTION")]
    pub(crate) scale: Option<String>,
    /// Use a machine of this many MiB instead, and write it to the folder as machine.toml
    #[arg(long, value_name = "MIB", conflicts_with_all = ["machine", "scale"], value_parser = clap::value_parser!(u64).range(64..=1 << 20))]
    pub(crate) memory: Option<u64>,
    /// The CPUs of that machine
    #[arg(long, value_name = "N", requires = "memory", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=255))]
    pub(crate) cpus: u64,
    /// The NUMA nodes of that machine
    #[arg(long, value_name = "N", requires = "memory", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) nodes: u64,
    /// Simulate every column first, N seeds each, and print how well that predicted the real kernels
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = clap::value_parser!(u64).range(5..=1000))]
    pub(crate) predict: Option<u64>,
    /// Also record the page allocator in the guest: recording.pbrec beside each run
    #[arg(long)]
    pub(crate) record: bool,
    /// The folder that keeps the runs
    #[arg(short, long, value_name = "DIR", default_value = "guest-runs")]
    pub(crate) out: PathBuf,
    /// QEMU; by default qemu-system-x86_64 of the path
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) qemu: Option<PathBuf>,
    /// Who runs the guest's instructions
    #[arg(long, value_name = "WHO", default_value = "auto")]
    pub(crate) accel: Accelerator,
    /// End a guest that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) timeout: u64,
    /// Run this many guests at a time; by default as many as memory and CPUs allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// mmtests' rule for stars: classic (2018 to 2024), modern (since), or off
    #[arg(long, value_name = "RULE", default_value = "classic")]
    pub(crate) stars: Stars,
    #[command(flatten)]
    pub(crate) tables: TablesArgs,
    /// Print JSON: the list of runs, or their comparison (docs/json.md)
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    pub(crate) json: Option<Option<Json>>,
}
