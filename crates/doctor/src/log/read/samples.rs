//! What grew between samples of `/proc/meminfo` in one text: its fields printed again, or a table of some of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::state::{MOST_KB, at_most};
use crate::log::Line;

/// The fields that are read.
const FIELDS: [&str; 14] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Slab",
    "SReclaimable",
    "SUnreclaim",
    "KernelStack",
    "PageTables",
    "Percpu",
    "VmallocUsed",
    "AnonPages",
    "Shmem",
];
/// Fields that count what the kernel does not free by itself. `Slab` is not one: it may be cache for the most part.
const HELD: [&str; 7] =
    ["SUnreclaim", "KernelStack", "PageTables", "Percpu", "VmallocUsed", "AnonPages", "Shmem"];
/// The name of what no field counts.
const UNCOUNTED: &str = "uncounted";
/// A field that grows by less than this part of itself, or of the machine's memory, varies.
const LEAST_PART: u64 = 20;
const LEAST_PART_OF_ALL: u64 = 100;

/// What is available shrank if it lost more than this part.
const LEAST_LEFT: u64 = 4;
const AVAILABLE: &str = "MemAvailable";

/// Memory that grew. Sizes are kB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Growth {
    /// The field of `/proc/meminfo`, or `uncounted`; `MemAvailable` if that fell and no field tells who grew.
    pub field: String,
    /// Its size in the first sample.
    pub from_kb: u64,
    /// Its size in the last.
    pub to_kb: u64,
    /// The number of samples.
    pub samples: usize,
    /// `MemAvailable` in the first and in the last.
    pub available_kb: Option<(u64, u64)>,
}

type Sample = BTreeMap<&'static str, u64>;

/// Reads the samples.
#[derive(Default)]
pub(super) struct Samples {
    first: Option<Sample>,
    now: Sample,
    count: usize,
    /// The line of the first field.
    line: Option<usize>,
    /// The fields of a table's columns.
    columns: Vec<Option<&'static str>>,
}

impl Samples {
    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        // The first columns of a table look like the prefix of a logger.
        if line.text.contains('|') || line.prefix.0.contains('|') {
            let whole = [line.prefix.0.as_str(), line.text.as_str()].concat();
            return self.row(&whole, line.number);
        }
        self.columns.clear();
        let words: Vec<&str> = line.text.split_whitespace().collect();
        // The fields of a node are no sample of the machine's.
        if words.iter().any(|word| word.ends_with("Node")) {
            return;
        }
        for trio in words.windows(3).filter(|trio| trio[2] == "kB") {
            let field = trio[0].strip_suffix(':').and_then(known);
            if let Some((field, kb)) = field.zip(at_most(trio[1], MOST_KB)) {
                self.field(field, kb, line.number);
            }
        }
    }

    /// Reads a row of a table, or its head.
    fn row(&mut self, text: &str, line: usize) {
        let cells: Vec<&str> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
        let heads: Vec<_> =
            cells.iter().map(|cell| cell.split_whitespace().next().and_then(known)).collect();
        if heads.iter().any(Option::is_some) {
            self.columns = heads;
            return;
        }
        for (field, cell) in self.columns.clone().into_iter().zip(cells) {
            if let Some((field, kb)) = field.zip(size(cell)) {
                self.field(field, kb, line);
            }
        }
    }

    fn field(&mut self, field: &'static str, kb: u64, line: usize) {
        self.line.get_or_insert(line);
        if self.now.contains_key(field) {
            self.count += 1;
            let sample = std::mem::take(&mut self.now);
            self.first.get_or_insert(sample);
        }
        self.now.insert(field, kb);
    }

    /// Returns what grew most, and the line of the first sample.
    pub(super) fn finish(mut self) -> Option<(usize, Growth)> {
        let (mut first, mut last) = (self.first.take()?, self.now);
        let total = (first.get("MemTotal").copied(), last.get("MemTotal").copied());
        // Samples of two machines.
        if total
            .0
            .zip(total.1)
            .is_some_and(|(one, other)| one.abs_diff(other) > one / LEAST_PART_OF_ALL)
        {
            return None;
        }
        for sample in [&mut first, &mut last] {
            let kb = uncounted(sample);
            sample.extend(kb.map(|kb| (UNCOUNTED, kb)));
        }
        let least = total.0.map_or(0, |total| total / LEAST_PART_OF_ALL);
        let mut most: Option<(&str, u64, u64)> = None;
        for field in HELD.iter().chain([&UNCOUNTED]) {
            let Some((&from, &to)) = first.get(field).zip(last.get(field)) else { continue };
            let grew = to.saturating_sub(from);
            let is_more = most.is_none_or(|(_, from, to)| grew > to - from);
            if grew >= (from / LEAST_PART).max(least).max(1) && is_more {
                most = Some((field, from, to));
            }
        }
        let available = first.get("MemAvailable").copied().zip(last.get("MemAvailable").copied());
        // If no field tells who grew.
        let fell =
            available.filter(|(from, to)| to.saturating_mul(LEAST_LEFT) < from * (LEAST_LEFT - 1));
        let fell = fell.map(|(from, to)| (AVAILABLE, from, to));
        let (field, from_kb, to_kb) = most.or(fell)?;
        let growth = Growth {
            field: field.to_owned(),
            from_kb,
            to_kb,
            samples: self.count + 1,
            available_kb: available.filter(|_| field != AVAILABLE),
        };
        Some((self.line?, growth))
    }
}

/// Returns the memory that no field of a whole sample counts, in kB, apart from huge pages.
fn uncounted(sample: &Sample) -> Option<u64> {
    let own = |field| sample.get(field).copied();
    let counted =
        [own("MemFree")?, own("Buffers")?, own("Cached")?, own("AnonPages")?, own("Slab")?];
    let others = ["PageTables", "KernelStack"].into_iter().filter_map(own);
    let counted = counted.into_iter().chain(others).fold(0, u64::saturating_add);
    Some(own("MemTotal")?.saturating_sub(counted))
}

fn known(name: &str) -> Option<&'static str> {
    FIELDS.into_iter().find(|field| *field == name)
}

/// Reads a size such as `90.720 kB`, `90,720` or `35 MB`, in kB.
fn size(cell: &str) -> Option<u64> {
    let mut words = cell.split_whitespace();
    let number = words.next()?;
    let unit = match words.next().unwrap_or("kB") {
        "kB" | "KB" | "KiB" => 1,
        "MB" | "MiB" => 1 << 10,
        _ => return None,
    };
    let parts: Vec<&str> = number.split(['.', ',']).collect();
    let are_thousands = parts.iter().skip(1).all(|part| part.len() == 3);
    let digits = if are_thousands { parts.concat() } else { return None };
    Some(at_most(&digits, MOST_KB)?.saturating_mul(unit).min(MOST_KB))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(text: &str) -> Option<Growth> {
        let mut samples = Samples::default();
        for (number, text) in (1..).zip(text.lines()) {
            samples.push(&Line { number, text: text.to_owned(), ..Line::default() });
        }
        samples.finish().map(|(_, growth)| growth)
    }

    #[test]
    fn what_grows_from_sample_to_sample_is_found() {
        let two = "MemTotal: 900000 kB\nMemAvailable: 700000 kB\nSlab: 90000 kB\nSUnreclaim: 60000 kB\n\
                   two days later\n\
                   MemTotal: 900000 kB\nMemAvailable: 300000 kB\nSlab: 490000 kB\nSUnreclaim: 450000 kB\n";
        let grew = growth(two).unwrap();
        assert_eq!(
            (grew.field.as_str(), grew.from_kb, grew.to_kb),
            ("SUnreclaim", 60_000, 450_000)
        );
        assert_eq!((grew.samples, grew.available_kb), (2, Some((700_000, 300_000))));
        // Of another machine; the same sample quoted; less than one in a hundred.
        assert_eq!(growth(&two.replacen("900000", "990000", 1)), None);
        let same = two.replace("450000", "60000").replace("490000", "90000");
        assert_eq!(growth(&same.replace("300000", "700000")), None);
        let fell = growth(&two.replace("450000", "68000")).unwrap();
        assert_eq!((fell.field.as_str(), fell.available_kb), ("MemAvailable", None));
        assert_eq!(growth("SUnreclaim: 60000 kB\n"), None);
    }

    #[test]
    fn a_table_has_samples_in_rows() {
        let table = "Time | MemAvailable | SUnreclaim\n-- | -- | --\n00:45 | 90.720 kB | 16.244 kB\n\
                     03:00 | 72.940 kB | 16.572 kB\n06:30 | 71.440 kB | 17.368 kB\n";
        let grew = growth(table).unwrap();
        assert_eq!((grew.from_kb, grew.to_kb, grew.samples), (16_244, 17_368, 3));
        assert_eq!(grew.available_kb, Some((90_720, 71_440)));
    }

    #[test]
    fn memory_that_no_field_counts_grows_too() {
        let sample = |free: u64| {
            format!(
                "MemTotal: 900000 kB\nMemFree: {free} kB\nBuffers: 1 kB\nCached: 9 kB\nAnonPages: 9 kB\nSlab: 9 kB\n"
            )
        };
        let grew = growth(&[sample(800_000), sample(300_000)].concat()).unwrap();
        assert_eq!((grew.field.as_str(), grew.to_kb - grew.from_kb), ("uncounted", 500_000));
    }
}
