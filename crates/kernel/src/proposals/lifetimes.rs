//! Segregation by lifetime: requests whose pages live about as long share pageblocks, apart from others (as TCMalloc's page
//! heap does by spans, OSDI 2021, and LLAMA by predicted classes, ASPLOS 2020; for Linux nobody posted it).
//!
//! A class is told by what a kernel has at hand, the request's flags:
//!
//! * *in flight*, microseconds to milliseconds: the request may not wait (buffers of the network)
//! * *of a process*, until that ends: zeroed (`__GFP_ZERO`: anonymous memory, page tables)
//! * *kept*, until reclaim or a driver frees it: all others (slabs, files)
//!
//! A kernel could know more: the call site (memory allocation profiling has a tag for each), the process.
//!
//! A pageblock has the class of the request that opened or claimed it, until it is wholly free. A request takes the
//! smallest block in a pageblock of its class and type, else a whole free pageblock, else a block in a pageblock without
//! a class; else, if it is not movable, it claims a whole free movable pageblock, if there is one; else it takes what
//! Linux takes.
//!
//! *Cost*: that of lists for each class: one for each order tried.
//!
//! *Left out*: CPU lists for each class. What one request's refill leaves on a list of orders 0 to 3 serves a request of
//! any class. What a fallback takes is chosen by type alone. The simulation searches again after 64 requests.

use std::collections::BTreeMap;

use pageblock::decide::{Block, Decide, End, Fallback, Outcome, View, Want};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::request::Gfp;

use super::found::Found;

/// How long pages live.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Class {
    InFlight,
    OfProcess,
    #[default]
    Kept,
}

impl Class {
    fn of(gfp: Gfp) -> Self {
        match gfp {
            _ if !gfp.has(Gfp::DIRECT_RECLAIM) => Self::InFlight,
            _ if gfp.has(Gfp::ZERO) => Self::OfProcess,
            _ => Self::Kept,
        }
    }
}

/// The policy.
#[derive(Debug, Default)]
pub struct Lifetimes {
    /// The class of the request.
    class: Class,
    /// By the pageblock's first frame.
    of: BTreeMap<Pfn, Class>,
    /// By zone (its first frame), order, type and class.
    found: BTreeMap<(Pfn, Order, Migratetype, Class), Found>,
}

impl Lifetimes {
    /// Ranks a block for this class: the least is best. `None` where Linux decides.
    fn rank(&self, zone: &dyn View, block: &Block) -> Option<u8> {
        match self.of.get(&block.pfn.align_down(zone.pageblock_order())) {
            Some(&class) if class == self.class => Some(0),
            None if block.order >= zone.pageblock_order() => Some(1),
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
}

impl Decide for Lifetimes {
    fn on(&mut self, _cpu: CpuId, gfp: Gfp) {
        self.class = Class::of(gfp);
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
        if let Some(found) = linux.filter(|found| found.outcome != Outcome::Single) {
            self.of.insert(found.pfn.align_down(zone.pageblock_order()), self.class);
        }
        linux
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        if block.order >= zone.pageblock_order() {
            let end = Pfn(block.pfn.0 + (1 << block.order));
            let whole: Vec<Pfn> = self.of.range(block.pfn..end).map(|(pfn, _)| *pfn).collect();
            for pfn in whole {
                self.of.remove(&pfn);
            }
        }
        linux
    }
}
