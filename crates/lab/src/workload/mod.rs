//! Workloads: what the benchmarks of the mailing lists do to a machine.

pub mod boot;
pub mod monitors;
pub mod thpfioscale;

use crate::error::Error;
use crate::sim::executor::Executor;

/// Verifies that nothing was lost, after a phase.
///
/// # Errors
/// [`Error::Simulation`] with the phase and what is broken: a defect of the simulation.
pub fn check(executor: &Executor<'_>, phase: &str) -> Result<(), Error> {
    executor.with(|w| match (&w.failure, w.vm.check()) {
        (Some(failure), _) => Err(Error::Simulation(format!("{phase}: {failure}"))),
        (None, Err(broken)) => Err(Error::Simulation(format!("{phase}: {broken}"))),
        (None, Ok(())) => Ok(()),
    })
}
