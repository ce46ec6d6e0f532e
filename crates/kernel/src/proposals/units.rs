//! A zone in units of a power of two of pages, with the counts by which proposals choose among them.

use pageblock::decide::{Fallback, Outcome, View, Want};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::mobility::Migratetype::{self, Cma, Movable};

/// Free blocks of a list that a fallback looks at.
const BLOCKS: usize = 64;

/// A unit's counts.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Unit {
    pub(super) pageblocks: u32,
    /// Pageblocks that are wholly free.
    pub(super) free: u32,
    /// Free pages, in whole pageblocks or not.
    pub(super) pages: u64,
    /// It has a pageblock of another type than movable or CMA.
    pub(super) tainted: bool,
}

/// The units of a zone.
pub(super) struct Units {
    first: u64,
    pub(super) order: Order,
    pub(super) all: Vec<Unit>,
}

impl Units {
    /// Counts a zone in units of an order, at least a pageblock. No look is counted.
    pub(super) fn of(zone: &dyn View, order: Order) -> Self {
        debug_assert!(order >= zone.pageblock_order(), "a unit is smaller than a pageblock");
        let span = zone.span();
        let first = span.start.0 >> order;
        let mut all = vec![Unit::default(); (span.end.0.div_ceil(1 << order) - first) as usize];
        let step = 1u64 << zone.pageblock_order();
        let mut pfn = span.start.0.next_multiple_of(step);
        while pfn < span.end.0 {
            if let Some(kind) = zone.kind_of(Pfn(pfn)) {
                let unit = &mut all[((pfn >> order) - first) as usize];
                unit.pageblocks += 1;
                unit.tainted |= !matches!(kind, Movable | Cma);
            }
            pfn += step;
        }
        let mut units = Self { first, order, all };
        for order in 0..=zone.max_order() {
            for kind in Migratetype::ALL {
                zone.shown(order, kind, &mut |pfn| {
                    let at = units.at(pfn);
                    let unit = &mut units.all[at];
                    unit.pages += 1 << order;
                    if let Some(above) = order.checked_sub(zone.pageblock_order()) {
                        unit.free += 1 << above;
                    }
                    true
                });
            }
        }
        units
    }

    /// Returns the unit of a frame.
    pub(super) fn at(&self, pfn: Pfn) -> usize {
        ((pfn.0 >> self.order) - self.first) as usize
    }

    /// Returns the frames of a unit, which may reach past the zone's.
    pub(super) fn frames(&self, at: usize) -> FrameRange {
        let start = (self.first + at as u64) << self.order;
        FrameRange { start: Pfn(start), end: Pfn(start + (1 << self.order)) }
    }

    /// Finds a block in a tainted unit, the largest first, for a fallback that [taints](taints) its unit; `looks` are counted
    /// for each order. Without one it stays what Linux found.
    pub(super) fn fallback_to_tainted(
        &self,
        zone: &dyn View,
        want: Want,
        found: Fallback,
        looks: u64,
    ) -> Fallback {
        let whole = zone.pageblock_order();
        for order in (found.order.min(whole).max(want.order)..=zone.max_order()).rev() {
            let (mut pfn, mut left) = (None, BLOCKS);
            zone.shown(order, Movable, &mut |at| {
                pfn = self.all[self.at(at)].tainted.then_some(at);
                left -= 1;
                pfn.is_none() && left > 0
            });
            zone.looked_at(looks);
            if let Some(pfn) = pfn {
                let outcome = if order >= whole { Outcome::ClaimWhole } else { Outcome::Claim };
                return Fallback { pfn, order, from: Movable, outcome };
            }
        }
        found
    }
}

/// Tells whether a fallback makes a movable pageblock one of another type.
pub(super) fn taints(want: Want, found: Fallback) -> bool {
    want.kind != Movable && found.from == Movable && found.outcome != Outcome::Single
}
