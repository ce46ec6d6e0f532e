//! `pageblock policy try`: a policy under every workload, beside its base.

use std::sync::Arc;

use anyhow::bail;
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::catalogue::deciding;
use pageblock_measure::certificate::note::{Known, Note};
use pageblock_measure::statistics::stats::Direction;
use pageblock_measure::value::names;
use pageblock_plan::NamedPolicy;
use pageblock_plan::run::{RunPlan, RunRequest, Seeds};
use pageblock_report::json::to_json;
use pageblock_report::note::words;
use pageblock_report::table::Table;
use pageblock_simulate::workload;
use serde_json::json;

use crate::args::PolicyTryArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

/// What a policy costs, in counted steps: the label, and the steps of a run.
type Step = (&'static str, fn(&Run) -> Option<f64>);

const STEPS: [Step; 4] = [
    ("Lists looked at", |run| count(run, names::LIST_PROBES)),
    ("Blocks and pages looked at", |run| count(run, names::BLOCK_LOOKS)),
    ("Times the zone lock was taken", |run| count(run, names::ZONE_LOCK_ACQUIRED)),
    ("Steps while it is held, each time", |run| {
        let steps = count(run, names::LIST_PROBES)? + count(run, names::BLOCK_LOOKS)?;
        let locks = count(run, names::ZONE_LOCK_ACQUIRED)?;
        (locks > 0.0).then(|| steps / locks)
    }),
];

fn count(run: &Run, name: &str) -> Option<f64> {
    run.counters.get(name).map(|count| count as f64)
}

/// A measure of a workload under both policies.
struct Row {
    label: &'static str,
    workload: &'static str,
    means: [f64; 2],
    /// Seeds in which the policy is better, and worse.
    seeds: [usize; 2],
}

impl Row {
    /// Tells whether the policy is better in all of so many seeds, or worse in all.
    fn is_alike(&self, seeds: u64) -> bool {
        self.seeds.iter().any(|&of| of as u64 == seeds)
    }
}

/// What was found under all workloads.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    /// Workloads whose events are the same in every seed.
    same: Vec<&'static str>,
    /// Workloads whose events differ, and no measure does.
    alike: Vec<&'static str>,
    /// How many answers of the policy were refused.
    notes: Vec<String>,
    left_out: Vec<String>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.same.is_empty() && self.alike.is_empty()
    }

    fn take(&mut self, workload: &'static str, pairs: &[[Run; 2]]) {
        let notes = pairs.first().map_or(&[][..], |[_, policy]| &policy.notes);
        let refused = notes.iter().filter(|n| matches!(n, Note::Of(Known::Refused { .. })));
        self.notes.extend(refused.map(|note| format!("{workload}, seed 1: {}", words(note))));
        if pairs.iter().all(|[a, b]| a.event_hash == b.event_hash) {
            return self.same.push(workload);
        }
        let rows = measured(workload, pairs);
        if rows.is_empty() {
            self.alike.push(workload);
        }
        self.rows.extend(rows);
    }
}

pub(super) fn run(args: &PolicyTryArgs) -> anyhow::Result<Verdict> {
    let policy = NamedPolicy::parse(&args.policy)?;
    let base = match &args.base {
        Some(base) => NamedPolicy::parse(base)?,
        None => NamedPolicy::of(Named::of_preset(policy.kernel.base)),
    };
    if base.name == policy.name {
        bail!("{} is its own base: give a policy that differs, or --base", base.name);
    }
    let all: Vec<_> = workload::ALL.iter().map(|workload| workload.name()).collect();
    for name in &args.workloads {
        pageblock_plan::run::find_workload(name)?;
    }
    let asked = |name: &&str| args.workloads.is_empty() || args.workloads.iter().any(|w| w == name);
    interrupt::watch();
    let mut found = Found::default();
    for name in all.into_iter().filter(asked) {
        match of_workload(name, [&base, &policy], args) {
            Ok(pairs) if pairs.is_empty() => break,
            Ok(pairs) => found.take(name, &pairs),
            Err(error) => found.left_out.push(format!("{name}: {error}")),
        }
    }
    if found.is_empty() && !interrupt::requested() {
        bail!("no workload could be run: {}", found.left_out.join("; "));
    }
    output::print(&if args.json {
        json(&found, [&base, &policy])
    } else {
        text(&found, [&base, &policy], args.seeds)
    })?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}

/// Runs a workload; returns the runs of both policies, seed by seed. None if it was interrupted.
fn of_workload(
    name: &str,
    policies: [&NamedPolicy; 2],
    args: &PolicyTryArgs,
) -> pageblock_plan::Result<Vec<[Run; 2]>> {
    let plan = RunPlan::new(RunRequest {
        workload: name.to_owned(),
        policies: policies.map(Clone::clone).to_vec(),
        machine: None,
        published: false,
        seeds: Some(Seeds::Fixed(args.seeds)),
        first_seed: 1,
        scale: args.scale.clone(),
        jobs: args.jobs,
        save: None,
        pictures: false,
    })?;
    let mut runs = Arc::new(plan.jobs).run(terminal().as_ref())?;
    // The jobs are policy by policy within a seed.
    let seeds = (0..).step_by(2).map_while(|at| Some([runs.remove(&at)?, runs.remove(&(at + 1))?]));
    Ok(seeds.collect())
}

fn measured(workload: &'static str, pairs: &[[Run; 2]]) -> Vec<Row> {
    let deciding = deciding::measures().iter().map(|measure| {
        let read = |run: &Run| measure.number(run);
        row(workload, &measure.label, measure.direction, pairs, read)
    });
    let steps =
        STEPS.iter().map(|(label, read)| row(workload, label, Direction::Lower, pairs, read));
    deciding.chain(steps).flatten().collect()
}

/// A measure; `None` if it is not measured, or the same in every seed.
fn row(
    workload: &'static str,
    label: &'static str,
    direction: Direction,
    pairs: &[[Run; 2]],
    read: impl Fn(&Run) -> Option<f64>,
) -> Option<Row> {
    let values = pairs.iter().map(|[a, b]| Some([read(a)?, read(b)?]));
    let values = values.collect::<Option<Vec<_>>>()?;
    let mean = |of: usize| values.iter().map(|pair| pair[of]).sum::<f64>() / values.len() as f64;
    let better = |[a, b]: &&[f64; 2]| if direction == Direction::Higher { b > a } else { b < a };
    let differ = values.iter().filter(|[a, b]| a != b).count();
    let better = values.iter().filter(better).count();
    let means = [mean(0), mean(1)];
    (differ > 0).then_some(Row { label, workload, means, seeds: [better, differ - better] })
}

fn text(found: &Found, [base, policy]: [&NamedPolicy; 2], seeds: u64) -> String {
    let Found { rows, same, alike, notes, left_out } = found;
    let mut table = Table::new().text("workload").text("mean of a run");
    table = table.number("base").number("policy").number("difference");
    table = table.number("seeds better").number("worse");
    let mut last = "";
    for row in rows {
        let workload = if row.workload == last { "" } else { row.workload };
        last = row.workload;
        let [a, b] = row.means;
        let change =
            if a == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (b / a - 1.0) * 100.0) };
        let [better, worse] = row.seeds.map(|seeds| seeds.to_string());
        table.row([workload, row.label, &number(a), &number(b), &change, &better, &worse]);
    }
    let mut text = format!("base: {}\npolicy: {}\n", base.name, policy.name);
    if !rows.is_empty() {
        text += &format!("\n{}", table.print());
    }
    text += &format!("\n{seeds} seeds each. {}\n", beside_chance(rows, seeds));
    if !same.is_empty() {
        text += &format!("The same events in every seed: {}.\n", same.join(", "));
    }
    if !alike.is_empty() {
        text += &format!("Other events, and no measure differs: {}.\n", alike.join(", "));
    }
    for note in notes {
        text += &format!("{note}\n");
    }
    for reason in left_out {
        text += &format!("Left out: {reason}.\n");
    }
    text
}

/// Says how many effects are alike in all seeds, and how many chance alone makes. Costs are counted apart: they
/// follow from what the policy does.
fn beside_chance(rows: &[Row], seeds: u64) -> String {
    // Without an effect each seed falls to either side by a toss, whatever the measure's distribution is.
    let one_in = 2f64.powi(i32::try_from(seeds).unwrap_or(i32::MAX) - 1);
    let is_cost = |row: &&Row| STEPS.iter().any(|(label, _)| *label == row.label);
    let effects: Vec<_> = rows.iter().filter(|row| !is_cost(row)).collect();
    let alike = effects.iter().filter(|row| row.is_alike(seeds)).count();
    match effects.len() {
        0 => format!("By chance one measure of {one_in} goes one way in all."),
        n => format!(
            "{alike} of {n} measures besides costs go one way in all; chance alone makes about {:.1}.",
            n as f64 / one_in
        ),
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn json(found: &Found, [base, policy]: [&NamedPolicy; 2]) -> String {
    let row = |row: &Row| {
        json!({
            "workload": row.workload,
            "measure": row.label,
            "base": row.means[0],
            "policy": row.means[1],
            "seeds_better": row.seeds[0],
            "seeds_worse": row.seeds[1],
        })
    };
    to_json(&json!({
        "base": base.name,
        "policy": policy.name,
        "rows": found.rows.iter().map(row).collect::<Vec<_>>(),
        "same": found.same,
        "alike": found.alike,
        "notes": found.notes,
        "left_out": found.left_out,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy whose answers are all refused changes no measure, and says so.
    #[test]
    fn nothing_that_was_run_is_left_unsaid() {
        let note = "hugealloc-short, seed 1: mine: 7 answers were not possible".to_owned();
        let found =
            Found { alike: vec!["hugealloc-short"], notes: vec![note.clone()], ..Found::default() };
        assert!(!found.is_empty());
        let policies = ["linux-7.3", "linux-7.3,claim_share=75"];
        let [base, policy] = policies.map(|text| NamedPolicy::parse(text).unwrap());
        let printed = text(&found, [&base, &policy], 2);
        assert!(
            printed.contains("Other events, and no measure differs: hugealloc-short.\n"),
            "{printed}"
        );
        assert!(printed.contains(&note), "{printed}");
        assert!(json(&found, [&base, &policy]).contains(&note));
    }
}
