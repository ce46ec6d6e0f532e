//! CPUs own pageblocks (Johannes Weiner, RFC of two patches of 3 April 2026, "pcp buddy allocator").
//!
//! A refill of a CPU's list of orders 0 to 3 takes, in this order: the free blocks in pageblocks that the CPU owns; a
//! whole free pageblock of the requested type, which it owns from then on; the largest free block of the type in a
//! pageblock that no CPU owns; what Linux takes. A block in an owned pageblock is freed to its owner's lists, whichever
//! CPU frees it. A pageblock has no owner any more once it is wholly free in the zone, or claimed for another type.
//!
//! *CMA*: the first three come before the rule that keeps CMA and other memory in balance (van der Linden, 6 April
//! 2026): a refill takes CMA pages only where no movable page is free.
//!
//! *Cost*: a look at each free block and each other page of a pageblock that is searched for free blocks, a list for
//! each order tried. A refill that finds owned memory takes up to a pageblock at once, at most half of what the CPU's
//! lists have room for.
//!
//! *Left out*: splitting and merging on the CPU's lists, outside the zone's lock. Here the rest of a pageblock that the
//! lists cannot hold stays on the zone's lists, where other CPUs take it only when nothing else of the type is free
//! (there, it would wait for a drain); merging happens in the zone, page by page. The lock of the owner's lists, which
//! the freeing CPU takes, costs nothing. The size of the lists is Linux's.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::decide::{Block, CpuLists, Decide, End, Fallback, Outcome, View, Want};
use pageblock::frame::{COSTLY_ORDER, Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

/// Owned pageblocks that a request searches for free blocks.
const SEARCHED: usize = 64;
/// Free blocks of a list that are looked at for one in a pageblock without another owner.
const BLOCKS: usize = 64;

/// A zone (its first frame) and a CPU.
type Place = (Pfn, CpuId);

/// The policy.
#[derive(Debug, Default)]
pub struct Owners {
    /// The CPU that asks.
    cpu: CpuId,
    /// By the pageblock's first frame.
    of: BTreeMap<Pfn, CpuId>,
    /// Owned pageblocks with memory that went back to the zone.
    fragments: BTreeMap<(Place, Migratetype), BTreeSet<Pfn>>,
    /// Free blocks that a CPU's lists would hold if they had room.
    held: BTreeMap<(Place, Migratetype), Vec<Block>>,
    /// CPUs whose last refill found memory that they own.
    owning: BTreeSet<CpuId>,
    pageblock_pages: u32,
}

impl Owners {
    fn place(&self, zone: &dyn View) -> Place {
        (zone.span().start, self.cpu)
    }

    fn owner_of(&self, zone: &dyn View, pfn: Pfn) -> Option<CpuId> {
        self.of.get(&pfn.align_down(zone.pageblock_order())).copied()
    }

    /// Takes a held block that is still free.
    fn take_held(&mut self, zone: &dyn View, want: Want) -> Option<Block> {
        let key = (self.place(zone), want.kind);
        let mut held = self.held.remove(&key)?;
        held.retain(|block| {
            zone.is_free(*block) && self.owner_of(zone, block.pfn).is_none_or(|cpu| cpu == self.cpu)
        });
        let at = held.iter().rposition(|block| block.order >= want.order);
        let taken = at.map(|at| held.remove(at));
        self.held.insert(key, held);
        taken
    }

    /// Holds the free blocks of owned pageblocks until one is large enough.
    fn recover(&mut self, zone: &dyn View, want: Want) -> Option<Block> {
        let key = (self.place(zone), want.kind);
        let all = self.fragments.get(&key)?.iter().copied();
        let searched: Vec<Pfn> = all.take(SEARCHED).collect();
        for pageblock in searched {
            self.fragments.entry(key).or_default().remove(&pageblock);
            let is_owned = self.of.get(&pageblock) == Some(&self.cpu);
            if !is_owned || zone.kind_of(pageblock) != Some(want.kind) {
                continue;
            }
            let held = self.held.entry(key).or_default();
            held.retain(|block| block.pfn.align_down(zone.pageblock_order()) != pageblock);
            zone.free_in_block(pageblock, &mut |block| {
                if block.kind == want.kind {
                    held.push(block);
                }
                true
            });
            let found = self.take_held(zone, want);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Finds a whole pageblock, and owns it.
    fn open(&mut self, zone: &dyn View, want: Want) -> Option<Block> {
        let mut orders = zone.pageblock_order()..=zone.max_order();
        let found = orders.find_map(|order| {
            let pfn = zone.best((order, want.kind), 1, |_| 0)?;
            Some(Block { pfn, order, kind: want.kind })
        })?;
        self.of.insert(found.pfn, self.cpu);
        Some(found)
    }

    /// Finds a block in a pageblock without an owner.
    fn unowned(
        &self,
        zone: &dyn View,
        kind: Migratetype,
        mut orders: impl Iterator<Item = Order>,
    ) -> Option<Block> {
        orders.find_map(|order| {
            let (mut found, mut left) = (None, BLOCKS);
            zone.looked_at(1);
            zone.shown(order, kind, &mut |pfn| {
                found = self.owner_of(zone, pfn).is_none().then_some(pfn);
                left -= 1;
                found.is_none() && left > 0
            });
            found.map(|pfn| Block { pfn, order, kind })
        })
    }

    fn refilled(&mut self, zone: &dyn View, want: Want) -> Option<Block> {
        let whole = zone.pageblock_order();
        let mut found = self.take_held(zone, want).or_else(|| self.recover(zone, want));
        found = found.or_else(|| self.open(zone, want));
        found = found.or_else(|| self.unowned(zone, want.kind, (want.order..whole).rev()));
        let taken = found?;
        if self.owner_of(zone, taken.pfn) == Some(self.cpu) {
            self.owning.insert(self.cpu);
        } else {
            self.owning.remove(&self.cpu);
        }
        // What is left of a larger block serves next; of a block larger than a pageblock one pageblock is taken.
        let held = self.held.entry((self.place(zone), want.kind)).or_default();
        for order in (want.order..taken.order.min(whole)).rev() {
            held.push(Block { pfn: Pfn(taken.pfn.0 + (1 << order)), order, kind: want.kind });
        }
        found
    }
}

impl Decide for Owners {
    fn on(&mut self, cpu: CpuId, _gfp: Gfp) {
        self.cpu = cpu;
    }

    fn cma_first(&mut self, zone: &dyn View, want: Want, linux: bool) -> bool {
        linux && want.order > COSTLY_ORDER && want.order != zone.pageblock_order()
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        let whole = zone.pageblock_order();
        self.pageblock_pages = 1 << whole;
        let found = match want.order {
            0..=COSTLY_ORDER => self.refilled(zone, want),
            _ => self.unowned(zone, want.kind, want.order..=zone.max_order()),
        };
        found.map_or(linux.pfn, |block| block.pfn)
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        _want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        if let Some(found) = linux.filter(|found| found.outcome != Outcome::Single) {
            self.of.remove(&found.pfn.align_down(zone.pageblock_order()));
        }
        self.owning.remove(&self.cpu);
        linux
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        let pageblock = block.pfn.align_down(zone.pageblock_order());
        if block.order >= zone.pageblock_order() {
            let end = Pfn(block.pfn.0 + (1 << block.order));
            let whole: Vec<Pfn> = self.of.range(pageblock..end).map(|(pfn, _)| *pfn).collect();
            for pfn in whole {
                self.of.remove(&pfn);
            }
        } else if let Some(&cpu) = self.of.get(&pageblock) {
            let place = (zone.span().start, cpu);
            self.fragments.entry((place, block.kind)).or_default().insert(pageblock);
        }
        linux
    }

    fn owner(&mut self, zone: &dyn View, block: Block, linux: CpuId) -> CpuId {
        self.owner_of(zone, block.pfn).unwrap_or(linux)
    }

    fn refill(&mut self, lists: CpuLists, linux: u32) -> u32 {
        if !self.owning.contains(&self.cpu) || lists.order > COSTLY_ORDER {
            return linux;
        }
        // The other half is left to frees, which else would drain at once what the refill took.
        let room = lists.high.saturating_sub(lists.count) / 2;
        let pages = room.min(self.pageblock_pages);
        linux.max(pages >> lists.order)
    }
}
