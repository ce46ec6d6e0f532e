//! `/proc/zoneinfo`, and the other files that describe a machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::record::event::PFN_LIMIT;
use crate::state::paths::find;
use crate::state::procfs::{each_line, zone_and_rest};

/// A zone of a machine. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneFigures {
    /// The node.
    pub node: u16,
    /// The kernel's name: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable`, `Device`.
    pub name: String,
    /// The first frame.
    pub start_pfn: u64,
    /// The size including holes; 0 if the zone has no memory.
    pub spanned: u64,
    /// The pages given to the allocator.
    pub managed: u64,
    /// The size without holes.
    pub present: u64,
    /// The min, low and high watermark.
    pub wmark: [u64; 3],
    /// Its per-CPU lists.
    pub lists: Vec<ListFigures>,
}

/// The limits of the lists of a CPU for a zone, in pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListFigures {
    /// The CPU.
    pub cpu: u16,
    /// The limit.
    pub high: u64,
    /// Pages moved under one hold of the zone's lock.
    pub batch: u64,
    /// The lower bound of the limit (6.7 and later).
    pub high_min: Option<u64>,
    /// The upper bound of the limit (6.7 and later).
    pub high_max: Option<u64>,
}

/// The description of a machine in `/proc` and `/sys`. Texts are empty if the file is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcFiles {
    /// The zones, in the order of `/proc/zoneinfo`.
    pub zones: Vec<ZoneFigures>,
    /// The CPUs that have per-CPU lists.
    pub cpus: BTreeSet<u32>,
    /// `cpulist` of each node in `/sys/devices/system/node`.
    pub node_cpus: Vec<(u16, String)>,
    /// `/proc/meminfo`.
    pub meminfo: String,
    /// `/proc/buddyinfo`.
    pub buddyinfo: String,
    /// `/proc/pagetypeinfo`, which only root can read.
    pub pagetypeinfo: String,
    /// `/proc/swaps`.
    pub swaps: String,
    /// `/proc/partitions`.
    pub partitions: String,
    /// `/proc/sys/kernel/hostname`.
    pub hostname: String,
}

/// The maximum size of a file, far above real ones.
const FILE_BYTES: u64 = 16 << 20;

impl ProcFiles {
    /// Reads `/proc`, or a folder with copies of its files, plain or compressed. `zoneinfo` is required. The
    /// nodes of the CPUs come from `/sys` for `/proc`, else from `sys` in the folder or beside it.
    ///
    /// # Errors
    /// If `zoneinfo` is absent or not in the format, or a file that is there cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let zoneinfo = find(folder, "zoneinfo").ok_or_else(|| Error::Missing {
            path: folder.to_owned(),
            what: "zoneinfo",
            expected: "/proc, or a folder with a copy of /proc/zoneinfo",
        })?;
        let mut files = Self::read_zoneinfo(Input::open(&zoneinfo)?)?;
        for (name, text) in [
            ("meminfo", &mut files.meminfo),
            ("buddyinfo", &mut files.buddyinfo),
            ("pagetypeinfo", &mut files.pagetypeinfo),
            ("swaps", &mut files.swaps),
            ("partitions", &mut files.partitions),
            ("sys/kernel/hostname", &mut files.hostname),
        ] {
            *text = optional(folder, name)?;
        }
        files.node_cpus = node_cpus(folder)?;
        Ok(files)
    }

    /// Reads only `/proc/zoneinfo`.
    ///
    /// # Errors
    /// If the text cannot be read or is not in the format.
    pub fn read_zoneinfo(mut input: Input) -> Result<Self, Error> {
        let mut files = Self::default();
        each_line(&mut input, |line| {
            if line.starts_with("Node") {
                let ((node, name), _) = zone_and_rest(line)?;
                files.zones.push(ZoneFigures { node, name, ..ZoneFigures::default() });
                return Ok(());
            }
            let mut words = line.split_ascii_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else { return Ok(()) };
            const KEYS: [&str; 12] = [
                "spanned",
                "present",
                "managed",
                "start_pfn:",
                "min",
                "low",
                "high",
                "cpu:",
                "high:",
                "batch:",
                "high_min:",
                "high_max:",
            ];
            if !KEYS.contains(&key) {
                return Ok(());
            }
            let zone = files.zones.last_mut().ok_or("a line `Node N, zone NAME` first")?;
            let value = value.parse().ok().filter(|&n: &u64| n < PFN_LIMIT);
            let value = value.ok_or("a whole number below 2^52 after the key")?;
            match key {
                "spanned" => zone.spanned = value,
                "managed" => zone.managed = value,
                "present" => zone.present = value,
                "min" => zone.wmark[0] = value,
                "low" => zone.wmark[1] = value,
                "high" => zone.wmark[2] = value,
                "high:" | "batch:" | "high_min:" | "high_max:" => {
                    let list = zone.lists.last_mut().ok_or("a line `cpu: N` first")?;
                    match key {
                        "high:" => list.high = value,
                        "batch:" => list.batch = value,
                        "high_min:" => list.high_min = Some(value),
                        _ => list.high_max = Some(value),
                    }
                }
                "start_pfn:" => zone.start_pfn = value,
                _ => {
                    let cpu = u32::try_from(value).map_err(|_| "the number of a CPU")?;
                    files.cpus.insert(cpu);
                    let cpu = u16::try_from(cpu).map_err(|_| "the number of a CPU")?;
                    zone.lists.push(ListFigures { cpu, ..ListFigures::default() });
                }
            }
            Ok(())
        })?;
        if files.zones.iter().all(|zone| zone.managed == 0) {
            return Err(Error::unexpected(
                input.place(),
                "the end of the file",
                "at least one zone with `managed` pages, as in /proc/zoneinfo",
            ));
        }
        Ok(files)
    }
}

/// Returns the text of a file that may be absent, or not readable for this user.
fn optional(folder: &Path, name: &str) -> Result<String, Error> {
    let Some(path) = find(folder, name) else { return Ok(String::new()) };
    let bytes = match Input::open(&path) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            return Ok(String::new());
        }
        input => input?.read_to_end(FILE_BYTES as _)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn node_cpus(folder: &Path) -> Result<Vec<(u16, String)>, Error> {
    let nodes = "devices/system/node";
    let whole = folder.canonicalize().map_err(|e| Error::io(folder, e))?;
    let beside = if whole == Path::new("/proc") {
        PathBuf::from("/sys").join(nodes)
    } else {
        let inside = whole.join("sys").join(nodes);
        if inside.is_dir() { inside } else { whole.with_file_name("sys").join(nodes) }
    };
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(&beside) else { return Ok(found) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        if let Some(id) = id {
            found.push((id, optional(&entry.path(), "cpulist")?.trim().to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &'static str) -> Result<ProcFiles, Error> {
        ProcFiles::read_zoneinfo(Input::from_reader(Cursor::new(text), Path::new("zoneinfo"))?)
    }

    #[test]
    fn zones_and_cpus_are_found() {
        let files = read(
            "Node 0, zone      DMA\n  pages free     3840\n        spanned  4095\n        present  3998\n        managed  3840\n\
             \x20 pagesets\n    cpu: 0\n              count: 0\n    cpu: 3\n  start_pfn:           1\n\
             Node 0, zone  Movable\n  pages free     0\n        spanned  0\n        managed  0\n",
        )
        .unwrap();
        let dma = &files.zones[0];
        assert_eq!((dma.name.as_str(), dma.start_pfn), ("DMA", 1));
        assert_eq!((dma.spanned, dma.present, dma.managed), (4095, 3998, 3840));
        assert_eq!(dma.lists.iter().map(|list| list.cpu).collect::<Vec<_>>(), [0, 3]);
        assert_eq!((files.zones.len(), files.cpus), (2, [0, 3].into()));
    }

    #[test]
    fn an_invalid_zoneinfo_is_rejected_with_its_line() {
        for (text, expect) in [
            ("", "zoneinfo (byte 0): found the end of the file; allowed: at least one zone"),
            (
                "  spanned 7\n",
                "zoneinfo:1 (byte 0): found \"  spanned 7\"; allowed: a line `Node N",
            ),
            (
                "Node 0, zone DMA\n managed -1\n",
                "zoneinfo:2 (byte 17): found \" managed -1\"; allowed: a whole",
            ),
            ("Node 0, zone DMA\n start_pfn: 4503599627370496\n", "zoneinfo:2 "),
            ("Node zero\n", "zoneinfo:1 (byte 0): found \"Node zero\"; allowed: Node N, zone NAME"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{error}");
        }
    }
}
