//! Sweeps: simulations of a grid, a row each. What is done stays done: each finished run is a line of a journal, and a sweep
//! that is begun again goes on after it.

pub mod columns;
mod grid;
mod journal;
mod random;
mod read;
mod table;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;

use pageblock_kernel::{Named, Switch};
use pageblock_measure::Run;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::Scale;
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::requests::Requests;
use serde::{Deserialize, Serialize};

pub use grid::{Grid, MAX_RUNS};
pub use journal::{Journal, RESULT};
pub use read::{is_table, runs_of, runs_of_file};
pub use table::batch;
pub use threads::{run, run_by};

use crate::error::{Place, Result, bail};
use crate::jobs::Load;
use crate::machines;
use crate::own::{Checked, Loads};
use crate::policy::NamedPolicy;
use crate::watch::Watch;

/// One run of a sweep, as it is sent to a worker.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The kernel's text: `NAME,switch=value,...`.
    pub kernel: String,
    /// The machine: a name, or a path.
    pub machine: String,
    /// The scale of both.
    pub scale: String,
    /// The seed.
    pub seed: u64,
}

/// A finished run of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was run.
    pub cell: Cell,
    /// The complete kernel: its preset, and every switch with its value.
    pub resolved: BTreeMap<String, String>,
    /// The machine's name, with the scale.
    pub machine: String,
    /// The hash of the stream of events.
    pub event_hash: String,
    /// How it ended, if the workload was not completed.
    pub ended: Option<String>,
    /// The measures that decide, by their names in the catalogue; those that were measured.
    pub measures: BTreeMap<String, f64>,
    /// Every counter.
    pub counters: BTreeMap<String, u64>,
    /// A hash of the requests, where they come from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

impl Cell {
    /// Returns it in words: `hugealloc under linux-6.9 on weiner-1g8 at 1/64 with seed 3`.
    #[must_use]
    pub fn named(&self) -> String {
        let Self { workload, kernel, machine, scale, seed } = self;
        let kernel = Named::brief(kernel);
        let at = if scale == "1" { String::new() } else { format!(" at {scale}") };
        format!("{workload} under {kernel} on {machine}{at} with seed {seed}")
    }

    /// Checks that it can be run.
    ///
    /// # Errors
    /// Says what is wrong, and what is allowed.
    pub fn check(&self, loads: &Loads) -> Result<()> {
        let load = loads.find(&self.workload)?;
        let workload = load.get();
        let machine = machines::load(&self.machine, Scale::parse(&self.scale).at(|| "scale")?)?;
        workload.fits(&machine)?;
        let kernel = NamedPolicy::parse(&self.kernel)?.kernel;
        let at = || format!("kernel {}", Named::brief(&self.kernel));
        scaled::kernel(&kernel, &machine, workload).at(at)?;
        Ok(())
    }

    /// Runs it; returns the [`Row`] as JSON.
    ///
    /// # Errors
    /// Those of [`Cell::check`], a defect of the simulation, or that it was stopped.
    pub fn run(&self, loads: &Loads, watch: &dyn Watch) -> Result<String> {
        let load = loads.find(&self.workload)?;
        let (load, checked) = match &load {
            Load::Known(_) => (load, None),
            Load::Own(own) => {
                let checked = Arc::new(Checked::new(Arc::clone(&own.source)));
                let source = Arc::<Checked>::clone(&checked);
                (Load::Own(Arc::new(Requests { source, ..Requests::clone(own) })), Some(checked))
            }
        };
        let workload = load.get();
        let machine = machines::load(&self.machine, Scale::parse(&self.scale).at(|| "scale")?)?;
        let kernel = NamedPolicy::parse(&self.kernel)?.kernel;
        let simulation =
            Simulation { machine: &machine, kernel: &kernel, workload, seed: self.seed };
        match simulation.run(&mut |_| !watch.stopped()).at(|| self.named())? {
            Some(run) => {
                let requests = checked.map(|checked| checked.digest(self.seed));
                to_json(&Row { requests, ..self.row(&run, &kernel) })
            }
            None => bail!("stopped"),
        }
    }

    fn row(&self, run: &Run, kernel: &Named) -> Row {
        let switch =
            |switch: Switch| (switch.name().to_owned(), switch.get(&kernel.kernel).to_string());
        let base = ("base".to_owned(), kernel.base.name.to_owned());
        Row {
            cell: self.clone(),
            resolved: Switch::all().map(switch).chain([base]).collect(),
            machine: run.machine.clone(),
            event_hash: run.event_hash.clone(),
            ended: run.ended.as_ref().map(ToString::to_string),
            measures: columns::measures_of(&run.tables)
                .iter()
                .filter_map(|of| Some((of.id.clone().into_owned(), of.number(run)?)))
                .collect(),
            counters: run.counters.iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            requests: None,
        }
    }
}

fn to_json(value: &impl Serialize) -> Result<String> {
    match serde_json::to_string(value) {
        Ok(text) => Ok(text),
        Err(error) => bail!("a sweep: {error}"),
    }
}
