//! Error rates of verdicts: pools of simulations under one kernel, whose comparisons with themselves have nothing to find.

use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_measure::catalogue::{Measure, primary};
use pageblock_measure::compare::error_rates::{ErrorRates, Pooled, Splits, measure};
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::{MachineSpec, Scale};
use pageblock_simulate::workload::{self, Workload};

use crate::error::{Place, Result, bail};
use crate::jobs::{self, Job, Jobs, Load};
use crate::machines;
use crate::policy::NamedPolicy;
use crate::run::{find_workload, seeds};
use crate::watch::Watch;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The workloads; all by default.
    pub workloads: Vec<String>,
    /// The kernel whose runs are the pool.
    pub kernel: NamedPolicy,
    /// The kernel that runs the same seeds, for their correlation.
    pub other: NamedPolicy,
    /// The scale of machines and workloads.
    pub scale: String,
    /// The seeds of a pool.
    pub pool: u64,
    /// How many splits are judged.
    pub splits: Splits,
    /// How many simulations run at a time; by default one a CPU.
    pub jobs: Option<usize>,
}

/// The seeds that the other kernel runs.
const CORRELATED: u64 = 40;

/// Measures the error rates of each workload's verdicts; those of the workloads that were done where it was stopped.
///
/// # Errors
/// Says what is wrong, and what is allowed.
pub fn verdicts(asked: &Asked, watch: &dyn Watch) -> Result<Vec<ErrorRates>> {
    if asked.pool < 10 {
        bail!("--pool {}: at least 10 runs are needed, five for each side", asked.pool);
    }
    if asked.splits.alarms == 0 || asked.splits.power == 0 {
        bail!("--splits 0: at least 1 is needed");
    }
    let known: Vec<&'static dyn Workload> = match asked.workloads.is_empty() {
        true => workload::ALL.to_vec(),
        false => asked.workloads.iter().map(|name| find_workload(name)).collect::<Result<_>>()?,
    };
    let mut found = Vec::new();
    for workload in known {
        let Some(rates) = of_workload(asked, workload, watch)? else { break };
        found.push(rates);
    }
    Ok(found)
}

/// Returns the workload's machine at a scale, or at the next one, twice as large, that the workload fits.
fn smallest(workload: &dyn Workload, mut scale: Scale) -> Result<MachineSpec> {
    loop {
        let machine = machines::load(workload.head().machine, scale)?;
        match workload.fits(&machine) {
            Ok(()) => return Ok(machine),
            Err(_) if scale.denominator.is_multiple_of(2) => scale.denominator /= 2,
            Err(error) => return Err(error.into()),
        }
    }
}

fn of_workload(
    asked: &Asked,
    workload: &'static dyn Workload,
    watch: &dyn Watch,
) -> Result<Option<ErrorRates>> {
    let machine = Arc::new(smallest(workload, Scale::parse(&asked.scale).at(|| "--scale")?)?);
    let run = |kernel: &NamedPolicy, count: u64| -> Result<Option<Vec<Run>>> {
        scaled::kernel(&kernel.kernel, &machine, workload)
            .at(|| format!("kernel {}", kernel.name))?;
        let kernel = Arc::new(kernel.kernel.clone());
        let job = |seed| Job {
            machine: Arc::clone(&machine),
            kernel: Arc::clone(&kernel),
            workload: Load::Known(workload),
            seed,
        };
        let list: Vec<Job> = seeds(1, count)?.map(job).collect();
        let all = list.len();
        let at_a_time = jobs::at_a_time(asked.jobs)?;
        let runs = Arc::new(Jobs { list, at_a_time, save: None, pictures: false }).run(watch)?;
        Ok((runs.len() == all).then(|| runs.into_values().collect()))
    };
    let Some(own) = run(&asked.kernel, asked.pool)? else { return Ok(None) };
    let Some(other) = run(&asked.other, asked.pool.min(CORRELATED))? else { return Ok(None) };
    let values = |measure: &Measure, runs: &[Run]| -> Option<Vec<f64>> {
        runs.iter().map(|run| measure.number(run)).collect()
    };
    let pooled = |measure: Measure| {
        let own = values(&measure, &own)?;
        // What never happens cannot change by a share.
        own.iter().any(|&value| value != 0.0).then(|| Pooled {
            name: measure.full_label(),
            direction: measure.direction,
            other: values(&measure, &other).unwrap_or_default(),
            values: own,
        })
    };
    let pool: Vec<Pooled> = primary::measures(&own).into_iter().filter_map(pooled).collect();
    let subject = format!("{} on {}", workload.name(), own[0].machine);
    Ok(Some(measure(subject, &pool, asked.splits)))
}
