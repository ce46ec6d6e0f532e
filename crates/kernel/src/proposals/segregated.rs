//! Requests in classes that share no pageblock: what [lifetimes](super::lifetimes) and [unmapped](super::unmapped) have in
//! common.
//!
//! A request takes the smallest block in a pageblock of its class and type, else a whole free pageblock, which gets its
//! class, else a block in a pageblock without a class; else, if it is not movable, it claims a whole free movable pageblock,
//! if there is one; else it takes what Linux takes.
//!
//! *Cost*: that of lists for each class: one for each order tried.
//!
//! *Left out*: CPU lists for each class. What one request's refill leaves on a list of orders 0 to 3 serves a request of
//! any class. The simulation searches again after 64 requests.

use std::collections::BTreeMap;
use std::fmt::Debug;

use pageblock::decide::{Block, Decide, End, Fallback, Outcome, View, Want};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::request::Gfp;

use super::found::Found;

/// Free blocks of a list that a fallback looks at.
const BLOCKS: usize = 64;

/// What keeps requests apart.
pub trait Class: Copy + Ord + Default + Debug {
    /// The class of a pageblock that no request has opened or claimed; `None`: it serves all.
    const UNOPENED: Option<Self>;
    /// A wholly free pageblock keeps its class, and a fallback splits no block of another class if it can help it.
    const LASTING: bool;

    /// Returns the class of a request.
    fn of(gfp: Gfp) -> Self;
}

/// The policy.
#[derive(Debug, Default)]
pub struct Segregated<C> {
    /// The class of the request.
    class: C,
    /// By the pageblock's first frame.
    of: BTreeMap<Pfn, C>,
    /// By zone (its first frame), order, type and class.
    found: BTreeMap<(Pfn, Order, Migratetype, C), Found>,
}

impl<C: Class> Segregated<C> {
    /// Returns the class of the pageblock of a frame.
    fn class_of(&self, zone: &dyn View, pfn: Pfn) -> Option<C> {
        self.of.get(&pfn.align_down(zone.pageblock_order())).copied().or(C::UNOPENED)
    }

    /// Ranks a block for this class: the least is best. `None` where Linux decides.
    fn rank(&self, zone: &dyn View, block: &Block) -> Option<u8> {
        match self.class_of(zone, block.pfn) {
            Some(class) if class == self.class => Some(0),
            _ if block.order >= zone.pageblock_order() => Some(1),
            None => Some(2),
            Some(_) => None,
        }
    }

    /// Returns blocks for a request, searched for again if none that were found are left.
    fn found(&mut self, zone: &dyn View, want: Want) -> Option<&mut Found> {
        let key = (zone.span().start, want.order, want.kind, self.class);
        let kept = self.found.remove(&key).filter(|found| found.serves(zone));
        let found = kept.unwrap_or_else(|| self.search(zone, want));
        self.found.insert(key, found);
        self.found.get_mut(&key)
    }

    fn search(&self, zone: &dyn View, want: Want) -> Found {
        let mut blocks = Vec::new();
        for order in want.order..=zone.max_order() {
            zone.shown(order, want.kind, &mut |pfn| {
                let block = Block { pfn, order, kind: want.kind };
                blocks.extend(self.rank(zone, &block).map(|rank| (rank, block)));
                true
            });
        }
        // Of the best rank only: a whole pageblock is opened by one request, not by each that follows.
        let best = blocks.iter().map(|(rank, _)| *rank).min();
        blocks.retain(|(rank, _)| Some(*rank) == best);
        if best == Some(1) {
            blocks.truncate(1);
        }
        let blocks = blocks.into_iter().map(|(_, block)| block).collect();
        Found::best(blocks, |block| block.order)
    }

    /// Returns a block for a fallback that splits no block of another class: the largest of the type that Linux found. Without
    /// one it stays what Linux found.
    fn within(&self, zone: &dyn View, want: Want, found: Fallback) -> Fallback {
        let own = |pfn| self.class_of(zone, pfn) == Some(self.class);
        if found.order >= zone.pageblock_order() || own(found.pfn) {
            return found;
        }
        for order in (want.order..=found.order).rev() {
            let (mut pfn, mut left) = (None, BLOCKS);
            zone.shown(order, found.from, &mut |at| {
                pfn = own(at).then_some(at);
                left -= 1;
                pfn.is_none() && left > 0
            });
            zone.looked_at(1);
            if let Some(pfn) = pfn {
                // As large a block is taken to be judged as Linux's was; a smaller one claims nothing.
                let outcome = if order == found.order { found.outcome } else { Outcome::Single };
                return Fallback { pfn, order, outcome, ..found };
            }
        }
        found
    }
}

impl<C: Class> Decide for Segregated<C> {
    fn on(&mut self, _cpu: CpuId, gfp: Gfp) {
        self.class = C::of(gfp);
    }

    fn passes(&mut self, zone: &dyn View, want: Want) -> bool {
        if want.kind == Movable || want.order >= zone.pageblock_order() {
            return false;
        }
        let mut whole = zone.pageblock_order()..=zone.max_order();
        whole.any(|order| zone.free_blocks(order, Movable) > 0)
            && self.found(zone, want).is_some_and(Found::ask_nothing)
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        let found = self.found(zone, want).and_then(|found| found.take(zone, want.order));
        let block = found.unwrap_or(linux);
        zone.looked_at(u64::from(block.order.saturating_sub(want.order)));
        if block.order >= zone.pageblock_order() && want.order < zone.pageblock_order() {
            self.of.insert(block.pfn.align_down(zone.pageblock_order()), self.class);
        }
        block.pfn
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        let (first, class) = (zone.span().start, self.class);
        self.found.retain(|&(zone, _, kind, of), _| (zone, kind, of) != (first, want.kind, class));
        let found = linux?;
        let found = if C::LASTING { self.within(zone, want, found) } else { found };
        let opens = if C::LASTING {
            found.order >= zone.pageblock_order()
        } else {
            found.outcome != Outcome::Single
        };
        if opens {
            self.of.insert(found.pfn.align_down(zone.pageblock_order()), class);
        }
        Some(found)
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        if !C::LASTING && block.order >= zone.pageblock_order() {
            let end = Pfn(block.pfn.0 + (1 << block.order));
            let whole: Vec<Pfn> = self.of.range(block.pfn..end).map(|(pfn, _)| *pfn).collect();
            for pfn in whole {
                self.of.remove(&pfn);
            }
        }
        linux
    }
}
