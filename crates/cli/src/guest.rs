//! `pageblock guest`: real kernels under simulated workloads.

mod costs;
mod prediction;

use std::sync::Mutex;
use std::time::Duration;

use pageblock_guest::message::Message;
use pageblock_guest::qemu::Accelerator;
use pageblock_guest::series::{Event, Plan};
use pageblock_guest::settings::with_lru_gen;
use pageblock_measure::compare::common::Options;
use pageblock_plan::compare::comparable_part;
use pageblock_plan::guest::{self, GuestRequest};
use pageblock_report::chosen::Tables;

use crate::args::guest::{Accelerator as Wanted, GuestArgs, GuestCommand};
use crate::plan::RunFormat;
use crate::progress::{Progress, terminal};
use crate::{Verdict, compare, interrupt, output};

pub(crate) fn run(command: &GuestCommand) -> anyhow::Result<Verdict> {
    let args = match command {
        GuestCommand::Run(args) => args,
        GuestCommand::Costs(args) => return costs::run(args),
    };
    let format = RunFormat::new(args.json, false)?;
    let asked = asked(args);
    interrupt::watch_quietly();
    let watcher = terminal();
    let plan = guest::plan(&asked, watcher.as_ref());
    if interrupt::requested() {
        return Ok(Verdict::Interrupted);
    }
    let mut plan = plan?;
    guest::settle(&mut plan, &asked, watcher.as_ref())?;
    announce(&plan);
    let predicted = match args.predict {
        Some(seeds) => Some(prediction::foretell(&plan, seeds)?),
        None => None,
    };
    if interrupt::requested() {
        return Ok(Verdict::Interrupted);
    }
    let runs = watch(&plan)?;
    if runs.is_empty() {
        return Ok(Verdict::Interrupted);
    }
    let stopped = runs.len() < plan.runs();
    if let Some(predicted) = predicted {
        output::print(&prediction::score(&plan, &predicted, &runs, args.json.is_some())?)?;
        return Ok(if stopped { Verdict::Interrupted } else { Verdict::Yes });
    }
    let runs = if stopped { comparable_part(runs) } else { runs };
    let options = Options { stars: args.stars.into(), ..Options::default() };
    output::print(&compare::text(
        runs,
        format,
        &Tables::parse(&args.tables.tables),
        &options,
        None,
    )?)?;
    output::note(&format!("saved: {}\n", plan.out.join("runs.json").display()));
    Ok(if stopped { Verdict::Interrupted } else { Verdict::Yes })
}

/// Returns the settings of every column: what was asked for, with the LRU.
fn sysctls(args: &GuestArgs) -> Vec<String> {
    let Some(lru_gen) = args.lru_gen.as_deref().and_then(|text| text.parse().ok()) else {
        return args.sysctls.clone();
    };
    let asked = args.sysctls.iter().map(|text| with_lru_gen(text, lru_gen)).collect::<Vec<_>>();
    if asked.is_empty() { vec![with_lru_gen("default", lru_gen)] } else { asked }
}

fn asked(args: &GuestArgs) -> GuestRequest {
    GuestRequest {
        workload: args.workload.clone(),
        kernels: args.kernels.clone(),
        source: args.kernel_source.clone(),
        patches: args.patches.clone(),
        sysctls: sysctls(args),
        repeat: args.repeat,
        machine: args.machine.clone(),
        scale: args.scale.clone(),
        memory: args.memory,
        cpus: args.cpus,
        nodes: args.nodes,
        record: args.record,
        out: args.out.clone(),
        qemu: args.qemu.clone(),
        accelerator: wanted(args.accel),
        timeout: Duration::from_secs(args.timeout),
        jobs: args.jobs,
        program: None,
    }
}

const fn wanted(accel: Wanted) -> Option<Accelerator> {
    match accel {
        Wanted::Tcg => Some(Accelerator::Tcg),
        Wanted::Icount => Some(Accelerator::Icount),
        Wanted::Kvm => Some(Accelerator::Kvm),
        Wanted::Auto => None,
    }
}

fn announce(plan: &Plan) {
    let how = match plan.accelerator {
        Accelerator::Kvm => "KVM".to_owned(),
        Accelerator::Tcg => {
            "emulated CPUs with the host's clock: times are the emulator's".to_owned()
        }
        Accelerator::Icount => "emulated CPUs, a nanosecond an instruction".to_owned(),
    };
    let kernels: Vec<_> = plan.kernels.iter().map(|kernel| kernel.release.as_str()).collect();
    output::note(&format!(
        "{} on {}: {} run(s) of {}, {} at a time; QEMU {}, {how}\n",
        plan.workload.name(),
        plan.machine.name,
        plan.runs(),
        kernels.join(", "),
        plan.at_a_time.min(plan.runs()),
        plan.qemu.version
    ));
}

/// Runs the series and shows how far it is.
fn watch(plan: &Plan) -> anyhow::Result<Vec<pageblock_measure::Run>> {
    let bar = Progress::of_shares("guests");
    // How far each run that has begun is.
    let shares: Mutex<std::collections::BTreeMap<String, f64>> = Mutex::default();
    let set = |label: &str, share: f64| {
        let mut shares = shares.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shares.insert(label.to_owned(), share);
        bar.set_share(shares.values().sum::<f64>() / plan.runs() as f64);
    };
    let look = |event: Event<'_>| match event {
        Event::Message(label, Message::Phase { before, .. }) => set(label, *before),
        Event::Message(..) => {}
        Event::Sized(release, mib) => {
            output::note(&format!(
                "{release}: guests have {mib} MiB; it leaves as much free as the simulated machine has\n"
            ));
        }
        Event::Done(label, before) => {
            set(label, 1.0);
            let how = if before { "done before" } else { "done" };
            output::note(&format!("{label}: {how}\n"));
        }
    };
    Ok(plan.run(&interrupt::requested, &look)?)
}
