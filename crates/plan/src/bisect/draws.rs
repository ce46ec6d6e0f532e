//! Draws of the kernels of a bisection: simulations of a workload, or replays of a recording.

use std::path::Path;
use std::sync::Arc;

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::catalogue::{Measure, deciding, primary};
use pageblock_measure::certificate::Certified;
use pageblock_measure::certificate::across::{Limit, WhatIf};
use pageblock_measure::compare::bisect::Answer;
use pageblock_measure::value::origin::Origin;
use pageblock_recording::CaptureOptions;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::{MachineSpec, Scale};
use pageblock_simulate::workload;

use super::{Draw, Kernels, Measured, PROBE, answer, comparable, same_as};
use crate::error::{Place, Result, bail};
use crate::jobs::{self, Job, Jobs, Load};
use crate::machines;
use crate::own::Loads;
use crate::policy::NamedPolicy;
use crate::replays::{self, Wanted};
use crate::run::seeds;
use crate::session::Session;
use crate::watch::Watch;

/// What was asked for of a simulation.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The workload.
    pub workload: String,
    /// The workloads that it can name.
    pub loads: Loads,
    /// The machine; by default the workload's.
    pub machine: Option<String>,
    /// The scale of both.
    pub scale: String,
    /// How many seeds, and the first.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// How many simulations run at a time; by default one a CPU.
    pub jobs: Option<usize>,
    /// The measures by name; by default the primary ones.
    pub measures: Vec<String>,
}

/// A workload on a machine.
struct Subject {
    load: Load,
    machine: MachineSpec,
}

impl Asked {
    fn subject(&self) -> Result<Subject> {
        let load = self.loads.named_or_file(&self.workload)?;
        let workload = load.get();
        let scale = Scale::parse(&self.scale).at(|| "--scale")?;
        let machine =
            machines::load(self.machine.as_deref().unwrap_or(workload.head().machine), scale)?;
        workload.fits(&machine)?;
        Ok(Subject { load, machine })
    }

    /// Returns the kernels between two that differ under the workload.
    ///
    /// # Errors
    /// Says what is wrong, and what is allowed.
    pub fn kernels(&self, from: &NamedPolicy, to: &NamedPolicy) -> Result<Kernels> {
        [from, to].iter().try_for_each(|policy| policy.without_own("bisect"))?;
        let Subject { load, machine } = self.subject()?;
        let resolve = |named: &Named| {
            let at = || format!("kernel {}", Named::brief(&named.label));
            scaled::kernel(named, &machine, load.get()).at(at)
        };
        Kernels::between(&from.kernel, &to.kernel, resolve)
    }

    /// Returns what is measured: those that were asked for, or the primary measures among those that decide, and
    /// that mean the same under both kernels.
    ///
    /// # Errors
    /// If there is no such measure, or one that was asked for means something else under one of the kernels.
    pub fn measures(&self, kernels: &Kernels) -> Result<Vec<Measure>> {
        let measures = match self.measures.is_empty() {
            false => named(&self.measures)?,
            true => {
                let primary = workload::tables(self.subject()?.load.get())?.primary;
                if primary.is_empty() {
                    bail!(
                        "--measure is missing: {} names no primary measures; there are {}",
                        self.workload,
                        deciding::names().join(", ")
                    );
                }
                primary.iter().filter_map(|of| deciding::by_id(&of.measure).cloned()).collect()
            }
        };
        comparable(measures, kernels, !self.measures.is_empty())
    }
}

/// Simulates the kernels between two, and attributes what differs; `None` if it was stopped.
///
/// # Errors
/// Says what is wrong, and what is allowed.
pub fn of_workload(
    asked: &Asked,
    (from, to): (&NamedPolicy, &NamedPolicy),
    watch: &dyn Watch,
) -> Result<Option<Answer>> {
    let Subject { load, machine } = asked.subject()?;
    named(&asked.measures)?;
    let seeds: Vec<u64> = several(asked.first_seed, asked.seeds)?.collect();
    let at_a_time = jobs::at_a_time(asked.jobs)?;
    let kernels = asked.kernels(from, to)?;
    let machine = Arc::new(machine);
    let policies: Vec<Arc<Named>> = kernels
        .texts
        .iter()
        .map(|text| Ok(Arc::new(NamedPolicy::parse(text)?.kernel)))
        .collect::<Result<_>>()?;
    let run = |of: &[usize], seeds: &[u64]| -> Result<Option<Vec<(usize, Run)>>> {
        let pairs: Vec<(u64, usize)> =
            seeds.iter().flat_map(|&seed| of.iter().map(move |&kernel| (seed, kernel))).collect();
        let job = |&(seed, kernel): &(u64, usize)| Job {
            machine: Arc::clone(&machine),
            kernel: Arc::clone(&policies[kernel]),
            workload: load.clone(),
            seed,
        };
        let list: Vec<Job> = pairs.iter().map(job).collect();
        let all = list.len();
        let jobs = Arc::new(Jobs { list, at_a_time, save: None, pictures: false });
        let runs = jobs.run(watch)?;
        let whole = runs.len() == all;
        Ok(whole.then(|| runs.into_iter().map(|(at, run)| (pairs[at].1, run)).collect()))
    };
    let all: Vec<usize> = (0..kernels.texts.len()).collect();
    let (probes, rest) = seeds.split_at(PROBE.min(seeds.len()));
    let Some(mut runs) = run(&all, probes)? else { return Ok(None) };
    let measures = measures(&asked.measures, &runs, &kernels)?;
    let same_as = same_as(&kernels, &draws(&runs, &measures));
    let left: Vec<usize> = all.into_iter().filter(|&kernel| same_as[kernel] == kernel).collect();
    let Some(more) = run(&left, rest)? else { return Ok(None) };
    runs.extend(more);
    let subject = format!("{} on {}", asked.workload, runs[0].1.machine);
    let made = (runs.len(), seeds.len());
    Ok(Some(answered(subject, &kernels, &same_as, &runs, &measures, made)))
}

/// Replays a recording under the kernels between two, in the loop with the better grade; `None` if it was stopped.
///
/// # Errors
/// As [`of_workload`], and if the recording cannot be read or replayed.
pub fn of_recording(
    path: &Path,
    (from, to): (&NamedPolicy, &NamedPolicy),
    wanted: &[String],
    seeds: u64,
    watch: &Arc<dyn Watch>,
) -> Result<Option<Answer>> {
    named(wanted)?;
    several(0, seeds)?;
    let kernels = Kernels::between(&from.kernel, &to.kernel, |named| Ok(named.kernel))?;
    let policies: Vec<NamedPolicy> =
        kernels.texts.iter().map(|text| NamedPolicy::parse(text)).collect::<Result<_>>()?;
    let mut session = Session::open(path, &CaptureOptions::default(), watch)?;
    let own = NamedPolicy::recorded(&session.recording);
    let mut replay = |of: &[NamedPolicy], seeds| -> Result<Option<Vec<Run>>> {
        let of = replays::with_recorded(of.to_vec(), true, &session.recording);
        match replays::replays(&mut session, &own, &of, Wanted::Better, seeds)? {
            Ok(runs) => Ok(Some(runs).filter(|runs| runs.len() as u64 == seeds * of.len() as u64)),
            Err(gap) => bail!("{}: nothing can be replayed: {gap}", path.display()),
        }
    };
    let with_kernels = |runs: Vec<Run>| -> Vec<(usize, Run)> {
        // The recorded kernel is replayed too, and may be another.
        let kernel = |run: &Run| kernels.texts.iter().position(|text| *text == run.policy);
        runs.into_iter().filter_map(|run| Some((kernel(&run)?, run))).collect()
    };
    let probe = seeds.min(PROBE as u64);
    let Some(probes) = replay(&policies, probe)? else { return Ok(None) };
    let mut made = probes.len();
    let probes = with_kernels(probes);
    let measures = measures(wanted, &probes, &kernels)?;
    let same_as = same_as(&kernels, &draws(&probes, &measures));
    let left: Vec<NamedPolicy> = (0..policies.len())
        .filter(|&kernel| same_as[kernel] == kernel)
        .map(|kernel| policies[kernel].clone())
        .collect();
    let Some(runs) = replay(&left, seeds)? else { return Ok(None) };
    made += runs.len();
    let runs = with_kernels(runs);
    let subject = format!("{} on {}", runs[0].1.workload, runs[0].1.machine);
    let made = (made, seeds as usize);
    Ok(Some(answered(subject, &kernels, &same_as, &runs, &measures, made)))
}

/// Returns the seeds of a bisection: several, as one decides nothing.
fn several(first: u64, count: u64) -> Result<std::ops::Range<u64>> {
    if count == 1 {
        bail!("--seeds 1: one draw cannot tell an effect from chance; at least 2 are needed");
    }
    seeds(first, count)
}

/// Returns the measures with these names: ids or labels of measures that decide.
fn named(names: &[String]) -> Result<Vec<Measure>> {
    let find = |name: &String| -> Result<Measure> {
        let all = deciding::measures();
        let found = all.iter().find(|of| of.id == name.as_str() || of.label == name.as_str());
        let Some(found) = found else {
            bail!("--measure '{name}' is not one of {}", deciding::names().join(", "));
        };
        Ok(found.clone())
    };
    names.iter().map(find).collect()
}

fn measures(names: &[String], runs: &[(usize, Run)], kernels: &Kernels) -> Result<Vec<Measure>> {
    let measures = match runs {
        [(_, run), ..] if names.is_empty() => primary::measures(std::slice::from_ref(run)),
        _ => named(names)?,
    };
    comparable(measures, kernels, !names.is_empty())
}

fn draws(runs: &[(usize, Run)], measures: &[Measure]) -> Vec<Draw> {
    let draw = |(kernel, run): &(usize, Run)| Draw {
        kernel: *kernel,
        seed: run.seed,
        event_hash: run.event_hash.clone(),
        unfinished: run.ended.is_some(),
        values: measures.iter().map(|measure| measure.number(run)).collect(),
    };
    runs.iter().map(draw).collect()
}

/// Attributes what was run: `runs` were made in all, with so many `seeds`.
fn answered(
    subject: String,
    kernels: &Kernels,
    same_as: &[usize],
    runs: &[(usize, Run)],
    measures: &[Measure],
    (made, seeds): (usize, usize),
) -> Answer {
    let certificate: Option<Certified> = runs.iter().find_map(|(_, run)| run.certificate.clone());
    let replayed = runs[0].1.origin == Origin::Replayed;
    let last = kernels.steps.last().map_or(0, |step| step.kernel);
    let what = WhatIf::between(&kernels.texts[0], &kernels.texts[last]);
    let limit = |measure: &Measure| {
        replayed.then(|| Limit::of(what, certificate.as_ref(), (&measure.id, measure.part)))
    };
    let measured: Vec<Measured> = measures
        .iter()
        .map(|measure| Measured { name: measure.full_label(), limit: limit(measure) })
        .collect();
    let mut draws = draws(runs, measures);
    let mut each = seeds;
    if replayed {
        draws = distinct(draws);
        let of = |kernel: usize| draws.iter().filter(|draw| draw.kernel == kernel).count();
        each = draws.iter().map(|draw| of(draw.kernel)).min().unwrap_or(seeds);
    }
    let made = (made, (each, runs[0].1.origin.each()));
    Answer { certificate, ..answer(subject, kernels, same_as, &draws, &measured, made) }
}

/// Leaves of replays of a kernel that have the same values the first: they tell of one order of the free lists.
fn distinct(draws: Vec<Draw>) -> Vec<Draw> {
    let mut found: Vec<Draw> = Vec::new();
    for draw in draws {
        let same = |other: &Draw| other.kernel == draw.kernel && other.values == draw.values;
        if !found.iter().any(same) {
            found.push(draw);
        }
    }
    found
}
