//! LLFree's trees (Wrenger and others, "LLFree: Scalable and Optionally-Persistent Page-Frame Allocation", USENIX ATC 2023; the
//! classes of its C version of 2025): memory in trees of 8 MiB, each with a count of its free pages.
//!
//! A CPU reserves a tree for each class (small and unmovable, small and movable, whole pageblocks), and takes all blocks of the
//! class from it until it has none that is large enough. Then it reserves another that no CPU has. A tree of the class goes
//! before one of another class, whatever else holds; a half-full tree (a sixteenth to seven eighths free) before a free one,
//! and that before one that is nearly full or nearly free; of equals the nearest. Within its tree a CPU takes the smallest
//! block that is large enough, of equals the lowest. A tree is of the unmovable class if one of its pageblocks has another type
//! than movable or CMA. A request that finds no memory of its type takes the largest block of trees of its class first.
//!
//! *Units*: 8 MiB, at least two pageblocks; the default of LLFree since 2025 (64 MiB before).
//!
//! *Cost*: a look for each tree's entry at a reservation (its counter and class), and one for each block taken.
//!
//! *Left out*: the tables of bits (free lists stand for them), the lists that a CPU does not have in LLFree (Linux's CPU lists
//! refill from the trees here), and the reservation of a tree into which a CPU frees four times in a row.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::decide::{Block, Decide, End, Fallback, View, Want};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::request::Gfp;

use super::units::{Units, taints};

/// The order of 8 MiB in pages of 4 KiB.
const TREE: Order = 11;
/// Trees that CPUs begin at are so many apart, for a CPU each.
const APART: usize = 8;

/// What a CPU has a tree for in a zone (its first frame).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot {
    zone: Pfn,
    cpu: CpuId,
    kind: Migratetype,
    whole: bool,
}

/// A reserved tree.
#[derive(Debug)]
struct Tree {
    at: usize,
    /// Its free blocks of the slot's type, and some that are not free any more.
    blocks: BTreeSet<(Order, Pfn)>,
}

/// How well a tree suits a request: the least is reserved.
type Rank = (bool, u8, usize, usize);

/// The policy.
#[derive(Debug, Default)]
pub struct Trees {
    /// The CPU that asks.
    cpu: CpuId,
    reserved: BTreeMap<Slot, Tree>,
}

impl Tree {
    /// Takes the smallest block that is large enough and still free; what is left of it stays here.
    fn take(&mut self, zone: &dyn View, (least, kind): (Order, Migratetype)) -> Option<Pfn> {
        while let Some(&(order, pfn)) = self.blocks.range((least, Pfn(0))..).next() {
            self.blocks.remove(&(order, pfn));
            if !zone.is_free(Block { pfn, order, kind }) {
                continue;
            }
            self.blocks.extend((least..order).map(|half| (half, Pfn(pfn.0 + (1 << half)))));
            return Some(pfn);
        }
        None
    }
}

impl Trees {
    fn order(zone: &dyn View) -> Order {
        TREE.max(zone.pageblock_order() + 1)
    }

    fn slot(&self, zone: &dyn View, want: Want) -> Slot {
        let whole = want.order >= zone.pageblock_order();
        Slot { zone: zone.span().start, cpu: self.cpu, kind: want.kind, whole }
    }

    /// Reserves the tree that suits best; `None` if no tree has a block that is large enough.
    fn reserve(&self, zone: &dyn View, slot: Slot, want: Want) -> Option<Tree> {
        let units = Units::of(zone, Self::order(zone));
        zone.looked_at(units.all.len() as u64);
        let mut free: BTreeMap<usize, BTreeSet<(Order, Pfn)>> = BTreeMap::new();
        for order in (0..=zone.max_order()).rev() {
            zone.shown(order, want.kind, &mut |pfn| {
                // Trees without a block that is large enough are of no use.
                let at = units.at(pfn);
                if order >= want.order {
                    free.entry(at).or_default();
                }
                if let Some(blocks) = free.get_mut(&at) {
                    blocks.insert((order, pfn));
                }
                true
            });
        }
        let last = self.reserved.get(&slot).map_or(slot.cpu.index() * APART, |tree| tree.at);
        let others: BTreeSet<usize> = self
            .reserved
            .iter()
            .filter(|(of, _)| of.zone == slot.zone && **of != slot)
            .map(|(_, tree)| tree.at)
            .collect();
        let size = 1u64 << units.order;
        let rank = |at: usize| -> Rank {
            let pages = units.all[at].pages;
            let fill = match pages {
                _ if (size / 16..=size / 8 * 7).contains(&pages) => 0,
                _ if pages == size => 1,
                _ => 2,
            };
            (units.all[at].tainted == (want.kind == Movable), fill, last.abs_diff(at), at)
        };
        let of_nobody = free.keys().copied().filter(|at| !others.contains(at));
        // Where every tree with memory is another CPU's, they share one.
        let at = of_nobody.min_by_key(|&at| rank(at));
        let at = at.or_else(|| free.keys().copied().min_by_key(|&at| rank(at)))?;
        Some(Tree { at, blocks: free.remove(&at)? })
    }
}

impl Decide for Trees {
    fn on(&mut self, cpu: CpuId, _: Gfp) {
        self.cpu = cpu;
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        let (slot, of) = (self.slot(zone, want), (want.order, want.kind));
        zone.looked_at(1);
        let found = self.reserved.get_mut(&slot).and_then(|tree| tree.take(zone, of));
        found.unwrap_or_else(|| {
            let Some(mut tree) = self.reserve(zone, slot, want) else { return linux.pfn };
            let found = tree.take(zone, of).unwrap_or(linux.pfn);
            self.reserved.insert(slot, tree);
            found
        })
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
        let units = Units::of(zone, Self::order(zone));
        Some(units.fallback_to_tainted(zone, want, found, units.all.len() as u64))
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        let (start, order) = (zone.span().start, Self::order(zone));
        let at = ((block.pfn.0 >> order) - (start.0 >> order)) as usize;
        let whole = block.order >= zone.pageblock_order();
        for (slot, tree) in &mut self.reserved {
            if (slot.zone, slot.kind, tree.at) == (start, block.kind, at) && (whole || !slot.whole)
            {
                tree.blocks.insert((block.order, block.pfn));
            }
        }
        linux
    }
}
