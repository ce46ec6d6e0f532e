//! The state of a machine's memory at one moment.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use pageblock_kernel::Kernel;
use pageblock_measure::value::uninitialised::Uninitialised;
use pageblock_recording::{
    BuddyInfo, Input, KernelVersion, MemInfo, PageTypeInfo, VmStat, ZoneName,
};
use serde::Serialize;

use super::klog::Signs;
use super::settings::{HugePages, Hugetlb};
use crate::interfaces::{has_sysctl, rules};
use crate::proc::page_size::{page_kb, uninitialised};
use crate::proc::tree::{Missing, Tree};
use crate::proc::zoneinfo::{self, Zone};

/// The state of a machine.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The kernel's version.
    pub version: Option<KernelVersion>,
    /// The time of the sample in UTC, if a flight file has it.
    pub time: Option<String>,
    /// The size of a page in kB.
    pub page_kb: u64,
    /// The zones with memory.
    pub zones: Vec<Zone>,
    /// Free blocks by order, by zone.
    pub free_blocks: BTreeMap<ZoneName, Vec<u64>>,
    /// The lists and pageblocks by type.
    pub types: Option<PageTypeInfo>,
    /// `/proc/vmstat`.
    pub vmstat: BTreeMap<String, u64>,
    /// `/proc/meminfo`, kB.
    pub meminfo: MemInfo,
    /// `/proc/pressure/memory`.
    pub pressure: Option<Pressure>,
    /// The files of `/proc/sys/vm`.
    pub sysctls: BTreeMap<String, String>,
    /// The settings and counters of huge pages.
    pub huge: HugePages,
    /// hugetlb pages.
    pub hugetlb: Hugetlb,
    /// The ZFS cache, bytes.
    pub arc_bytes: Option<u64>,
    /// The seconds since boot.
    pub uptime: Option<f64>,
    /// The CPU time of the kernel's threads for memory, seconds.
    pub daemons: BTreeMap<String, f64>,
    /// The command line of node_exporter, if it runs.
    pub exporter: Option<String>,
    /// The signs in the kernel's log; `None` without a log.
    pub log: Option<Signs>,
    /// The files that could not be read.
    pub missing: Vec<Missing>,
}

/// Pressure stall information of memory: percent of time over 10, 60 and 300 s, and microseconds since boot.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Pressure {
    /// At least one task waited.
    pub some: [f64; 3],
    /// All tasks waited.
    pub full: [f64; 3],
    /// Microseconds for `some`.
    #[serde(skip)]
    pub some_us: u64,
    /// Microseconds for `full`.
    #[serde(skip)]
    pub full_us: u64,
}

impl Sample {
    /// Reads the files of a tree; unreadable ones are in [`missing`](Self::missing). The log is left out if it was read
    /// before.
    #[must_use]
    pub fn read(tree: &Tree, with_log: bool) -> Self {
        let mut sample = Self::default();
        let mut missing = Vec::new();
        let text = |file: &str, missing: &mut Vec<Missing>| {
            tree.read(file).map_err(|why| missing.push(why)).unwrap_or_default()
        };
        let version =
            tree.setting("/proc/version").or_else(|| tree.setting("/proc/sys/kernel/osrelease"));
        let version = version.or_else(|| tree.setting("/sos_commands/kernel/uname_-a"));
        sample.version = version.as_deref().and_then(KernelVersion::from_uname);
        if sample.version.is_none() {
            missing.push(gone("/proc/version", "commands are those of any version"));
        }
        sample.meminfo = MemInfo::parse(&text("/proc/meminfo", &mut missing));
        sample.vmstat = VmStat::parse(&text("/proc/vmstat", &mut missing)).0;
        let zones = text("/proc/zoneinfo", &mut missing);
        if !zones.is_empty() {
            match zoneinfo::read(zones, Path::new("/proc/zoneinfo")) {
                Ok(zones) => sample.zones = zones,
                Err(error) => missing.push(gone("/proc/zoneinfo", &error.to_string())),
            }
        }
        sample.page_kb = page_kb(&sample.meminfo, &sample.zones);
        missing.extend(unmanaged(&sample));
        let lists = text("/proc/buddyinfo", &mut missing);
        sample.free_blocks = parsed(lists, "/proc/buddyinfo", BuddyInfo::read, &mut missing)
            .map_or_else(BTreeMap::new, |info| info.free);
        let types = text("/proc/pagetypeinfo", &mut missing);
        let has_text = !types.trim().is_empty();
        sample.types = parsed(types, "/proc/pagetypeinfo", PageTypeInfo::read, &mut missing)
            .filter(|types| !types.blocks.is_empty());
        if has_text
            && sample.types.is_none()
            && missing.iter().all(|m| m.file != "/proc/pagetypeinfo")
        {
            missing.push(gone("/proc/pagetypeinfo", "no pageblocks by type in it"));
        }
        if sample.free_blocks.is_empty() {
            sample.free_blocks = lists_by_type(sample.types.as_ref());
        }
        sample.pressure = pressure(&text("/proc/pressure/memory", &mut missing));
        sample.sysctls = super::settings::sysctls(tree);
        if sample.sysctls.is_empty() {
            missing
                .push(gone("/proc/sys/vm", "no such folder: commands do not say how to undo them"));
        }
        sample.huge = HugePages::read(tree);
        if sample.huge.enabled.is_none() {
            missing.push(gone("/sys/kernel/mm/transparent_hugepage", "no such folder"));
        }
        sample.hugetlb = Hugetlb::read(tree, &sample.meminfo);
        let arc = tree.setting("/proc/spl/kstat/zfs/arcstats");
        sample.arc_bytes = arc.and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("size "))?;
            line.split_whitespace().nth(2)?.parse().ok()
        });
        sample.uptime = tree
            .setting("/proc/uptime")
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .filter(|uptime: &f64| uptime.is_finite());
        super::settings::tasks(tree, &mut sample.daemons, &mut sample.exporter);
        if with_log {
            match Signs::of_machine(tree) {
                Ok((log, unread)) => {
                    sample.log = Some(log);
                    missing.extend(unread);
                }
                Err(why) => missing.push(why),
            }
        }
        sample.missing = missing;
        sample
    }

    /// Returns the release of its kernel.
    #[must_use]
    pub fn release(&self) -> Option<String> {
        self.version.as_ref().map(|version| version.release().to_owned())
    }

    /// Returns whether no file has data about memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let no_zones = self.zones.is_empty() && self.free_blocks.is_empty();
        no_zones && self.vmstat.is_empty() && self.log.is_none()
    }

    /// Returns a counter of `/proc/vmstat`; 0 if it is missing.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.vmstat.get(name).copied().unwrap_or(0)
    }

    /// Returns the counters of `/proc/vmstat` whose names have a prefix.
    pub(crate) fn counters<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, u64)> {
        let named = self.vmstat.iter().map(|(name, &value)| (name.as_str(), value));
        named.filter(move |(name, _)| name.starts_with(prefix))
    }

    /// Returns a figure of `/proc/meminfo` in kB.
    #[must_use]
    pub fn kb(&self, name: &str) -> Option<u64> {
        self.meminfo.get(name)
    }

    /// Returns the memory that its zones do not manage yet.
    #[must_use]
    pub fn uninitialised(&self) -> Option<Uninitialised> {
        uninitialised(self.kb("MemTotal")?, self.page_kb, &self.zones)
    }

    /// Returns a sysctl of `vm` as a number.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<u64> {
        self.sysctls.get(name)?.parse().ok()
    }

    /// Returns whether the kernel has a sysctl of `vm` that commands set: by the files if there are any, otherwise by its version.
    #[must_use]
    pub fn has_sysctl(&self, name: &str) -> bool {
        match self.sysctls.is_empty() {
            true => has_sysctl(self.version.as_ref(), name),
            false => self.sysctls.contains_key(name),
        }
    }

    /// Returns whether a kernel's rule applies; true if its version is unknown.
    #[must_use]
    pub fn follows(&self, rule: impl FnOnce(&Kernel) -> bool) -> bool {
        self.version.as_ref().is_none_or(|version| rule(&rules(version)))
    }
}

pub(super) fn gone(file: &str, why: &str) -> Missing {
    Missing { file: file.to_owned(), why: why.to_owned() }
}

/// Returns a note if zones do not manage all of `MemTotal` yet.
fn unmanaged(sample: &Sample) -> Option<Missing> {
    Some(gone("/proc/zoneinfo", &sample.uninitialised()?.to_string()))
}

/// Returns the free blocks by zone and order, summed over the types of `pagetypeinfo`. The kernel stops counting a list at 100,000.
fn lists_by_type(types: Option<&PageTypeInfo>) -> BTreeMap<ZoneName, Vec<u64>> {
    let mut zones = BTreeMap::<ZoneName, Vec<u64>>::new();
    for (((node, zone), _), blocks) in types.iter().flat_map(|types| &types.free) {
        let all = zones.entry((*node, zone.clone())).or_default();
        all.resize(all.len().max(blocks.len()), 0);
        for (all, blocks) in all.iter_mut().zip(blocks) {
            *all = all.saturating_add(*blocks);
        }
    }
    zones
}

fn parsed<T>(
    text: String,
    file: &str,
    read: fn(Input) -> Result<T, pageblock_recording::Error>,
    missing: &mut Vec<Missing>,
) -> Option<T> {
    if text.trim().is_empty() {
        return None;
    }
    let made = Input::from_reader(Cursor::new(text), Path::new(file)).and_then(read);
    made.map_err(|error| missing.push(gone(file, &error.to_string()))).ok()
}

fn pressure(text: &str) -> Option<Pressure> {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (averages, total) = match words.next()? {
            "some" => (&mut pressure.some, &mut pressure.some_us),
            "full" => (&mut pressure.full, &mut pressure.full_us),
            _ => continue,
        };
        for word in words {
            let (key, value) = word.split_once('=')?;
            match key {
                "avg10" => averages[0] = value.parse().ok()?,
                "avg60" => averages[1] = value.parse().ok()?,
                "avg300" => averages[2] = value.parse().ok()?,
                _ => *total = value.parse().ok()?,
            }
        }
    }
    (!text.trim().is_empty()).then_some(pressure)
}
