//! `pageblock compare`, and what `pageblock run` prints: mmtests' tables, then paired statistics.

use anyhow::bail;
use pageblock_measure::Run;
use pageblock_measure::compare::{EventCounts, Options};
use pageblock_measure::seeds::SeedComparison;
use pageblock_report::thpfioscale;

use crate::args::CompareArgs;
use crate::plan::NamedPolicy;
use crate::{Verdict, output, published};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let mut runs = Vec::new();
    for file in &args.files {
        runs.extend(pageblock_measure::run::load(file)?);
    }
    if args.json {
        output::print(&pageblock_measure::run::to_json(&runs))?;
        return Ok(Verdict::Yes);
    }
    output::print(&text(runs, args.published)?)?;
    Ok(Verdict::Yes)
}

/// The whole report of some runs, with what is `published` of them if asked for. Seeds that not every
/// policy ran are left out.
pub(crate) fn text(mut runs: Vec<Run>, published: bool) -> anyhow::Result<String> {
    let policies: Vec<String> = pageblock_measure::seeds::by_policy(&runs)
        .iter()
        .map(|policy| policy[0].policy.clone())
        .collect();
    let complete = |seed: u64, runs: &[Run]| {
        policies.iter().all(|p| runs.iter().any(|r| r.seed == seed && r.policy == *p))
    };
    let all = runs.clone();
    runs.retain(|run| complete(run.seed, &all));
    if runs.is_empty() {
        bail!("no seed was run under every policy: {}", policies.join(" "));
    }
    let options = Options { event_counts: event_counts(&policies), ..Options::default() };
    let comparison = SeedComparison::of_runs(&runs, &options)?;
    let mut text = thpfioscale::print(&runs)?;
    text += &pageblock_report::seeds::print(&comparison);
    if published {
        text.push('\n');
        text += &beside_published(&runs)?;
    }
    Ok(text)
}

/// The published table of these runs beside theirs.
fn beside_published(runs: &[Run]) -> anyhow::Result<String> {
    let (workload, machine) = (&runs[0].workload, &runs[0].machine);
    let Some(table) = published::find(workload, machine) else {
        bail!("--published: nothing is published of {workload} on {machine}");
    };
    let missing: Vec<_> =
        table.policies.iter().filter(|p| !runs.iter().any(|r| r.policy == **p)).cloned().collect();
    if !missing.is_empty() {
        bail!("--published: the table needs runs under {}", missing.join(" and "));
    }
    Ok(pageblock_report::published::print(&table.beside(runs)?))
}

/// From 6.10 every page taken from another type's list is an event, before only each block.
fn event_counts(policies: &[String]) -> EventCounts {
    let strict = |name: &&String| {
        NamedPolicy::parse(name).is_ok_and(|named| named.policy.list_type_strict())
    };
    let after = policies.iter().filter(strict).count();
    if after == 0 || after == policies.len() {
        EventCounts::Comparable
    } else {
        EventCounts::DifferAcross6_10
    }
}
