//! The extension module of the Python package `pageblock`: what the program does, as functions.
//!
//! Plans come from `pageblock-plan`, which the program uses too. Work is done on a thread of its own, without the
//! interpreter's lock, while the calling thread looks for Ctrl-C. Results are Arrow tables by the PyCapsule interface.

mod arguments;
mod arrow;
mod batch;
mod bisect;
mod compare;
mod error;
mod events;
mod examine;
mod files;
mod fleet;
mod guest;
mod import;
mod kernel;
mod measures;
mod pictures;
mod recording;
mod report;
mod run_tables;
mod runs;
mod simulate;
mod statistics;
mod sweep;
mod table;
mod work;
mod workload;

use pyo3::prelude::*;

#[pymodule]
mod _pageblock {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", pageblock_plan::program::version())
    }

    #[pymodule_export]
    use super::arguments::{machine_text, own_workload, scale_text, seed_list};
    #[pymodule_export]
    use super::batch::flags;
    #[pymodule_export]
    use super::bisect::{
        bisect_answer, bisect_count, bisect_kernels, bisect_left, bisect_recording,
    };
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::events::Events;
    #[pymodule_export]
    use super::examine::{doctor, explain, forecast, report};
    #[pymodule_export]
    use super::files::write_text;
    #[pymodule_export]
    use super::fleet::{fleet_hosts, fleet_report, fleet_run};
    #[pymodule_export]
    use super::guest::guest_run;
    #[pymodule_export]
    use super::kernel::{Kernel, kernels, machines, memory_kib, switches, workloads};
    #[pymodule_export]
    use super::measures::{measures, objectives};
    #[pymodule_export]
    use super::pictures::Picture;
    #[pymodule_export]
    use super::recording::Recording;
    #[pymodule_export]
    use super::report::Report;
    #[pymodule_export]
    use super::runs::{Runs, load};
    #[pymodule_export]
    use super::simulate::run;
    #[pymodule_export]
    use super::statistics::{holm, unpaired};
    #[pymodule_export]
    use super::sweep::{Sweep, build, sweep_grid_of, sweep_run};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::work::stop_all;
    #[pymodule_export]
    use super::workload::{Workload, operations};
}
