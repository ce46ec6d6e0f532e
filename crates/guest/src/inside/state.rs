//! The kernel's own counts: files of `/proc`.

use std::fs;
use std::path::Path;

use pageblock_recording::{MemInfo, VmStat};

use crate::message::Files;

/// The files of `/proc` that are reported; those that a kernel lacks are left out.
const FILES: [&str; 9] = [
    "vmstat",
    "buddyinfo",
    "pagetypeinfo",
    "zoneinfo",
    "meminfo",
    "version",
    "swaps",
    "partitions",
    "pressure/memory",
];

/// Reads the files.
pub(super) fn files() -> Files {
    let read = |name: &&str| {
        Some(((*name).to_owned(), fs::read_to_string(Path::new("/proc").join(name)).ok()?))
    };
    FILES.iter().filter_map(read).collect()
}

/// Returns a counter of `/proc/vmstat`.
pub(crate) fn counter(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    VmStat::counters(&text).find(|(other, _)| *other == name).map(|(_, count)| count)
}

/// Reads `/proc/meminfo`.
pub(crate) fn meminfo() -> Option<MemInfo> {
    fs::read_to_string("/proc/meminfo").ok().map(|text| MemInfo::parse(&text))
}
