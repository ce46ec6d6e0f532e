//! A saved run: one policy under one workload on one machine.

use std::collections::BTreeMap;
use std::path::Path;

use pageblock::frame::Order;
use serde::{Deserialize, Serialize};

use crate::blocks::{BlockCensus, TypeCounts};
use crate::calibration::Calibration;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::ended::Ended;
use crate::error::Error;
use crate::event_unit::EventUnit;
use crate::extfrag::ExtfragMatrix;
use crate::file;
use crate::history::History;
use crate::index;
use crate::limits;
use crate::observer::Tally;
use crate::origin::{self, Origin};
use crate::setup::SetupRecord;
use crate::tables::Tables;

/// One run, simulated or recorded. Its JSON has exactly these keys; those that are empty or absent
/// from `unusable_free_index` on are omitted. Unknown keys of later versions are ignored.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The preset and its switches: `linux-4.20,nofragment=on`.
    pub policy: String,
    /// The workload's or the recording's name.
    pub workload: String,
    /// The machine's name.
    pub machine: String,
    /// Where it comes from.
    #[serde(default)]
    pub origin: Origin,
    /// The seed of a simulation or of a replay; the number of a real run.
    pub seed: u64,
    /// The hash of the stream of events (see [`crate::hash`]).
    pub event_hash: String,
    /// Counts of the whole run.
    pub counters: Counters,
    /// Fallbacks of the whole run.
    pub extfrag: ExtfragMatrix,
    /// The order of a pageblock of the machine; 9 if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pageblock_order: Option<Order>,
    /// The unit of `mm_page_alloc_extfrag` events under the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extfrag_unit: Option<EventUnit>,
    /// For each zone and order, the share of free memory that cannot serve the order, in
    /// thousandths, at the end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unusable_free_index: BTreeMap<String, Vec<u64>>,
    /// For each zone and order, the number of free blocks at the end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub free_blocks: BTreeMap<String, Vec<u64>>,
    /// Pageblocks by type at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_by_type: Option<TypeCounts>,
    /// Pageblocks at the end that hold pages of another type, by the block's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_blocks: Option<TypeCounts>,
    /// Samples of what the workload measures, by operation, in nanoseconds; simulated unless a
    /// recording has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, Vec<u64>>,
    /// Notes that a reader needs to interpret the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How the run ended if the workload was not complete; counts and samples are those until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// How well the recorded kernel's own policy reproduced the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The comparison of a free replay under the recorded policy with the recorded counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The tables and measures of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Tables>,
    /// The clock of the samples, where it is not the one that the workload's tables expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// The complete kernel that ran; absent in runs saved by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelRecord>,
    /// The machine that was simulated, whole; absent in runs of older versions, and in those that are no simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRecord>,
    /// The history of its memory, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// A kernel as a run stores it: its preset and every switch with its value, so that it can be reproduced
/// and compared without the file or the preset that it came from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelRecord {
    /// The preset that it started from.
    pub base: String,
    /// The switches that were set by hand, which override a workload's settings.
    pub set: Vec<String>,
    /// Every switch with its value, before the workload and the scale.
    pub switches: BTreeMap<String, String>,
}

impl Run {
    /// Returns the switches in which the kernels of two runs differ, with both values; `None` if one of the runs
    /// does not say.
    #[must_use]
    pub fn kernel_differences(&self, other: &Self) -> Option<Vec<(String, String, String)>> {
        let (a, b) = (self.kernel.as_ref()?, other.kernel.as_ref()?);
        let value = |of: &KernelRecord, name: &str| of.switches.get(name).cloned();
        let names = a.switches.keys().chain(b.switches.keys());
        let mut differences: Vec<_> = names
            .filter(|name| a.switches.get(*name) != b.switches.get(*name))
            .map(|name| {
                let absent = || "-".to_owned();
                let (of_a, of_b) = (value(a, name), value(b, name));
                (name.clone(), of_a.unwrap_or_else(absent), of_b.unwrap_or_else(absent))
            })
            .collect();
        differences.sort();
        differences.dedup();
        Some(differences)
    }

    /// Makes a run from the data of its events.
    #[must_use]
    pub fn from_tally(tally: &Tally) -> Self {
        Self {
            event_hash: tally.event_hash(),
            counters: tally.counters(),
            extfrag: tally.extfrag().clone(),
            ..Self::default()
        }
    }

    /// Returns the order of a pageblock: fallbacks that find less are fragmentation events.
    #[must_use]
    pub fn pageblock_order(&self) -> Order {
        self.pageblock_order.unwrap_or(9)
    }

    /// Sets the free blocks of a zone at the end, by order, and the index derived from them.
    pub fn set_free_blocks(&mut self, zone: &str, free_blocks: Vec<u64>) {
        let unusable = index::unusable_free_indexes(&free_blocks);
        self.unusable_free_index.insert(zone.to_owned(), unusable);
        self.free_blocks.insert(zone.to_owned(), free_blocks);
    }

    /// Sets the pageblock counts at the end.
    pub fn set_blocks(&mut self, census: BlockCensus) {
        self.blocks_by_type = Some(census.by_type);
        self.mixed_blocks = Some(census.mixed);
    }
}

/// Reads a list of runs, or a single one.
///
/// # Errors
/// [`Error::Read`], [`Error::TooLong`] above 1 GiB, or [`Error::Parse`] with the place of what is wrong.
pub fn load(path: &Path) -> Result<Vec<Run>, Error> {
    parse(path, &file::read_runs(path)?)
}

/// Parses a list of runs, or a single one; `path` is used only in errors.
///
/// # Errors
/// [`Error::Parse`] with the place of what is wrong, [`Error::Number`] with what no run has.
pub fn parse(path: &Path, json: &[u8]) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = match json.trim_ascii_start().first() {
        Some(b'{') => vec![file::parse(path, json)?],
        _ => file::parse(path, json)?,
    };
    for (at, run) in runs.iter().enumerate() {
        let wrong = |what| Error::Number { path: path.to_owned(), run: at + 1, what };
        limits::check(run).map_err(wrong)?;
    }
    runs.iter_mut().for_each(origin::of_older);
    Ok(runs)
}

/// Writes a list of runs, completely or not at all.
///
/// # Errors
/// [`Error::Write`].
pub fn save(path: &Path, runs: &[Run]) -> Result<(), Error> {
    file::save(path, runs)
}

/// Checks, before any run is made, that [`save`] could write there.
///
/// # Errors
/// [`Error::Write`].
pub fn can_save(path: &Path) -> Result<(), Error> {
    file::can_save(path)
}

/// Returns the JSON of a list of runs, indented, with a newline at the end.
#[must_use]
pub fn to_json(runs: &[Run]) -> String {
    file::format(runs)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pageblock::mobility::Migratetype;

    use super::*;
    use crate::extfrag::ExtfragKey;

    fn example() -> Run {
        let mut run = Run {
            policy: "linux-4.20,nofragment=on".into(),
            workload: "thpfioscale".into(),
            machine: "one-socket".into(),
            seed: 7,
            event_hash: "2d06800538d394c2".into(),
            counters: [("pgfault", 12), ("list_probes", 3)].into_iter().collect(),
            ..Run::default()
        };
        let key = ExtfragKey {
            alloc_mt: Migratetype::Unmovable,
            fallback_mt: Migratetype::Movable,
            alloc_order: 0,
            fallback_order: 4,
            owned: true,
        };
        run.extfrag.add(key, 2);
        run
    }

    #[test]
    fn the_plain_shape() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"policy":"linux-4.20,nofragment=on","workload":"thpfioscale","machine":"one-socket","#,
                r#""origin":"simulated","seed":7,"event_hash":"2d06800538d394c2","counters":{"list_probes":3,"pgfault":12},"#,
                r#""extfrag":[{"alloc_mt":"Unmovable","fallback_mt":"Movable","alloc_order":0,"#,
                r#""fallback_order":4,"owned":true,"count":2}]}"#
            )
        );
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pageblock-measure-{}-{name}", std::process::id()))
    }

    #[test]
    fn saved_and_loaded_is_the_same() {
        let mut run = example();
        run.set_free_blocks("Normal", vec![4, 0, 1]);
        run.set_blocks(BlockCensus::default());
        run.notes.push("a note".into());
        run.certificate = Some("shape 100.00 %".into());
        run.origin = Origin::Replayed;
        assert_eq!(run.unusable_free_index["Normal"], [0, 500, 500]);
        let path = scratch("round-trip.json");
        save(&path, &[run.clone(), example()]).unwrap();
        // A second save replaces the file.
        save(&path, &[example(), run.clone()]).unwrap();
        assert_eq!(load(&path).unwrap(), [example(), run]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_single_run_is_a_list_of_one() {
        let json = serde_json::to_vec(&example()).unwrap();
        assert_eq!(parse(Path::new("x"), &json).unwrap(), [example()]);
    }

    #[track_caller]
    fn check_error(json: &str, expect: &str) {
        let error = parse(Path::new("runs.json"), json.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn errors_say_file_place_and_what() {
        check_error(
            "",
            "runs.json: line 1, column 0: the file ends inside a value; it is truncated",
        );
        check_error("[\n{}]", "runs.json: line 2, column 2: [0]: the key `policy` is missing");
        let json = serde_json::to_string(&[example()]).unwrap();
        check_error(
            &json.replace("\"seed\":7", "\"seed\":-7"),
            "runs.json: line 1, column 116: [0].seed: found -7; allowed: a whole number from 0 to 18446744073709551615",
        );
        let missing = load(Path::new("/nonexistent/runs.json")).unwrap_err().to_string();
        assert!(
            missing.starts_with("/nonexistent/runs.json: cannot read: No such file"),
            "{missing}"
        );
    }

    #[test]
    fn devices_and_links_are_written_through() {
        save(Path::new("/dev/null"), &[example()]).unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        let (target, link) = (scratch("target.json"), scratch("link.json"));
        std::fs::write(&target, "[]").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        save(&link, &[example()]).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(load(&target).unwrap(), [example()]);
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&target).unwrap();
    }

    #[test]
    fn a_failed_save_leaves_nothing_behind() {
        let directory = scratch("taken");
        std::fs::create_dir(&directory).unwrap();
        // The name is a directory's: the rename fails after the temporary file was written.
        let error = save(&directory, &[example()]).unwrap_err();
        assert!(matches!(error, Error::Write { .. }));
        let name = directory.file_name().unwrap().to_str().unwrap();
        let left = std::fs::read_dir(directory.parent().unwrap()).unwrap();
        let left = left.filter(|e| {
            let other = e.as_ref().unwrap().file_name();
            let other = other.to_string_lossy();
            other.contains(name) && other != name
        });
        assert_eq!(left.count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }
}
