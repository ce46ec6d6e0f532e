//! `pageblock repeat`: saved runs made again from their file alone.

use std::sync::Arc;

use anyhow::{Context, bail};
use pageblock_kernel::Named;
use pageblock_measure::value::setup::SetupRecord;
use pageblock_measure::{Origin, Run};
use pageblock_plan::jobs::{self, Job, Jobs, Load};
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::{self, MachineError, MachineSpec, Scale};
use pageblock_simulate::workload;

use crate::args::RepeatArgs;
use crate::output::in_line;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: RepeatArgs) -> anyhow::Result<Verdict> {
    let saved = pageblock_measure::run::saved::load(&args.file)?;
    if saved.is_empty() {
        bail!("{}: there is no run in it", args.file.display());
    }
    let list = saved
        .iter()
        .enumerate()
        .map(|(at, run)| job(run).with_context(|| format!("{}: [{at}]", args.file.display())));
    let jobs = Arc::new(Jobs {
        list: list.collect::<Result<_, _>>()?,
        at_a_time: jobs::at_a_time(args.jobs)?,
        save: args.save,
        pictures: saved.iter().any(|run| run.history.is_some()),
    });
    if let Some(path) = &jobs.save {
        pageblock_measure::run::saved::can_save(path).context("--save")?;
    }
    interrupt::watch();
    let repeated = jobs.run(terminal().as_ref())?;
    let (mut text, mut verdict) = (String::new(), Verdict::Yes);
    for (at, again) in &repeated {
        let run = &saved[*at];
        let Run { policy, workload, machine, seed, .. } = run;
        text += &format!("{}, seed {seed}, {workload} on {machine}: ", Named::brief(policy));
        text += &match difference(run, again) {
            None => format!("the same event hash {}\n", again.event_hash),
            Some(difference) => {
                verdict = Verdict::No;
                format!("{difference}; {}\n", versions(run, again))
            }
        };
    }
    output::print(&text)?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { verdict })
}

/// The simulation that a run was. Errors name the run's key that does not allow to repeat it.
fn job(run: &Run) -> anyhow::Result<Job> {
    if run.origin != Origin::Simulated {
        bail!("the run is {}; only simulations can be repeated", run.origin.word());
    }
    let Some(workload) = workload::find(&run.workload) else {
        bail!("`{}` is not a workload; only simulations can be repeated", in_line(&run.workload));
    };
    let Some(kept) = &run.kernel else { bail!("{}", lacks("kernel")) };
    let Some(setup) = &run.setup else { bail!("{}", lacks("setup")) };
    let kernel = Named::from_kept(&run.policy, &kept.base, &kept.set, &kept.switches)
        .with_context(|| format!("kernel, saved by pageblock {}", writer(setup)))?;
    let machine =
        machine(setup).with_context(|| format!("setup, saved by pageblock {}", writer(setup)))?;
    workload.fits(&machine)?;
    scaled::kernel(&kernel, &machine, workload)?;
    Ok(Job {
        machine: Arc::new(machine),
        kernel: Arc::new(kernel),
        workload: Load::Known(workload),
        seed: run.seed,
    })
}

fn lacks(key: &str) -> String {
    format!(
        "the key `{key}` is missing: an older pageblock saved the run, which cannot be repeated"
    )
}

fn writer(setup: &SetupRecord) -> String {
    in_line(&setup.program)
}

/// The machine that a run was simulated on.
fn machine(setup: &SetupRecord) -> anyhow::Result<MachineSpec> {
    if setup.layout != SetupRecord::LAYOUT {
        bail!("`layout` is {}; this pageblock reads {}", setup.layout, SetupRecord::LAYOUT);
    }
    let scale = Scale::parse(&setup.scale)?;
    let text = toml::to_string(&setup.machine)?;
    machine_file::parse(&text, scale).map_err(|error| match error {
        // The line is of a text that nobody sees.
        MachineError::Syntax { message, .. } => anyhow::anyhow!("machine: {message}"),
        error => anyhow::anyhow!("machine: {error}"),
    })
}

/// What differs between a saved run and the repeated one, if anything does. Counters that the saved one does not
/// have are a later version's.
fn difference(saved: &Run, again: &Run) -> Option<String> {
    let counters: Vec<_> = saved
        .counters
        .iter()
        .map(|(name, saved)| (name, saved, again.counters.get(name).unwrap_or(0)))
        .filter(|(_, saved, again)| saved != again)
        .collect();
    let mut differences = Vec::new();
    if saved.event_hash != again.event_hash {
        let hash = in_line(&saved.event_hash);
        differences.push(format!("event hash {hash} in the file, {} now", again.event_hash));
    }
    if let Some((name, saved, again)) = counters.first() {
        let others = match counters.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} other counters"),
        };
        differences.push(format!("{name} {saved} in the file, {again} now{others}"));
    }
    if counters.is_empty() && saved.samples != again.samples {
        differences.push("samples differ".to_owned());
    }
    if saved.ended != again.ended {
        differences.push("it ends in another way".to_owned());
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

/// Which versions of the program made the two.
fn versions(saved: &Run, again: &Run) -> String {
    let writer = |run: &Run| run.setup.as_ref().map(writer).unwrap_or_default();
    format!("saved by pageblock {}, repeated by {}", writer(saved), writer(again))
}
