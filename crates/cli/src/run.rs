//! `pageblock run`: a simulated machine under a workload, for each policy and seed.

use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_measure::certificate::note::Note;
use pageblock_measure::compare::common::Options;
use pageblock_plan::compare::comparable_part;

use crate::plan::{RunFormat, RunPlan};
use crate::progress::terminal;
use crate::{Verdict, compare, interrupt, output};

pub(crate) fn run(plan: RunPlan) -> anyhow::Result<Verdict> {
    interrupt::watch();
    let jobs = Arc::new(plan.jobs);
    let mut runs: Vec<Run> = jobs.run(terminal().as_ref())?.into_values().collect();
    if runs.len() < jobs.list.len() {
        let note = Note::from(format!("Interrupted: {}.", jobs.finished(runs.len())));
        runs.iter_mut().for_each(|run| run.notes.push(note.clone()));
        if plan.format != RunFormat::Runs {
            runs = comparable_part(runs);
        }
    }
    let options = Options { stars: plan.stars, ..Options::default() };
    output::print(&compare::text(runs, plan.format, &plan.tables, &options, plan.published)?)?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}
