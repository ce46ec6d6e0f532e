//! The complete comparison of runs, as printed by the commands that make runs.

use serde::Serialize;

use crate::compare::common::Options;
use crate::compare::monitors::{self, MonitorRow};
use crate::compare::published::PublishedComparison;
use crate::compare::seeds::SeedComparison;
use crate::compare::summary::Summary;
use crate::run::Run;
use crate::run::policies::{Policies, origins};
use crate::statistics::multiops::StarRule;
use crate::tables::{self, Table};
use crate::value::error::Error;

/// A complete comparison. Its JSON has these keys and those of [`SeedComparison`] at one level
/// (docs/json.md); numbers that are not finite are null there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FullComparison {
    /// The measures that decide.
    pub summary: Summary,
    /// The measures over seeds, with the policies and the notes.
    #[serde(flatten)]
    pub over_seeds: SeedComparison,
    /// The rule for stars.
    pub stars: StarRule,
    /// The tables of the workload; empty if the runs have no data for them.
    pub tables: Vec<Table>,
    /// For each policy after the baseline, the switches in which its kernel differs from the
    /// baseline's; empty if a run does not record its kernel.
    pub kernels: Vec<String>,
    /// Where the runs come from: `simulated`, `simulated and real`.
    pub origin: String,
    /// mmtests' Duration block, in seconds; empty if no run has it.
    pub duration: Vec<MonitorRow>,
    /// mmtests' vmstat block.
    pub vmstat: Vec<MonitorRow>,
    /// The published table with our values, if it was requested; the caller sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedComparison>,
}

/// The number of switches that are named; further ones are only counted.
const NAMED: usize = 12;

/// Returns for each policy the switches in which its kernel differs from the baseline's.
fn kernels(policies: &Policies<'_>, baseline: usize) -> Vec<String> {
    let Some(base) = policies.get(baseline).and_then(|runs| runs.first()) else {
        return Vec::new();
    };
    let others = policies.iter().enumerate().filter(|&(at, _)| at != baseline);
    let line = |(_, runs): (usize, &Vec<&Run>)| {
        let other = runs.first()?;
        let differences = base.kernel_differences(other)?;
        let named: Vec<_> = differences
            .iter()
            .take(NAMED)
            .map(|(name, a, b)| format!("{name} {a} -> {b}"))
            .collect();
        let more = match differences.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more (`pageblock policy diff`)"),
        };
        Some(match named.is_empty() {
            true => format!("{} and {} are the same kernel", base.policy, other.policy),
            false => format!("{} to {}: {}{more}", base.policy, other.policy, named.join(", ")),
        })
    };
    others.filter_map(line).collect()
}

impl FullComparison {
    /// Compares the policies of the runs.
    ///
    /// # Errors
    /// As [`SeedComparison::of_runs`].
    pub fn of_runs(runs: &[Run], options: &Options) -> Result<Self, Error> {
        Self::of(&Policies::of(runs), options)
    }

    /// As [`of_runs`](Self::of_runs), of runs that are grouped already.
    ///
    /// # Errors
    /// As [`SeedComparison::of_runs`].
    pub fn of(policies: &Policies<'_>, options: &Options) -> Result<Self, Error> {
        let over_seeds = SeedComparison::of(policies, options)?;
        Ok(Self {
            summary: Summary::of(policies, options)?,
            over_seeds,
            stars: options.stars,
            tables: tables::of(policies, options.baseline, options.stars)?,
            kernels: kernels(policies, options.baseline),
            origin: origins(policies.runs()),
            duration: monitors::duration(policies),
            vmstat: monitors::vmstat(policies),
            published: None,
        })
    }
}
