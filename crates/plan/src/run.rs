//! Simulations as users ask for them: a workload under policies, on a machine at a scale, with seeds.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_kernel::Named;
use pageblock_measure::compare::published::Table;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::Scale;
use pageblock_simulate::workload::{self, Workload};

use crate::error::{Place, Result, bail};
use crate::jobs::{self, Job, Jobs, Load};
use crate::policy::{NamedPolicy, given_once};
use crate::{machines, published};

/// The maximum number of seeds of a run.
const MAX_SEEDS: u64 = 1000;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The workload's name.
    pub workload: String,
    /// The policies, the baseline first.
    pub policies: Vec<NamedPolicy>,
    /// The machine; by default the one for which the workload was published.
    pub machine: Option<String>,
    /// Whether the published table is wanted.
    pub published: bool,
    /// How many seeds.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// The scale of machine and workload.
    pub scale: String,
    /// How many simulations run at a time; by default one a CPU.
    pub jobs: Option<usize>,
    /// The file that each run is saved to when it is done.
    pub save: Option<PathBuf>,
    /// Whether the runs keep the history of the machine's memory.
    pub pictures: bool,
}

/// What is to be done.
#[derive(Debug)]
pub struct RunPlan {
    /// Policy by policy within a seed, the baseline first: what is interrupted is complete for the first seeds.
    pub jobs: Jobs,
    /// The published table that was asked for.
    pub published: Option<&'static Table>,
}

/// Returns the workload with this name.
///
/// # Errors
/// If there is none; it lists those that there are.
pub fn find_workload(name: &str) -> Result<&'static dyn Workload> {
    let Some(workload) = workload::find(name) else {
        let known: Vec<_> = workload::ALL.iter().map(|w| w.name()).collect();
        bail!("there is no workload '{name}'; there are {}", known.join(", "));
    };
    Ok(workload)
}

impl RunPlan {
    /// Checks what was asked for.
    ///
    /// # Errors
    /// Says what is wrong, and what is allowed.
    pub fn new(asked: RunRequest) -> Result<Self> {
        let workload = find_workload(&asked.workload)?;
        Self::of(&Load::Known(workload), asked)
    }

    /// Checks what was asked for, but the workload, which is given.
    ///
    /// # Errors
    /// Says what is wrong, and what is allowed.
    pub fn of(load: &Load, asked: RunRequest) -> Result<Self> {
        let workload = load.get();
        let seeds = seeds(asked.first_seed, asked.seeds)?;
        let at_a_time = jobs::at_a_time(asked.jobs)?;
        let scale = Scale::parse(&asked.scale).at(|| "--scale")?;
        let name = asked.machine.as_deref().unwrap_or(workload.machine());
        let machine = machines::load(name, scale)?;
        workload.fits(&machine)?;
        let published = published::find(workload.name(), &machine.name);
        if asked.published && published.is_none() {
            bail!("--published: nothing is published of {} on {}", workload.name(), machine.name);
        }
        let published_here = published.is_some();
        let published = published.filter(|_| asked.published);
        let policies: Vec<NamedPolicy> = match published {
            _ if !asked.policies.is_empty() => asked.policies,
            Some(table) => {
                let named = table.policies.iter().map(|policy| NamedPolicy::parse(policy));
                named.collect::<Result<_>>()?
            }
            None if published_here => bail!(
                "--policy is missing: at least one policy is needed, or --published for those of the \
                 published table"
            ),
            None => bail!("--policy is missing: at least one policy is needed"),
        };
        given_once(policies.iter().map(|policy| policy.name.as_str()))?;
        if let Some(table) = published {
            published::check_policies(table, policies.iter().map(|policy| policy.name.as_str()))?;
        }
        for NamedPolicy { name, kernel, .. } in &policies {
            scaled::kernel(kernel, &machine, workload)
                .at(|| format!("--policy {}", Named::brief(name)))?;
        }
        if let Some(path) = &asked.save {
            pageblock_measure::run::saved::can_save(path).at(|| "--save")?;
        }
        let machine = Arc::new(machine);
        let kernels: Vec<_> = policies.into_iter().map(|named| Arc::new(named.kernel)).collect();
        let list = seeds.flat_map(|seed| {
            let (machine, kernels) = (&machine, &kernels);
            kernels.iter().map(move |kernel| Job {
                machine: Arc::clone(machine),
                kernel: Arc::clone(kernel),
                workload: load.clone(),
                seed,
            })
        });
        let list = list.collect();
        let jobs = Jobs { list, at_a_time, save: asked.save, pictures: asked.pictures };
        Ok(Self { jobs, published })
    }
}

pub(crate) fn seeds(first: u64, seeds: u64) -> Result<std::ops::Range<u64>> {
    if seeds == 0 {
        bail!("--seeds 0: at least one seed is needed");
    }
    if seeds > MAX_SEEDS {
        bail!(
            "--seeds {seeds}: at most {MAX_SEEDS} are allowed; the exact paired tests take time with the cube of \
             the seeds"
        );
    }
    let Some(end) = first.checked_add(seeds) else {
        bail!("--first-seed {first} and {seeds} seeds are too large");
    };
    Ok(first..end)
}
