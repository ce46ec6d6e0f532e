//! A series of runs: every kernel under every setting, some times each; several guests at a time; what is done stays done.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pageblock_files::{Access, NewFile, ScratchFolder};
use pageblock_measure::Run;
use pageblock_measure::compare::prediction::Column;
use pageblock_simulate::sim::machine_file::MachineSpec;
use serde::Serialize;

use crate::boot::{self, Files, Limits};
use crate::error::Error;
use crate::hardware::Hardware;
use crate::initramfs;
use crate::job::{Disks, Filesystem, Job, Load};
use crate::kernel::Kernel;
use crate::message::Message;
use crate::modules::{self, Module};
use crate::outcome::Subject;
use crate::predict;
use crate::program::{self, HostFile};
use crate::qemu::{Accelerator, Guest, Pace, Qemu};
use crate::settings::Settings;
use crate::workload::{self, Amounts, GuestWorkload};

/// What QEMU itself takes beside a guest's memory, in MiB.
const QEMU_MIB: u64 = 200;
/// How long a guest may take to show that KVM runs it.
const PROBE: Duration = Duration::from_secs(30);
/// The disk for a recording, in MiB; it is a hole until it is written.
const RECORDING_MIB: u64 = 16 << 10;

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
    fn list(&self) -> Vec<One<'_>> {
        let mut list = Vec::new();
        for &seed in &self.seeds {
            for kernel in &self.kernels {
                list.extend(self.settings.iter().map(|settings| One { kernel, settings, seed }));
            }
        }
        list
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.seeds.len() * self.kernels.len() * self.settings.len()
    }

    /// Returns the columns, as they are predicted.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let versions: Vec<_> = self.kernels.iter().map(|kernel| kernel.version.clone()).collect();
        predict::columns(&versions, &self.settings, &|kernel, settings| {
            let (kernel, settings) = (&self.kernels[kernel], &self.settings[settings]);
            self.policy(One { kernel, settings, seed: 0 })
        })
    }

    /// Returns the name of a column: the kernel by its version, by its release where two have the same version, and what
    /// was set.
    fn policy(&self, one: One<'_>) -> String {
        let version = one.kernel.version.to_string();
        let same = self.kernels.iter().filter(|other| other.version.to_string() == version).count();
        let name = if same > 1 { &one.kernel.release } else { &version };
        let set = if one.settings.label.is_empty() {
            String::new()
        } else {
            format!(",{}", one.settings.label)
        };
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
        let list = self.list();
        let programs = program::files(&self.own, self.record)?;
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
        let policy = self.policy(one);
        let label = format!("{policy}, run {}", one.seed);
        let folder = self.out.join(folder_name(&policy)).join(format!("run-{}", one.seed));
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let hardware = Hardware::of(&self.machine);
        let amounts = self.workload.amounts(&self.machine, self.accelerator)?;
        let filesystem = filesystem(self.workload, &amounts);
        let modules = modules::needed(one.kernel, filesystem, self.machine.zram)?;
        let job = self.job(one, &amounts, filesystem, &modules, &hardware)?;
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
        let start =
            Start { plan: self, kernel: one.kernel, folder: &folder, label: &label, hardware };
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
            record: self.record,
        })
    }
}

/// Reports whether KVM runs this kernel: a guest that does nothing comes to its end.
///
/// # Errors
/// Those of preparing it, or [`Error::Stopped`].
pub fn kvm_runs(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<bool, Error> {
    let Some(kernel) = plan.kernels.first() else { return Ok(false) };
    let folder =
        ScratchFolder::new().map_err(Error::at(Path::new("a folder for temporary files")))?;
    let job = Job {
        load: Load::Boot,
        seed: 0,
        modules: Vec::new(),
        disks: Disks::default(),
        settings: Vec::new(),
        record: false,
    };
    let start = Start {
        plan,
        kernel,
        folder: folder.path(),
        label: "KVM",
        hardware: Hardware::of(&plan.machine),
    };
    let files = program::files(&plan.own, false)?;
    let command =
        start.command(Accelerator::Kvm, &job, &files, &[], Vec::new(), &mut BTreeSet::new())?;
    let limits = Limits { whole: PROBE, silence: PROBE };
    match boot::run("KVM", command, start.files().as_files(), limits, &mut |_| !stop()) {
        Ok(_) => Ok(true),
        Err(Error::Guest { .. } | Error::Report { .. }) => Ok(false),
        Err(error) => Err(error),
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

/// A guest about to be started.
struct Start<'s> {
    plan: &'s Plan,
    kernel: &'s Kernel,
    folder: &'s Path,
    label: &'s str,
    hardware: Hardware,
}

/// The files that a guest writes.
struct Written {
    console: PathBuf,
    report: PathBuf,
}

impl Written {
    fn as_files(&self) -> Files<'_> {
        Files { console: &self.console, report: &self.report }
    }
}

impl Start<'_> {
    fn files(&self) -> Written {
        Written { console: self.folder.join("console"), report: self.folder.join("report") }
    }

    /// Runs the guest and removes what was made for it alone.
    fn run(
        &self,
        job: &Job,
        programs: &[HostFile],
        modules: &[Module],
        data_mib: u64,
        halted: &dyn Fn() -> bool,
        look: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Message>, Error> {
        let mut made = BTreeSet::new();
        let disks = crate::disks::make(
            self.folder,
            &job.disks,
            data_mib,
            self.hardware.swap_mib,
            RECORDING_MIB,
            &mut made,
        );
        let result = disks.and_then(|disks| {
            let accelerator = self.plan.accelerator;
            let command = self.command(accelerator, job, programs, modules, disks, &mut made)?;
            let shown = format!("{command:?}\n");
            let path = self.folder.join("command");
            let written = pageblock_files::write(&path, shown.as_bytes(), Access::Shared);
            written.map_err(Error::at(&path))?;
            let mut look = |message: Option<&Message>| {
                message.into_iter().for_each(|message| look(Event::Message(self.label, message)));
                !halted()
            };
            boot::run(self.label, command, self.files().as_files(), self.plan.limits, &mut look)
        });
        let failed = |message: &Message| match message {
            Message::Failed { why } => Some(why.clone()),
            _ => None,
        };
        let result = result.and_then(|messages| match messages.iter().find_map(failed) {
            Some(why) => Err(Error::Guest {
                label: self.label.to_owned(),
                why,
                console: self.files().console,
                tail: String::new(),
            }),
            _ => Ok(messages),
        });
        let result = match result {
            Ok(messages) if job.record => {
                crate::disks::take_recording(self.folder).map(|()| messages)
            }
            result => result,
        };
        for file in made {
            // What is left behind is found and replaced by the next run.
            let _ = fs::remove_file(file);
        }
        result
    }

    /// Writes the kernel and the first file system, noted in `made`, and returns the command of QEMU.
    fn command(
        &self,
        accelerator: Accelerator,
        job: &Job,
        programs: &[HostFile],
        modules: &[Module],
        disks: Vec<PathBuf>,
        made: &mut BTreeSet<PathBuf>,
    ) -> Result<Command, Error> {
        let (image, archive) = (self.folder.join("kernel"), self.folder.join("initramfs"));
        let written = pageblock_files::write(&image, &self.kernel.image, Access::Shared);
        written.map_err(Error::at(&image))?;
        made.insert(image.clone());
        let failed = Error::at(&archive);
        let written = NewFile::create(&archive, Access::Shared).and_then(|(file, new)| {
            initramfs::write(BufWriter::new(&file), programs, modules, job)?;
            new.finish(&file)
        });
        written.map_err(failed)?;
        made.insert(archive.clone());
        let Written { console, report } = self.files();
        let hardware = self.hardware.clone();
        let pace = Pace::of(&self.plan.machine.disk);
        let guest = Guest { image, initramfs: archive, hardware, disks, pace, console, report };
        Ok(self.plan.qemu.command(accelerator, &guest))
    }
}
