//! `/proc/zoneinfo`, and the other files that describe a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::state::meminfo::MemInfo;
use crate::state::paths::find;
use crate::state::procfs::{
    BuddyInfo, COUNT_LIMIT, FILE_LIMIT_BYTES, PageTypeInfo, amount, each_line, zone_and_rest,
};
use crate::state::snapshot::PcpInfo;

/// A zone of a machine. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneFigures {
    /// The node.
    pub node: u16,
    /// The kernel's name: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable`, `Device`.
    pub name: String,
    /// The first frame. `None`: the kernel does not say, as the zone has no memory.
    pub start_pfn: Option<u64>,
    /// The size including holes; 0 if the zone has no memory.
    pub spanned: u64,
    /// The pages given to the allocator.
    pub managed: u64,
    /// The size without holes.
    pub present: u64,
    /// Free pages, without those of the per-CPU lists.
    pub free: u64,
    /// The min, low and high watermark, as printed: with the boost.
    pub wmark: [u64; 3],
    /// The boost in them (5.17 and later).
    pub boost: Option<u64>,
    /// The mark above which pages are promoted to this node (6.x).
    pub promo: Option<u64>,
    /// CMA pages (5.16 and later).
    pub cma: Option<u64>,
    /// The pages that requests for higher zones must leave here, by the index of the requested zone.
    pub reserve: Vec<u64>,
    /// The counters of `/proc/vmstat` for the zone, without those of its node.
    pub counters: BTreeMap<String, u64>,
    /// Its per-CPU lists.
    pub lists: Vec<ListFigures>,
}

/// The lists of a CPU for a zone, in pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListFigures {
    /// The CPU.
    pub cpu: u16,
    /// Pages on them.
    pub count: u64,
    /// The limit.
    pub high: u64,
    /// Pages moved under one hold of the zone's lock.
    pub batch: u64,
    /// The lower bound of the limit (6.7 and later).
    pub high_min: Option<u64>,
    /// The upper bound of the limit (6.7 and later).
    pub high_max: Option<u64>,
}

impl ListFigures {
    /// Returns the limits as a snapshot has them.
    #[must_use]
    pub fn limits(&self, zone: u16) -> PcpInfo {
        let &Self { cpu, high, batch, high_min, high_max, .. } = self;
        PcpInfo { cpu, zone, high, batch, high_min, high_max, ..PcpInfo::default() }
    }
}

/// The description of a machine in `/proc` and `/sys`. Texts are empty, and values the default, if the file is absent or
/// not readable for this user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcFiles {
    /// The zones, in the order of `/proc/zoneinfo`.
    pub zones: Vec<ZoneFigures>,
    /// The CPUs that have per-CPU lists.
    pub cpus: BTreeSet<u32>,
    /// `cpulist` of each node in `/sys/devices/system/node`.
    pub node_cpus: Vec<(u16, String)>,
    /// `/proc/meminfo`.
    pub meminfo: MemInfo,
    /// `/proc/buddyinfo`.
    pub buddyinfo: BuddyInfo,
    /// `/proc/pagetypeinfo`, which only root can read.
    pub pagetypeinfo: PageTypeInfo,
    /// `/proc/swaps`.
    pub swaps: String,
    /// `/proc/partitions`.
    pub partitions: String,
    /// `/proc/sys/kernel/hostname`.
    pub hostname: String,
}

/// The limit of zones: 1024 nodes (`MAX_NUMNODES`) with 4.
const ZONES: usize = 4096;

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
        files.meminfo = MemInfo::parse(&text(folder, "meminfo")?);
        files.buddyinfo = optional(folder, "buddyinfo", BuddyInfo::read)?;
        files.pagetypeinfo = optional(folder, "pagetypeinfo", PageTypeInfo::read)?;
        files.swaps = text(folder, "swaps")?;
        files.partitions = text(folder, "partitions")?;
        files.hostname = text(folder, "sys/kernel/hostname")?;
        files.node_cpus = node_cpus(folder)?;
        Ok(files)
    }

    /// Reads only `/proc/zoneinfo`.
    ///
    /// # Errors
    /// If the text cannot be read or is not in the format.
    pub fn read_zoneinfo(mut input: Input) -> Result<Self, Error> {
        let mut files = Self::default();
        // The counters of a node stand in its first zone, and are no zone's.
        let mut of_node = false;
        each_line(&mut input, |line| {
            if line.starts_with("Node") {
                let ((node, name), _) = zone_and_rest(line)?;
                if files.zones.len() == ZONES {
                    return Err("4096 zones at most");
                }
                files.zones.push(ZoneFigures { node, name, ..ZoneFigures::default() });
                of_node = false;
                return Ok(());
            }
            let mut words = line.split_ascii_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else { return Ok(()) };
            match (key, value) {
                ("per-node", _) => of_node = true,
                ("pages", "free") => {
                    of_node = false;
                    let free = words.next().and_then(|free| free.parse().ok());
                    let free = free.filter(|&free: &u64| free < COUNT_LIMIT);
                    let zone = files.zones.last_mut().ok_or(ZONE_FIRST)?;
                    zone.free = free.ok_or(WHOLE)?;
                }
                ("protection:", _) => {
                    let list = line.split_once('(').map_or("", |(_, list)| list);
                    let numbers = list.trim_end().trim_end_matches(')').split(',');
                    let zone = files.zones.last_mut().ok_or(ZONE_FIRST)?;
                    zone.reserve = numbers.filter_map(|n| n.trim().parse().ok()).collect();
                }
                _ if ZoneFigures::has(key) => {
                    let zone = files.zones.last_mut().ok_or(ZONE_FIRST)?;
                    zone.set(key, value)?;
                }
                _ if of_node || key.ends_with(':') || words.next().is_some() => {}
                _ => {
                    if let (Some(zone), Some(count)) = (files.zones.last_mut(), amount(value)) {
                        zone.counters.insert(key.to_owned(), count);
                    }
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
        let lists = files.zones.iter().flat_map(|zone| &zone.lists);
        files.cpus = lists.map(|list| u32::from(list.cpu)).collect();
        Ok(files)
    }
}

const ZONE_FIRST: &str = "a line `Node N, zone NAME` first";
const WHOLE: &str = "a whole number below 2^52 after the key";

impl ZoneFigures {
    /// Returns the first frame; 0 if the kernel does not say.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start_pfn.unwrap_or(0)
    }

    /// Returns the frame after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start().saturating_add(self.spanned)
    }

    /// Returns a counter; 0 if this kernel does not have it.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Returns the pages on its per-CPU lists.
    #[must_use]
    pub fn on_cpu_lists(&self) -> u64 {
        self.lists.iter().fold(0, |sum, list| sum.saturating_add(list.count))
    }

    /// Returns how people name it, such as `node 0 Normal`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("node {} {}", self.node, self.name)
    }

    /// Reports whether a line that begins so sets a field.
    fn has(key: &str) -> bool {
        const KEYS: [&str; 16] = [
            "spanned",
            "present",
            "managed",
            "start_pfn:",
            "min",
            "low",
            "high",
            "boost",
            "promo",
            "cma",
            "cpu:",
            "count:",
            "high:",
            "batch:",
            "high_min:",
            "high_max:",
        ];
        KEYS.contains(&key)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let value = value.parse().ok().filter(|&n: &u64| n < COUNT_LIMIT).ok_or(WHOLE)?;
        match key {
            "spanned" => self.spanned = value,
            "managed" => self.managed = value,
            "present" => self.present = value,
            "start_pfn:" => self.start_pfn = Some(value),
            "min" => self.wmark[0] = value,
            "low" => self.wmark[1] = value,
            "high" => self.wmark[2] = value,
            "boost" => self.boost = Some(value),
            "promo" => self.promo = Some(value),
            "cma" => self.cma = Some(value),
            "cpu:" => {
                let cpu = u16::try_from(value).map_err(|_| "the number of a CPU")?;
                self.lists.push(ListFigures { cpu, ..ListFigures::default() });
            }
            _ => {
                let list = self.lists.last_mut().ok_or("a line `cpu: N` first")?;
                match key {
                    "count:" => list.count = value,
                    "high:" => list.high = value,
                    "batch:" => list.batch = value,
                    "high_min:" => list.high_min = Some(value),
                    _ => list.high_max = Some(value),
                }
            }
        }
        Ok(())
    }
}

/// Reads a file that may be absent, or not readable for this user.
fn optional<T: Default>(
    folder: &Path,
    name: &str,
    read: impl FnOnce(Input) -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(path) = find(folder, name) else { return Ok(T::default()) };
    match Input::open(&path) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Ok(T::default())
        }
        input => input.and_then(read),
    }
}

fn text(folder: &Path, name: &str) -> Result<String, Error> {
    optional(folder, name, |mut input| {
        let bytes = input.read_to_end(FILE_LIMIT_BYTES as usize)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
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
            found.push((id, text(&entry.path(), "cpulist")?.trim().to_owned()));
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
        assert_eq!((dma.name.as_str(), dma.start_pfn), ("DMA", Some(1)));
        assert_eq!((dma.spanned, dma.present, dma.managed), (4095, 3998, 3840));
        assert_eq!(dma.lists.iter().map(|list| list.cpu).collect::<Vec<_>>(), [0, 3]);
        assert_eq!((files.zones.len(), files.cpus), (2, [0, 3].into()));
    }

    #[test]
    fn counters_of_a_node_are_no_zones() {
        let files = read(
            "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 12\n  pages free     3840\n        boost    7\n        \
             min      10\n        low      13\n        high     16\n        spanned  4095\n        managed  3840\n        cma      \
             64\n        protection: (0, 3019, 24137)\n      nr_free_pages 3841\n      nr_zspages  -3\n  pagesets\n    cpu: 0\n              \
             count:    5\n              high:     9\n              batch:    1\n  vm stats threshold: 8\n  start_pfn: 1\n",
        )
        .unwrap();
        let zone = &files.zones[0];
        assert_eq!((zone.free, zone.wmark, zone.boost), (3840, [10, 13, 16], Some(7)));
        assert_eq!((zone.cma, &zone.reserve[..]), (Some(64), &[0, 3019, 24137][..]));
        let counters: Vec<_> = zone.counters.iter().map(|(name, &n)| (name.as_str(), n)).collect();
        assert_eq!(counters, [("nr_free_pages", 3841), ("nr_zspages", 0)]);
        assert_eq!((zone.lists[0].count, zone.lists[0].high), (5, 9));
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
