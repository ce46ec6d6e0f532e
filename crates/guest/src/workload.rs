//! A simulated workload on a real kernel: the same amounts, and what the simulation sets.

use pageblock_kernel::{Kernel, Named, Switch};
use pageblock_recording::KernelVersion;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::machine_file::{MachineSpec, Scale};
use pageblock_simulate::workload::{Workload, thpfioscale};

use crate::error::Error;
use crate::job::{Load, Setting, Thpfioscale};
use crate::settings::Settings;

/// The workloads that guests run.
pub const NAMES: [&str; 3] = ["thpfioscale", "thpfioscale-defrag", "thpfioscale-madvhugepage"];

/// The file of the setting that scales with the machine.
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// MiB of disk beside the files' own: the file system's tables and log.
const BESIDE_FILES_MIB: u64 = 1024;

/// A workload's amounts on a machine.
#[derive(Clone, Debug)]
pub struct Amounts {
    /// What the guest does.
    pub load: Load,
    /// The size of the disk of its files in MiB; 0 if it has none.
    pub data_mib: u64,
}

/// Returns what a workload does on a machine.
///
/// # Errors
/// [`Error::Workload`] for a workload that no guest runs, [`Error::Simulate`] for a machine that it does not fit.
pub fn amounts(workload: &dyn Workload, machine: &MachineSpec) -> Result<Amounts, Error> {
    let form = thpfioscale::Form::ALL.into_iter().find(|form| form.name() == workload.name());
    if let Some(form) = form {
        let sizes = thpfioscale::Sizes::of(machine)?;
        let load = Load::Thpfioscale(Thpfioscale {
            jobs: thpfioscale::JOBS,
            files: sizes.files,
            file_pages: thpfioscale::FILE_PAGES.into(),
            files_a_heap_page: thpfioscale::FILES_A_HEAP_PAGE,
            threads: sizes.threads,
            regions: sizes.regions,
            madvise: form == thpfioscale::Form::Madvhugepage,
        });
        return Ok(Amounts { load, data_mib: sizes.file_pages() / 256 * 5 / 4 + BESIDE_FILES_MIB });
    }
    Err(Error::Workload(format!(
        "no guest runs {}; allowed: {}",
        workload.name(),
        NAMES.join(", ")
    )))
}

/// Returns what is set in the guest before the workload: what the simulation of this kernel sets, then what the user sets.
/// Values in kilobytes apply to the whole machine and shrink with it, as in the simulation.
///
/// # Errors
/// [`Error::Kernel`] and [`Error::Simulate`] if the simulation cannot say, [`Error::Setting`].
pub fn settings(
    workload: &dyn Workload,
    machine: &MachineSpec,
    version: &KernelVersion,
    user: &Settings,
) -> Result<Vec<Setting>, Error> {
    let kernel = simulated(workload, machine, version)?;
    let huge = |file: &str, value: &str| Setting {
        file: format!("/sys/kernel/mm/transparent_hugepage/{file}"),
        value: value.to_owned(),
        optional: false,
    };
    let value = |name: &str| {
        Switch::find(name).map(|switch| switch.get(&kernel).to_string()).unwrap_or_default()
    };
    let mut list = vec![
        // The simulation has the classic LRU alone.
        Setting {
            file: "/sys/kernel/mm/lru_gen/enabled".to_owned(),
            value: "0".to_owned(),
            optional: true,
        },
        huge("enabled", &value("thp_enabled")),
        huge("defrag", &value("thp_defrag")),
    ];
    if machine.scale != Scale::WHOLE {
        let value = kernel.allocator.min_free_kbytes.to_string();
        list.push(Setting { file: MIN_FREE.to_owned(), value, optional: false });
    }
    for setting in &user.list {
        let mut setting = setting.clone();
        if setting.file == MIN_FREE {
            let kbytes: u64 = setting.value.parse().map_err(|_| Error::Setting {
                setting: user.label.clone(),
                why: "vm.min_free_kbytes is a whole number".to_owned(),
            })?;
            setting.value = machine.scale.of(kbytes).max(1).to_string();
        }
        list.retain(|other| other.file != setting.file);
        list.push(setting);
    }
    Ok(list)
}

/// Returns the simulated kernel of a version under the workload's settings.
fn simulated(
    workload: &dyn Workload,
    machine: &MachineSpec,
    version: &KernelVersion,
) -> Result<Kernel, Error> {
    let preset = pageblock_replay::machine::preset_of(version);
    Ok(scaled::kernel(&Named::parse(preset.name)?, machine, workload)?)
}

/// Returns the scale at which a guest runs a workload by default, so that an emulated one is done in minutes.
#[must_use]
pub fn default_scale(workload: &dyn Workload) -> &'static str {
    if workload.name().starts_with("thpfioscale") { "1/32" } else { "1/4" }
}
