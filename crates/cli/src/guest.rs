//! `pageblock guest run`: real kernels under simulated workloads.

mod prediction;

use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, bail};
use pageblock_guest::boot::Limits;
use pageblock_guest::kernel::Kernel;
use pageblock_guest::message::Message;
use pageblock_guest::modules;
use pageblock_guest::qemu::{self, Accelerator, Qemu};
use pageblock_guest::series::{self, Event, Plan};
use pageblock_guest::settings::Settings;
use pageblock_guest::workload::GuestWorkload;
use pageblock_measure::compare::Options;
use pageblock_report::summary::Tables;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};

use crate::args::guest::{Accelerator as Wanted, GuestArgs, GuestCommand};
use crate::plan::RunFormat;
use crate::progress::Progress;
use crate::{Verdict, compare, interrupt, machines, output};

/// How long a guest may say nothing: an emulated one is slow to boot beside others.
const SILENCE: Duration = Duration::from_secs(240);
/// Below 4 GiB there is room for devices from here on, in MiB.
const DEVICES_MIB: u64 = 3072;

pub(crate) fn run(command: &GuestCommand) -> anyhow::Result<Verdict> {
    let GuestCommand::Run(args) = command;
    let format = RunFormat::new(args.json, false)?;
    let mut plan = plan(args)?;
    interrupt::watch_quietly()?;
    plan.accelerator = match args.accel {
        Wanted::Tcg => Accelerator::Tcg,
        Wanted::Kvm => Accelerator::Kvm,
        Wanted::Auto => accelerator(&plan)?,
    };
    for kernel in &plan.kernels {
        plan.qemu.check(plan.accelerator, &kernel.version)?;
    }
    plan.at_a_time = match args.jobs {
        Some(jobs) => jobs.into(),
        None => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            series::at_a_time(&plan.machine, available_mib()?, cpus, plan.accelerator)
        }
    };
    announce(&plan);
    let foretold = match args.predict {
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
    if let Some(foretold) = foretold {
        output::print(&prediction::score(&plan, &foretold, &runs, args.json.is_some())?)?;
        return Ok(if stopped { Verdict::Interrupted } else { Verdict::Yes });
    }
    let runs = if stopped { compare::comparable_part(runs) } else { runs };
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

/// Checks the arguments, before anything is started.
fn plan(args: &GuestArgs) -> anyhow::Result<Plan> {
    let workload = GuestWorkload::find(&args.workload)?;
    if !(1..=1000).contains(&args.repeat) {
        bail!("--repeat {}: 1 to 1000 times are possible", args.repeat);
    }
    let settings = match args.sysctls.as_slice() {
        [] => vec![Settings::default()],
        texts => texts.iter().map(|text| Settings::parse(text)).collect::<Result<Vec<_>, _>>()?,
    };
    if let Some(at) = (1..settings.len()).find(|&at| settings[..at].contains(&settings[at])) {
        bail!("--sysctl {}: it is given twice", args.sysctls[at]);
    }
    let (machine, toml) = machine(args, workload)?;
    workload.amounts(&machine, Accelerator::Tcg)?;
    let kernels = args.kernels.iter().map(|given| Kernel::find(given, &modules::may_need));
    let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
    if let Some(at) = (1..kernels.len())
        .find(|&at| kernels[..at].iter().any(|k| k.release == kernels[at].release))
    {
        bail!("--kernel {}: {} is given twice", args.kernels[at].display(), kernels[at].release);
    }
    let qemu = Qemu::find(args.qemu.as_deref())?;
    if let Some(text) = toml {
        fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
        let path = args.out.join("machine.toml");
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(Plan {
        workload,
        machine,
        kernels,
        settings,
        seeds: (1..=args.repeat).collect(),
        record: args.record,
        out: args.out.clone(),
        qemu,
        accelerator: Accelerator::Tcg,
        own: std::env::current_exe().context("the running program")?,
        limits: Limits { whole: Duration::from_secs(args.timeout), silence: SILENCE },
        at_a_time: 1,
    })
}

/// The simulated machine that the guest stands for, with its TOML where it has no file.
fn machine(
    args: &GuestArgs,
    workload: GuestWorkload,
) -> anyhow::Result<(MachineSpec, Option<String>)> {
    let Some(mib) = args.memory else {
        let scale = Scale::parse(args.scale.as_deref().unwrap_or(workload.default_scale()))?;
        let machine = args.machine.as_deref().unwrap_or(workload.machine());
        return Ok((machines::load(machine, scale)?, None));
    };
    let (cpus, nodes) = (args.cpus, args.nodes);
    if cpus % nodes != 0 {
        bail!("--cpus {cpus}: each of {nodes} nodes has as many");
    }
    let mut text = format!("name = \"guest-{mib}m-{cpus}c-{nodes}n\"\nslab = \"slub\"\n");
    // Zones end at multiples of the largest block, 4 MiB.
    let each = mib / nodes / 4 * 4;
    for node in 0..nodes {
        let (start, end) = (node * each, (node + 1) * each);
        let parts = [(start, end.min(DEVICES_MIB)), (start.max(DEVICES_MIB) + 1024, end + 1024)];
        let parts = parts.into_iter().filter(|(start, end)| start < end);
        let parts: Vec<_> = parts.map(|(start, end)| format!("[{start}, {end}]")).collect();
        text +=
            &format!("\n[[node]]\ncpus = {}\nmemory_mib = [{}]\n", cpus / nodes, parts.join(", "));
    }
    text += "\n# An emulated disk whose file is in the host's memory.\n[disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 110\n";
    let machine = machine_file::parse(&text, Scale::WHOLE).context("--memory")?;
    Ok((machine, Some(text)))
}

/// Tries whether KVM runs a guest.
fn accelerator(plan: &Plan) -> anyhow::Result<Accelerator> {
    if !qemu::may_use_kvm() {
        return Ok(Accelerator::Tcg);
    }
    output::note("trying KVM\n");
    let runs = series::kvm_runs(plan, &interrupt::requested)?;
    if !runs {
        output::note("KVM does not run a guest here\n");
    }
    Ok(if runs { Accelerator::Kvm } else { Accelerator::Tcg })
}

fn announce(plan: &Plan) {
    let how = match plan.accelerator {
        Accelerator::Kvm => "KVM".to_owned(),
        Accelerator::Tcg => "emulated CPUs: times are the emulator's".to_owned(),
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
        Event::Done(label, before) => {
            set(label, 1.0);
            let how = if before { "done before" } else { "done" };
            output::note(&format!("{label}: {how}\n"));
        }
    };
    Ok(plan.run(&interrupt::requested, &look)?)
}

/// Returns the memory that the host has to give, in MiB.
fn available_mib() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let kb = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(kb.context("/proc/meminfo: no MemAvailable")? / 1024)
}
