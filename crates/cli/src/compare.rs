//! `pageblock compare`, and what commands that make runs print of them.

use anyhow::bail;
use pageblock::policy::Policy;
use pageblock_measure::Run;
use pageblock_measure::compare::{EventCounts, Options};
use pageblock_measure::full::FullComparison;
use pageblock_report::{full, json};

use crate::args::CompareArgs;
use crate::plan::{NamedPolicy, RunFormat};
use crate::{Verdict, output, published};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let mut runs: Vec<Run> = Vec::new();
    for file in &args.files {
        let loaded = pageblock_measure::run::load(file)?;
        if loaded.is_empty() {
            bail!("{}: there is no run in it", file.display());
        }
        for run in loaded {
            let Run { policy, seed, .. } = &run;
            if runs.iter().any(|other| other.seed == *seed && other.policy == *policy) {
                bail!("{}: policy {policy} with seed {seed} is given twice", file.display());
            }
            runs.push(run);
        }
    }
    // A policy of a file is known by its name only: what is no preset is taken as the others are.
    let names = runs.iter().map(|run| run.policy.as_str());
    let known: Vec<Policy> =
        names.filter_map(|name| Some(NamedPolicy::parse(name).ok()?.policy)).collect();
    let options = Options {
        stars: args.stars.into(),
        event_counts: event_counts(known.iter()),
        ..Options::default()
    };
    output::print(&text(runs, args.json.into(), options, args.published)?)?;
    Ok(Verdict::Yes)
}

/// Prints runs, or their comparison, with what is `published` of them if asked for. Seeds that not
/// every policy ran are left out of the comparison.
pub(crate) fn text(
    mut runs: Vec<Run>,
    format: RunFormat,
    options: Options,
    published: bool,
) -> anyhow::Result<String> {
    if format == RunFormat::Runs {
        return Ok(pageblock_measure::run::to_json(&runs));
    }
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
    let comparison = FullComparison::of_runs(&runs, &options)?;
    if format == RunFormat::Comparison {
        return Ok(json::to_json(&comparison));
    }
    let mut text = full::print(&comparison);
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
pub(crate) fn event_counts<'p>(mut policies: impl Iterator<Item = &'p Policy>) -> EventCounts {
    let Some(first) = policies.next() else { return EventCounts::Comparable };
    if policies.all(|policy| policy.list_type_strict() == first.list_type_strict()) {
        EventCounts::Comparable
    } else {
        EventCounts::DifferAcross6_10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_on_both_sides_of_6_10_are_told_apart() {
        let counts = |names: &[&str]| {
            let policies: Vec<Policy> =
                names.iter().map(|name| NamedPolicy::parse(name).unwrap().policy).collect();
            event_counts(policies.iter())
        };
        assert_eq!(counts(&["linux-6.9", "linux-5.4"]), EventCounts::Comparable);
        assert_eq!(counts(&["linux-6.9", "linux-6.10"]), EventCounts::DifferAcross6_10);
        assert_eq!(counts(&[]), EventCounts::Comparable);
    }
}
