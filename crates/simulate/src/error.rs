//! Errors in the input of a simulation.

use pageblock::setup::SetupError;
use pageblock::zone::FrameError;

/// Why a machine cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No allocator can be made for the machine.
    #[error("the machine cannot be modelled: {0}")]
    Setup(#[from] SetupError),
    /// The machine's memory contradicts itself, for example by describing a range twice.
    #[error("the machine's memory contradicts itself: {0}")]
    Contradiction(#[from] FrameError),
    /// The policy's high watermark is above the machine's memory.
    #[error(
        "{name}={value}: the high watermark would be above all of the machine's {mib} MiB of memory; allowed: up \
         to {largest}"
    )]
    Watermarks {
        /// The switch.
        name: &'static str,
        /// The value, in kilobytes.
        value: u32,
        /// The largest allowed value.
        largest: u32,
        /// The memory of the whole machine.
        mib: u64,
    },
    /// The workload does not fit the machine.
    #[error("{0}")]
    Workload(String),
    /// The simulation has a defect: it lost a page, or a task waits forever.
    #[error("the simulation failed: {0}")]
    Simulation(String),
}
