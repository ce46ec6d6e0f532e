//! `/proc/zoneinfo`, of any version.

use std::collections::BTreeMap;
use std::path::Path;

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

    fn set(&mut self, key: &str, value: u64) {
        match key {
            "pages" => self.free = value,
            "min" => self.marks[0] = value,
            "low" => self.marks[1] = value,
            "high" => self.marks[2] = value,
            "boost" => self.boost = value,
            "spanned" => self.spanned = value,
            "present" => self.present = value,
            "managed" => self.managed = value,
            "cma" => self.cma = value,
            "count:" => self.on_cpu_lists = self.on_cpu_lists.saturating_add(value),
            "high:" => self.list_limit = self.list_limit.max(value),
            "batch:" => self.list_limit = self.list_limit.max(value.saturating_mul(BATCHES)),
            "start_pfn:" => self.start = value,
            _ => {
                self.counters.insert(key.to_owned(), value);
            }
        }
    }
}

/// The batches that a CPU list holds at least when pages are freed in a row: one more than it frees at once
/// (`CONFIG_PCP_BATCH_SCALE_MAX`).
const BATCHES: u64 = (1 << 5) + 1;
/// The limit of numbers of pages and frames, far above real ones.
const PAGES: u64 = 1 << 48;
/// The limit of a zone's frames: 64 TiB of pages of 4 KiB.
const SPAN: u64 = 1 << 34;
/// The limit of zones: 1024 nodes (`MAX_NUMNODES`) with 4.
const ZONES: usize = 4096;

/// Reads the zones that have memory, in the order of the file. `path` is named in errors.
///
/// # Errors
/// If a line is not in the format, or no zone has memory.
pub fn read(text: &str, path: &Path) -> Result<Vec<Zone>, Error> {
    let mut zones: Vec<Zone> = Vec::new();
    // The counters of a node stand in its first zone, and are no zone's.
    let mut of_node = false;
    for (number, line) in (1..).zip(text.lines()) {
        let unexpected = |expected| Error::Unexpected {
            path: path.to_owned(),
            line: number,
            found: line.chars().take(80).collect(),
            expected,
        };
        if let Some(rest) = line.strip_prefix("Node") {
            let (node, name) =
                rest.split_once(", zone").ok_or_else(|| unexpected("`Node N, zone NAME`"))?;
            let node = node.trim().parse().map_err(|_| unexpected("`Node N, zone NAME`"))?;
            if zones.len() == ZONES {
                return Err(unexpected("4096 zones at most"));
            }
            zones.push(Zone { node, name: name.trim().to_owned(), ..Zone::default() });
            of_node = false;
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["per-node", ..] => of_node = true,
            ["pages", "free", value] => {
                of_node = false;
                zone.set("pages", number_of(value).ok_or_else(|| unexpected("a number of pages"))?);
            }
            ["protection:", ..] => {
                let list = line.split_once('(').map_or("", |(_, list)| list);
                let numbers = list.trim_end().trim_end_matches(')').split(',');
                zone.reserve = numbers.filter_map(|n| n.trim().parse().ok()).collect();
            }
            [_, value] if of_node && number_of(value).is_some() => {}
            [key, value] => {
                if let Some(value) = number_of(value) {
                    zone.set(key, value);
                }
            }
            _ => {}
        }
    }
    zones.retain(|zone| zone.spanned > 0 && zone.managed > 0);
    if zones.is_empty() {
        return Err(Error::Unexpected {
            path: path.to_owned(),
            line: text.lines().count(),
            found: String::new(),
            expected: "at least one zone with memory, as in /proc/zoneinfo",
        });
    }
    if let Some(zone) = zones.iter().find(|zone| zone.start >= PAGES || zone.spanned >= SPAN) {
        return Err(Error::Unexpected {
            path: path.to_owned(),
            line: 0,
            found: zone.label(),
            expected: "a zone of less than 2^34 frames, below frame 2^48",
        });
    }
    Ok(zones)
}

/// Returns a number; some counters can go below zero for a moment.
fn number_of(word: &str) -> Option<u64> {
    let number: i128 = word.parse().ok()?;
    Some(number.clamp(0, i128::from(PAGES)) as u64)
}
