//! `/proc/zoneinfo`, of any version.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use pageblock_recording::{Input, ListFigures, ProcFiles, ZoneFigures};

use crate::error::Error;

/// A zone. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Zone {
    /// The node.
    pub node: u32,
    /// The kernel's name.
    pub name: String,
    /// The first frame.
    pub start: u64,
    /// The frames up to the zone's end, holes included.
    pub spanned: u64,
    /// Those of them that exist.
    pub present: u64,
    /// The pages given to the allocator.
    pub managed: u64,
    /// Free pages, without those of the per-CPU lists.
    pub free: u64,
    /// The watermarks min, low and high as printed: with the boost.
    pub marks: [u64; 3],
    /// The boost in them; 0 before 5.17, which does not print it.
    pub boost: u64,
    /// CMA pages.
    pub cma: u64,
    /// What requests for higher zones must leave, by the index of the zone that they may use.
    pub reserve: Vec<u64>,
    /// Pages on the per-CPU lists.
    pub on_cpu_lists: u64,
    /// The most pages that the lists of one CPU hold: their limit now, or what they grow to by frees in a row (6.7 and later).
    pub list_limit: u64,
    /// The counters of `/proc/vmstat` for the zone.
    pub counters: BTreeMap<String, u64>,
}

impl Zone {
    /// Returns the frame after the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.spanned)
    }

    /// Returns a counter; 0 if this kernel does not have it.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Returns how people name it, such as `node 0 Normal`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("node {} {}", self.node, self.name)
    }
}

impl From<ZoneFigures> for Zone {
    fn from(zone: ZoneFigures) -> Self {
        let limit = |list: &ListFigures| list.high.max(list.batch.saturating_mul(BATCHES));
        Self {
            node: u32::from(zone.node),
            name: zone.name,
            start: zone.start_pfn.unwrap_or(0),
            spanned: zone.spanned,
            present: zone.present,
            managed: zone.managed,
            free: zone.free,
            marks: zone.wmark,
            boost: zone.boost.unwrap_or(0),
            cma: zone.cma.unwrap_or(0),
            reserve: zone.reserve,
            on_cpu_lists: zone.lists.iter().fold(0, |sum, list| sum.saturating_add(list.count)),
            list_limit: zone.lists.iter().map(limit).max().unwrap_or(0),
            counters: zone.counters,
        }
    }
}

/// The batches that a CPU list holds at least when pages are freed in a row: one more than it frees at once
/// (`CONFIG_PCP_BATCH_SCALE_MAX`).
const BATCHES: u64 = (1 << 5) + 1;
/// The limit of frames of a zone that can be judged.
const PAGES: u64 = 1 << 48;
/// The limit of a zone's frames: 64 TiB of pages of 4 KiB.
const SPAN: u64 = 1 << 34;

/// Reads the zones that have memory, in the order of the file. `path` is named in errors.
///
/// # Errors
/// If a line is not in the format, or no zone has memory.
pub fn read(text: String, path: &Path) -> Result<Vec<Zone>, Error> {
    let input = Input::from_reader(Cursor::new(text), path)?;
    let zones = ProcFiles::read_zoneinfo(input)?.zones.into_iter();
    let zones: Vec<Zone> =
        zones.filter(|zone| zone.spanned > 0 && zone.managed > 0).map(Zone::from).collect();
    let unexpected =
        |found, expected| Error::Unexpected { path: path.to_owned(), line: 0, found, expected };
    if zones.is_empty() {
        return Err(unexpected(
            String::new(),
            "at least one zone with memory, as in /proc/zoneinfo",
        ));
    }
    if let Some(zone) = zones.iter().find(|zone| zone.start >= PAGES || zone.spanned >= SPAN) {
        return Err(unexpected(zone.label(), "a zone of less than 2^34 frames, below frame 2^48"));
    }
    Ok(zones)
}
