//! `pageblock guest run --predict`: the simulations before the guests, and the score after them.

use std::sync::Arc;

use anyhow::{Context, bail};
use pageblock_guest::series::Plan;
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::compare::prediction::Score;
use pageblock_plan::jobs::{self, Job, Jobs, Load};
use pageblock_report::{json, prediction};

use crate::progress::terminal;
use crate::{interrupt, output};

/// The file of the simulations in the folder of a series.
const FILE: &str = "predicted.json";

/// Simulates every column that can be simulated, or reads the simulations that were made before.
pub(super) fn foretell(plan: &Plan, seeds: u64) -> anyhow::Result<Vec<Run>> {
    let workload = plan.workload.0;
    let mut policies: Vec<String> = Vec::new();
    for policy in plan.columns().into_iter().filter_map(|column| column.simulated) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let path = plan.out.join(FILE);
    if path.exists() {
        let runs = pageblock_measure::run::saved::load(&path)?;
        let there = |policy: &String| runs.iter().any(|run| run.policy == *policy);
        let same = |run: &Run| run.machine == plan.machine.name && run.workload == workload.name();
        if !policies.iter().all(there) || !runs.iter().all(same) {
            bail!("{}: it predicts another series; name another folder with -o", path.display());
        }
        return Ok(runs);
    }
    if plan.out.join("runs.json").exists() {
        bail!(
            "{}: its guests ran before anything was predicted; name another folder with -o",
            plan.out.display()
        );
    }
    let machine = Arc::new(plan.machine.clone());
    let mut list = Vec::new();
    for seed in 1..=seeds {
        for policy in &policies {
            let (machine, kernel) = (Arc::clone(&machine), Arc::new(Named::parse(policy)?));
            list.push(Job { machine, kernel, workload: Load::Known(workload), seed });
        }
    }
    std::fs::create_dir_all(&plan.out).with_context(|| plan.out.display().to_string())?;
    let jobs =
        Arc::new(Jobs { list, at_a_time: jobs::at_a_time(None)?, save: None, pictures: false });
    let runs: Vec<Run> = jobs.run(terminal().as_ref())?.into_values().collect();
    if !interrupt::requested() {
        pageblock_measure::run::saved::save(&path, &runs)?;
        output::note(&format!(
            "predicted: {} simulations, saved in {}\n",
            runs.len(),
            path.display()
        ));
    }
    Ok(runs)
}

/// Returns the score as text or JSON.
pub(super) fn score(
    plan: &Plan,
    predicted: &[Run],
    real: &[Run],
    as_json: bool,
) -> anyhow::Result<String> {
    let score = Score::of(predicted, real, &plan.columns());
    Ok(if as_json { json::to_json(&score) } else { prediction::print(&score) })
}
