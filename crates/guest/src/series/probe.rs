//! Guests without a load: whether KVM runs a kernel, how much memory it leaves, and what its operations cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use pageblock_files::ScratchFolder;
use pageblock_recording::{Input, ProcFiles};

use super::start::Start;
use super::{Plan, filesystem, folder_name};
use crate::boot::{self, Limits};
use crate::error::Error;
use crate::hardware::Hardware;
use crate::initramfs;
use crate::job::{Disks, Job, Load};
use crate::kernel::Kernel;
use crate::message::Message;
use crate::modules::{self, Module};
use crate::program::{self, HostFile};
use crate::qemu::Accelerator;
use crate::settings::Settings;
use crate::workload;

/// How long a guest may take to show that KVM runs it.
const PROBE: Duration = Duration::from_secs(30);

/// Returns what a guest does that only loads its modules.
fn nothing(modules: &[Module]) -> Job {
    Job {
        load: Load::Boot,
        seed: 0,
        modules: modules.iter().map(|module| initramfs::module_path(&module.name)).collect(),
        disks: Disks::default(),
        settings: Vec::new(),
        fragment: None,
        record: false,
    }
}

/// Returns the pages that a kernel leaves free, on its lists and on those of CPUs, before a load begins.
///
/// # Errors
/// Those of the guest, and [`Error::Stopped`].
pub(super) fn free_pages(
    plan: &Plan,
    kernel: &Kernel,
    programs: &[HostFile],
    halted: &dyn Fn() -> bool,
) -> Result<u64, Error> {
    let label = format!("the first boot of {}", kernel.release);
    let folder = plan.out.join(folder_name(&format!("first-boot-{}", kernel.release)));
    fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
    let amounts = plan.workload.amounts(&plan.machine, plan.accelerator)?;
    let modules = modules::needed(kernel, filesystem(plan.workload, &amounts), plan.machine.zram)?;
    let hardware = Hardware::of(&plan.machine);
    let start = Start { plan, kernel, folder: &folder, label: &label, hardware };
    let messages = start.run(&nothing(&modules), programs, &modules, 0, halted, &|_| ())?;
    let text = messages.iter().find_map(|message| match message {
        Message::Start { files, .. } => files.get("zoneinfo"),
        _ => None,
    });
    let wrong = |why: String| Error::Report { label: label.clone(), what: "zoneinfo", why };
    let text = text.ok_or_else(|| wrong("the kernel has no such file".to_owned()))?;
    let input = Input::from_reader(std::io::Cursor::new(text.clone()), Path::new("zoneinfo"));
    let zones =
        input.and_then(ProcFiles::read_zoneinfo).map_err(|error| wrong(error.to_string()))?;
    Ok(zones.zones.iter().map(|zone| zone.free + zone.on_cpu_lists()).sum())
}

/// Operations by name, and the nanoseconds that each takes.
pub type Nanoseconds = BTreeMap<String, u64>;

/// Returns what operations cost under each kernel in nanoseconds, and what compaction costs in percent of the costs of 2018.
///
/// # Errors
/// Those of the guests, and [`Error::Stopped`].
pub fn costs(plan: &Plan, halted: &dyn Fn() -> bool) -> Result<Vec<(String, Nanoseconds)>, Error> {
    let programs = program::files(&plan.own, false)?;
    let amounts = plan.workload.amounts(&plan.machine, plan.accelerator)?;
    let filesystem = filesystem(plan.workload, &amounts);
    let hardware = Hardware::of(&plan.machine);
    let mut found = Vec::new();
    for kernel in &plan.kernels {
        let folder = plan.out.join(folder_name(&format!("costs-{}", kernel.release)));
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let modules = modules::needed(kernel, filesystem, false)?;
        let job = Job {
            load: Load::Costs,
            disks: Disks {
                data: filesystem.map(|kind| ("/dev/vda".to_owned(), kind)),
                ..Disks::default()
            },
            settings: workload::settings(
                plan.workload,
                &plan.machine,
                &kernel.version,
                &Settings::default(),
            )?,
            ..nothing(&modules)
        };
        let label = &kernel.release;
        let start = Start { plan, kernel, folder: &folder, label, hardware: hardware.clone() };
        let messages = start.run(&job, &programs, &modules, amounts.data_mib, halted, &|_| ())?;
        let costs = messages.into_iter().filter_map(|message| match message {
            Message::Measured(measured) => Some(measured.samples),
            _ => None,
        });
        let least = |(what, times): (String, Vec<u64>)| Some((what, times.into_iter().min()?));
        found.push((kernel.release.clone(), costs.flatten().filter_map(least).collect()));
    }
    Ok(found)
}

/// Reports whether KVM runs this kernel: a guest that does nothing comes to its end.
///
/// # Errors
/// Those of preparing it, or [`Error::Stopped`].
pub fn kvm_runs(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<bool, Error> {
    let Some(kernel) = plan.kernels.first() else { return Ok(false) };
    let folder =
        ScratchFolder::new().map_err(Error::at(Path::new("a folder for temporary files")))?;
    let start = Start {
        plan,
        kernel,
        folder: folder.path(),
        label: "KVM",
        hardware: Hardware::of(&plan.machine),
    };
    let files = program::files(&plan.own, false)?;
    let command = start.command(
        Accelerator::Kvm,
        &nothing(&[]),
        &files,
        &[],
        Vec::new(),
        &mut BTreeSet::new(),
    )?;
    let limits = Limits { whole: PROBE, silence: PROBE };
    match boot::run("KVM", command, start.files().as_files(), limits, &mut |_| !stop()) {
        Ok(_) => Ok(true),
        Err(Error::Guest { .. } | Error::Report { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
