//! `pageblock run`: a simulated machine under a workload, for each policy and seed.

use std::sync::Arc;

use pageblock_measure::Run;
use pageblock_measure::certificate::note::Note;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::verdict::Looks;
use pageblock_plan::compare::comparable_part;
use pageblock_plan::sequential;
use pageblock_report::summary;

use crate::plan::{RunFormat, RunPlan};
use crate::progress::terminal;
use crate::{Verdict, compare, interrupt, output};

pub(crate) fn run(plan: RunPlan) -> anyhow::Result<Verdict> {
    interrupt::watch();
    let jobs = Arc::new(plan.jobs);
    let seeds = jobs.list.len() / plan.policies.max(1);
    let mut options = Options { stars: plan.stars, looks: plan.looks, ..Options::default() };
    let can = match &options.looks {
        // What a program reads says it itself.
        _ if plan.format != RunFormat::Text => None,
        Looks::Once => summary::can_decide(plan.policies, plan.primary, seeds),
        Looks::At(_) => Some(summary::will_look(seeds)),
    };
    if let Some(said) = can {
        output::note(&format!("{said}\n"));
    }
    let watch = terminal();
    let (runs, stopped) = sequential::run(&jobs, plan.policies, &options, watch.as_ref())?;
    let mut runs: Vec<Run> = runs.into_values().collect();
    if interrupt::requested() && runs.len() < jobs.list.len() {
        let note = Note::from(format!("Interrupted: {}.", jobs.finished(runs.len())));
        runs.iter_mut().for_each(|run| run.notes.push(note.clone()));
        options.notes.push(note);
        if plan.format != RunFormat::Runs {
            runs = comparable_part(runs);
        }
    }
    let options = Options { stopped, ..options };
    output::print(&compare::text(runs, plan.format, &plan.tables, &options, plan.published)?)?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}
