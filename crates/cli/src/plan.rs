//! Plans: checked arguments.

use std::path::PathBuf;

use anyhow::bail;
use pageblock_kernel::Named;
use pageblock_measure::certificate::{Grade, Loop};
use pageblock_measure::compare::published::Table;
use pageblock_measure::compare::verdict::Looks;
use pageblock_measure::statistics::multiops::StarRule;
use pageblock_plan::jobs::Jobs;
use pageblock_plan::policy::given_once;
use pageblock_plan::replays::Wanted;
use pageblock_plan::run::{self, RunRequest};
use pageblock_plan::{NamedPolicy, recording};
use pageblock_recording::CaptureOptions;
use pageblock_report::chosen::Tables;

use crate::args::{Json, ReplayArgs, RunArgs, Stars, VerifyArgs};

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
            recording: recording::path(args.recording)?,
            capture: args.capture.options()?,
            policy: args.policy.as_deref().map(in_replay).transpose()?,
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
    /// Which loop to replay in.
    pub(crate) wanted: Wanted,
    pub(crate) seeds: u64,
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
        given_once(given.iter().map(String::as_str))?;
        Ok(Self {
            recording: recording::path(args.recording)?,
            capture: args.capture.options()?,
            policies: named(&given)?,
            has_baseline,
            wanted: match (args.open_loop, args.closed_loop) {
                (true, _) => Wanted::Only(Loop::Open),
                (_, true) => Wanted::Only(Loop::Closed),
                _ => Wanted::Better,
            },
            seeds: args.seeds,
            uncertified: args.uncertified,
            tables: Tables::parse(&args.tables.tables),
            format: args.json.into(),
        })
    }
}

/// `pageblock run`.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// Policy by policy within a seed, the baseline first: what is interrupted is complete for the first seeds.
    pub(crate) jobs: Jobs,
    /// The number of policies, and of the workload's primary measures.
    pub(crate) policies: usize,
    pub(crate) primary: usize,
    pub(crate) looks: Looks,
    pub(crate) stars: StarRule,
    /// The published table to be printed as well.
    pub(crate) published: Option<&'static Table>,
    pub(crate) tables: Tables,
    pub(crate) format: RunFormat,
}

impl RunPlan {
    pub(crate) fn new(args: RunArgs) -> anyhow::Result<Self> {
        let format = RunFormat::new(args.json, args.published)?;
        if args.pictures && args.save.is_none() && format != RunFormat::Runs {
            bail!("--pictures: nothing would keep them; --save FILE does, and --json prints them");
        }
        let run::RunPlan { jobs, published, policies, primary, looks } =
            run::RunPlan::new(RunRequest {
                workload: args.workload,
                policies: named(&args.policies)?,
                machine: args.machine,
                published: args.published,
                seeds: args.seeds,
                first_seed: args.first_seed,
                scale: args.scale,
                jobs: args.jobs,
                save: args.save,
                pictures: args.pictures,
            })?;
        let tables = Tables::parse(&args.tables.tables);
        Ok(Self {
            jobs,
            policies,
            primary,
            looks,
            stars: args.stars.into(),
            published,
            tables,
            format,
        })
    }
}

/// Reads the policy of a replay.
fn in_replay(policy: &str) -> pageblock_plan::Result<NamedPolicy> {
    let named = NamedPolicy::parse(policy)?;
    named.without_own("a replay")?;
    Ok(named)
}

/// Reads policy arguments.
pub(crate) fn named(policies: &[String]) -> pageblock_plan::Result<Vec<NamedPolicy>> {
    policies.iter().map(|policy| NamedPolicy::parse(policy)).collect()
}

fn share(option: &str, share: Option<f64>) -> anyhow::Result<f64> {
    match share {
        None => Ok(0.0),
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Some(share) => bail!("{option} {share} is not a share from 0 to 1"),
    }
}
