//! Packed placement: pageblocks by type, largest free block and occupancy.

use std::collections::BTreeMap;

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
    filling: BTreeMap<Migratetype, u64>,
}

impl ModelZone {
    pub(crate) fn is_packed(&self) -> bool {
        self.policy.placement != Placement::Linux
    }

    /// The free blocks of a pageblock that are smaller than it.
    fn small(&self, block: u64) -> Vec<(u64, Order)> {
        let start = block * self.pageblock_pages();
        let range = self.blocks.range(start..start + self.pageblock_pages());
        let small = range.filter_map(|(&pfn, block)| match *block {
            Block::Free { order, .. } if !self.is_whole(order) => Some((pfn, order)),
            _ => None,
        });
        small.collect()
    }

    fn small_pages(&self, block: u64) -> u64 {
        self.small(block).iter().map(|(_, order)| 1 << order).sum()
    }

    /// A block has come to a list or left it, or its pageblock has another type.
    pub(crate) fn settle(&mut self, pfn: u64) {
        if !self.is_packed() {
            return;
        }
        let block = self.pageblock(pfn);
        let own = self.small(block);
        let step = (self.pageblock_pages() / 32).max(1);
        let class = own.iter().map(|&(_, order)| order).max().map(|largest| {
            let mt = self.block_type(block * self.pageblock_pages());
            (mt, largest, (self.small_pages(block) - 1) / step)
        });
        let is_in = |(_, members): &(&Class, &Vec<u64>)| members.contains(&block);
        let before = self.packing.classes.iter().find(is_in).map(|(&class, _)| class);
        if class != before {
            self.packing.classes.values_mut().for_each(|members| members.retain(|&b| b != block));
            if let Some(class) = class {
                self.packing.classes.entry(class).or_default().insert(0, block);
            }
        }
    }

    /// Whole blocks are in no class.
    pub(crate) fn moved(&mut self, pfn: u64, order: Order, mt: Migratetype) {
        if !self.silent && !self.is_whole(order) && self.block_type(pfn) == mt {
            self.settle(pfn);
        }
    }

    /// Moves blocks without a look at their pageblocks' classes.
    pub(crate) fn silently(&mut self, act: impl FnOnce(&mut Self)) {
        self.silent = true;
        act(self);
        self.silent = false;
    }

    /// Merges a block with its own pageblock's free blocks of the same type.
    pub(crate) fn merge_own(
        &mut self,
        mut pfn: u64,
        mut order: Order,
        cap: Order,
        mt: Migratetype,
    ) -> (u64, Order) {
        while order < cap && !self.is_whole(order) {
            let buddy = pfn ^ (1 << order);
            if self.blocks.get(&buddy) != Some(&Block::Free { order, mt }) {
                break;
            }
            self.silently(|zone| {
                zone.unlist(buddy);
            });
            pfn &= buddy;
            order += 1;
        }
        (pfn, order)
    }

    /// What is freed here goes back to the zone.
    pub(crate) fn is_emptying(&self, pfn: u64, order: Order) -> bool {
        let block = self.pageblock(pfn);
        self.is_packed()
            && !self.is_whole(order)
            && self.packing.filling.get(&self.block_type(pfn)) != Some(&block)
            && self.small_pages(block) > self.pageblock_pages() / 16
    }

    fn fill(&mut self, pfn: u64, list: Migratetype) {
        self.packing.filling.insert(list, self.pageblock(pfn));
    }

    /// Takes what serves a request from a list.
    pub(crate) fn take_packed(&mut self, order: Order, list: Migratetype) -> Option<u64> {
        let serves = |&(&(mt, largest, _), members): &(&Class, &Vec<u64>)| {
            mt == list && largest >= order && !members.is_empty()
        };
        let classes = self.packing.classes.iter().filter(serves);
        let best = classes.min_by_key(|((_, largest, bucket), _)| (*bucket, *largest));
        if let Some((_, members)) = best {
            let own = self.small(members[0]).into_iter().filter(|&(_, o)| o >= order);
            let (pfn, found) = own.min_by_key(|&(pfn, order)| (order, pfn)).unwrap();
            self.fill(pfn, list);
            self.silently(|zone| {
                zone.unlist(pfn);
                zone.split(pfn, found, order, list);
            });
            self.settle(pfn);
            return Some(pfn);
        }
        let whole = (order.max(self.geometry.pageblock_order)..=self.geometry.max_order)
            .find_map(|o| self.list(o, list).first().copied());
        let pfn = whole?;
        let found = self.unlist(pfn);
        self.split(pfn, found, order, list);
        if !self.is_whole(order) && self.block_type(pfn) == list {
            self.fill(pfn, list);
        }
        Some(pfn)
    }

    /// The block that a fallback looks at among those of a type: to claim its pageblock by it, or to split it.
    pub(crate) fn packed_candidate(
        &self,
        order: Order,
        mt: Migratetype,
        to_split: Option<Order>,
    ) -> Option<(u64, Order)> {
        if self.is_whole(order) {
            return self.list(order, mt).first().map(|&pfn| (pfn, order));
        }
        let mut classes = self.packing.classes.iter().filter(|((of, largest, _), members)| {
            (*of, *largest) == (mt, order) && !members.is_empty()
        });
        let class = if to_split.is_some() { classes.next() } else { classes.next_back() };
        let (_, members) = class?;
        let own = self.small(members[0]).into_iter();
        match to_split {
            Some(min) => own.filter(|&(_, o)| o >= min).min_by_key(|&(pfn, o)| (o, pfn)),
            None => own.filter(|&(_, o)| o == order).min(),
        }
    }
}
