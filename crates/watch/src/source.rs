//! What is looked at: moments of a machine, whatever they come from.

use std::path::{Path, PathBuf};

use pageblock_measure::value::history::Cell;

use crate::error::Error;

/// What does not change from moment to moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct About {
    /// What it is, in few words: a kernel and its machine, or a file.
    pub title: String,
    /// The size of a page in kB.
    pub page_kb: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// The zones.
    pub zones: Vec<ZoneAbout>,
    /// Why there is no map of pageblocks; `None` where there is one.
    pub no_map: Option<String>,
    /// Whether it goes on by itself.
    pub live: bool,
}

impl About {
    /// Returns the size of a number of pages in MiB.
    #[must_use]
    pub fn mib(&self, pages: u64) -> f64 {
        pages as f64 * self.page_kb as f64 / 1024.0
    }

    /// Returns the pageblocks of 1 GiB.
    #[must_use]
    pub fn blocks_per_gib(&self) -> u64 {
        ((1 << 20) / (self.page_kb.max(1) << self.pageblock_order)).max(1)
    }
}

/// A zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneAbout {
    /// Such as `node 0 Normal`.
    pub label: String,
    /// The number of its first pageblock in physical memory.
    pub first: u64,
    /// The number of its pageblocks, holes included.
    pub blocks: u64,
}

/// A machine at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moment {
    /// When, in words.
    pub when: String,
    /// The zones, as [`About`] has them.
    pub zones: Vec<ZoneNow>,
    /// Every pageblock of every zone; `None` for those that were not read yet. Empty without a map.
    pub cells: Vec<Option<Cell>>,
    /// How old the map is, in words.
    pub map_age: String,
    /// Which of the pageblocks only pages hold that may be free, on per-CPU lists; empty where all is known.
    pub unsure: Vec<bool>,
    /// The pageblocks that fallbacks took in the last seconds, by their number in physical memory.
    pub taken: Vec<u64>,
    /// Whether memory is fragmented and whether it hurts, in a line.
    pub verdict: String,
    /// Findings, failures and what else is worth a line, the worst first.
    pub notes: Vec<Note>,
    /// What could not be read, and why.
    pub missing: Vec<String>,
}

/// A zone at one moment. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneNow {
    /// The pages given to the allocator.
    pub managed: u64,
    /// Free pages.
    pub free: u64,
    /// The watermarks min, low and high, with the boost.
    pub marks: [u64; 3],
    /// The boost.
    pub boost: u64,
    /// Free blocks by order.
    pub orders: Vec<u64>,
    /// Free blocks by order of the types unmovable, movable, reclaimable and all others; `None` where they are not known.
    pub by_type: Option<[Vec<u64>; 4]>,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Good to know.
    Notice,
    /// It will hurt, or did.
    Warning,
    /// It hurts now.
    Critical,
}

/// Something worth a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// How bad it is.
    pub level: Level,
    /// Since when, or when.
    pub when: String,
    /// What.
    pub text: String,
}

/// Figures over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// By moment; `None` where it is not known.
    pub values: Vec<Option<f64>>,
}

/// What is looked at.
pub trait Source {
    /// Returns what does not change.
    fn about(&self) -> &About;
    /// Returns the moment that is looked at.
    fn now(&self) -> &Moment;
    /// Returns the figures over time, each with a value for every moment.
    fn curves(&self) -> &[Curve];
    /// Returns the number of the moment that is looked at, and how many there are.
    fn position(&self) -> (usize, usize);
    /// Goes to a moment; this machine has only the last one.
    fn seek(&mut self, at: usize);
    /// Reads the next moment of this machine.
    ///
    /// # Errors
    /// If the machine cannot be read any more.
    fn tick(&mut self) -> Result<(), Error>;
    /// Returns what is known of a pageblock of a zone, a line for each fact: its name and the fact.
    fn block(&mut self, zone: usize, block: u64) -> Vec<(String, String)>;
    /// Saves the machine as it is in a file of a folder, for `pageblock forecast` and `pageblock report`; returns the file.
    ///
    /// # Errors
    /// If it is not this machine, or the file cannot be written.
    fn save(&mut self, folder: &Path, stop: &dyn Fn() -> bool) -> Result<PathBuf, Error>;
}
