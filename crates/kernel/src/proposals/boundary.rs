//! A movable boundary (Contiguitas, ISCA 2023): unmovable and reclaimable memory lies below a boundary of each zone, movable
//! memory above, and the boundary moves by pressure.
//!
//! The boundary starts above the highest pageblock of another type than movable, CMA or isolated. A request for unmovable
//! or reclaimable memory takes the lowest block of its type, so that the region empties from the boundary on. Where it
//! has none, it claims the lowest large movable block below the boundary, else (the region grows) the lowest one above,
//! and the boundary rises over its pageblock. A movable request takes the smallest block above the boundary, of equals the
//! highest: the region has room to grow without migration. Where nothing is free above (the region shrinks), the boundary
//! falls below the movable pageblocks and the wholly free others that lie under it; what a movable request takes from
//! another type is a whole pageblock next to the boundary, if one is free there.
//!
//! *Cost*: that of lists for each region: one for each order tried, and a look at each pageblock that the boundary passes.
//!
//! *Left out*: migration. Contiguitas evacuates the pageblock into which a region grows; here movable pages stay below the
//! boundary until they are freed, and the region grows past memory without a large free block. Its hardware, which moves
//! unmovable pages, and its measure of pressure: here a region grows when its requests find no memory in it. A movable
//! request that finds nothing above takes memory below rather than fail. The simulation searches again after 64 requests.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pageblock::decide::{Block, Decide, Fallback, Outcome, View, Want};
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype::{self, Cma, Isolate, Movable};

use super::found::Found;

/// The policy.
#[derive(Debug, Default)]
pub struct Boundary {
    /// The first frame above the region, by zone (its first frame).
    of: BTreeMap<Pfn, Pfn>,
    found: BTreeMap<(Pfn, Order, Migratetype), Found>,
}

impl Boundary {
    /// Returns the boundary of a zone.
    fn of(&mut self, zone: &dyn View) -> Pfn {
        let first = zone.span().start;
        if let Some(&at) = self.of.get(&first) {
            return at;
        }
        let top = Pfn(zone.span().end.0.next_multiple_of(1 << zone.pageblock_order()));
        self.lower(zone, top)
    }

    fn put(&mut self, zone: &dyn View, boundary: Pfn) {
        self.of.insert(zone.span().start, boundary);
        self.found.retain(|(first, ..), _| *first != zone.span().start);
    }

    /// Lowers the boundary below pageblocks that are movable or wholly free, as far as it goes.
    fn lower(&mut self, zone: &dyn View, from: Pfn) -> Pfn {
        let step = 1u64 << zone.pageblock_order();
        let mut boundary = from;
        while boundary > zone.span().start {
            let below = Pfn(boundary.0.saturating_sub(step));
            let kind = zone.kind_of(below.max(zone.span().start));
            let movable = kind.is_none_or(|kind| matches!(kind, Movable | Cma | Isolate));
            if !movable && zone.free_in_pageblock(below) != Some(step) {
                break;
            }
            boundary = below;
        }
        let boundary = boundary.max(zone.span().start);
        if self.of.get(&zone.span().start) != Some(&boundary) {
            self.put(zone, boundary);
        }
        boundary
    }

    /// Searches for blocks in the region of a request.
    fn search(zone: &dyn View, want: Want, boundary: Pfn) -> Found {
        let mut blocks = Vec::new();
        for order in want.order..=zone.max_order() {
            zone.shown(order, want.kind, &mut |pfn| {
                if want.kind != Movable || pfn >= boundary {
                    blocks.push(Block { pfn, order, kind: want.kind });
                }
                true
            });
        }
        match want.kind {
            Movable => Found::best(blocks, |block| (block.order, Reverse(block.pfn))),
            _ => Found::best(blocks, |block| block.pfn),
        }
    }

    fn take(&mut self, zone: &dyn View, want: Want, boundary: Pfn) -> Option<Block> {
        let key = (zone.span().start, want.order, want.kind);
        let kept = self.found.remove(&key).filter(|found| found.serves(zone));
        let mut found = kept.unwrap_or_else(|| Self::search(zone, want, boundary));
        let taken = found.take(zone, want.order);
        self.found.insert(key, found);
        taken
    }

    /// Finds the lowest movable block that is large enough for a claim; below the boundary if there is one.
    fn lowest_claim(zone: &dyn View, want: Want, least: Order) -> Option<(Pfn, Order)> {
        let mut lowest = None;
        for order in least.max(want.order)..=zone.max_order() {
            zone.looked_at(1);
            zone.shown(order, Movable, &mut |pfn| {
                if lowest.is_none_or(|(at, _)| pfn < at) {
                    lowest = Some((pfn, order));
                }
                true
            });
        }
        lowest
    }
}

impl Decide for Boundary {
    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        let boundary = self.of(zone);
        let found = self.take(zone, want, boundary);
        let block = found.unwrap_or(linux);
        zone.looked_at(u64::from(block.order.saturating_sub(want.order)));
        if found.is_none() && want.kind == Movable {
            self.lower(zone, boundary);
        }
        block.pfn
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        let found = linux?;
        let boundary = self.of(zone);
        let whole = zone.pageblock_order();
        if want.kind == Movable {
            let mut highest = None;
            zone.looked_at(1);
            zone.shown(whole, found.from, &mut |pfn| {
                highest = highest.max(Some(pfn));
                true
            });
            let Some(pfn) = highest else { return linux };
            let next = Fallback { pfn, order: whole, outcome: Outcome::ClaimWhole, ..found };
            self.lower(zone, boundary);
            return Some(next);
        }
        if found.from != Movable || found.outcome == Outcome::Single {
            return linux;
        }
        let (pfn, order) = Self::lowest_claim(zone, want, found.order.min(whole))?;
        let outcome = if order >= whole { Outcome::ClaimWhole } else { Outcome::Claim };
        let end = Pfn(pfn.align_down(whole).0 + (1 << whole.max(order)));
        if end > boundary {
            self.put(zone, end);
        }
        Some(Fallback { pfn, order, from: Movable, outcome })
    }
}
