//! `pageblock run`: a simulated machine under a workload, for each policy and seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use anyhow::bail;
use pageblock_lab::simulate::Simulation;
use pageblock_measure::Run;
use pageblock_measure::compare::Options;

use crate::plan::{NamedPolicy, RunPlan};
use crate::progress::Progress;
use crate::{Verdict, compare, interrupt, output};

/// One simulation to be done.
struct Job<'p> {
    policy: &'p NamedPolicy,
    seed: u64,
}

pub(crate) fn run(plan: &RunPlan) -> anyhow::Result<Verdict> {
    interrupt::watch()?;
    // Policy by policy within a seed: what is interrupted is complete for the first seeds.
    let jobs: Vec<Job<'_>> = plan
        .seeds
        .clone()
        .flat_map(|seed| plan.policies.iter().map(move |policy| Job { policy, seed }))
        .collect();
    let mut runs = simulate(plan, &jobs)?;
    if runs.is_empty() {
        bail!("interrupted before the first run was done");
    }
    if runs.len() < jobs.len() {
        let note = format!("Interrupted: {} of {} runs are done.", runs.len(), jobs.len());
        runs.iter_mut().for_each(|run| run.notes.push(note.clone()));
    }
    let options = Options {
        stars: plan.stars,
        event_counts: compare::event_counts(plan.policies.iter().map(|p| &p.policy)),
        ..Options::default()
    };
    output::print(&compare::text(runs, plan.format, options, plan.published)?)?;
    Ok(Verdict::Yes)
}

/// The runs that are done, in the order of the jobs, and what stopped one for ever.
struct Done {
    runs: Vec<Option<Run>>,
    error: Option<anyhow::Error>,
}

impl Done {
    /// Keeps a run, in the file too: nothing that is done is lost, whatever comes after it.
    fn keep(&mut self, plan: &RunPlan, at: usize, run: Run) -> anyhow::Result<()> {
        self.runs[at] = Some(run);
        if let Some(path) = &plan.save {
            let runs: Vec<Run> = self.runs.iter().flatten().cloned().collect();
            pageblock_measure::run::save(path, &runs)?;
        }
        Ok(())
    }
}

/// Runs the jobs, as many at a time as were asked for; gives those that were done, in their order.
fn simulate(plan: &RunPlan, jobs: &[Job<'_>]) -> anyhow::Result<Vec<Run>> {
    let size = plan.workload.size(&plan.machine)?;
    let bar = Progress::new("simulating", size * jobs.len() as u64, "pages");
    let (next, pages) = (AtomicUsize::new(0), AtomicU64::new(0));
    let broken = AtomicBool::new(false);
    let done = Mutex::new(Done { runs: vec![None; jobs.len()], error: None });
    let goes_on = || !interrupt::requested() && !broken.load(Relaxed);
    let worker = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(at).filter(|_| goes_on()) else { return };
            let mut before = 0;
            let result = simulation(plan, job).run(&mut |world| {
                pages.fetch_add(world.progress - before, Relaxed);
                before = world.progress;
                bar.set(pages.load(Relaxed));
                goes_on()
            });
            // Another worker's panic ends the program when the scope ends.
            let Ok(mut done) = done.lock() else { return };
            let kept = match result {
                Ok(Some(run)) => done.keep(plan, at, run),
                Ok(None) => Ok(()),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = kept {
                broken.store(true, Relaxed);
                done.error.get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.min(jobs.len()) {
            scope.spawn(worker);
        }
    });
    let Ok(Done { runs, error }) = done.into_inner() else { bail!("a simulation panicked") };
    match error {
        Some(error) => Err(error),
        None => Ok(runs.into_iter().flatten().collect()),
    }
}

fn simulation<'s>(plan: &'s RunPlan, job: &Job<'s>) -> Simulation<'s> {
    Simulation {
        machine: &plan.machine,
        kernel: &job.policy.kernel,
        workload: plan.workload,
        seed: job.seed,
    }
}
