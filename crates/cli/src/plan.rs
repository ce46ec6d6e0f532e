//! Plans: checked arguments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use pageblock::policy::Policy;
use pageblock::preset::Preset;
use pageblock_kernel::{Named, file};
use pageblock_measure::certificate::Grade;
use pageblock_measure::multiops::StarRule;
use pageblock_measure::published::Table;
use pageblock_recording::CaptureOptions;
use pageblock_report::summary::Tables;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::Scale;
use pageblock_simulate::workload;

use crate::args::{Json, ReplayArgs, RunArgs, Stars, VerifyArgs};
use crate::jobs::{self, Job, Jobs};
use crate::output::in_line;
use crate::{machines, published};

/// A policy as the user named it.
#[derive(Clone, Debug)]
pub(crate) struct NamedPolicy {
    /// The argument; for a file its name without folder and extension.
    pub(crate) name: String,
    /// The allocator's part.
    pub(crate) policy: Policy,
    /// The whole kernel.
    pub(crate) kernel: Named,
}

impl NamedPolicy {
    /// Reads a policy argument: `NAME,switch=value,...`, or the path of a policy file.
    pub(crate) fn parse(argument: &str) -> anyhow::Result<Self> {
        if argument.ends_with(".toml") || argument.contains('/') {
            return Self::read(Path::new(argument));
        }
        Ok(Self::of(Named::parse(argument)?))
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let place = || path.display().to_string();
        let text = read_text(path, "a policy file", POLICY_BYTES)?;
        let name = in_line(&path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy());
        Ok(Self::of(file::parse(&text, &name).with_context(place)?))
    }

    /// Makes the kernel of a recording.
    pub(crate) fn recorded(preset: &Preset) -> Self {
        // Both tables have the same names.
        let kernel = Named::parse(preset.name).expect("every preset is a kernel");
        Self::of(kernel)
    }

    fn of(kernel: Named) -> Self {
        Self { name: kernel.label.clone(), policy: kernel.kernel.allocator, kernel }
    }
}

/// What `policy show --toml` writes, each value of each switch with its comment, takes an eighth of this.
const POLICY_BYTES: u64 = 256 << 10;

/// Reads a user's text file; rejects files above the limit, endless ones too.
pub(crate) fn read_text(path: &Path, kind: &'static str, limit: u64) -> anyhow::Result<String> {
    let bytes = pageblock_measure::file::read(path, kind, limit)?;
    String::from_utf8(bytes)
        .map_err(|_| anyhow::anyhow!("{}: {kind} is a text in UTF-8", path.display()))
}

/// The output format of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// The output format of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunFormat {
    /// The comparison as text.
    Text,
    /// The list of runs as JSON.
    Runs,
    /// The comparison as JSON.
    Comparison,
}

impl RunFormat {
    /// Returns the format for `--json`; without a value the list of runs, or the comparison if there is a
    /// published table, which does not fit in the list.
    pub(crate) fn new(json: Option<Option<Json>>, published: bool) -> anyhow::Result<Self> {
        Ok(match json {
            None => Self::Text,
            Some(Some(Json::Runs)) if published => {
                bail!(
                    "--published is part of --json=comparison; the list of runs has no place for it"
                )
            }
            Some(None) if published => Self::Comparison,
            Some(None | Some(Json::Runs)) => Self::Runs,
            Some(Some(Json::Comparison)) => Self::Comparison,
        })
    }
}

impl From<Option<Json>> for RunFormat {
    fn from(json: Option<Json>) -> Self {
        match json {
            None => Self::Text,
            Some(Json::Runs) => Self::Runs,
            Some(Json::Comparison) => Self::Comparison,
        }
    }
}

impl From<Stars> for StarRule {
    fn from(stars: Stars) -> Self {
        match stars {
            Stars::Classic => Self::Classic,
            Stars::Modern => Self::Modern,
            Stars::Off => Self::Off,
        }
    }
}

impl Format {
    pub(crate) fn new(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// `pageblock verify`.
#[derive(Clone, Debug)]
pub(crate) struct VerifyPlan {
    pub(crate) recording: PathBuf,
    pub(crate) capture: CaptureOptions,
    /// `None` means the recorded kernel's own.
    pub(crate) policy: Option<NamedPolicy>,
    /// Smallest share of decisions with the right shape, 0 to 1; 0 if none was given.
    pub(crate) min_shape: f64,
    /// Smallest share of exact decisions, 0 to 1; 0 if none was given.
    pub(crate) min_exact: f64,
    /// Smallest share of drains that are in both the recording and the replay, 0 to 1; 0 if none was given.
    pub(crate) min_drains: f64,
    /// The least grade; `None` if none was given.
    pub(crate) min_grade: Option<Grade>,
    /// Whether the recording is graded: by a free replay under its own policy.
    pub(crate) graded: bool,
    pub(crate) mismatches: usize,
    pub(crate) format: Format,
}

impl VerifyPlan {
    pub(crate) fn new(args: VerifyArgs) -> anyhow::Result<Self> {
        Ok(Self {
            recording: recording(args.recording)?,
            capture: args.capture.options()?,
            policy: args.policy.as_deref().map(NamedPolicy::parse).transpose()?,
            min_shape: share("--min-shape", args.min_shape)?,
            min_exact: share("--min-exact", args.min_exact)?,
            min_drains: share("--min-drains", args.min_drains)?,
            min_grade: args.min_grade.map(Grade::from),
            graded: !args.decisions_only && args.policy.is_none(),
            mismatches: args.mismatches,
            format: Format::new(args.json),
        })
    }
}

/// `pageblock replay`.
#[derive(Clone, Debug)]
pub(crate) struct ReplayPlan {
    pub(crate) recording: PathBuf,
    pub(crate) capture: CaptureOptions,
    /// The baseline first if one was given, then the others in the order given.
    pub(crate) policies: Vec<NamedPolicy>,
    /// Whether a baseline was given; else it is the recorded policy.
    pub(crate) has_baseline: bool,
    /// Whether to print what the recording does not support.
    pub(crate) uncertified: bool,
    pub(crate) tables: Tables,
    pub(crate) format: RunFormat,
}

impl ReplayPlan {
    pub(crate) fn new(args: ReplayArgs) -> anyhow::Result<Self> {
        let mut given = args.policies;
        let has_baseline = args.baseline.is_some();
        if let Some(baseline) = args.baseline {
            let Some(at) = given.iter().position(|policy| *policy == baseline) else {
                let given: Vec<_> = given.iter().map(|policy| Named::brief(policy)).collect();
                let baseline = Named::brief(&baseline);
                bail!("--baseline '{baseline}' is not among the policies: {}", given.join(" "));
            };
            given[..=at].rotate_right(1);
        }
        if let Some(again) = (1..given.len()).find(|&at| given[..at].contains(&given[at])) {
            bail!("--policy '{}' is given twice", Named::brief(&given[again]));
        }
        Ok(Self {
            recording: recording(args.recording)?,
            capture: args.capture.options()?,
            policies: given.iter().map(|p| NamedPolicy::parse(p)).collect::<Result<_, _>>()?,
            has_baseline,
            uncertified: args.uncertified,
            tables: Tables::parse(&args.tables.tables),
            format: args.json.into(),
        })
    }

    /// Returns the policies to replay under, including the recorded one: the others are compared with its
    /// replay, as counts of a replay differ from the recorded ones.
    pub(crate) fn with_recorded(&self, recorded: &Preset) -> Vec<NamedPolicy> {
        let mut policies = self.policies.clone();
        let place = policies.iter().position(|named| named.policy == recorded.policy);
        let mut recorded = vec![match place {
            Some(place) => policies.remove(place),
            None => NamedPolicy::recorded(recorded),
        }];
        let at = match place {
            Some(place) if self.has_baseline => place,
            _ => usize::from(self.has_baseline),
        };
        policies.splice(at..at, recorded.drain(..));
        policies
    }
}

/// `pageblock run`.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// Policy by policy within a seed, the baseline first: what is interrupted is complete for the first seeds.
    pub(crate) jobs: Jobs,
    pub(crate) stars: StarRule,
    /// The published table to be printed as well.
    pub(crate) published: Option<&'static Table>,
    pub(crate) tables: Tables,
    pub(crate) format: RunFormat,
}

impl RunPlan {
    pub(crate) fn new(args: RunArgs) -> anyhow::Result<Self> {
        let Some(workload) = workload::find(&args.workload) else {
            let known: Vec<_> = workload::ALL.iter().map(|w| w.name()).collect();
            let known = known.join(", ");
            bail!("there is no workload '{}'; there are {known}", args.workload);
        };
        if args.seeds == 0 {
            bail!("--seeds 0: at least one seed is needed");
        }
        if args.seeds > MAX_SEEDS {
            bail!(
                "--seeds {}: at most {MAX_SEEDS} are allowed; the exact paired tests take time with the \
                 cube of the seeds",
                args.seeds
            );
        }
        let Some(end) = args.first_seed.checked_add(args.seeds) else {
            bail!("--first-seed {} and {} seeds are too large", args.first_seed, args.seeds);
        };
        let at_a_time = jobs::at_a_time(args.jobs)?;
        let scale = Scale::parse(&args.scale).context("--scale")?;
        let name = args.machine.as_deref().unwrap_or(workload.machine());
        let machine = machines::load(name, scale)?;
        workload.fits(&machine)?;
        let published = published::find(workload.name(), &machine.name);
        if args.published && published.is_none() {
            bail!("--published: nothing is published of {} on {}", workload.name(), machine.name);
        }
        let published_here = published.is_some();
        let published = published.filter(|_| args.published);
        let format = RunFormat::new(args.json, args.published)?;
        let policies = match published {
            _ if !args.policies.is_empty() => args.policies,
            Some(table) => table.policies.clone(),
            None if published_here => bail!(
                "--policy is missing: at least one policy is needed, or --published for those of the \
                 published table"
            ),
            None => bail!("--policy is missing: at least one policy is needed"),
        };
        if let Some(again) = (1..policies.len()).find(|&at| policies[..at].contains(&policies[at]))
        {
            bail!("--policy '{}' is given twice", Named::brief(&policies[again]));
        }
        if let Some(table) = published {
            published::check_policies(table, policies.iter().map(String::as_str))?;
        }
        let policies: Vec<NamedPolicy> =
            policies.iter().map(|p| NamedPolicy::parse(p)).collect::<Result<_, _>>()?;
        for NamedPolicy { name, kernel, .. } in &policies {
            scaled::kernel(kernel, &machine, workload)
                .with_context(|| format!("--policy {}", Named::brief(name)))?;
        }
        can_keep(args.save.as_deref(), args.pictures, format)?;
        let machine = Arc::new(machine);
        let kernels: Vec<_> = policies.into_iter().map(|named| Arc::new(named.kernel)).collect();
        let list = (args.first_seed..end).flat_map(|seed| {
            let (machine, kernels) = (&machine, &kernels);
            kernels.iter().map(move |kernel| Job {
                machine: Arc::clone(machine),
                kernel: Arc::clone(kernel),
                workload,
                seed,
            })
        });
        Ok(Self {
            jobs: Jobs {
                list: list.collect(),
                at_a_time,
                save: args.save,
                pictures: args.pictures,
            },
            stars: args.stars.into(),
            published,
            tables: Tables::parse(&args.tables.tables),
            format,
        })
    }
}

/// Checks that the runs can be saved, if they are to be, and that somebody keeps their pictures.
fn can_keep(save: Option<&Path>, pictures: bool, format: RunFormat) -> anyhow::Result<()> {
    match save {
        Some(path) => pageblock_measure::run::can_save(path).context("--save"),
        None if pictures && format != RunFormat::Runs => {
            bail!("--pictures: nothing would keep them; --save FILE does, and --json prints them")
        }
        None => Ok(()),
    }
}

/// The maximum number of seeds of a run.
const MAX_SEEDS: u64 = 1000;

fn recording(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.is_dir() || path.is_file() {
        return Ok(path);
    }
    let problem = if path.exists() { "is no folder or file" } else { "does not exist" };
    bail!(
        "recording {} {problem}; a recording is a .pbrec, a folder with start/ and events, or a capture",
        path.display()
    )
}

fn share(option: &str, share: Option<f64>) -> anyhow::Result<f64> {
    match share {
        None => Ok(0.0),
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Some(share) => bail!("{option} {share} is not a share from 0 to 1"),
    }
}
