//! A saved run: one policy under one workload on one machine.

pub mod calibration;
pub mod formula;
mod limits;
pub mod measured;
pub mod policies;
pub mod saved;
pub mod tables;

use std::collections::BTreeMap;

use pageblock::frame::Order;
use serde::{Deserialize, Serialize};

use self::calibration::Calibration;
use self::measured::Measured;
use self::tables::Tables;
use crate::certificate::Certified;
use crate::certificate::note::Note;
use crate::value::blocks::{BlockCensus, TypeCounts};
use crate::value::clock::Clock;
use crate::value::counters::Counters;
use crate::value::ended::Ended;
use crate::value::event_unit::EventUnit;
use crate::value::extfrag::ExtfragMatrix;
use crate::value::history::History;
use crate::value::index;
use crate::value::observer::Tally;
use crate::value::origin::Origin;
use crate::value::setup::SetupRecord;

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
    /// The hash of the stream of events (see [`crate::value::hash`]).
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
    pub notes: Vec<Note>,
    /// How the run ended if the workload was not complete; counts and samples are those until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// How well the recorded kernel's own policy reproduced the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certified>,
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
    /// Values of measures of a run that comes from a table, which does not have what they are computed from.
    #[serde(default, skip_serializing_if = "Measured::is_empty")]
    pub measured: Measured,
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
