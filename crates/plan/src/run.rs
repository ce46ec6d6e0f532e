//! Simulations as users ask for them: a workload under policies, on a machine at a scale, with seeds.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_kernel::Named;
use pageblock_measure::compare::published::Table;
use pageblock_measure::compare::verdict::Looks;
use pageblock_measure::statistics::sequential;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::Scale;
use pageblock_simulate::workload::{self, Workload};

use crate::error::{Place, Result, bail};
use crate::jobs::{self, Job, Jobs, Load};
use crate::own::Loads;
use crate::policy::{NamedPolicy, given_once};
use crate::{machines, published};

/// The maximum number of seeds of a run.
pub const MAX_SEEDS: u64 = 1000;

/// How many seeds a comparison has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seeds {
    /// So many.
    Fixed(u64),
    /// These.
    These(Vec<u64>),
    /// As many as the primary measures need to be decided, at most so many.
    Auto {
        /// The most.
        most: u64,
    },
}

/// The most seeds of a comparison whose number was not said.
const MOST_BY_DEFAULT: u64 = 40;

impl Seeds {
    /// Reads a number, `auto`, `auto:N`, or seeds with commas between them: `1,3,`.
    ///
    /// # Errors
    /// Says what is allowed.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let allowed = || {
            format!("a number from 1 to {MAX_SEEDS}, auto, auto:N, or which: 1,3,4; not '{text}'")
        };
        let number = |text: &str| text.parse().map_err(|_| allowed());
        match text.split_once(':') {
            _ if text == "auto" => Ok(Self::Auto { most: MOST_BY_DEFAULT }),
            Some(("auto", most)) => Ok(Self::Auto { most: number(most)? }),
            _ if text.contains(',') => {
                let each = text.split(',').filter(|one| !one.is_empty());
                Ok(Self::These(each.map(number).collect::<std::result::Result<_, _>>()?))
            }
            _ => Ok(Self::Fixed(number(text)?)),
        }
    }

    /// Returns what was said, or else what so many policies need: one policy alone is compared with nothing.
    #[must_use]
    pub fn or_default(said: Option<Self>, policies: usize) -> Self {
        said.unwrap_or(match policies {
            0 | 1 => Self::Fixed(1),
            _ => Self::Auto { most: MOST_BY_DEFAULT },
        })
    }

    /// Returns the seeds. A comparison that adds seeds until it is decided may end after some of them.
    fn list(&self, first: u64) -> Result<Vec<u64>> {
        match self {
            Self::Fixed(count) | Self::Auto { most: count } => Ok(seeds(first, *count)?.collect()),
            Self::These(these) => {
                seeds(0, these.len() as u64)?;
                if first != 1 {
                    bail!("--first-seed {first}: --seeds names every seed");
                }
                let again = (1..these.len()).find(|&at| these[..at].contains(&these[at]));
                match again {
                    Some(at) => bail!("--seeds: {} is given twice", these[at]),
                    None => Ok(these.clone()),
                }
            }
        }
    }
}

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
    /// How many seeds; by default as many as the comparison needs.
    pub seeds: Option<Seeds>,
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
    /// The number of policies.
    pub policies: usize,
    /// The number of the workload's primary measures.
    pub primary: usize,
    /// When the runs are looked at.
    pub looks: Looks,
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
        Self::of(&Loads::default().named_or_file(&asked.workload)?, asked)
    }

    /// Checks what was asked for, but the workload, which is given.
    ///
    /// # Errors
    /// Says what is wrong, and what is allowed.
    pub fn of(load: &Load, asked: RunRequest) -> Result<Self> {
        let workload = load.get();
        let at_a_time = jobs::at_a_time(asked.jobs)?;
        let scale = Scale::parse(&asked.scale).at(|| "--scale")?;
        let name = asked.machine.as_deref().unwrap_or(workload.head().machine);
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
        let wanted = Seeds::or_default(asked.seeds, policies.len());
        let seeds = wanted.list(asked.first_seed)?;
        let looks = match wanted {
            Seeds::Fixed(_) | Seeds::These(_) => Looks::Once,
            Seeds::Auto { most } => Looks::At(sequential::looks(most as usize)),
        };
        let primary = workload::tables(workload)?.primary.len();
        let count = policies.len();
        let machine = Arc::new(machine);
        let kernels: Vec<_> = policies.into_iter().map(|named| Arc::new(named.kernel)).collect();
        let list = seeds.into_iter().flat_map(|seed| {
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
        Ok(Self { jobs, published, policies: count, primary, looks })
    }
}

pub(crate) fn seeds(first: u64, seeds: u64) -> Result<std::ops::Range<u64>> {
    if seeds == 0 {
        bail!("--seeds 0: at least one seed is needed");
    }
    if seeds > MAX_SEEDS {
        bail!(
            "--seeds {seeds}: at most {MAX_SEEDS} are allowed; a change compares each run with each"
        );
    }
    let Some(end) = first.checked_add(seeds) else {
        bail!("--first-seed {first} and {seeds} seeds are too large");
    };
    Ok(first..end)
}
