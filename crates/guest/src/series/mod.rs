//! A series of runs: every kernel under every setting, some times each; several guests at a time; what is done stays done.

mod probe;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use pageblock_files::Access;
use pageblock_measure::Run;
use pageblock_measure::compare::prediction::Column;
use pageblock_simulate::sim::machine_file::MachineSpec;
use serde::Serialize;

pub use self::probe::{Nanoseconds, costs, kvm_runs};
use self::start::Start;
use crate::boot::Limits;
use crate::error::Error;
use crate::hardware::{Hardware, MIB};
use crate::initramfs;
use crate::job::{Disks, Filesystem, Job};
use crate::kernel::Kernel;
use crate::message::Message;
use crate::modules::{self, Module};
use crate::outcome::Subject;
use crate::predict;
use crate::program::{self, HostFile};
use crate::qemu::{Accelerator, Qemu};
use crate::settings::Settings;
use crate::workload::{self, Amounts, GuestWorkload};

/// What QEMU itself takes beside a guest's memory, in MiB.
const QEMU_MIB: u64 = 200;

/// What a series consists of.
#[derive(Debug)]
pub struct Plan {
    /// The workload.
    pub workload: GuestWorkload,
    /// The simulated machine that the guests stand for.
    pub machine: MachineSpec,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The settings; each kernel runs under each.
    pub settings: Vec<Settings>,
    /// The seeds; each column runs each.
    pub seeds: Vec<u64>,
    /// Whether to record.
    pub record: bool,
    /// The folder that keeps everything.
    pub out: PathBuf,
    /// QEMU.
    pub qemu: Qemu,
    /// Who runs the guests' instructions.
    pub accelerator: Accelerator,
    /// The running program.
    pub own: PathBuf,
    /// How long a run may take.
    pub limits: Limits,
    /// Guests at a time.
    pub at_a_time: usize,
}

/// One run of a series.
#[derive(Clone, Copy, Debug)]
struct One<'p> {
    kernel: &'p Kernel,
    hardware: &'p Hardware,
    settings: &'p Settings,
    seed: u64,
}

/// What a run was asked to be: one that is the same is not run again.
#[derive(Serialize)]
struct Request<'r> {
    program: &'r str,
    release: &'r str,
    version: &'r str,
    machine: &'r str,
    memory_mib: u64,
    low_mib: u64,
    cpus: u64,
    accelerator: Accelerator,
    job: &'r Job,
}

/// What a series reports while it runs.
#[derive(Clone, Debug)]
pub enum Event<'e> {
    /// A guest reported something.
    Message(&'e str, &'e Message),
    /// What guests of a release have, in MiB, so that the kernel leaves as much of it as a simulated one.
    Sized(&'e str, u64),
    /// A run is done; whether it was done before.
    Done(&'e str, bool),
}

/// Returns how many guests run at a time: as memory and CPUs allow.
#[must_use]
pub fn at_a_time(
    machine: &MachineSpec,
    available_mib: u64,
    cpus: usize,
    accelerator: Accelerator,
) -> usize {
    let hardware = Hardware::of(machine);
    let by_memory = available_mib / (hardware.memory_mib() + QEMU_MIB);
    // Without KVM a guest has one thread.
    let cpus_each = if accelerator.emulates() { 1 } else { hardware.cpus() as usize };
    usize::try_from(by_memory).unwrap_or(usize::MAX).min(cpus.div_ceil(cpus_each)).max(1)
}

impl Plan {
    fn list<'p>(&'p self, hardware: &'p [Hardware]) -> Vec<One<'p>> {
        let mut list = Vec::new();
        for &seed in &self.seeds {
            for (kernel, hardware) in self.kernels.iter().zip(hardware) {
                let of = |settings| One { kernel, hardware, settings, seed };
                list.extend(self.settings.iter().map(of));
            }
        }
        list
    }

    /// Returns the hardware of each kernel's guests. How much memory a kernel leaves, its first boot shows; `memory.json`
    /// of the folder keeps it, so that later runs have the same.
    fn hardware(
        &self,
        programs: &[HostFile],
        halted: &dyn Fn() -> bool,
        look: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Hardware>, Error> {
        let path = self.out.join("memory.json");
        let mut left: BTreeMap<String, u64> = match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| Error::at(&path)(error.into()))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::at(&path)(error)),
        };
        let wanted = self.workload.free_pages(&self.machine)?;
        let mut found = Vec::new();
        for kernel in &self.kernels {
            let with = if self.record { " with the recorder" } else { "" };
            let key = format!("{} on {}{with}", kernel.version.text, self.machine.name);
            if !left.contains_key(&key) {
                let pages = probe::free_pages(self, kernel, programs, halted)?;
                left.insert(key.clone(), pages);
                let text = serde_json::to_vec_pretty(&left)
                    .map_err(|error| Error::at(&path)(error.into()))?;
                pageblock_files::write(&path, &text, Access::Shared).map_err(Error::at(&path))?;
            }
            let (first, free) = (Hardware::of(&self.machine), left[&key]);
            if free > first.memory_mib() * MIB {
                let why = "more pages are free than a guest has; without the file the first boot is repeated";
                return Err(Error::at(&path)(std::io::Error::other(why)));
            }
            let hardware = first.with_more(wanted as i64 - free as i64);
            look(Event::Sized(&kernel.release, hardware.memory_mib()));
            found.push(hardware);
        }
        Ok(found)
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.seeds.len() * self.kernels.len() * self.settings.len()
    }

    /// Returns the columns, as they are predicted.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let known = |kernel: &Kernel| (!kernel.patched).then(|| kernel.version.clone());
        let versions: Vec<_> = self.kernels.iter().map(known).collect();
        predict::columns(&versions, &self.settings, &|kernel, settings| {
            let (kernel, settings) = (&self.kernels[kernel], &self.settings[settings]);
            self.policy(kernel, settings)
        })
    }

    /// Returns the name of a column: the kernel by its version, by its release where two have the same version, and what
    /// was set.
    fn policy(&self, kernel: &Kernel, settings: &Settings) -> String {
        let version = kernel.version.to_string();
        let same = self.kernels.iter().filter(|other| other.version.to_string() == version).count();
        let name = if same > 1 { &kernel.release } else { &version };
        let set =
            if settings.label.is_empty() { String::new() } else { format!(",{}", settings.label) };
        format!("real-{name}{set}")
    }

    /// Runs everything that is not done yet, and saves all runs in `runs.json` of the folder whenever one is done.
    ///
    /// # Errors
    /// The first that a run has; others that run then are stopped, and what is done stays.
    pub fn run(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        look: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Run>, Error> {
        fs::create_dir_all(&self.out).map_err(Error::at(&self.out))?;
        let programs = program::files(&self.own, self.record)?;
        let hardware = match self.hardware(&programs, stop, look) {
            Err(Error::Stopped) => return Ok(Vec::new()),
            found => found?,
        };
        let list = self.list(&hardware);
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let done: Mutex<(BTreeMap<usize, Run>, Option<Error>)> = Mutex::default();
        let halted = || stop() || failed.load(Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..self.at_a_time.min(list.len()) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Relaxed);
                        let Some(one) = list.get(at).filter(|_| !halted()) else { return };
                        let result = self.one(*one, &programs, &halted, look);
                        let mut done =
                            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        let result = result.and_then(|run| {
                            done.0.insert(at, run);
                            let runs: Vec<Run> = done.0.values().cloned().collect();
                            Ok(pageblock_measure::run::saved::save(
                                &self.out.join("runs.json"),
                                &runs,
                            )?)
                        });
                        if let Err(error) = result {
                            failed.store(true, Relaxed);
                            done.1.get_or_insert(error);
                        }
                    }
                });
            }
        });
        let (runs, error) = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match error {
            Some(Error::Stopped) | None => Ok(runs.into_values().collect()),
            Some(error) => Err(error),
        }
    }

    /// Runs one guest, or reads what it did before.
    fn one(
        &self,
        one: One<'_>,
        programs: &[HostFile],
        halted: &dyn Fn() -> bool,
        look: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Run, Error> {
        let policy = self.policy(one.kernel, one.settings);
        let label = format!("{policy}, run {}", one.seed);
        let folder = self.out.join(folder_name(&policy)).join(format!("run-{}", one.seed));
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let hardware = one.hardware;
        let amounts = self.workload.amounts(&self.machine, self.accelerator)?;
        let filesystem = filesystem(self.workload, &amounts);
        let modules = modules::needed(one.kernel, filesystem, self.machine.zram)?;
        let job = self.job(one, &amounts, filesystem, &modules, hardware)?;
        let request = Request {
            program: env!("CARGO_PKG_VERSION"),
            release: &one.kernel.release,
            version: &one.kernel.version.text,
            machine: &self.machine.name,
            memory_mib: hardware.memory_mib(),
            low_mib: hardware.low_mib,
            cpus: hardware.cpus(),
            accelerator: self.accelerator,
            job: &job,
        };
        let request = serde_json::to_vec_pretty(&request)
            .map_err(|error| Error::at(&folder)(error.into()))?;
        let (asked, saved) = (folder.join("request.json"), folder.join("run.json"));
        if fs::read(&asked).is_ok_and(|before| before == request)
            && let Ok(mut runs) = pageblock_measure::run::saved::load(&saved)
            && let Some(run) = runs.pop()
        {
            look(Event::Done(&label, true));
            return Ok(run);
        }
        pageblock_files::write(&asked, &request, Access::Shared).map_err(Error::at(&asked))?;
        let start = Start {
            plan: self,
            kernel: one.kernel,
            folder: &folder,
            label: &label,
            hardware: hardware.clone(),
        };
        let messages = start.run(&job, programs, &modules, amounts.data_mib, halted, look)?;
        let subject = Subject {
            label: &label,
            policy: &policy,
            workload: self.workload,
            machine: &self.machine,
            release: &one.kernel.release,
            version: &one.kernel.version,
            seed: one.seed,
            accelerator: self.accelerator,
            qemu: &self.qemu.version,
        };
        let run = subject.run(&messages)?;
        pageblock_measure::run::saved::save(&saved, std::slice::from_ref(&run))?;
        look(Event::Done(&label, false));
        Ok(run)
    }

    fn job(
        &self,
        one: One<'_>,
        amounts: &Amounts,
        filesystem: Option<Filesystem>,
        modules: &[Module],
        hardware: &Hardware,
    ) -> Result<Job, Error> {
        let mut names = ["/dev/vda", "/dev/vdb", "/dev/vdc"].into_iter().map(str::to_owned);
        let data = filesystem.and_then(|filesystem| Some((names.next()?, filesystem)));
        let zram_mib = if self.machine.zram { hardware.swap_mib } else { 0 };
        let swap = (hardware.swap_mib > zram_mib).then(|| names.next()).flatten();
        let recording = self.record.then(|| names.next()).flatten();
        Ok(Job {
            load: amounts.load.clone(),
            seed: one.seed,
            modules: modules.iter().map(|module| initramfs::module_path(&module.name)).collect(),
            disks: Disks { data, swap, zram_mib, recording },
            settings: workload::settings(
                self.workload,
                &self.machine,
                &one.kernel.version,
                one.settings,
            )?,
            fragment: self.machine.fragment,
            record: self.record,
        })
    }
}

/// Returns the file system of a load's files: XFS where the host can make one, as in the simulation.
fn filesystem(workload: GuestWorkload, amounts: &Amounts) -> Option<Filesystem> {
    let xfs = workload.wants_xfs()
        && Command::new(crate::disks::tool("mkfs.xfs")).arg("-V").output().is_ok();
    (amounts.data_mib > 0).then_some(if xfs { Filesystem::Xfs } else { Filesystem::Ext4 })
}

/// Returns a policy's name as the name of a folder.
fn folder_name(policy: &str) -> String {
    policy
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._+=-".contains(c) { c } else { '_' })
        .collect()
}
