//! Runs that are compared: those of files, and those that every policy ran.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pageblock_kernel::Named;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::comparable;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::compare::published::Table;
use pageblock_measure::run::policies::Policies;
use pageblock_measure::{Origin, Run};

use crate::error::{Result, bail};
use crate::{by_name, mmtests, published};

/// Returns the runs of a file: of saved runs, with what older versions did not save, or of a table, such as the folder of a sweep, or of
/// a folder of mmtests.
///
/// # Errors
/// If the file cannot be read, or has no runs.
pub fn load_file(file: &Path) -> Result<Vec<Run>> {
    #[cfg(feature = "full")]
    if is_table(file) {
        return crate::sweep::runs_of_file(file);
    }
    if mmtests::is_folder(file) {
        return mmtests::runs(file);
    }
    let mut loaded = pageblock_measure::run::saved::load(file)?;
    if loaded.is_empty() {
        bail!("{}: the file contains no runs", file.display());
    }
    by_name::complete(&mut loaded)?;
    Ok(loaded)
}

/// The runs of sources, each with its name: files, for one.
pub type Sources = Vec<(String, Vec<Run>)>;

/// Reports whether a file is a table of runs, which may have several workloads and machines.
#[cfg(feature = "full")]
pub use crate::sweep::is_table;

/// A small build reads no tables.
#[cfg(not(feature = "full"))]
const fn is_table(_file: &Path) -> bool {
    false
}

/// The kinds of sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// Saved runs only, which are all compared with each other.
    Runs,
    /// A table is among them, which may have several workloads and machines.
    Tables,
}

impl Given {
    /// Returns the kind of sources, with or without tables.
    #[must_use]
    pub const fn with(tables: bool) -> Self {
        if tables { Self::Tables } else { Self::Runs }
    }
}

/// Returns the runs of sources that are compared with each other: all of them, or if there are tables and nothing is
/// forced, those of each workload and machine, in the order in which these first occur.
///
/// # Errors
/// If the runs of a group cannot be compared, or one is given twice.
pub fn groups(sources: Sources, given: Given, force: bool) -> Result<Vec<Vec<Run>>> {
    let apart = given == Given::Tables && !force;
    let groups = if apart { by_place(sources) } else { vec![sources] };
    groups.into_iter().map(|group| gather(group, force)).collect()
}

/// Splits the runs of each source by workload and machine.
fn by_place(sources: Sources) -> Vec<Sources> {
    let mut groups: Vec<((String, String), Sources)> = Vec::new();
    for (name, runs) in sources {
        for run in runs {
            let is_place = |(workload, machine): &(String, String)| {
                *workload == run.workload && *machine == run.machine
            };
            let at = groups.iter().position(|(of, _)| is_place(of)).unwrap_or_else(|| {
                groups.push(((run.workload.clone(), run.machine.clone()), Vec::new()));
                groups.len() - 1
            });
            match groups[at].1.last_mut() {
                Some((of, runs)) if *of == name => runs.push(run),
                _ => groups[at].1.push((name.clone(), vec![run])),
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the runs of all sources. They must be the same in everything but policy and seed; with `force` they lose what
/// differs.
fn gather(sources: Sources, force: bool) -> Result<Vec<Run>> {
    let (mut runs, mut names): (Vec<Run>, Vec<String>) = Default::default();
    for (name, of_source) in sources {
        for run in of_source {
            let difference = runs.first().and_then(|first| comparable::difference(first, &run));
            if let Some(difference) = difference.filter(|_| !force) {
                let place = match names[0] == name {
                    true => name,
                    false => format!("{} and {name}", names[0]),
                };
                bail!(
                    "{place}: the runs differ in {difference}; --force compares what they have in common"
                );
            }
            runs.push(run);
            names.push(name.clone());
        }
    }
    if force {
        comparable::keep_common(&mut runs);
    }
    if let Some(again) = given_twice(&runs) {
        let Run { policy, seed, .. } = &runs[again];
        let (name, policy) = (&names[again], Named::brief(policy));
        bail!("{name}: policy {policy} with seed {seed} is given twice");
    }
    if runs.is_empty() {
        bail!("there are no runs to compare");
    }
    Ok(runs)
}

/// Returns the runs of files, as [`groups`] does.
///
/// # Errors
/// If a file cannot be read, and those of [`groups`].
pub fn load(files: &[PathBuf], force: bool) -> Result<Vec<Vec<Run>>> {
    let named = |file: &PathBuf| Ok((file.display().to_string(), load_file(file)?));
    let sources = files.iter().map(named).collect::<Result<_>>()?;
    groups(sources, Given::with(files.iter().any(|file| is_table(file))), force)
}

/// Compares runs, with the `published` table beside them. Seeds that not every policy ran are excluded.
///
/// # Errors
/// If no seed was run under every policy, or the runs are not those of the table.
pub fn compared(
    runs: Vec<Run>,
    options: &Options,
    published: Option<&Table>,
) -> Result<FullComparison> {
    let runs = under_every_policy(runs)?;
    let policies = Policies::of(&runs);
    let mut comparison = FullComparison::of(&policies, options)?;
    comparison.published = published.map(|table| table.beside(&policies)).transpose()?;
    Ok(comparison)
}

/// Returns the published table of these runs, which must include its policies.
///
/// # Errors
/// If nothing is published of them.
pub fn published_table(runs: &[Run]) -> Result<&'static Table> {
    let (workload, machine) = (&runs[0].workload, &runs[0].machine);
    let Some(table) = published::find(workload, machine) else {
        bail!("--published: nothing is published of {workload} on {machine}");
    };
    published::check_policies(table, runs.iter().map(|run| run.policy.as_str()))?;
    Ok(table)
}

/// Returns the index of a run with the same policy and seed as an earlier one.
#[must_use]
pub fn given_twice(runs: &[Run]) -> Option<usize> {
    let mut seen = BTreeSet::new();
    runs.iter().position(|run| !seen.insert((run.seed, run.policy.as_str())))
}

/// Returns the runs of the seeds that every policy ran.
///
/// # Errors
/// If there is no such seed.
pub fn under_every_policy(mut runs: Vec<Run>) -> Result<Vec<Run>> {
    let policies: Vec<String> =
        Policies::of(&runs).iter().map(|policy| policy[0].policy.clone()).collect();
    let ran: BTreeSet<(u64, String)> =
        runs.iter().map(|run| (run.seed, run.policy.clone())).collect();
    // Real runs share no seed with any other.
    let real: BTreeSet<&String> = policies.iter().filter(|policy| is_real(&runs, policy)).collect();
    let ran_by = |seed: u64, policy: &String| ran.contains(&(seed, policy.clone()));
    let keep: Vec<bool> = runs
        .iter()
        .map(|run| {
            run.origin == Origin::Real
                || policies.iter().all(|policy| real.contains(policy) || ran_by(run.seed, policy))
        })
        .collect();
    let mut keep = keep.into_iter();
    runs.retain(|_| keep.next().unwrap_or(true));
    if runs.is_empty() {
        let policies: Vec<_> = policies.iter().map(|policy| Named::brief(policy)).collect();
        bail!("no seed was run under every policy: {}", policies.join(" "));
    }
    Ok(runs)
}

fn is_real(runs: &[Run], policy: &str) -> bool {
    runs.iter().any(|run| run.policy == policy && run.origin == Origin::Real)
}

/// Returns the comparable part of interrupted runs: if no seed was run under every policy, the runs of the
/// policies that ran the most common seed.
#[must_use]
pub fn comparable_part(mut runs: Vec<Run>) -> Vec<Run> {
    let ran = |seed: u64| runs.iter().filter(|run| run.seed == seed).count();
    let Some(seed) = runs.iter().map(|run| run.seed).max_by_key(|&seed| ran(seed)) else {
        return runs;
    };
    let policies: Vec<String> =
        runs.iter().filter(|run| run.seed == seed).map(|run| run.policy.clone()).collect();
    runs.retain(|run| policies.contains(&run.policy));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, seed: u64) -> Run {
        Run { policy: policy.into(), seed, ..Run::default() }
    }

    #[test]
    fn interrupted_runs_keep_what_can_be_compared() {
        let kept = |runs: &[(&str, u64)]| -> Vec<(String, u64)> {
            let runs = runs.iter().map(|&(policy, seed)| run(policy, seed)).collect();
            comparable_part(runs).into_iter().map(|run| (run.policy, run.seed)).collect()
        };
        let of = |runs: &[(&str, u64)]| -> Vec<(String, u64)> {
            runs.iter().map(|&(policy, seed)| (policy.to_owned(), seed)).collect()
        };
        assert_eq!(kept(&[("a", 1)]), of(&[("a", 1)]));
        assert_eq!(kept(&[("a", 1), ("b", 1), ("a", 2)]), of(&[("a", 1), ("b", 1), ("a", 2)]));
        assert_eq!(kept(&[("a", 1), ("b", 1), ("c", 2)]), of(&[("a", 1), ("b", 1)]));
        assert_eq!(kept(&[]), of(&[]));
    }

    #[test]
    fn real_runs_are_kept_whatever_their_numbers() {
        let real = |seed| Run { origin: Origin::Real, ..run("real", seed) };
        let runs = vec![run("a", 1), run("a", 2), run("b", 2), real(7), real(8), real(9)];
        let kept = under_every_policy(runs).unwrap();
        let kept: Vec<_> = kept.iter().map(|run| (run.policy.as_str(), run.seed)).collect();
        assert_eq!(kept, [("a", 2), ("b", 2), ("real", 7), ("real", 8), ("real", 9)]);
        assert!(under_every_policy(vec![run("a", 1), run("b", 2)]).is_err());
    }

    #[test]
    fn a_policy_runs_a_seed_once() {
        assert_eq!(given_twice(&[run("a", 1), run("b", 1), run("a", 2)]), None);
        assert_eq!(given_twice(&[run("a", 1), run("b", 1), run("a", 1)]), Some(2));
    }
}
