//! `pageblock run`: a simulated machine under a workload, for each policy and seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::bail;
use pageblock_measure::Run;
use pageblock_measure::compare::Options;
use pageblock_simulate::simulate::Simulation;

use crate::plan::{NamedPolicy, RunFormat, RunPlan};
use crate::progress::Progress;
use crate::{Verdict, compare, interrupt, output};

/// The interval at which Ctrl-C is checked and the bar is drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A simulation to be run.
struct Job<'p> {
    policy: &'p NamedPolicy,
    seed: u64,
}

impl RunPlan {
    fn jobs_in_all(&self) -> u64 {
        (self.seeds.end - self.seeds.start) * self.policies.len() as u64
    }

    /// Orders jobs by seed, then by policy, so that an interrupted run is complete for the first seeds.
    fn job(&self, at: u64) -> Job<'_> {
        let policies = self.policies.len() as u64;
        let policy = &self.policies[(at % policies) as usize];
        Job { policy, seed: self.seeds.start + at / policies }
    }
}

pub(crate) fn run(plan: RunPlan) -> anyhow::Result<Verdict> {
    interrupt::watch()?;
    let plan = Arc::new(plan);
    let mut runs = simulate(&plan)?;
    if (runs.len() as u64) < plan.jobs_in_all() {
        let note = format!("Interrupted: {}.", finished(&plan, runs.len()));
        runs.iter_mut().for_each(|run| run.notes.push(note.clone()));
        if plan.format != RunFormat::Runs {
            runs = compare::comparable_part(runs);
        }
    }
    let options = Options { stars: plan.stars, ..Options::default() };
    output::print(&compare::text(runs, plan.format, &options, plan.published)?)?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}

/// Describes what is finished.
fn finished(plan: &RunPlan, runs: usize) -> String {
    let saved =
        plan.save.as_ref().map_or(String::new(), |path| format!(", saved in {}", path.display()));
    format!("{runs} of {} runs are finished{saved}", plan.jobs_in_all())
}

/// The state that the workers of a plan share.
struct Work {
    next: AtomicU64,
    stopped: AtomicBool,
    /// The progress of each worker's run, from 0 to 1, as the bits of a floating-point number.
    shares: Vec<AtomicU64>,
}

/// A finished run, and its index among the jobs.
type Done = (u64, anyhow::Result<Run>);

/// Runs the jobs, as many at a time as requested; returns the finished runs, in the order of the jobs.
/// After Ctrl-C it does not wait for workers.
fn simulate(plan: &Arc<RunPlan>) -> anyhow::Result<Vec<Run>> {
    let workers = (plan.jobs as u64).min(plan.jobs_in_all());
    let work = Arc::new(Work {
        next: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        shares: (0..workers).map(|_| AtomicU64::new(0)).collect(),
    });
    let (done, results) = sync_channel(0);
    for worker in 0..work.shares.len() {
        let (plan, work, done) = (Arc::clone(plan), Arc::clone(&work), done.clone());
        std::thread::spawn(move || {
            while let Some(result) = next_job(&plan, &work, worker) {
                if done.send(result).is_err() {
                    return;
                }
            }
        });
    }
    drop(done);
    let runs = collect(plan, &work, &results);
    work.stopped.store(true, Relaxed);
    runs
}

/// Runs the next job; `None` if there is none, or everything was stopped.
fn next_job(plan: &RunPlan, work: &Work, worker: usize) -> Option<Done> {
    let at = work.next.fetch_add(1, Relaxed);
    if at >= plan.jobs_in_all() || work.stopped.load(Relaxed) {
        return None;
    }
    let result = simulation(plan, &plan.job(at)).run(&mut |world| {
        work.shares[worker].store(world.share_done().to_bits(), Relaxed);
        !work.stopped.load(Relaxed)
    });
    work.shares[worker].store(0, Relaxed);
    Some((at, result.transpose()?.map_err(Into::into)))
}

/// Collects finished runs until all are finished, one fails, or Ctrl-C is pressed.
fn collect(plan: &RunPlan, work: &Work, results: &Receiver<Done>) -> anyhow::Result<Vec<Run>> {
    let jobs = plan.jobs_in_all();
    let bar = Progress::of_shares("simulating");
    let mut runs: BTreeMap<u64, Run> = BTreeMap::new();
    while (runs.len() as u64) < jobs && !interrupt::requested() {
        let under_way: f64 = work.shares.iter().map(|s| f64::from_bits(s.load(Relaxed))).sum();
        bar.set_share((runs.len() as f64 + under_way) / jobs as f64);
        bar.say(format!("simulating, {} of {jobs} runs finished", runs.len()));
        match results.recv_timeout(LOOK_EVERY) {
            Ok((at, run)) => {
                interrupt::keep(finished(plan, runs.len() + 1));
                runs.insert(at, run?);
                save(plan, &runs)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("a simulation panicked"),
        }
    }
    if runs.len() as u64 == jobs {
        bar.set_share(1.0);
    }
    Ok(runs.into_values().collect())
}

/// Saves the finished runs, so that nothing is lost if a later one fails.
fn save(plan: &RunPlan, runs: &BTreeMap<u64, Run>) -> anyhow::Result<()> {
    if let Some(path) = &plan.save {
        let runs: Vec<Run> = runs.values().cloned().collect();
        pageblock_measure::run::save(path, &runs)?;
    }
    Ok(())
}

fn simulation<'s>(plan: &'s RunPlan, job: &Job<'s>) -> Simulation<'s> {
    Simulation {
        machine: &plan.machine,
        kernel: &job.policy.kernel,
        workload: plan.workload,
        seed: job.seed,
    }
}
