//! `pageblock bench`: the speed of the allocator, and the error rates of verdicts.

pub(crate) mod args;
#[cfg(feature = "bench")]
mod native;
#[cfg(feature = "bench")]
mod native_plan;
#[cfg(feature = "full")]
mod verdicts;

use crate::Verdict;
use args::BenchCommand;

/// Runs a benchmark.
pub(crate) fn run(command: BenchCommand) -> anyhow::Result<Verdict> {
    match command {
        #[cfg(feature = "bench")]
        BenchCommand::Native(args) => native::run(&native_plan::NativePlan::new(args)?),
        #[cfg(not(feature = "bench"))]
        BenchCommand::Native { .. } => anyhow::bail!(
            "this program was built without other allocators; cargo build --release --features bench has them"
        ),
        #[cfg(feature = "full")]
        BenchCommand::Verdicts(args) => verdicts::run(&args),
    }
}
