//! `pageblock compare`, and the comparison that commands print of the runs they make.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;
use pageblock_kernel::Named;
use pageblock_measure::compare::Options;
use pageblock_measure::full::FullComparison;
use pageblock_measure::published::Table;
use pageblock_measure::{EventUnit, Run, comparable};
use pageblock_report::summary::Tables;
use pageblock_report::{full, json};
use pageblock_simulate::workload;

use crate::args::CompareArgs;
use crate::plan::{NamedPolicy, RunFormat};
use crate::{Verdict, output, published};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let format = RunFormat::new(args.json, args.published)?;
    let (mut runs, files) = load(args)?;
    if args.force {
        comparable::keep_common(&mut runs);
    }
    if let Some(again) = given_twice(&runs) {
        let Run { policy, seed, .. } = &runs[again];
        let (file, policy) = (files[again].display(), Named::brief(policy));
        bail!("{file}: policy {policy} with seed {seed} is given twice");
    }
    let published = if args.published { Some(published_table(&runs)?) } else { None };
    let options = Options { stars: args.stars.into(), ..Options::default() };
    let tables = Tables::parse(&args.tables.tables);
    output::print(&text(runs, format, &tables, &options, published)?)?;
    Ok(Verdict::Yes)
}

/// Returns the runs of a file, with what older versions did not save.
pub(crate) fn load_file(file: &Path) -> anyhow::Result<Vec<Run>> {
    let mut loaded = pageblock_measure::run::load(file)?;
    if loaded.is_empty() {
        bail!("{}: the file contains no runs", file.display());
    }
    for run in &mut loaded {
        // Of a policy file only the name is known.
        run.extfrag_unit = run.extfrag_unit.or_else(|| {
            NamedPolicy::parse(&run.policy).ok().map(|named| EventUnit::of(&named.policy))
        });
        if run.tables.is_none()
            && let Some(workload) = workload::find(&run.workload)
        {
            run.tables = Some(workload::tables(workload)?);
        }
    }
    Ok(loaded)
}

/// Returns the runs of all files, and the file of each. They must be the same in everything but policy and
/// seed, unless `--force` is given.
fn load(args: &CompareArgs) -> anyhow::Result<(Vec<Run>, Vec<&Path>)> {
    let (mut runs, mut files): (Vec<Run>, Vec<&Path>) = Default::default();
    for file in &args.files {
        for run in load_file(file)? {
            let difference = runs.first().and_then(|first| comparable::difference(first, &run));
            if let Some(difference) = difference.filter(|_| !args.force) {
                let (a, b) = (files[0].display(), file.display());
                let place = if files[0] == file { a.to_string() } else { format!("{a} and {b}") };
                bail!(
                    "{place}: the runs differ in {difference}; --force compares what they have in common"
                );
            }
            runs.push(run);
            files.push(file);
        }
    }
    Ok((runs, files))
}

/// Returns the index of a run with the same policy and seed as an earlier one.
pub(crate) fn given_twice(runs: &[Run]) -> Option<usize> {
    let same = |a: &Run, b: &Run| a.seed == b.seed && a.policy == b.policy;
    (1..runs.len()).find(|&at| runs[..at].iter().any(|run| same(run, &runs[at])))
}

/// Prints runs, or their comparison, with the `published` table beside it. Seeds that not every policy ran are
/// excluded from the comparison.
pub(crate) fn text(
    runs: Vec<Run>,
    format: RunFormat,
    tables: &Tables,
    options: &Options,
    published: Option<&Table>,
) -> anyhow::Result<String> {
    if format == RunFormat::Runs {
        return Ok(pageblock_measure::run::to_json(&runs));
    }
    let runs = under_every_policy(runs)?;
    let mut comparison = FullComparison::of_runs(&runs, options)?;
    comparison.published = published.map(|table| table.beside(&runs)).transpose()?;
    Ok(match format {
        RunFormat::Comparison => json::to_json(&comparison),
        _ => tables.below(&comparison.summary, &full::print(&comparison)),
    })
}

/// Returns the runs of the seeds that every policy ran.
pub(crate) fn under_every_policy(mut runs: Vec<Run>) -> anyhow::Result<Vec<Run>> {
    let policies: Vec<String> = pageblock_measure::seeds::by_policy(&runs)
        .iter()
        .map(|policy| policy[0].policy.clone())
        .collect();
    let ran: BTreeSet<(u64, String)> =
        runs.iter().map(|run| (run.seed, run.policy.clone())).collect();
    runs.retain(|run| policies.iter().all(|policy| ran.contains(&(run.seed, policy.clone()))));
    if runs.is_empty() {
        let policies: Vec<_> = policies.iter().map(|policy| Named::brief(policy)).collect();
        bail!("no seed was run under every policy: {}", policies.join(" "));
    }
    Ok(runs)
}

/// Returns the comparable part of interrupted runs: if no seed was run under every policy, the runs of the
/// policies that ran the most common seed.
pub(crate) fn comparable_part(mut runs: Vec<Run>) -> Vec<Run> {
    let ran = |seed: u64| runs.iter().filter(|run| run.seed == seed).count();
    let Some(seed) = runs.iter().map(|run| run.seed).max_by_key(|&seed| ran(seed)) else {
        return runs;
    };
    let policies: Vec<String> =
        runs.iter().filter(|run| run.seed == seed).map(|run| run.policy.clone()).collect();
    runs.retain(|run| policies.contains(&run.policy));
    runs
}

/// Returns the published table of these runs, which must include its policies.
fn published_table(runs: &[Run]) -> anyhow::Result<&'static Table> {
    let (workload, machine) = (&runs[0].workload, &runs[0].machine);
    let Some(table) = published::find(workload, machine) else {
        bail!("--published: nothing is published of {workload} on {machine}");
    };
    published::check_policies(table, runs.iter().map(|run| run.policy.as_str()))?;
    Ok(table)
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
    fn a_policy_runs_a_seed_once() {
        assert_eq!(given_twice(&[run("a", 1), run("b", 1), run("a", 2)]), None);
        assert_eq!(given_twice(&[run("a", 1), run("b", 1), run("a", 1)]), Some(2));
    }
}
