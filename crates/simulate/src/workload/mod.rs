//! Workloads: models of the benchmarks of the mailing lists.

pub mod android;
mod app;
pub mod apppressure;
pub mod boot;
mod build;
pub mod builds;
pub mod hugealloc;
pub mod mixed;
pub mod monitors;
pub mod netperf;
pub mod parallelio;
pub mod requests;
pub mod stated;
pub mod thpfioscale;

use std::fmt::Debug;

use pageblock_kernel::Kernel;
use pageblock_measure::run::tables::Tables;
use pageblock_vm::config::{Config, Filesystem};

use crate::error::Error;
use crate::sim::executor::{Executor, Ran};
use crate::sim::machine_file::MachineSpec;

/// A benchmark: what it does to a machine, from boot to the end.
pub trait Workload: Debug + Sync {
    /// Returns what it is called, and what belongs to it.
    fn head(&self) -> Head<'_>;

    /// Returns its name, as `pageblock run` takes it.
    fn name(&self) -> &str {
        self.head().name
    }

    /// Checks that it fits a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine that it does not fit.
    fn fits(&self, machine: &MachineSpec) -> Result<(), Error>;

    /// Returns the file system of its files.
    fn filesystem(&self) -> Filesystem {
        Filesystem::Ext4
    }

    /// Reports whether the log of XFS is modelled ([`pageblock_vm::cil`]).
    fn logs(&self) -> bool {
        false
    }

    /// Changes the machine's configuration.
    fn configure(&self, _config: &mut Config) {}

    /// Sets what an administrator would set for it.
    fn set_up(&self, _kernel: &mut Kernel) {}

    /// Runs it, in phases that report progress ([`World::begin_phase`](crate::sim::world::World::begin_phase)). Afterwards [`World::samples`](crate::sim::world::World::samples) has its
    /// measurements over time.
    ///
    /// # Errors
    /// As [`Executor::run`], and [`Error::Simulation`] if a page was lost.
    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome>;

    /// Removes what the workload left, and verifies that nothing was lost. Not part of the measured time.
    ///
    /// # Errors
    /// [`Error::Simulation`] if something was lost.
    fn clean_up(&self, executor: &mut Executor<'_>) -> Result<(), Error> {
        check(executor, "at the end")
    }
}

/// What a workload is called, and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'w> {
    /// Its name, as `pageblock run` takes it.
    pub name: &'w str,
    /// A line with what it does and the series that it was used for.
    pub summary: &'w str,
    /// The name of the machine that it was published for.
    pub machine: &'w str,
    /// Its tables and measures, as TOML ([`pageblock_measure::run::tables`]); empty for none.
    pub tables: &'w str,
}

/// A workload's results beside its samples.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    /// The workload's own counters.
    pub counters: Vec<(String, u64)>,
    /// Notes that a reader needs to interpret the numbers.
    pub notes: Vec<String>,
}

/// Every workload.
pub const ALL: &[&dyn Workload] = &[
    &thpfioscale::Form::Default,
    &thpfioscale::Form::Defrag,
    &thpfioscale::Form::Madvhugepage,
    &netperf::NetperfUdp,
    &android::AndroidUptime,
    &parallelio::ParallelIo,
    &hugealloc::Hugealloc::WHOLE,
    &hugealloc::Hugealloc::SHORT,
    &apppressure::Form::Launch,
    &apppressure::Form::Kill,
    &apppressure::Form::Tabs,
    &mixed::Form::Mixed,
    &mixed::Form::Oscillating,
    &mixed::Form::KernelMemory,
    &builds::Form::Linux,
    &builds::Form::Clang,
];

/// Returns the workload with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|workload| workload.name() == name)
}

/// Reads a workload's tables.
///
/// # Errors
/// [`Error::Workload`] if the TOML is wrong.
pub fn tables(workload: &dyn Workload) -> Result<Tables, Error> {
    toml::from_str(workload.head().tables)
        .map_err(|error| Error::Workload(format!("tables of {}: {error}", workload.name())))
}

/// Verifies that nothing was lost, after a phase.
///
/// # Errors
/// [`Error::Simulation`] with the phase and the inconsistency: a defect of the simulation.
pub fn check(executor: &Executor<'_>, phase: &str) -> Result<(), Error> {
    executor.with(|w| match (&w.failure, w.vm.check()) {
        (Some(failure), _) => Err(Error::Simulation(format!("{phase}: {failure}"))),
        (None, Err(broken)) => Err(Error::Simulation(format!("{phase}: {broken}"))),
        (None, Ok(())) => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_every_workload_are_read() {
        for workload in ALL {
            let tables = tables(*workload).unwrap();
            assert!(tables.tables.len() + tables.measures.len() > 0, "{}", workload.name());
        }
    }
}
