//! Packed placement: where `placement` is `packed`, holes are refilled before larger free blocks are split.
//!
//! Linux serves a request from the head of the list of the smallest order that has a block, whichever
//! pageblock that block is in: freed pages are used again where they are, and memory that was once filled
//! stays fragmented. Packed placement serves from the fullest pageblock that can, so that pages in
//! use gather in few pageblocks and the others become free as a whole, without compaction.
//!
//! A *partial* pageblock has free blocks smaller than itself on the lists of its own type. Partial
//! pageblocks stand in classes, by type, by the order of their largest free block, and by free pages
//! in [`BUCKETS`] steps; a set of bits says which classes have members. A request looks at one set
//! for each order that could serve it, takes the first pageblock of the fullest class, and there the
//! lowest block of the smallest order that serves. So a choice costs O(orders), and one pageblock's
//! tree of bits; a change costs O(1). Neither depends on the size of memory.
//!
//! A pageblock that changes its class goes to the head of the new one. That is put off until another
//! pageblock changes or a choice is made, as one operation changes a pageblock several times.
//!
//! Pages that are freed into a pageblock that is being emptied must not come back from a CPU list, so
//! such pageblocks are marked *sparse*, and what is freed there goes to the zone at once.

use crate::base::frame::{ORDER_LIMIT, Order, Pfn};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::table::map::{FrameState, Index, NIL, PageMap};
use crate::table::memory::{Tables, TablesLayout};

/// Steps of occupancy.
const BUCKETS: usize = 32;

/// The number of a pageblock in its zone.
type Block = u32;

/// One set of buckets an order; a round number makes a short multiplication.
type Filled = [u32; (ORDER_LIMIT as usize + 1).next_power_of_two()];

/// The class of a pageblock that is not partial.
const NOWHERE: u16 = u16::MAX;

const _: () = assert!(MIGRATETYPES * ORDER_LIMIT as usize * BUCKETS < NOWHERE as usize);

/// A partial pageblock.
#[derive(Clone, Copy)]
struct Partial {
    next: Block,
    /// Undefined at the head of a class.
    prev: Block,
    /// Free pages in blocks smaller than the pageblock on the lists of its type.
    free: u16,
    /// The orders of the free blocks, one bit each.
    orders: u16,
    class: u16,
}

impl Partial {
    const NONE: Self = Self { next: NIL, prev: NIL, free: 0, orders: 0, class: NOWHERE };
}

/// The partial pageblocks of a zone.
pub(crate) struct Packing<'m> {
    pageblock_order: Order,
    blocks: &'m mut [Partial],
    /// Which blocks are free: a tree of bits for each pageblock, where the block of order `o` at
    /// offset `n << o` is bit `(pages >> o) + n`.
    free: &'m mut [u64],
    /// The first pageblock of each class, by type, order and bucket.
    heads: &'m mut [Block],
    /// The classes that have members.
    filled: [Filled; MIGRATETYPES],
    /// A pageblock that may be in the wrong class; [`NIL`] for none.
    pending: Block,
    /// The pageblock of each type that was chosen last; [`NIL`] for none.
    filling: [Block; MIGRATETYPES],
    /// The last choice: for which type and order. It stands while no pageblock changes its class.
    chosen: Option<(Migratetype, Order)>,
}

impl<'m> Packing<'m> {
    /// Returns that of a zone with Linux's placement.
    pub(crate) fn off() -> Self {
        Self {
            pageblock_order: 0,
            blocks: &mut [],
            free: &mut [],
            heads: &mut [],
            filled: [Filled::default(); MIGRATETYPES],
            pending: NIL,
            filling: [NIL; MIGRATETYPES],
            chosen: None,
        }
    }

    /// Returns the words of a pageblock's tree, which are a power of two.
    #[inline]
    fn words(pageblock_order: Order) -> usize {
        1 << pageblock_order.saturating_sub(5)
    }

    fn classes(pageblock_order: Order) -> usize {
        MIGRATETYPES * usize::from(pageblock_order) * BUCKETS
    }

    /// Returns `layout` with the tables of a zone of `frames` frames: 16 bytes a pageblock and two bits a
    /// frame.
    pub(crate) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<TablesLayout> {
        let blocks = frames >> pageblock_order;
        layout
            .and::<Partial>(blocks)?
            .and::<u64>(blocks.checked_mul(Self::words(pageblock_order))?)?
            .and::<Block>(Self::classes(pageblock_order))
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
            free: tables.take(blocks * Self::words(pageblock_order), |_| 0)?,
            heads: tables.take(Self::classes(pageblock_order), |_| NIL)?,
            ..Self::off()
        })
    }

    #[inline]
    fn block_of(&self, i: Index) -> Block {
        i >> self.pageblock_order
    }

    /// Returns the word and bit of a free block.
    #[inline]
    fn bit(&self, i: Index, order: Order) -> (usize, u64) {
        let pages = 1usize << self.pageblock_order;
        let node = (pages + (i as usize & (pages - 1))) >> order;
        let first = self.block_of(i) as usize * Self::words(self.pageblock_order);
        (first + node / 64, 1 << (node % 64))
    }

    /// Returns the bits of one order of a pageblock: the first word, the number of words, and which of its
    /// bits where it is one.
    #[inline]
    fn bits_of(&self, block: Block, order: Order) -> (usize, usize, u64) {
        let first = block as usize * Self::words(self.pageblock_order);
        let n = (1usize << self.pageblock_order) >> order;
        if n < 64 { (first, 1, ((1 << n) - 1) << n) } else { (first + n / 64, n / 64, u64::MAX) }
    }

    /// Takes the lowest free block of an order of a pageblock out of its tree.
    #[inline]
    fn take_lowest(&mut self, block: Block, order: Order) -> Option<Index> {
        let (first, words, mask) = self.bits_of(block, order);
        let bits = self.free.get_mut(first..first + words)?;
        let at = bits.iter().position(|word| word & mask != 0)?;
        let bit = (bits[at] & mask).trailing_zeros();
        bits[at] &= !(1 << bit);
        let none_left = bits[at..].iter().all(|word| word & mask == 0);
        self.count_taken(block, order, none_left);
        let n = (1u32 << self.pageblock_order) >> order;
        let place = at as u32 * 64 + if n < 64 { bit - n } else { bit };
        Some((block << self.pageblock_order) + (place << order))
    }

    #[inline]
    fn count_taken(&mut self, block: Block, order: Order, none_left: bool) {
        let partial = &mut self.blocks[block as usize];
        partial.free -= 1 << order;
        if none_left {
            partial.orders &= !(1 << order);
        }
    }

    /// Notes a block put on a list.
    #[inline(never)]
    pub(crate) fn note_inserted(
        &mut self,
        map: &PageMap<'_>,
        i: Index,
        order: Order,
        list: Migratetype,
    ) {
        if order >= self.pageblock_order || map.block_type(i) != list {
            return;
        }
        self.touch(map, self.block_of(i));
        self.add(i, order);
    }

    fn add(&mut self, i: Index, order: Order) {
        let (word, bit) = self.bit(i, order);
        self.free[word] |= bit;
        let partial = &mut self.blocks[(i >> self.pageblock_order) as usize];
        partial.free += 1 << order;
        partial.orders |= 1 << order;
    }

    /// Notes a block taken off a list.
    #[inline(never)]
    pub(crate) fn note_removed(&mut self, map: &PageMap<'_>, i: Index, order: Order) {
        if order >= self.pageblock_order {
            return;
        }
        let (word, bit) = self.bit(i, order);
        if self.free[word] & bit == 0 {
            return;
        }
        let block = self.block_of(i);
        self.touch(map, block);
        self.free[word] &= !bit;
        let (first, words, mask) = self.bits_of(block, order);
        let none_left = self.free[first..first + words].iter().all(|word| word & mask == 0);
        self.count_taken(block, order, none_left);
    }

    /// Notes that the pageblock of a frame changed its type: other free blocks are on the lists of
    /// its own type now. Takes time linear in the pageblock.
    pub(crate) fn note_retyped(&mut self, map: &PageMap<'_>, i: Index) {
        let block = self.block_of(i);
        self.touch(map, block);
        let words = Self::words(self.pageblock_order);
        self.free[block as usize * words..][..words].fill(0);
        let partial = &mut self.blocks[block as usize];
        (partial.free, partial.orders) = (0, 0);
        for (i, order) in own_free_blocks(map, self.pageblock_order, block) {
            self.add(i, order);
        }
    }

    /// Remembers that a pageblock may have to change its class.
    #[inline]
    fn touch(&mut self, map: &PageMap<'_>, block: Block) {
        if self.pending != block {
            self.settle(map);
            self.pending = block;
        }
    }

    /// Puts the pending pageblock into its class, and marks it as sparse or not. It stays pending, as
    /// it is the one that likely changes next.
    fn settle(&mut self, map: &PageMap<'_>) {
        let block = self.pending;
        let Some(&partial) = self.blocks.get(block as usize) else { return };
        let mt = map.block_type(block << self.pageblock_order);
        let class = self.class(&partial, mt);
        if class != partial.class {
            self.unlink(block);
            self.link(block, class);
            self.chosen = None;
        }
        self.mark(map, block, mt);
    }

    /// Marks a pageblock of a type as sparse or not.
    fn mark(&self, map: &PageMap<'_>, block: Block, mt: Migratetype) {
        let free = u32::from(self.blocks[block as usize].free);
        let sparse =
            free > (1 << self.pageblock_order) / DENSE_SHARE && self.filling[mt as usize] != block;
        map.set_sparse(block, sparse);
    }

    /// Returns the class that a pageblock belongs to.
    fn class(&self, partial: &Partial, mt: Migratetype) -> u16 {
        if partial.free == 0 {
            return NOWHERE;
        }
        let largest = partial.orders.ilog2() as usize;
        let bucket = bucket(partial.free, self.pageblock_order);
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
        let Partial { next, prev, class, .. } = self.blocks[block as usize];
        if class == NOWHERE {
            return;
        }
        let head = &mut self.heads[usize::from(class)];
        if *head != block {
            self.blocks[prev as usize].next = next;
        } else {
            *head = next;
            if next == NIL {
                let (mt, largest, bucket) = self.parts(class);
                self.filled[mt][largest] &= !(1 << bucket);
            }
        }
        if next != NIL {
            self.blocks[next as usize].prev = prev;
        }
    }

    fn link(&mut self, block: Block, class: u16) {
        self.blocks[block as usize].class = class;
        if class == NOWHERE {
            return;
        }
        let next = core::mem::replace(&mut self.heads[usize::from(class)], block);
        self.blocks[block as usize].next = next;
        if next == NIL {
            let (mt, largest, bucket) = self.parts(class);
            self.filled[mt][largest] |= 1 << bucket;
        } else {
            self.blocks[next as usize].prev = block;
        }
    }

    /// Takes the block that serves a request from a list of this type, which the caller takes off its
    /// list; returns its order too. `None` where no partial pageblock can serve.
    pub(crate) fn take(
        &mut self,
        map: &PageMap<'_>,
        order: Order,
        list: Migratetype,
    ) -> Option<(Index, Order)> {
        if order >= self.pageblock_order {
            return None;
        }
        self.settle(map);
        if self.chosen != Some((list, order)) {
            let block = self.fullest(order, list)?;
            self.chosen = Some((list, order));
            self.fill(map, block, list);
        }
        let block = self.filling[list as usize];
        let orders = self.blocks.get(block as usize)?.orders >> order;
        let found = order + orders.trailing_zeros() as Order;
        self.pending = block;
        Some((self.take_lowest(block, found)?, found))
    }

    /// Returns the fullest pageblock of a type that has a free block of this order or larger; of several the
    /// one whose largest free block is the smallest.
    fn fullest(&self, order: Order, list: Migratetype) -> Option<Block> {
        let rows = &self.filled[list as usize];
        let orders = usize::from(order)..rows.len();
        let any = rows[orders.clone()].iter().fold(0, |any, row| any | row);
        let bucket = (any != 0).then(|| any.trailing_zeros())?;
        let largest = orders.into_iter().find(|&o| rows[o] & 1 << bucket != 0)?;
        let row = list as usize * usize::from(self.pageblock_order) + largest;
        Some(self.heads[row * BUCKETS + bucket as usize])
    }

    /// Chooses a pageblock, which is not sparse as long as it is the one that is filled.
    fn fill(&mut self, map: &PageMap<'_>, block: Block, list: Migratetype) {
        let before = core::mem::replace(&mut self.filling[list as usize], block);
        map.set_sparse(block, false);
        if before != block && before != NIL {
            self.mark(map, before, map.block_type(before << self.pageblock_order));
        }
    }

    /// Verifies the tables against the page map; an error names the pageblock that is wrong.
    pub(crate) fn check(&self, map: &PageMap<'_>) -> Result<(), Pfn> {
        let mut classed = 0;
        for block in 0..self.blocks.len() as Block {
            self.check_block(map, block).ok_or(map.pfn(block << self.pageblock_order))?;
            classed += u64::from(self.blocks[block as usize].class != NOWHERE);
        }
        let mut members = 0;
        for class in 0..self.heads.len() {
            members += self.check_class(class as u16).map_err(|block| {
                map.pfn(if block == NIL { 0 } else { block << self.pageblock_order })
            })?;
        }
        if classed == members { Ok(()) } else { Err(map.pfn(0)) }
    }

    /// Checks the free blocks of a pageblock, its counts, and the class where that is not pending.
    fn check_block(&self, map: &PageMap<'_>, block: Block) -> Option<()> {
        let partial = &self.blocks[block as usize];
        let (mut free, mut orders, mut found) = (0, 0, 0);
        for (i, order) in own_free_blocks(map, self.pageblock_order, block) {
            let (word, bit) = self.bit(i, order);
            (self.free[word] & bit != 0).then_some(())?;
            free += 1 << order;
            orders |= 1 << order;
            found += 1;
        }
        let words = Self::words(self.pageblock_order);
        let bits = &self.free[block as usize * words..][..words];
        let set: u32 = bits.iter().map(|word| word.count_ones()).sum();
        let mt = map.block_type(block << self.pageblock_order);
        let placed = self.pending == block || self.class(partial, mt) == partial.class;
        let right = set == found && (partial.free, partial.orders) == (free, orders) && placed;
        right.then_some(())
    }

    /// Counts the members of a class; an error is one that does not belong there.
    fn check_class(&self, class: u16) -> Result<u64, Block> {
        let head = self.heads[usize::from(class)];
        let (mt, largest, bucket) = self.parts(class);
        if (self.filled[mt][largest] >> bucket & 1 != 0) != (head != NIL) {
            return Err(head);
        }
        let (mut members, mut before, mut at) = (0, NIL, head);
        while at != NIL {
            let partial = self.blocks.get(at as usize).ok_or(NIL)?;
            if partial.class != class || (before != NIL && partial.prev != before) {
                return Err(at);
            }
            if members == self.blocks.len() as u64 {
                return Err(at);
            }
            members += 1;
            (before, at) = (at, partial.next);
        }
        Ok(members)
    }
}

/// A pageblock with less than this share of its pages free is never sparse.
const DENSE_SHARE: u32 = 16;

/// Returns the step of occupancy of a pageblock with `free` free pages, at least one.
fn bucket(free: u16, pageblock_order: Order) -> usize {
    let step = pageblock_order.saturating_sub(BUCKETS.ilog2() as Order);
    usize::from(free - 1) >> step
}

/// Returns the free blocks in a pageblock that are smaller than it and on the lists of its type.
fn own_free_blocks(
    map: &PageMap<'_>,
    pageblock_order: Order,
    block: Block,
) -> impl Iterator<Item = (Index, Order)> {
    let start = block << pageblock_order;
    let own = map.block_type(start);
    let mut at = start;
    core::iter::from_fn(move || {
        while at < start + (1 << pageblock_order) {
            let (i, state) = (at, map.state(at));
            at += match state {
                FrameState::Free { order, .. }
                | FrameState::CpuList { order, .. }
                | FrameState::Allocated { order, .. } => 1 << order,
                FrameState::Hole | FrameState::Reserved | FrameState::Tail => 1,
            };
            match state {
                FrameState::Free { order, list } if order < pageblock_order && list == own => {
                    return Some((i, order));
                }
                _ => {}
            }
        }
        None
    })
}
