//! Brings the memory of the running machine to a stated degree of fragmentation, and holds it there.
//!
//! Free pageblocks are taken as huge pages of anonymous memory, split, and given back in part: what is free afterwards is
//! scattered, and what is kept is movable memory, as of any program. One page of some of them is pinned as a buffer of an
//! `io_uring`, as devices pin memory: their pageblocks cannot be compacted. All of it goes back when the [`Fragmenter`] goes,
//! or its process ends.

mod units;

pub use pageblock_simulate::sim::fragment::{Goal, Share, Spread};

use std::path::Path;

use pageblock_recording::{BuddyInfo, Input, ProcFiles, VmStat};
use serde::Serialize;

use crate::error::Error;
use crate::inside::memory::Mapping;
use units::{UNIT, Units};

/// The order of a pageblock: that of a huge page.
const PAGEBLOCK_ORDER: usize = UNIT.ilog2() as usize;
/// The share of memory that stays free above the watermarks: a hundredth.
const RESERVE: u64 = 100;
/// Pageblocks that are taken between two looks at the caller's wish to stop.
const AT_A_TIME: u64 = 64;
/// The rounds that lead to a state: pages on CPU lists, and what others do meanwhile, are seen in the next.
const ROUNDS: usize = 8;
/// The part of memory, one in so many pages, by which a state may miss its goal: others allocate and free all the time.
const MISS: u64 = 200;

/// What is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Held {
    /// Pages.
    pub pages: u64,
    /// The pageblocks that they are in.
    pub pageblocks: u64,
    /// Those that are pinned, one a pageblock.
    pub pinned: u64,
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// The state is there, within half a percent of memory.
    Yes,
    /// A request would have had to compact to get a pageblock, or others took what was given back.
    No,
    /// The caller asked to stop.
    Stopped,
}

/// Memory that is held so that what is free is scattered.
pub struct Fragmenter {
    units: Units,
    small: Mapping,
    filled: usize,
    managed: u64,
    reserve: u64,
}

impl Fragmenter {
    /// Prepares it; nothing is taken yet. The same seed chooses the same pages of what it takes.
    ///
    /// # Errors
    /// If the machine has no huge pages of 2 MiB, they are off, or `/proc` cannot be read.
    pub fn new(seed: u64) -> Result<Self, Error> {
        let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
        let modes = read(enabled)?;
        if modes.contains("[never]") {
            return Err(Error::Fragment(format!("{enabled} is never: allowed: madvise or always")));
        }
        let size = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
        let bytes = read(size)?;
        if bytes.trim() != (UNIT * crate::inside::memory::PAGE).to_string() {
            return Err(Error::Fragment(format!(
                "{size} is {}: allowed: 2097152, pages of 4 KiB",
                bytes.trim()
            )));
        }
        let zones = ProcFiles::read_zoneinfo(Input::open(Path::new("/proc/zoneinfo"))?)?.zones;
        let managed: u64 = zones.iter().map(|zone| zone.managed).sum();
        let high: u64 = zones.iter().map(|zone| zone.wmark[2]).sum();
        let small = Mapping::new(managed as usize).map_err(memory)?;
        small.want_small().map_err(memory)?;
        let units = Units::new(managed / UNIT as u64, seed).map_err(memory)?;
        Ok(Self { units, small, filled: 0, managed, reserve: high + managed / RESERVE })
    }

    /// Reads how free memory is spread now.
    ///
    /// # Errors
    /// If `/proc/buddyinfo` cannot be read.
    pub fn now(&self) -> Result<Spread, Error> {
        let free = BuddyInfo::read(Input::open(Path::new("/proc/buddyinfo"))?)?.free;
        let mut spread = Spread { managed: self.managed, ..Spread::default() };
        for (order, blocks) in free.values().flat_map(|orders| orders.iter().enumerate()) {
            match order < PAGEBLOCK_ORDER {
                true => spread.scattered += blocks << order,
                false => spread.whole += blocks << order,
            }
        }
        Ok(spread)
    }

    /// Returns why the state of now cannot lead to a goal.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub fn obstacle(&self, goal: &Goal) -> Result<Option<String>, Error> {
        Ok(goal.obstacle(&self.now()?, UNIT as u64, self.reserve))
    }

    /// Returns what is held.
    #[must_use]
    pub fn held(&self) -> Held {
        let (pageblocks, pages) = self.units.held();
        Held { pages: pages + self.filled as u64, pageblocks, pinned: self.units.pinned() }
    }

    /// Leads to the free memory of a goal from wherever it is. `watch` is told how many pages are held, and says whether to stop.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or the kernel refuses what it is told of this memory.
    pub fn reach(&mut self, goal: &Goal, watch: &dyn Fn(u64) -> bool) -> Result<Reached, Error> {
        for _ in 0..ROUNDS {
            let now = self.now()?;
            let step = goal.step(&now, UNIT as u64);
            let off = step.release.max(step.fill) + (step.take + step.give) * UNIT as u64;
            if off * MISS <= self.managed {
                return Ok(Reached::Yes);
            }
            let mut moved = self.units.give(step.give).map_err(memory)? > 0;
            let (mut taken, mut released) = (0, 0);
            let all = self.units.places();
            while taken < step.take {
                if watch(self.held().pages) {
                    return Ok(Reached::Stopped);
                }
                let (first, some) = (self.units.places(), AT_A_TIME.min(step.take - taken));
                let whole = self.take(some)?;
                let came = (self.units.places() - first) as u64;
                taken += came;
                // At once, so that free memory stays above the goal all the time.
                let due = (u128::from(step.release) * u128::from(taken))
                    .div_ceil(u128::from(step.take)) as u64
                    - released;
                released += self.units.release(first..self.units.places(), due).map_err(memory)?;
                if !whole {
                    break;
                }
            }
            // Of all that is held, where the new ones do not have enough.
            let rest = step.release - released.min(step.release);
            released += self.units.release(0..all, rest).map_err(memory)?;
            moved |= taken + released > 0 || self.fill(step.fill, watch);
            if !moved {
                break;
            }
        }
        Ok(Reached::No)
    }

    /// Takes free pageblocks. Returns whether all came. A request that compacts would gather what was scattered: what it
    /// got goes back, and no further one is made.
    fn take(&mut self, count: u64) -> Result<bool, Error> {
        for _ in 0..count {
            let before = stalls()?;
            if !self.units.take().map_err(memory)? {
                return Ok(false);
            }
            if stalls()? > before {
                self.units.give(1).map_err(memory)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes pages one by one: the kernel takes them from the smallest free blocks. Returns whether it took any.
    fn fill(&mut self, pages: u64, watch: &dyn Fn(u64) -> bool) -> bool {
        let end = (self.filled + pages as usize).min(self.small.pages());
        let first = self.filled;
        while self.filled < end {
            if self.filled.is_multiple_of(UNIT) && watch(self.filled as u64) {
                break;
            }
            self.small.touch(self.filled);
            self.filled += 1;
        }
        self.filled > first
    }

    /// Pins a page in each of up to `count` further pageblocks. Returns how many.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or refuses.
    pub fn pin(&mut self, count: u64) -> Result<u64, Error> {
        self.units.pin(count).map_err(|error| Error::Fragment(format!("io_uring: {error}")))
    }
}

/// Makes this process the first that is killed where memory becomes short.
///
/// # Errors
/// If the kernel refuses.
pub fn be_killed_first() -> Result<(), Error> {
    let path = "/proc/self/oom_score_adj";
    std::fs::write(path, "1000").map_err(Error::at(Path::new(path)))
}

/// Drops clean caches, as `echo 3 > /proc/sys/vm/drop_caches` does.
///
/// # Errors
/// If the caller is not root.
pub fn drop_caches() -> Result<(), Error> {
    let path = "/proc/sys/vm/drop_caches";
    std::fs::write(path, "3").map_err(Error::at(Path::new(path)))
}

/// Returns how many requests compacted memory themselves since boot.
fn stalls() -> Result<u64, Error> {
    let counters = VmStat::parse(&read("/proc/vmstat")?);
    Ok(counters.0.get("compact_stall").copied().unwrap_or(0))
}

/// Reads a setting of the kernel.
fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::at(Path::new(path)))
}

fn memory(error: std::io::Error) -> Error {
    Error::Fragment(format!("memory of this process: {error}"))
}
