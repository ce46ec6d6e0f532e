//! Real kernels in QEMU, as users ask for them.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use pageblock_files::Access;
use pageblock_guest::boot::Limits;
use pageblock_guest::build::{self, Step};
use pageblock_guest::kernel::Kernel;
use pageblock_guest::modules;
use pageblock_guest::qemu::{self, Accelerator, Qemu};
use pageblock_guest::series::{self, Plan};
use pageblock_guest::settings::Settings;
use pageblock_guest::workload::GuestWorkload;
use pageblock_recording::MemInfo;
use pageblock_simulate::sim::cost::Cpu;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};

use crate::cache;
use crate::error::{Place, Result, bail};
use crate::machines;
use crate::watch::{Bar, Watch};

/// How long a guest may say nothing: an emulated one is slow to boot beside others.
const SILENCE: Duration = Duration::from_secs(240);
/// Below 4 GiB there is room for devices from here on, in MiB.
const DEVICES_MIB: u64 = 3072;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct GuestRequest {
    /// The workload's name.
    pub workload: String,
    /// The kernels: packages, folders, images, or names of packages.
    pub kernels: Vec<PathBuf>,
    /// The source of a kernel that is built: a folder, an archive, a package or its name. Its kernels come first.
    pub source: Option<PathBuf>,
    /// Patches of it. Each makes one more kernel.
    pub patches: Vec<PathBuf>,
    /// Settings in the guest, `KEY=VALUE,...` each.
    pub sysctls: Vec<String>,
    /// How many runs of every kernel under every setting.
    pub repeat: u64,
    /// The simulated machine that the guest stands for; by default the workload's.
    pub machine: Option<String>,
    /// The scale; by default one that is done in minutes.
    pub scale: Option<String>,
    /// A machine of so many MiB instead.
    pub memory: Option<u64>,
    /// The CPUs of that machine.
    pub cpus: u64,
    /// The NUMA nodes of that machine.
    pub nodes: u64,
    /// Whether to record.
    pub record: bool,
    /// The folder that keeps the runs.
    pub out: PathBuf,
    /// QEMU; by default that of the path.
    pub qemu: Option<PathBuf>,
    /// Who runs the guest's instructions; by default KVM where it runs a guest.
    pub accelerator: Option<Accelerator>,
    /// How long a guest may take.
    pub timeout: Duration,
    /// Guests at a time; by default as many as memory and CPUs allow.
    pub jobs: Option<u16>,
    /// The program `pageblock`, beside which the guest's is; by default the running one.
    pub program: Option<PathBuf>,
}

/// Checks the arguments, and builds the kernels that are built, before anything is started.
///
/// # Errors
/// Says what is wrong, and what is allowed.
pub fn plan(asked: &GuestRequest, watch: &dyn Watch) -> Result<Plan> {
    let workload = GuestWorkload::find(&asked.workload)?;
    if !(1..=1000).contains(&asked.repeat) {
        bail!("--repeat {}: 1 to 1000 times are possible", asked.repeat);
    }
    let settings = match asked.sysctls.as_slice() {
        [] => vec![Settings::default()],
        texts => texts
            .iter()
            .map(|text| Settings::parse(text))
            .collect::<std::result::Result<Vec<_>, _>>()?,
    };
    if let Some(at) = (1..settings.len()).find(|&at| settings[..at].contains(&settings[at])) {
        bail!("--sysctl {}: it is given twice", asked.sysctls[at]);
    }
    let (machine, _) = machine(asked, workload, Cpu::default())?;
    workload.amounts(&machine, Accelerator::Icount)?;
    let find = |given: &PathBuf| Kernel::find(given, &modules::may_need);
    // Those that are there are looked at before others are built, which takes long.
    let given = asked.kernels.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
    let qemu = Qemu::find(asked.qemu.as_deref())?;
    let built = built(asked, watch)?;
    let mut built = built.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
    // The first is the source as it is.
    built.iter_mut().skip(1).for_each(|kernel| kernel.patched = true);
    let kernels: Vec<_> = built.into_iter().chain(given).collect();
    if let Some(at) = (1..kernels.len())
        .find(|&at| kernels[..at].iter().any(|k| k.release == kernels[at].release))
    {
        let Kernel { given, release, .. } = &kernels[at];
        bail!("--kernel {}: {release} is given twice", given.display());
    }
    Ok(Plan {
        workload,
        machine,
        kernels,
        settings,
        seeds: (1..=asked.repeat).collect(),
        record: asked.record,
        out: asked.out.clone(),
        qemu,
        accelerator: Accelerator::Icount,
        own: match &asked.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().at(|| "the running program")?,
        },
        limits: Limits { whole: asked.timeout, silence: SILENCE },
        at_a_time: 1,
    })
}

/// Builds the kernels of a source, and returns their images.
fn built(asked: &GuestRequest, watch: &dyn Watch) -> Result<Vec<PathBuf>> {
    let Some(source) = &asked.source else { return Ok(Vec::new()) };
    let Some(cache) = cache::root() else {
        bail!("--kernel-source: builds need a folder that keeps them; set PAGEBLOCK_CACHE or HOME");
    };
    let bar = RefCell::new(None::<Box<dyn Bar>>);
    let look = |step: Step<'_>| {
        match step {
            Step::Note(text) => watch.note(text),
            Step::Begin(what, steps) => *bar.borrow_mut() = Some(watch.bar(what, steps, "steps")),
            Step::Done(steps) => bar.borrow().iter().for_each(|bar| bar.set(steps)),
        }
        !watch.stopped()
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let (patches, cache) = (asked.patches.as_slice(), &cache.join("kernels"));
    Ok(build::images(build::Asked { source, patches, cache, jobs }, &look)?)
}

/// The simulated machine that the guest stands for, with its TOML where it has no file.
fn machine(
    asked: &GuestRequest,
    workload: GuestWorkload,
    cpu: Cpu,
) -> Result<(MachineSpec, Option<String>)> {
    let Some(mib) = asked.memory else {
        let scale = Scale::parse(asked.scale.as_deref().unwrap_or(workload.default_scale()))?;
        let machine = asked.machine.as_deref().unwrap_or(workload.machine());
        return Ok((machines::load(machine, scale)?.with_cpu(cpu), None));
    };
    let (cpus, nodes) = (asked.cpus, asked.nodes);
    if cpus % nodes != 0 {
        bail!("--cpus {cpus}: each of {nodes} nodes has as many");
    }
    let kind = cpu.name();
    let mut text =
        format!("name = \"guest-{mib}m-{cpus}c-{nodes}n\"\nslab = \"slub\"\ncpu = \"{kind}\"\n");
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
    let machine = machine_file::parse(&text, Scale::WHOLE).at(|| "--memory")?;
    Ok((machine, Some(text)))
}

/// Finds out who runs the instructions and how many guests run at a time, and checks that QEMU can run the kernels. Only then
/// are the simulated machine's CPUs known; a machine without a file is written to the folder.
///
/// # Errors
/// If it cannot.
pub fn settle(plan: &mut Plan, asked: &GuestRequest, watch: &dyn Watch) -> Result<()> {
    plan.accelerator = match asked.accelerator {
        Some(accelerator) => accelerator,
        None => accelerator(plan, watch)?,
    };
    let cpu = match plan.accelerator {
        Accelerator::Icount => Cpu::Emulated,
        // How fast the host's clock makes an emulated CPU is not known.
        Accelerator::Kvm | Accelerator::Tcg => Cpu::Year2018,
    };
    let (machine, toml) = machine(asked, plan.workload, cpu)?;
    plan.machine = machine;
    if let Some(text) = toml {
        fs::create_dir_all(&asked.out).at(|| asked.out.display())?;
        let path = asked.out.join("machine.toml");
        let written = pageblock_files::write(&path, text.as_bytes(), Access::Shared);
        written.at(|| path.display())?;
    }
    for kernel in &plan.kernels {
        plan.qemu.check(plan.accelerator, &kernel.version)?;
    }
    plan.at_a_time = match asked.jobs {
        Some(jobs) => jobs.into(),
        None => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            series::at_a_time(&plan.machine, available_mib()?, cpus, plan.accelerator)
        }
    };
    Ok(())
}

/// Tries whether KVM runs a guest.
fn accelerator(plan: &Plan, watch: &dyn Watch) -> Result<Accelerator> {
    if !qemu::may_use_kvm() {
        return Ok(plan.qemu.emulation());
    }
    watch.note("trying KVM");
    let runs = series::kvm_runs(plan, &|| watch.stopped())?;
    if !runs {
        watch.note("KVM does not run a guest here");
    }
    Ok(if runs { Accelerator::Kvm } else { plan.qemu.emulation() })
}

/// Returns the memory that the host has to give, in MiB.
fn available_mib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").at(|| "/proc/meminfo")?;
    match MemInfo::parse(&text).get("MemAvailable") {
        Some(kb) => Ok(kb / 1024),
        None => bail!("/proc/meminfo: no MemAvailable"),
    }
}
