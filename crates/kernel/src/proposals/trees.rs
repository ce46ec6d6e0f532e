//! LLFree's trees as a placement (Wrenger et al., USENIX ATC 2023): each CPU reserves a tree of neighbouring pageblocks for
//! requests of a type, and takes its memory from there until nothing is left.
//!
//! A tree is four pageblocks (8 MiB, as its sources have it today). For a new tree the nearest one, from the last on,
//! that no CPU has reserved serves: first one at least a sixteenth and at most half of which is free, then one with more,
//! then a wholly free one, then any. Where no tree has a block, Linux decides. Inside a tree the smallest block serves, of
//! equals the lowest.
//!
//! *Cost*: a look at each tree that a search passes (LLFree has a counter for each), and at each free block and every
//! other page of the tree that is reserved (LLFree has a bit for each).
//!
//! *Left out*: the tree into which a CPU frees several times in a row, which LLFree reserves for it; lock freedom. LLFree
//! has no CPU lists, no types of pageblocks and no fallback: these are Linux's.

use std::collections::BTreeMap;

use pageblock::decide::{Block, Decide, View, Want};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use super::found::Found;

/// The order of a tree in pageblocks.
const TREE: Order = 2;

/// A zone (its first frame), a CPU and a type.
type Place = (Pfn, CpuId, Migratetype);

/// The policy.
#[derive(Debug, Default)]
pub struct Trees {
    /// The CPU that asks.
    cpu: CpuId,
    /// The first frame of the tree that is reserved.
    reserved: BTreeMap<Place, Pfn>,
    /// Blocks of that tree, by the order of the request too.
    found: BTreeMap<(Place, Order), Found>,
}

impl Trees {
    fn place(&self, zone: &dyn View, want: Want) -> Place {
        (zone.span().start, self.cpu, want.kind)
    }

    /// Searches a tree for blocks of at least an order.
    fn search(zone: &dyn View, tree: Pfn, want: Want) -> Found {
        let mut blocks = Vec::new();
        for pageblock in 0..1 << TREE {
            let first = Pfn(tree.0 + (pageblock << zone.pageblock_order()));
            zone.free_in_block(first, &mut |block| {
                if block.kind == want.kind && block.order >= want.order {
                    blocks.push(block);
                }
                true
            });
        }
        // A block larger than a pageblock is not shown by its pageblocks.
        for order in zone.pageblock_order() + 1..=zone.max_order() {
            zone.shown(order, want.kind, &mut |pfn| {
                if pfn.align_down(zone.pageblock_order() + TREE) == tree {
                    blocks.push(Block { pfn, order, kind: want.kind });
                }
                true
            });
        }
        Found::best(blocks, |block| (block.order, block.pfn))
    }

    /// Reserves a tree with a block for a request.
    fn reserve(&mut self, zone: &dyn View, want: Want) -> Option<Pfn> {
        let order = zone.pageblock_order() + TREE;
        // Free pages of the type, and whether they have a large enough block.
        let mut trees: BTreeMap<Pfn, (u64, bool)> = BTreeMap::new();
        for at in 0..=zone.max_order() {
            zone.shown(at, want.kind, &mut |pfn| {
                let tree = trees.entry(pfn.align_down(order)).or_default();
                tree.0 += 1 << at;
                tree.1 |= at >= want.order;
                true
            });
        }
        let place = self.place(zone, want);
        let last = self.reserved.remove(&place).unwrap_or(zone.span().start);
        let all = 1u64 << order;
        let rank = |free: u64| match free {
            _ if free >= all / 16 && free <= all / 2 => 0u64,
            _ if free > all / 2 && free < all => 1,
            _ if free == all => 2,
            _ => 3,
        };
        let open = trees.iter().filter(|(tree, (_, serves))| {
            *serves && !self.reserved.values().any(|other| other == *tree)
        });
        let at = |pfn: Pfn| (pfn.0 >> order) - (zone.span().start.0 >> order);
        let count = at(Pfn(zone.span().end.0 - 1)) + 1;
        let distance = |tree: Pfn| (at(tree) + count - at(last)) % count;
        let found = open.min_by_key(|(tree, (free, _))| (rank(*free), distance(**tree)))?;
        let (tree, rank) = (*found.0, rank(found.1.0));
        // Each rank before was searched for in all trees.
        zone.looked_at(rank * count + distance(tree));
        self.found.retain(|(of, _), _| *of != place);
        self.reserved.insert(place, tree);
        Some(tree)
    }

    fn take(&mut self, zone: &dyn View, want: Want) -> Option<Block> {
        let place = self.place(zone, want);
        let key = (place, want.order);
        if let Some(mut of) = self.found.remove(&key).filter(|found| found.serves(zone)) {
            let taken = of.take(zone, want.order);
            self.found.insert(key, of);
            return taken;
        }
        // The tree may have other blocks, which were freed since.
        let same = self.reserved.get(&place).copied();
        let mut of = same.map(|tree| Self::search(zone, tree, want));
        let mut taken = of.as_mut().and_then(|of| of.take(zone, want.order));
        if taken.is_none() {
            let tree = self.reserve(zone, want)?;
            let mut new = Self::search(zone, tree, want);
            taken = new.take(zone, want.order);
            of = Some(new);
        }
        self.found.extend(of.map(|of| (key, of)));
        taken
    }
}

impl Decide for Trees {
    fn on(&mut self, cpu: CpuId, _gfp: Gfp) {
        self.cpu = cpu;
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        self.take(zone, want).map_or(linux.pfn, |block| block.pfn)
    }
}
