//! A simulated workload on a real kernel: the same amounts, and what the simulation sets.

use pageblock_kernel::{Kernel, Named, Switch};
use pageblock_measure::run::tables::Tables;
use pageblock_recording::KernelVersion;
use pageblock_simulate::scaled;
use pageblock_simulate::sim::cost::YEAR_2018;
use pageblock_simulate::sim::machine_file::{MachineSpec, Scale};
use pageblock_simulate::workload::{
    self as simulated, Workload, apppressure, boot, hugealloc, mixed, parallelio, thpfioscale,
};

use crate::error::Error;
use crate::job::{Hugealloc, Load, Mixed, Parallelio, Setting, Thpfioscale};
use crate::qemu::Accelerator;
use crate::settings::{LRU_GEN, Settings};

/// The file of the setting that scales with the machine.
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// MiB of disk beside the files' own: the file system's tables and log.
const BESIDE_FILES_MIB: u64 = 1024;
/// By how much an emulated CPU is slower than the simulated one: what goes on beside it has as much longer turns.
const EMULATED_PACE: u64 = 5;
/// The rounds of apps, as many as an emulated guest does in minutes; the first is not counted.
const EMULATED_ROUNDS: u64 = 6;

/// A simulated workload that guests run too.
#[derive(Clone, Copy, Debug)]
pub struct GuestWorkload(pub &'static dyn Workload);

/// The workloads that guests run. `hugealloc` computes, for which an emulator has no time: its short form does not.
pub const NAMES: [&str; 9] = [
    "thpfioscale",
    "thpfioscale-defrag",
    "thpfioscale-madvhugepage",
    "hugealloc-short",
    "parallelio",
    "apppressure",
    "mixed",
    "oscillating",
    "kernel-memory",
];

/// A workload's amounts on a machine.
#[derive(Clone, Debug)]
pub struct Amounts {
    /// What the guest does.
    pub load: Load,
    /// The size of the disk of its files in MiB; 0 if it has none.
    pub data_mib: u64,
}

impl GuestWorkload {
    /// Returns the workload with this name.
    ///
    /// # Errors
    /// [`Error::Workload`] if no guest runs one of that name.
    pub fn find(name: &str) -> Result<Self, Error> {
        let found = NAMES.contains(&name).then(|| simulated::find(name)).flatten();
        found.map(Self).ok_or_else(|| {
            Error::Workload(format!("no guest runs '{name}'; allowed: {}", NAMES.join(", ")))
        })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAMES.into_iter().find(|&name| name == self.0.name()).unwrap_or_default()
    }

    /// Returns the name of the machine that its guest stands for.
    #[must_use]
    pub fn machine(&self) -> &'static str {
        if self.name().starts_with("thpfioscale") {
            "skylake-1s-guest"
        } else {
            self.0.head().machine
        }
    }

    /// Returns the scale at which an emulated guest is done in minutes.
    #[must_use]
    pub fn default_scale(&self) -> &'static str {
        match self.name() {
            "thpfioscale" | "thpfioscale-defrag" | "thpfioscale-madvhugepage" => "1/64",
            "parallelio" => "1/32",
            "mixed" | "oscillating" | "kernel-memory" => "1",
            _ => "1/8",
        }
    }

    /// Reports whether its files are on XFS, where the host can make one.
    #[must_use]
    pub fn wants_xfs(&self) -> bool {
        self.0.logs()
    }

    /// Returns the pages that the simulated machine has free when its load begins, where a guest's begins.
    ///
    /// # Errors
    /// [`Error::Simulate`] for a machine that it does not fit.
    pub fn free_pages(&self, machine: &MachineSpec) -> Result<u64, Error> {
        let taken = match self.name() {
            "apppressure" => apppressure::Amounts::kernel_pages(machine)?,
            _ => machine.pages() * boot::TAKEN / 1000,
        };
        Ok(machine.pages() - taken)
    }

    /// Returns its tables.
    ///
    /// # Errors
    /// [`Error::Simulate`] if they are wrong.
    pub fn tables(&self) -> Result<Tables, Error> {
        Ok(simulated::tables(self.0)?)
    }

    /// Returns what it does on a machine.
    ///
    /// # Errors
    /// [`Error::Simulate`] for a machine that it does not fit.
    pub fn amounts(
        &self,
        machine: &MachineSpec,
        accelerator: Accelerator,
    ) -> Result<Amounts, Error> {
        let name = self.name();
        if let Some(form) = thpfioscale::Form::ALL.into_iter().find(|form| form.name() == name) {
            return of_thpfioscale(form, machine);
        }
        if let Some(form) = mixed::Form::ALL.into_iter().find(|form| form.name() == name) {
            return of_mixed(form, machine);
        }
        match name {
            "parallelio" => of_parallelio(machine),
            "apppressure" => of_apppressure(machine),
            _ => of_hugealloc(machine, accelerator),
        }
    }
}

fn of_mixed(form: mixed::Form, machine: &MachineSpec) -> Result<Amounts, Error> {
    let sizes = mixed::Sizes::of(form, machine)?;
    let load = Load::Mixed(Mixed {
        rounds: sizes.rounds,
        files: sizes.files,
        file_pages: mixed::FILE_PAGES.into(),
        small_files: sizes.small_files,
        processes: sizes.processes,
        process_pages: sizes.process_pages,
        held: sizes.held,
        burst_each: sizes.burst_each,
        burst: sizes.burst,
        pause_ms: mixed::PAUSE / 1_000_000,
    });
    Ok(Amounts { load, data_mib: machine.pages() / 256 + BESIDE_FILES_MIB })
}

fn of_thpfioscale(form: thpfioscale::Form, machine: &MachineSpec) -> Result<Amounts, Error> {
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
    Ok(Amounts { load, data_mib: sizes.file_pages() / 256 * 5 / 4 + BESIDE_FILES_MIB })
}

fn of_parallelio(machine: &MachineSpec) -> Result<Amounts, Error> {
    let sizes = parallelio::Sizes::of(machine)?;
    let pages = sizes.files.iter().map(|(pages, _)| *pages).max().unwrap_or(0);
    let load = Load::Parallelio(Parallelio {
        iterations: parallelio::ITERATIONS,
        items: sizes.items,
        item_pages_percent: parallelio::ITEM_PAGES,
        sets_percent: parallelio::SETS,
        operation_ns: YEAR_2018.memcached,
        duration_ns: sizes.duration,
        begins_percent: parallelio::DD_BEGINS,
        looks_ns: sizes.shrunk(parallelio::DD_LOOKS),
        waits_ns: sizes.shrunk(parallelio::DD_WAITS),
        files: sizes.files,
    });
    Ok(Amounts { load, data_mib: pages / 256 + BESIDE_FILES_MIB })
}

fn of_apppressure(machine: &MachineSpec) -> Result<Amounts, Error> {
    let amounts = apppressure::Amounts::of(machine)?;
    let files = amounts.apps * amounts.own_pages.1
        + amounts.shared_pages
        + amounts.media_files * amounts.media_pages;
    let load = Load::Apppressure { rounds: EMULATED_ROUNDS, amounts };
    Ok(Amounts { load, data_mib: files / 256 + BESIDE_FILES_MIB })
}

fn of_hugealloc(machine: &MachineSpec, accelerator: Accelerator) -> Result<Amounts, Error> {
    let sizes = hugealloc::Sizes::of(machine)?;
    let amounts = sizes.amounts();
    let pace = if accelerator == Accelerator::Tcg { EMULATED_PACE } else { 1 };
    let load = Load::Hugealloc(Hugealloc {
        builds: hugealloc::Hugealloc::SHORT.builds.into(),
        jobs: sizes.jobs,
        batches: sizes.batches,
        batch: sizes.batch,
        cache: sizes.cache,
        amounts: hugealloc::Amounts { turn: amounts.turn * pace, ..amounts },
    });
    let pages = sizes.jobs * (amounts.source_pages + 3 * amounts.object_pages)
        + amounts.headers.0 * amounts.header_pages;
    Ok(Amounts { load, data_mib: pages / 256 + BESIDE_FILES_MIB })
}

/// Returns what is set in the guest before the workload: what the simulation of this kernel sets, then what the user sets.
/// Values in kilobytes apply to the whole machine and shrink with it, as in the simulation.
///
/// # Errors
/// [`Error::Kernel`] and [`Error::Simulate`] if the simulation cannot say, [`Error::Setting`].
pub fn settings(
    workload: GuestWorkload,
    machine: &MachineSpec,
    version: &KernelVersion,
    user: &Settings,
) -> Result<Vec<Setting>, Error> {
    let set = |file: &str, value: &str| Setting {
        file: file.to_owned(),
        value: value.to_owned(),
        optional: false,
    };
    let huge = |file: &str, value: &str| {
        set(&format!("/sys/kernel/mm/transparent_hugepage/{file}"), value)
    };
    // Presets have the classic LRU.
    let lru = Setting { optional: true, ..set(LRU_GEN, "0") };
    // Messages in flight fit in a socket.
    let mut list = vec![lru, set("/proc/sys/net/core/wmem_default", "4194304")];
    let kernel = simulated_kernel(workload.0, machine, version)?;
    let value = |name: &str| {
        Switch::find(name).map(|switch| switch.get(&kernel).to_string()).unwrap_or_default()
    };
    list.extend([huge("enabled", &value("thp_enabled")), huge("defrag", &value("thp_defrag"))]);
    if workload.name() == "apppressure" {
        // As the scripts of phones set it up: swap is memory.
        list.extend([
            set("/proc/sys/vm/watermark_scale_factor", "108"),
            set("/proc/sys/vm/swappiness", "100"),
            set("/proc/sys/vm/page-cluster", "0"),
        ]);
    }
    if workload.name().starts_with("hugealloc") {
        // khugepaged has nothing to do there.
        list.push(huge("khugepaged/scan_sleep_millisecs", "4000000000"));
    }
    if machine.scale != Scale::WHOLE {
        list.push(set(MIN_FREE, &kernel.allocator.min_free_kbytes.to_string()));
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
fn simulated_kernel(
    workload: &dyn Workload,
    machine: &MachineSpec,
    version: &KernelVersion,
) -> Result<Kernel, Error> {
    let preset = pageblock_replay::machine::preset_of(version);
    Ok(scaled::kernel(&Named::parse(preset.name)?, machine, workload)?)
}

#[cfg(test)]
mod tests {
    use pageblock_simulate::sim::machine_file::{self, Scale};

    use super::*;

    #[test]
    fn a_load_begins_with_what_its_machines_boot_left() {
        let text = include_str!("../../../machines/phone-3g.toml");
        let machine = machine_file::parse(text, Scale::parse("1/8").unwrap()).unwrap();
        let taken = |name| {
            machine.pages() - GuestWorkload::find(name).unwrap().free_pages(&machine).unwrap()
        };
        assert_eq!(taken("mixed"), machine.pages() * 12 / 1000);
        // 45,000 pages of drivers and 1,000 stacks of a whole phone; its programs are part of the load.
        assert_eq!(taken("apppressure"), 45_000 / 8 + 4 * 1_000 / 8);
    }
}
