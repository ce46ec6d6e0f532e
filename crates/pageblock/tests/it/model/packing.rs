//! Packed placement: partial pageblocks by type, largest free block and occupancy.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use pageblock::policy::Placement;

use super::zone::{Block, ModelZone};

/// A type, the order of the largest free block, and the step of occupancy, fullest first.
type Class = (Migratetype, Order, u64);

#[derive(Default)]
pub(crate) struct Packing {
    /// From the head.
    classes: BTreeMap<Class, Vec<u64>>,
    pending: Option<u64>,
    filling: BTreeMap<Migratetype, u64>,
    sparse: BTreeSet<u64>,
}

impl ModelZone {
    fn is_packed(&self) -> bool {
        self.policy.placement == Placement::Packed
    }

    /// The free blocks of a pageblock that count for it.
    fn own(&self, block: u64) -> Vec<(u64, Order)> {
        let start = block * self.pageblock_pages();
        let range = self.blocks.range(start..start + self.pageblock_pages());
        let own = self.block_type(start);
        let counts = |(&pfn, block): (&u64, &Block)| match *block {
            Block::Free { order, mt } if mt == own && !self.is_whole(order) => Some((pfn, order)),
            _ => None,
        };
        range.filter_map(counts).collect()
    }

    fn own_pages(&self, block: u64) -> u64 {
        self.own(block).iter().map(|(_, order)| 1 << order).sum()
    }

    /// A block comes to a list or leaves it.
    pub(crate) fn touch_for(&mut self, pfn: u64, order: Order, mt: Migratetype) {
        if !self.is_whole(order) && self.block_type(pfn) == mt {
            self.touch(self.pageblock(pfn));
        }
    }

    /// A pageblock takes another type.
    pub(crate) fn touch_type(&mut self, pfn: u64) {
        let block = self.pageblock(pfn);
        self.packing.sparse.remove(&block);
        self.touch(block);
    }

    fn touch(&mut self, block: u64) {
        if self.is_packed() && self.packing.pending != Some(block) {
            self.settle();
            self.packing.pending = Some(block);
        }
    }

    fn settle(&mut self) {
        let Some(block) = self.packing.pending else { return };
        let own = self.own(block);
        let step = (self.pageblock_pages() / 32).max(1);
        let class = own.iter().map(|&(_, order)| order).max().map(|largest| {
            let mt = self.block_type(block * self.pageblock_pages());
            (mt, largest, (self.own_pages(block) - 1) / step)
        });
        let is_in = |(_, members): &(&Class, &Vec<u64>)| members.contains(&block);
        let before = self.packing.classes.iter().find(is_in).map(|(&class, _)| class);
        if class != before {
            self.packing.classes.values_mut().for_each(|members| members.retain(|&b| b != block));
            if let Some(class) = class {
                self.packing.classes.entry(class).or_default().insert(0, block);
            }
        }
        self.mark_sparse(block);
    }

    fn mark_sparse(&mut self, block: u64) {
        let mt = self.block_type(block * self.pageblock_pages());
        let filling = self.packing.filling.get(&mt) == Some(&block);
        if !filling && self.own_pages(block) > self.pageblock_pages() / 16 {
            self.packing.sparse.insert(block);
        } else {
            self.packing.sparse.remove(&block);
        }
    }

    /// What is freed here goes past the CPU lists.
    pub(crate) fn is_emptying(&self, pfn: u64, order: Order) -> bool {
        !self.is_whole(order) && self.packing.sparse.contains(&self.pageblock(pfn))
    }

    /// The block that serves from a partial pageblock.
    pub(crate) fn choose(&mut self, order: Order, list: Migratetype) -> Option<(u64, Order)> {
        if !self.is_packed() || self.is_whole(order) {
            return None;
        }
        self.settle();
        let serves = |&(&(mt, largest, _), members): &(&Class, &Vec<u64>)| {
            mt == list && largest >= order && !members.is_empty()
        };
        let classes = self.packing.classes.iter().filter(serves);
        let (_, members) = classes.min_by_key(|((_, largest, bucket), _)| (*bucket, *largest))?;
        let block = members[0];
        let before = self.packing.filling.insert(list, block);
        self.packing.sparse.remove(&block);
        before.filter(|&b| b != block).into_iter().for_each(|b| self.mark_sparse(b));
        let own = self.own(block).into_iter().filter(|&(_, o)| o >= order);
        own.min_by_key(|&(pfn, order)| (order, pfn))
    }
}
