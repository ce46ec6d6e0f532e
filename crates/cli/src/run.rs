//! `pageblock run`: a simulated machine under a workload, for each policy and seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use anyhow::bail;
use pageblock_lab::simulate::Simulation;
use pageblock_measure::Run;

use crate::plan::{Format, NamedPolicy, RunPlan};
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
    let done = runs.len();
    if done == 0 {
        bail!("interrupted before the first run was done");
    }
    if done < jobs.len() {
        let note = format!("Interrupted: {done} of {} runs are done.", jobs.len());
        runs.iter_mut().for_each(|run| run.notes.push(note.clone()));
    }
    if let Some(path) = &plan.save {
        pageblock_measure::run::save(path, &runs)?;
    }
    if plan.format == Format::Json {
        output::print(&pageblock_measure::run::to_json(&runs))?;
    } else {
        output::print(&compare::text(runs, plan.published)?)?;
    }
    Ok(Verdict::Yes)
}

/// Runs the jobs, as many at a time as were asked for; gives those that were done, in their order.
fn simulate(plan: &RunPlan, jobs: &[Job<'_>]) -> anyhow::Result<Vec<Run>> {
    let size = plan.workload.size(&plan.machine)?;
    let bar = Progress::new("simulating", size * jobs.len() as u64, "pages");
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let results: Mutex<Vec<Option<anyhow::Result<Option<Run>>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    let worker = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(at) else { return };
            if interrupt::requested() {
                return;
            }
            let mut before = 0;
            let result = simulation(plan, job).run(&mut |world| {
                done.fetch_add(world.progress - before, Relaxed);
                before = world.progress;
                bar.set(done.load(Relaxed));
                !interrupt::requested()
            });
            if let Ok(mut results) = results.lock() {
                results[at] = Some(result.map_err(anyhow::Error::from));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.min(jobs.len()) {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().unwrap_or_default();
    let mut runs = Vec::new();
    for result in results.into_iter().flatten() {
        runs.extend(result?);
    }
    Ok(runs)
}

fn simulation<'s>(plan: &'s RunPlan, job: &Job<'s>) -> Simulation<'s> {
    let NamedPolicy { name, base, policy } = job.policy;
    // A distribution's kernel is as old as the mainline version in its name.
    let digits = base.name.rsplit_once('-').map_or("", |(_, version)| version);
    let named = digits.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    Simulation {
        machine: &plan.machine,
        policy: (name, *policy),
        version: base.version().or(named).unwrap_or((3, 10)),
        workload: plan.workload,
        seed: job.seed,
    }
}
