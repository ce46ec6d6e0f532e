//! The history of a machine's memory: every pageblock, the free blocks and the counters at many moments of a
//! run, and who took pageblocks of other types. Pictures are drawn from it.
//!
//! It is recorded on request only. Its JSON is described in docs/json.md.

mod builder;
mod cell;
mod counters;
mod fallbacks;
mod planes;

use std::collections::BTreeMap;

use pageblock::frame::Order;
use serde::{Deserialize, Serialize};

pub use self::builder::HistoryBuilder;
pub use self::cell::{Cell, Content};
pub use self::fallbacks::{FallbackCount, Taker};

/// A history. Every list by sample has one value for each of [`times_us`](Self::times_us).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The number of this layout: [`History::LAYOUT`].
    pub layout: u32,
    /// The order of a pageblock.
    pub pageblock_order: Order,
    /// The names of the types, by their number in `cells`.
    pub types: Vec<String>,
    /// The names of the classes of content, by their number in `cells`.
    pub contents: Vec<String>,
    /// The zones, in the order of their pageblocks in `cells`.
    pub zones: Vec<ZoneHistory>,
    /// When each sample was taken, in microseconds of the machine's time.
    pub times_us: Vec<u64>,
    /// How many fallbacks had happened until each sample.
    pub fallbacks_until: Vec<u64>,
    /// By name, counters since the first sample.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// Every pageblock at every sample: zlib in base64 (see `planes.rs`).
    pub cells: String,
    /// Fallbacks by effect and types.
    pub fallbacks: Vec<FallbackCount>,
    /// Fallbacks by who made them, those with the most lost blocks first.
    pub takers: Vec<Taker>,
    /// What a reader needs to know of the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A zone over time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ZoneHistory {
    /// Its node.
    pub node: u8,
    /// Its name.
    pub zone: String,
    /// The first frame of its first pageblock.
    pub start: u64,
    /// The number of its pageblocks, holes included.
    pub blocks: u64,
    /// The pages that the allocator manages.
    pub managed: u64,
    /// The min, low and high watermarks in pages at the end, without the boost.
    pub watermarks: [u64; 3],
    /// By sample, the boost of the watermarks in pages.
    pub boost: Vec<u64>,
    /// By order, then by sample, the number of free blocks.
    pub free: Vec<Vec<u64>>,
}

impl History {
    /// The layout that this version writes and reads.
    pub const LAYOUT: u32 = 1;

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.times_us.len()
    }

    /// Returns the number of pageblocks, holes included.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.zones.iter().map(|zone| zone.blocks as usize).sum()
    }

    /// Returns every pageblock at each sample.
    ///
    /// # Errors
    /// What is wrong with it, in words, if it is damaged or of another layout.
    pub fn cells(&self) -> Result<Vec<Vec<Cell>>, String> {
        self.check()?;
        planes::decode(&self.cells, self.blocks(), self.samples())
    }

    /// Checks that its lists fit each other.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.layout != Self::LAYOUT {
            return Err(format!(
                "history.layout is {}; this pageblock reads {}",
                self.layout,
                Self::LAYOUT
            ));
        }
        let samples = self.samples();
        let blocks: Option<u64> =
            self.zones.iter().try_fold(0u64, |sum, zone| sum.checked_add(zone.blocks));
        if blocks.is_none_or(|blocks| blocks > planes::BLOCKS_MAX) {
            return Err(format!("history.zones: allowed: {} pageblocks", planes::BLOCKS_MAX));
        }
        let zones = self.zones.iter().flat_map(|zone| zone.free.iter().chain([&zone.boost]));
        let lists = zones.chain(self.counters.values()).chain([&self.fallbacks_until]);
        match lists.into_iter().find(|list| list.len() != samples) {
            Some(list) => {
                Err(format!("history: a list has {} values for {samples} samples", list.len()))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
