//! Superpageblocks: memory in units of 1 GiB, each with counts of its pageblocks by type (Rik van Riel, RFC of 45 patches of
//! 30 April 2026 and of 40 of 20 May 2026; bitmaps over units: his mail of 29 June 2026).
//!
//! A unit with a pageblock of another type than movable or CMA is *tainted*, others are *clean*. A movable request takes
//! from the fullest clean unit first, another one from the fullest tainted unit. Only the eight fullest of these units
//! that have a free page are looked at; then Linux decides. A unit is the fuller the fewer of its pageblocks are wholly
//! free. A request that finds no memory of its type takes from tainted units, a whole pageblock first, before it taints a
//! clean one.
//!
//! *Units*: 1 GiB; in a zone below 16 GiB its sixteenth, rounded down to a power of two, of at least two pageblocks.
//!
//! *Cost*: with lists for each unit, order and type, each list looked at until a block is found. With bitmaps over the
//! units, one for each order and type and one of the tainted: for each order the words of both until a unit is found; a
//! word counts as a list looked at. The bits are taken to be in the order of preference; what keeps them so, and the
//! counts, costs nothing here.
//!
//! A tainted unit that has at most one wholly free pageblock, or fewer free pages than two have, is emptied of movable pages
//! in the background until it has two, or as many free pages as three have: of its movable pageblocks the one with most free
//! pages first. Pages do not go to other places in the unit. After a pageblock in which something stayed the unit rests for as
//! many rounds as it failed in a row, at most 64; kcompactd begins one every half second.
//!
//! *Left out*: the reserve of 3 %, contiguous allocation of gigabytes, the claim without a count of the pageblock's content. The simulation looks at the
//! units again after 64 blocks of an order and type: memory freed meanwhile is not preferred until then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use pageblock::decide::{Block, Decide, Evacuation, Fallback, View, Want};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::mobility::Migratetype::{self, Movable};

use super::units::{Unit, Units, taints};

/// Units that a request looks at.
const UNITS: usize = 8;
/// Requests that are served before the units are looked at again.
const REUSED: usize = 64;
/// The order of 1 GiB in pages of 4 KiB.
const GIB: Order = 18;
/// The units that a small zone has at least.
const LEAST: u64 = 16;
/// Rounds for which a worker that failed rests at most: 32 seconds, as kcompactd asks every half second.
const MOST_RESTS: u32 = 64;
/// Bits of a word.
const WORD: usize = 64;

/// How a block in a unit is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Free lists for each unit.
    Lists,
    /// A bitmap over units for each order and type.
    Bitmaps,
}

/// The policy.
#[derive(Debug)]
pub struct Superpageblocks {
    form: Form,
    /// By zone (its first frame), order and type.
    chosen: HashMap<(Pfn, Order, Migratetype), Chosen>,
    /// Of tainted units, by their first frame in the zone.
    workers: BTreeMap<Pfn, Worker>,
    /// Zones (their first frames) for which the last answer was that nothing is to be emptied.
    idle: BTreeSet<Pfn>,
}

/// A unit's worker.
#[derive(Debug, Default)]
struct Worker {
    works: bool,
    /// The pageblock that it emptied last.
    last: Option<Pfn>,
    failures: u32,
    /// Rounds for which it rests: a round ends with the answer that nothing is to be emptied.
    rests: u32,
}

/// Blocks that serve next.
#[derive(Debug)]
struct Chosen {
    blocks: Vec<Block>,
    /// The rank of the unit that they are in; `None` where no preferred unit has a block: Linux decides.
    rank: Option<usize>,
    /// What a search costs that finds none.
    missed: u64,
    units: usize,
    left: usize,
}

/// Returns the order of a unit.
fn unit_order(zone: &dyn View) -> Order {
    let small = (zone.managed() / LEAST).checked_ilog2().unwrap_or(0) as Order;
    small.clamp(zone.pageblock_order() + 1, GIB.max(zone.pageblock_order() + 1))
}

/// Returns the rank of each unit for a type: `None` for those that are not looked at.
fn ranks(units: &Units, kind: Migratetype) -> Vec<Option<usize>> {
    let wants_tainted = kind != Movable;
    let preferred = |at: &usize| {
        let unit = &units.all[*at];
        unit.tainted == wants_tainted && unit.pages > 0
    };
    let mut order: Vec<_> = (0..units.all.len()).filter(preferred).collect();
    order.sort_by_key(|&at| {
        (Reverse(units.all[at].pageblocks.saturating_sub(units.all[at].free)), at)
    });
    let mut ranks = vec![None; units.all.len()];
    order.iter().take(UNITS).enumerate().for_each(|(rank, &at)| ranks[at] = Some(rank));
    ranks
}

impl Superpageblocks {
    /// Returns the policy in a form.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self { form, chosen: HashMap::new(), workers: BTreeMap::new(), idle: BTreeSet::new() }
    }

    /// Returns the lists or words looked at until a block of the order `found` is reached in the unit of a rank.
    #[must_use]
    pub fn probes(form: Form, rank: usize, units: usize, [want, found, max]: [Order; 3]) -> u64 {
        let orders = u64::from(found.saturating_sub(want)) + 1;
        match form {
            Form::Lists => rank as u64 * u64::from(max + 1 - want) + orders,
            Form::Bitmaps => {
                // A search of the orders below finds no bit in any word; that of the last ends with its word.
                let words = units.div_ceil(WORD) as u64;
                2 * ((orders - 1) * words + (rank / WORD) as u64 + 1)
            }
        }
    }

    fn choose(&self, zone: &dyn View, want: Want) -> Chosen {
        let Want { order: least, kind, .. } = want;
        let max = zone.max_order();
        let units = Units::of(zone, unit_order(zone));
        let ranks = ranks(&units, kind);
        // In the form of bitmaps the smallest order of all preferred units would be found first; the choice is kept
        // that of the lists: the fullest unit, then the smallest order.
        let mut best: Option<(usize, Order)> = None;
        let mut blocks = Vec::new();
        for order in least..=max {
            zone.shown(order, kind, &mut |pfn| {
                let Some(rank) = ranks[units.at(pfn)] else { return true };
                let key = (rank, order);
                if best.is_none_or(|best| key < best) {
                    best = Some(key);
                    blocks.clear();
                }
                if best == Some(key)
                    && (blocks.is_empty() || order == least && blocks.len() < REUSED)
                {
                    blocks.push(Block { pfn, order, kind });
                }
                true
            });
        }
        blocks.reverse();
        let units = units.all.len();
        let missed = match ranks.iter().flatten().count() {
            0 => 0,
            looked => Self::probes(self.form, looked - 1, units, [least, max, max]),
        };
        Chosen { blocks, rank: best.map(|(rank, _)| rank), missed, units, left: REUSED }
    }
}

impl Worker {
    /// Decides whether it has work to do: from few free pageblocks on until there are more.
    fn is_due(&mut self, unit: &Unit, whole: u64) -> bool {
        let (start, stop) =
            (unit.free <= 1 || unit.pages < 2 * whole, unit.free >= 2 || unit.pages >= 3 * whole);
        self.works = start || self.works && !stop;
        self.works && self.rests == 0
    }

    /// Notes what became of the pageblock that was emptied last. Rests after it stayed in use.
    fn judge(&mut self, zone: &dyn View) {
        let Some(last) = self.last.take() else { return };
        if zone.free_in_pageblock(last) == Some(1 << zone.pageblock_order()) {
            self.failures = 0;
        } else {
            self.failures = (self.failures + 1).min(MOST_RESTS);
            self.rests = self.failures;
        }
    }
}

impl Decide for Superpageblocks {
    fn evacuate(&mut self, zone: &dyn View) -> Option<Evacuation> {
        let units = Units::of(zone, unit_order(zone));
        let (whole, span) = (1u64 << zone.pageblock_order(), zone.span());
        if self.idle.remove(&span.start) {
            let of_zone =
                self.workers.range_mut(..span.end).filter(|(pfn, _)| span.contains(**pfn));
            of_zone.for_each(|(_, worker)| worker.rests = worker.rests.saturating_sub(1));
        }
        for (at, unit) in units.all.iter().enumerate() {
            let apart = units.frames(at);
            // A zone's first unit may begin before the zone.
            let first = apart.start.max(span.start);
            if !unit.tainted {
                self.workers.remove(&first);
                continue;
            }
            let worker = self.workers.entry(first).or_default();
            worker.judge(zone);
            if !worker.is_due(unit, whole) {
                continue;
            }
            let pageblocks = (apart.start.0..apart.end.0).step_by(whole as usize).map(Pfn);
            let movable = pageblocks.filter(|&pfn| zone.kind_of(pfn) == Some(Movable));
            let with_free = movable.filter_map(|pfn| Some((zone.free_in_pageblock(pfn)?, pfn)));
            let mut used: Vec<_> = with_free.filter(|(free, _)| *free < whole).collect();
            used.sort_unstable_by_key(|(free, pfn)| (Reverse(*free), *pfn));
            // Another one than that in which something stayed.
            if let Some(&(_, pfn)) = used.get(worker.failures as usize % used.len().max(1)) {
                worker.last = Some(pfn);
                let from = FrameRange { start: pfn, end: Pfn(pfn.0 + whole) };
                return Some(Evacuation { from, apart });
            }
        }
        self.idle.insert(span.start);
        None
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        let key = (zone.span().start, want.order, want.kind);
        let usable =
            |of: &Chosen| of.rank.is_none() || of.blocks.last().is_some_and(|at| zone.is_free(*at));
        let kept = self.chosen.remove(&key).filter(|of| of.left > 0 && usable(of));
        let mut of = kept.unwrap_or_else(|| self.choose(zone, want));
        of.left -= 1;
        let (Some(rank), Some(block)) = (of.rank, of.blocks.pop()) else {
            zone.looked_at(of.missed);
            self.chosen.insert(key, of);
            return linux.pfn;
        };
        let orders = [want.order, block.order, zone.max_order()];
        zone.looked_at(Self::probes(self.form, rank, of.units, orders));
        // What is left of a larger block serves next.
        for order in (want.order..block.order).rev() {
            of.blocks.push(Block { pfn: Pfn(block.pfn.0 + (1 << order)), order, kind: want.kind });
        }
        self.chosen.insert(key, of);
        block.pfn
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        let found = linux?;
        if !taints(want, found) {
            return linux;
        }
        let units = Units::of(zone, unit_order(zone));
        let looks = match self.form {
            Form::Lists => units.all.iter().filter(|unit| unit.tainted).count().min(UNITS) as u64,
            Form::Bitmaps => 2 * units.all.len().div_ceil(WORD) as u64,
        };
        Some(units.fallback_to_tainted(zone, want, found, looks))
    }
}
