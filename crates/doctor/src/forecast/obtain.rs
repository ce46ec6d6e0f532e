//! The number of large blocks that requests could get, by the means that free them.

use pageblock_recording::ZoneFigures as Zone;
use serde::Serialize;

use super::bounds::{Pins, Range, hidden, room_after, taken};
use super::kind::{Kind, Reclaimable};
use super::tally::Tally;

/// A number of blocks between two bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Bound {
    /// The fewest.
    pub at_least: u64,
    /// The most.
    pub at_most: u64,
}

/// Blocks of an order that requests could get. No request takes a zone below its min watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Obtain {
    /// The order.
    pub order: u8,
    /// Blocks of memory that is free now.
    pub free: u64,
    /// Further blocks by compaction, between `at_least` and `at_most` of the order.
    pub compaction: Bound,
    /// Further blocks by reclaim, without moving pages. At least: clean page cache that no process maps is freed. At most: all
    /// page cache is, and as much anonymous and shared memory as swap has room for.
    pub reclaim: Bound,
    /// Further blocks by both.
    pub together: Bound,
}

impl Bound {
    fn beyond(free: u64, least: u64, most: u64) -> Self {
        let at_least = least.saturating_sub(free);
        Self { at_least, at_most: most.saturating_sub(free).max(at_least) }
    }

    fn add(&mut self, other: Self) {
        self.at_least += other.at_least;
        self.at_most += other.at_most;
    }
}

impl Obtain {
    /// Returns the blocks of a zone. `swap` is the number of pages for which swap has room.
    pub(super) fn of(
        tally: &Tally,
        zone: &Zone,
        range: &Range,
        swap: u64,
        Pins(pins): Pins,
    ) -> Option<Self> {
        let order = range.order;
        let units = tally.units.iter().find(|units| units.order == order)?;
        let above = zone.free.saturating_sub(zone.wmark[0]);
        let fit = |blocks: u64, more: u64| blocks.min(above.saturating_add(more) >> order);
        let hidden = hidden(zone);
        let pages = |which: Reclaimable| -> u64 {
            let kinds = Kind::ALL.into_iter().filter(|kind| kind.reclaimable() == which);
            kinds.map(|kind| tally.frames[kind as usize]).sum()
        };
        let most = pages(Reclaimable::Cache) + pages(Reclaimable::Swap).min(swap);

        let free = fit(range.free, 0);
        let compaction =
            Bound::beyond(free, fit(range.at_least, 0), fit(range.at_most.max(range.free), hidden));
        // Blocks that are free now are at the first place.
        let in_place = units.reclaimed.first().map_or(0, |&count| u64::from(count));
        let in_place =
            in_place + taken(&units.reclaimed, swap) + taken(&units.reclaimed_unknown, hidden);
        let sure = units.dropped.saturating_sub(pins).max(range.free);
        let reclaim = Bound::beyond(free, fit(sure, tally.dropped), fit(in_place, most + hidden));
        let moved = range.free
            + taken(&units.moving, room_after(tally, units, zone, most))
            + taken(&units.unknown, hidden);
        let both = moved.max(in_place).max(range.at_most);
        let least = compaction.at_least.max(reclaim.at_least);
        let together = Bound {
            at_least: least,
            at_most: Bound::beyond(free, 0, fit(both, most + hidden))
                .at_most
                .max(compaction.at_most)
                .max(reclaim.at_most),
        };
        Some(Self { order, free, compaction, reclaim, together })
    }

    /// Adds the blocks of another zone.
    pub(super) fn add(&mut self, other: &Self) {
        self.free += other.free;
        self.compaction.add(other.compaction);
        self.reclaim.add(other.reclaim);
        self.together.add(other.together);
    }
}
