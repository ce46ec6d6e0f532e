//! Simulations, as many at a time as were asked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::sim::machine_file::MachineSpec;
use pageblock_simulate::sim::world::World;
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::Workload;
use pageblock_simulate::workload::requests::Requests;

use crate::error::{Place, Result, bail};
use crate::watch::Watch;

/// How often the watcher is asked, and the bar drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A workload to be simulated.
#[derive(Clone, Debug)]
pub enum Load {
    /// One of those that are included.
    Known(&'static dyn Workload),
    /// One whose requests come from outside.
    Own(Arc<Requests>),
}

impl Load {
    /// Returns the workload.
    #[must_use]
    pub fn get(&self) -> &dyn Workload {
        match self {
            Self::Known(workload) => *workload,
            Self::Own(workload) => workload.as_ref(),
        }
    }
}

/// One simulation to be done.
#[derive(Clone, Debug)]
pub struct Job {
    /// The machine.
    pub machine: Arc<MachineSpec>,
    /// The kernel.
    pub kernel: Arc<Named>,
    /// The workload.
    pub workload: Load,
    /// The seed.
    pub seed: u64,
}

/// Simulations to be done.
#[derive(Debug)]
pub struct Jobs {
    /// The simulations.
    pub list: Vec<Job>,
    /// How many run at a time.
    pub at_a_time: usize,
    /// The file that each run is saved to when it is done.
    pub save: Option<PathBuf>,
    /// Whether the runs keep the history of the machine's memory.
    pub pictures: bool,
}

/// The number of simulations at a time: as asked for, else one a CPU.
///
/// # Errors
/// For 0.
pub fn at_a_time(jobs: Option<usize>) -> Result<usize> {
    match jobs {
        Some(0) => bail!("--jobs 0: allowed: 1 or more"),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// What the workers share.
struct Work {
    next: AtomicUsize,
    /// Where the jobs end that are run now.
    end: usize,
    stopped: AtomicBool,
    /// For each worker how far its run is, from 0 to 1 as the bits of a floating-point number.
    shares: Vec<AtomicU64>,
}

/// A run that is done, and its place among the jobs.
type Done = (usize, Result<Run>);

impl Job {
    /// Returns it in words: `hugealloc under linux-6.9 on weiner-1g8 with seed 3`.
    fn named(&self) -> String {
        let (workload, kernel) = (self.workload.get().name(), Named::brief(&self.kernel.label));
        format!("{workload} under {kernel} on {} with seed {}", self.machine.name, self.seed)
    }
}

impl Jobs {
    /// What is finished, in words.
    #[must_use]
    pub fn finished(&self, runs: usize) -> String {
        let saved = self.save.as_ref();
        let saved = saved.map_or(String::new(), |path| format!(", saved in {}", path.display()));
        format!("{runs} of {} runs are finished{saved}", self.list.len())
    }

    /// Runs them; returns those that were done with their places, in their order. When it is stopped it waits
    /// for no worker.
    ///
    /// # Errors
    /// If a simulation fails, or its run cannot be saved.
    pub fn run(self: &Arc<Self>, watch: &dyn Watch) -> Result<BTreeMap<usize, Run>> {
        self.go_on(BTreeMap::new(), self.list.len(), watch)
    }

    /// As [`run`](Self::run), after those that are done, the first ones, up to a place.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn go_on(
        self: &Arc<Self>,
        done: BTreeMap<usize, Run>,
        end: usize,
        watch: &dyn Watch,
    ) -> Result<BTreeMap<usize, Run>> {
        debug_assert!(done.keys().copied().eq(0..done.len()) && end <= self.list.len());
        let runs = done;
        let work = Arc::new(Work {
            next: AtomicUsize::new(runs.len()),
            end,
            stopped: AtomicBool::new(false),
            shares: (0..self.at_a_time.min(self.list.len())).map(|_| AtomicU64::new(0)).collect(),
        });
        let (done, results) = sync_channel(0);
        for worker in 0..work.shares.len() {
            let (jobs, work, done) = (Arc::clone(self), Arc::clone(&work), done.clone());
            std::thread::spawn(move || {
                while let Some(result) = jobs.next(&work, worker) {
                    if done.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let runs = self.collect(runs, &work, &results, watch);
        work.stopped.store(true, Relaxed);
        runs
    }

    /// Runs the next one; `None` where there is none, or all was stopped.
    fn next(&self, work: &Work, worker: usize) -> Option<Done> {
        let at = work.next.fetch_add(1, Relaxed);
        let job = self.list.get(at)?;
        let Job { machine, kernel, workload, seed } = job;
        if at >= work.end || work.stopped.load(Relaxed) {
            return None;
        }
        let simulation = Simulation { machine, kernel, workload: workload.get(), seed: *seed };
        let mut progress = |world: &World<'_>| {
            work.shares[worker].store(world.share_done().to_bits(), Relaxed);
            !work.stopped.load(Relaxed)
        };
        let result = match self.pictures {
            true => simulation.run_with_history(&mut progress),
            false => simulation.run(&mut progress),
        };
        work.shares[worker].store(0, Relaxed);
        Some((at, result.transpose()?.at(|| job.named())))
    }

    /// Collects the runs that are done, until all are, one fails, or they are stopped.
    fn collect(
        &self,
        mut runs: BTreeMap<usize, Run>,
        work: &Work,
        results: &Receiver<Done>,
        watch: &dyn Watch,
    ) -> Result<BTreeMap<usize, Run>> {
        let jobs = work.end;
        let bar = watch.shares("simulating");
        while runs.len() < jobs && !watch.stopped() {
            let under_way: f64 = work.shares.iter().map(|s| f64::from_bits(s.load(Relaxed))).sum();
            bar.set_share((runs.len() as f64 + under_way) / jobs as f64);
            bar.say(format!("simulating, {} of {jobs} runs finished", runs.len()));
            match results.recv_timeout(LOOK_EVERY) {
                Ok((at, run)) => {
                    watch.keep(self.finished(runs.len() + 1));
                    runs.insert(at, run?);
                    self.save(&runs)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let lost = (0..jobs).find(|at| !runs.contains_key(at));
                    let lost = lost.and_then(|at| self.list.get(at)).map(Job::named);
                    bail!("{}: the simulation panicked", lost.unwrap_or_default());
                }
            }
        }
        if runs.len() == jobs {
            bar.set_share(1.0);
        }
        Ok(runs)
    }

    /// Saves what is done: nothing of it is lost, whatever comes after.
    fn save(&self, runs: &BTreeMap<usize, Run>) -> Result<()> {
        if let Some(path) = &self.save {
            let runs: Vec<Run> = runs.values().cloned().collect();
            pageblock_measure::run::saved::save(path, &runs)?;
        }
        Ok(())
    }
}
