//! Packed placement: each pageblock has a bitmap of its free blocks, and holes are refilled before larger free blocks
//! are split.
//!
//! Linux serves a request from the head of the list of the smallest order that has a block, whichever pageblock the
//! block is in. Freed pages are reused in place, so memory that was once full stays fragmented. Packed placement serves
//! from the fullest pageblock that has a suitable block: pages in use gather in few pageblocks, and the others become
//! free as a whole without compaction.
//!
//! A *partial* pageblock has free blocks smaller than itself of its own type. Partial
//! pageblocks belong to classes, by type, by the order of their largest free block, and by the number of free pages in
//! [`BUCKETS`] steps; bit sets record which classes have members. A request reads one set for each order that could
//! serve it, takes the first pageblock of the fullest class, and there the lowest block of the smallest order that
//! serves. A choice costs O(orders) plus the bits of one pageblock, a change O(1); neither depends on the size of memory.
//! A pageblock that changes its class goes to the head of the new one.
//!
//! Free blocks of whole pageblocks are on lists in Linux's order, linked through their pageblocks; no frame has links.
//!
//! Every free page counts for the type of its pageblock, as in every policy that
//! [allows packed placement](crate::policy::Policy::allows_packed).
//!
//! A page freed into a pageblock that is being emptied must not be reused from a CPU list. Such pageblocks are marked
//! *sparse*, and frees in them go to the zone.

mod batch;
mod blocks;
mod choice;
mod counts;

pub(crate) use batch::{Batch, Listed};
pub(crate) use choice::Prefer;
use counts::OrderCounts;

use crate::base::frame::{ORDER_LIMIT, Order, Pfn};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::policy::source::PolicySource;
use crate::table::freelist::{End, FreeArea};
use crate::table::links::{BlockLinks, Links};
use crate::table::map::{FrameState, Index, NIL, PageMap};
use crate::table::memory::{Tables, TablesLayout};

/// The number of steps of occupancy.
const BUCKETS: usize = 32;

/// The number of a pageblock within its zone.
type Block = u32;

/// One set of buckets per order. A power of two, so that an index is a shift.
type Filled = [u32; (ORDER_LIMIT as usize + 1).next_power_of_two()];

/// The class of a pageblock that is not partial.
const NOWHERE: u16 = u16::MAX;

const _: () = assert!(MIGRATETYPES * ORDER_LIMIT as usize * BUCKETS < NOWHERE as usize);

/// The state of a pageblock.
#[derive(Clone, Copy)]
struct Partial {
    /// Free pages of the pageblock's type in blocks smaller than the pageblock.
    free: u16,
    class: u16,
}

impl Partial {
    const NONE: Self = Self { free: 0, class: NOWHERE };

    /// Counts the pages of a block that was added. Returns whether the bucket stays the same; `bucket` is the order
    /// of a bucket's pages.
    fn grow(&mut self, order: Order, bucket: Order) -> bool {
        let before = self.free;
        self.free += 1 << order;
        (before.wrapping_sub(1) ^ (self.free - 1)) >> bucket == 0
    }
}

/// The free blocks of a zone with packed placement.
pub(crate) struct Packing<'m> {
    pageblock_order: Order,
    blocks: &'m mut [Partial],
    /// The number of free blocks of each pageblock, by order.
    counts: OrderCounts<'m>,
    /// The first pageblock of each class, by type, order and bucket.
    heads: &'m mut [Block],
    /// The classes that have members.
    filled: [Filled; MIGRATETYPES],
    /// The pageblock of each type that was chosen last; [`NIL`] for none.
    filling: [Block; MIGRATETYPES],
    /// The type and order of the last choice. It remains valid while no other pageblock changes its class and the
    /// chosen one has a suitable block.
    chosen: Option<(Migratetype, Order)>,
    /// The lists of blocks of whole pageblocks, and of the members of classes.
    links: BlockLinks<'m>,
}

impl<'m> Packing<'m> {
    /// Returns the empty tables of a zone with Linux's placement.
    pub(crate) fn off() -> Self {
        Self {
            pageblock_order: 0,
            blocks: &mut [],
            counts: OrderCounts::off(),
            heads: &mut [],
            filled: [Filled::default(); MIGRATETYPES],
            filling: [NIL; MIGRATETYPES],
            chosen: None,
            links: BlockLinks::EMPTY,
        }
    }

    fn classes(pageblock_order: Order) -> usize {
        MIGRATETYPES * usize::from(pageblock_order) * BUCKETS
    }

    /// Returns `layout` with the tables of a zone of `frames` frames: 20 bytes a pageblock of up to 512 pages.
    pub(crate) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<TablesLayout> {
        let blocks = frames >> pageblock_order;
        let layout = OrderCounts::layout(layout.and::<Partial>(blocks)?, blocks, pageblock_order)?
            .and::<Block>(Self::classes(pageblock_order))?;
        BlockLinks::layout(layout, blocks)
    }

    /// Returns the tables of a zone of `frames` frames, none of them free.
    pub(crate) fn new(
        tables: &mut Tables<'m>,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<Self> {
        let blocks = frames >> pageblock_order;
        Some(Self {
            pageblock_order,
            blocks: tables.take(blocks, |_| Partial::NONE)?,
            counts: OrderCounts::new(tables, blocks, pageblock_order)?,
            heads: tables.take(Self::classes(pageblock_order), |_| NIL)?,
            links: BlockLinks::new(tables, blocks, pageblock_order)?,
            ..Self::off()
        })
    }

    /// Returns the links of the lists of whole pageblocks.
    pub(crate) fn links(&self) -> &BlockLinks<'m> {
        &self.links
    }

    fn block_of(&self, i: Index) -> Block {
        i >> self.pageblock_order
    }

    fn start_of(&self, block: Block) -> Index {
        block << self.pageblock_order
    }

    /// Adds a free block of a type to its list or pageblock, and counts it.
    #[inline(never)]
    pub(crate) fn insert(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        i: Index,
        order: Order,
        list: Migratetype,
        end: End,
    ) {
        if order >= self.pageblock_order {
            area.push_whole(&self.links, i, order, list, end);
            return;
        }
        area.count_in(order, list);
        let block = self.block_of(i);
        self.count_in(block, order);
        self.settle(map, block, map.block_type(i));
    }

    /// Removes a free block of a type from its list or pageblock, and from the counts.
    #[inline(never)]
    pub(crate) fn remove(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        i: Index,
        order: Order,
        list: Migratetype,
    ) {
        if order >= self.pageblock_order {
            area.remove_whole(&self.links, i, order, list);
            return;
        }
        area.count_out(order, list);
        let block = self.block_of(i);
        self.count_out(block, order);
        self.settle(map, block, map.block_type(i));
    }

    /// Notes that the free blocks of a frame's pageblock merged into a block of whole pageblocks. `small`: at least one
    /// of them was smaller than the pageblock.
    pub(crate) fn emptied(&mut self, map: &PageMap<'_, impl PolicySource>, i: Index, small: bool) {
        if small {
            map.bits().unmix(i);
        }
        debug_assert_eq!(
            self.blocks[self.block_of(i) as usize].free,
            0,
            "a whole pageblock has smaller free blocks"
        );
        self.settle(map, self.block_of(i), map.block_type(i));
    }

    /// Notes that the pageblock of a frame changed its type, with its free blocks. Takes time linear in the pageblock.
    pub(crate) fn note_retyped(&mut self, map: &PageMap<'_, impl PolicySource>, i: Index) {
        let block = self.block_of(i);
        self.clear_counts(block);
        let own = map.block_type(i);
        for order in small_free_blocks(map, self.pageblock_order, block) {
            self.count_in(block, order);
        }
        debug_assert!(
            self.blocks[block as usize].free <= 1 << self.pageblock_order,
            "more free pages than the pageblock has"
        );
        self.settle(map, block, own);
        // `set_block_type` has cleared the mark, even if the type is the same.
        self.mark(map, block, own);
    }

    /// Puts a pageblock of a type into its class, and marks it as sparse or not.
    fn settle(&mut self, map: &PageMap<'_, impl PolicySource>, block: Block, mt: Migratetype) {
        let class = self.class(block, mt);
        if class != self.blocks[block as usize].class {
            self.reclass(block, class);
            self.chosen = None;
            // Apart from the pageblock that is being filled, either all members of a class are sparse or none.
            self.mark(map, block, mt);
        }
        debug_assert_eq!(
            self.class(block, mt),
            self.blocks[block as usize].class,
            "the wrong class"
        );
    }

    #[inline(never)]
    fn reclass(&mut self, block: Block, class: u16) {
        self.unlink(block);
        self.link(block, class);
    }

    /// Marks a pageblock of a type as sparse or not.
    fn mark(&self, map: &PageMap<'_, impl PolicySource>, block: Block, mt: Migratetype) {
        map.set_sparse(block, self.is_sparse(block, mt));
    }

    fn is_sparse(&self, block: Block, mt: Migratetype) -> bool {
        let free = u32::from(self.blocks[block as usize].free);
        free > (1 << self.pageblock_order) / DENSE_SHARE
            && self.filling[mt as usize] != block
            && mt != Migratetype::Isolate
    }

    /// Returns the class to which a pageblock belongs.
    fn class(&self, block: Block, mt: Migratetype) -> u16 {
        let Partial { free, .. } = self.blocks[block as usize];
        if free == 0 {
            return NOWHERE;
        }
        let largest = usize::from(self.counts.largest(block));
        let bucket = bucket(free, self.pageblock_order);
        let row = mt as usize * usize::from(self.pageblock_order) + largest;
        (row * BUCKETS + bucket) as u16
    }

    /// Returns the type, largest order and bucket of a class.
    fn parts(&self, class: u16) -> (usize, usize, usize) {
        let (row, bucket) = (usize::from(class) / BUCKETS, usize::from(class) % BUCKETS);
        let orders = usize::from(self.pageblock_order);
        (row / orders, row % orders, bucket)
    }

    fn unlink(&mut self, block: Block) {
        let Partial { class, .. } = self.blocks[block as usize];
        if class == NOWHERE {
            return;
        }
        let at = self.start_of(block);
        let (next, prev) = (self.links.next(at), self.links.prev(at));
        debug_assert!(next == NIL || self.links.prev(self.start_of(next)) == block, "a torn class");
        let head = &mut self.heads[usize::from(class)];
        if *head != block {
            debug_assert_eq!(
                self.links.next(self.start_of(prev)),
                block,
                "the class has lost a member"
            );
            self.links.set_next(self.start_of(prev), next);
        } else {
            *head = next;
            if next == NIL {
                let (mt, largest, bucket) = self.parts(class);
                self.filled[mt][largest] &= !(1 << bucket);
            }
        }
        if next != NIL {
            self.links.set_prev(self.start_of(next), prev);
        }
    }

    fn link(&mut self, block: Block, class: u16) {
        self.blocks[block as usize].class = class;
        if class == NOWHERE {
            return;
        }
        let next = core::mem::replace(&mut self.heads[usize::from(class)], block);
        self.links.set_next(self.start_of(block), next);
        if next == NIL {
            let (mt, largest, bucket) = self.parts(class);
            self.filled[mt][largest] |= 1 << bucket;
        } else {
            self.links.set_prev(self.start_of(next), block);
        }
    }

    /// Verifies the tables against the page map; an error names the pageblock that is wrong.
    pub(crate) fn check(&self, map: &PageMap<'_, impl PolicySource>) -> Result<(), Pfn> {
        let mut classed = 0;
        for block in 0..self.blocks.len() as Block {
            self.check_block(map, block).ok_or(map.pfn(self.start_of(block)))?;
            classed += u64::from(self.blocks[block as usize].class != NOWHERE);
        }
        let mut members = 0;
        for class in 0..self.heads.len() {
            members += self
                .check_class(class as u16)
                .map_err(|block| map.pfn(if block == NIL { 0 } else { self.start_of(block) }))?;
        }
        if classed == members { Ok(()) } else { Err(map.pfn(0)) }
    }

    /// Verifies the free blocks of a pageblock, its counts, class and mark.
    fn check_block(&self, map: &PageMap<'_, impl PolicySource>, block: Block) -> Option<()> {
        let partial = &self.blocks[block as usize];
        let own = map.block_type(self.start_of(block));
        let mut free = 0;
        let mut counts = [0; ORDER_LIMIT as usize + 1];
        for order in small_free_blocks(map, self.pageblock_order, block) {
            free += 1 << order;
            counts[usize::from(order)] += 1;
        }
        let right = (0..self.pageblock_order)
            .all(|order| self.counts.count(block, order) == counts[usize::from(order)])
            && partial.free == free
            && self.class(block, own) == partial.class
            && map.is_sparse(block) == self.is_sparse(block, own);
        right.then_some(())
    }

    /// Counts the members of a class. An error is a pageblock that does not belong there.
    fn check_class(&self, class: u16) -> Result<u64, Block> {
        let head = self.heads[usize::from(class)];
        let (mt, largest, bucket) = self.parts(class);
        if (self.filled[mt][largest] >> bucket & 1 != 0) != (head != NIL) {
            return Err(head);
        }
        let (mut members, mut before, mut at) = (0, NIL, head);
        while at != NIL {
            let partial = self.blocks.get(at as usize).ok_or(NIL)?;
            let links = (self.links.next(self.start_of(at)), self.links.prev(self.start_of(at)));
            if partial.class != class || (before != NIL && links.1 != before) {
                return Err(at);
            }
            if members == self.blocks.len() as u64 {
                return Err(at);
            }
            members += 1;
            (before, at) = (at, links.0);
        }
        Ok(members)
    }
}

/// A pageblock is never sparse if less than this share of its pages is free.
const DENSE_SHARE: u32 = 16;
const _: () = assert!(BUCKETS % DENSE_SHARE as usize == 0, "a bucket is part of the share, or not");

/// Returns the bucket of a pageblock with `free` free pages, at least one.
fn bucket(free: u16, pageblock_order: Order) -> usize {
    usize::from(free - 1) >> bucket_order(pageblock_order)
}

/// Returns the order of a bucket's pages.
fn bucket_order(pageblock_order: Order) -> Order {
    pageblock_order.saturating_sub(BUCKETS.ilog2() as Order)
}

/// Returns the orders of the free blocks in a pageblock that are smaller than it.
fn small_free_blocks(
    map: &PageMap<'_, impl PolicySource>,
    pageblock_order: Order,
    block: Block,
) -> impl Iterator<Item = Order> {
    let start = block << pageblock_order;
    let mut at = start;
    core::iter::from_fn(move || {
        while at < start + (1 << pageblock_order) {
            let state = map.state(at);
            at += 1 << state.order().unwrap_or(0);
            match state {
                FrameState::Free { order, .. } if order < pageblock_order => return Some(order),
                _ => {}
            }
        }
        None
    })
}
