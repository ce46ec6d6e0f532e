//! What can be wrong with the input of a simulation.

use pageblock::setup::SetupError;
use pageblock::zone::FrameError;

/// Why a machine cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No allocator can be made for the machine.
    #[error("the machine cannot be modelled: {0}")]
    Setup(#[from] SetupError),
    /// The machine's memory is described twice, or another contradiction.
    #[error("the machine's memory contradicts itself: {0}")]
    Contradiction(#[from] FrameError),
    /// The policy's watermarks are above all of the machine's memory.
    #[error(
        "{name}={value}: the high watermark would be above all of the machine's {mib} MiB of memory; allowed: up \
         to {largest}"
    )]
    Watermarks {
        /// The switch.
        name: &'static str,
        /// Its value, in kilobytes.
        value: u32,
        /// The largest value with which it would not.
        largest: u32,
        /// The memory of the whole machine.
        mib: u64,
    },
    /// The workload does not fit the machine.
    #[error("{0}")]
    Workload(String),
    /// The simulation broke: a page was lost, or a task waits for ever. A defect.
    #[error("the simulation broke {0}")]
    Simulation(String),
}
