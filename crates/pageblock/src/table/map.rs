//! The page map: the state of every frame and pageblock.
//!
//! A frame costs nine bytes, two list links and a state byte, or under packed placement, which links no frames, the
//! state byte; a pageblock costs one more. The tables
//! are plain atomics with relaxed loads and stores, ordinary moves on every machine, because a frame
//! on a CPU list belongs to that CPU and a free frame to whoever holds its zone.

use crate::base::frame::{FrameRange, ORDER_LIMIT, Order, Pfn};
use crate::base::mobility::Migratetype;
use crate::base::sync::{AtomicU8, Relaxed};
use crate::table::links::{Link, Links, NEXT, PREV};
use crate::table::memory::{Tables, TablesLayout};
use crate::table::usage::BlockUsage;

/// The index of a frame in its zone's tables.
pub(crate) type Index = u32;

/// No frame.
pub(crate) const NIL: Index = Index::MAX;

/// Bytes that the tables take for each frame whose blocks are linked, pageblocks excluded.
pub const BYTES_PER_FRAME: usize = size_of::<Link>() + size_of::<AtomicU8>();

// A model checker's atomics are larger.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(BYTES_PER_FRAME == 9);

/// What a frame is, as the first frame of a block or as part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Not in the zone, or no memory.
    Hole,
    /// Memory that was never handed to the allocator.
    Reserved,
    /// Not the first frame of its block.
    Tail,
    /// The first frame of a free block on a buddy list.
    Free {
        /// The block's order.
        order: Order,
        /// The type of the list.
        list: Migratetype,
    },
    /// The first frame of a block on a CPU list.
    CpuList {
        /// The block's order.
        order: Order,
        /// The type that the block had when it came to the list.
        cached: Migratetype,
    },
    /// The first frame of a block in use.
    Allocated {
        /// The block's order.
        order: Order,
        /// Whether the content can be moved.
        movable: bool,
    },
}

// The state byte: 0mmm oooo on a CPU list, 0111 oooo allocated, 1mmm oooo free,
// 1111 oooo allocated with movable content, for types m < 7 and orders o < 15; and with o = 15:
const TAIL: u8 = 0xff;
const HOLE: u8 = 0xef;
const RESERVED: u8 = 0xdf;
/// Reserved too, and known to be memory: the allocator had it, or it was declared.
const RETURNED: u8 = 0xcf;
const ALLOCATED: u8 = 0x70;
const FREE: u8 = 0x80;

impl FrameState {
    #[inline(always)]
    pub(crate) const fn encode(self) -> u8 {
        match self {
            Self::Hole => HOLE,
            Self::Reserved => RESERVED,
            Self::Tail => TAIL,
            Self::Free { order, list } => FREE | (list as u8) << 4 | order,
            Self::CpuList { order, cached } => (cached as u8) << 4 | order,
            Self::Allocated { order, movable } => ALLOCATED | (movable as u8) << 7 | order,
        }
    }

    pub(crate) const fn decode(byte: u8) -> Self {
        let order = byte & 0xf;
        match byte {
            TAIL => Self::Tail,
            HOLE => Self::Hole,
            RESERVED | RETURNED => Self::Reserved,
            _ => match (byte >= FREE, Migratetype::from_index((byte >> 4 & 7) as usize)) {
                (true, Some(list)) => Self::Free { order, list },
                (false, Some(cached)) => Self::CpuList { order, cached },
                (movable, None) => Self::Allocated { order, movable },
            },
        }
    }
}

// The byte of a pageblock: sparse, skip hint, type below an isolation, type that counts: ps bbb ttt.
const TYPE_BITS: u8 = 0b111;
const BELOW: u8 = 3;
const BELOW_BITS: u8 = TYPE_BITS << BELOW;
const SKIP: u8 = 0b100_0000;
const SPARSE: u8 = 0b1000_0000;

/// Returns the byte of a pageblock of a type that is not isolated.
const fn block_byte(mt: Migratetype) -> u8 {
    (mt as u8) << BELOW | mt as u8
}

/// Tells whether a state byte is that of an allocated block of exactly this order.
#[inline]
fn is_allocated(byte: u8, order: Order) -> bool {
    order <= ORDER_LIMIT && byte & 0x7f == ALLOCATED | order
}

/// The state of one frame.
#[derive(Clone, Copy)]
pub(crate) struct StateByte<'m>(&'m AtomicU8);

impl StateByte<'_> {
    /// Tells whether the block is on a CPU list.
    #[inline(always)]
    pub(crate) fn is_on_cpu_list(self) -> bool {
        self.0.load(Relaxed) < ALLOCATED
    }

    /// Tells whether another frame has the same state.
    #[inline(always)]
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.0.load(Relaxed) == other.0.load(Relaxed)
    }

    /// Marks the block as allocated.
    #[inline(always)]
    pub(crate) fn set_allocated(self, order: Order, movable: bool) {
        self.0.store(ALLOCATED | (movable as u8) << 7 | order, Relaxed);
    }

    /// Puts the block on a CPU list; its pageblock is `cached`.
    #[inline(always)]
    pub(crate) fn set_on_cpu_list(self, order: Order, cached: Migratetype) {
        self.0.store(FrameState::CpuList { order, cached }.encode(), Relaxed);
    }
}

/// The tables of one zone. Copies share them.
#[derive(Clone, Copy)]
pub(crate) struct PageMap<'m> {
    base: u64,
    pageblock_order: Order,
    links: &'m [Link],
    states: &'m [AtomicU8],
    blocks: &'m [AtomicU8],
}

impl<'m> PageMap<'m> {
    /// Tables of no frames.
    pub(crate) const EMPTY: Self =
        Self { base: 0, pageblock_order: 0, links: &[], states: &[], blocks: &[] };

    /// Adds what `frames` frames need to `layout`, with links if they are to be `linked`.
    pub(crate) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
        linked: bool,
    ) -> Option<TablesLayout> {
        layout
            .and::<Link>(if linked { frames } else { 0 })?
            .and::<AtomicU8>(frames)?
            .and::<AtomicU8>(frames >> pageblock_order)
    }

    /// Tables for `frames` frames from `base` on, all holes, in movable blocks.
    pub(crate) fn new(
        tables: &mut Tables<'m>,
        base: Pfn,
        frames: usize,
        pageblock_order: Order,
        linked: bool,
    ) -> Option<Self> {
        // Links are read of blocks on lists only.
        let links = tables.take_pairs(if linked { frames } else { 0 })?;
        let states = tables.take(frames, |_| AtomicU8::new(HOLE))?;
        let blocks = tables
            .take(frames >> pageblock_order, |_| AtomicU8::new(block_byte(Migratetype::Movable)))?;
        Some(Self { base: base.0, pageblock_order, links, states, blocks })
    }

    /// Returns the states of a range of frames that the tables have.
    fn states_in(&self, range: FrameRange) -> Option<&'m [AtomicU8]> {
        let start = self.offset(range.start);
        let len = usize::try_from(range.len()).ok()?;
        self.states.get(start..start.checked_add(len)?)
    }

    /// Returns how the frames of the pageblock from `i` on are used.
    pub(crate) fn usage(&self, i: Index) -> BlockUsage {
        let (start, pages) = (i as usize, 1 << self.pageblock_order);
        BlockUsage::of(self.states.get(start..start + pages).unwrap_or_default())
    }

    /// Does the same, and calls back with the index and the order of each block of unmovable pages.
    pub(crate) fn usage_with_fixed(
        &self,
        i: Index,
        fixed: &mut impl FnMut(Index, Order),
    ) -> BlockUsage {
        let (start, pages) = (i as usize, 1 << self.pageblock_order);
        let states = self.states.get(start..start + pages).unwrap_or_default();
        BlockUsage::with_fixed(states, &mut |at, order| fixed(i + at as Index, order))
    }

    /// Tells whether every frame of a range is reserved.
    pub(crate) fn all_reserved(&self, range: FrameRange) -> bool {
        let is = |byte: &AtomicU8| byte.load(Relaxed) | (RESERVED ^ RETURNED) == RESERVED;
        range.is_empty() || self.states_in(range).is_some_and(|states| states.iter().all(is))
    }

    /// Makes a frame reserved that is memory.
    pub(crate) fn set_returned(&self, i: Index) {
        self.states[i as usize].store(RETURNED, Relaxed);
    }

    /// Tells whether a frame is reserved since [`set_returned`](Self::set_returned).
    pub(crate) fn is_returned(&self, i: Index) -> bool {
        self.states[i as usize].load(Relaxed) == RETURNED
    }

    /// Sets the state of every frame of a range, all in the tables.
    pub(crate) fn fill(&self, range: FrameRange, state: FrameState) {
        for byte in self.states_in(range).unwrap_or_default() {
            byte.store(state.encode(), Relaxed);
        }
    }

    pub(crate) fn frames(&self) -> Index {
        self.states.len() as Index
    }

    #[inline]
    pub(crate) fn index(&self, pfn: Pfn) -> Option<Index> {
        let offset = self.offset(pfn);
        (offset < self.states.len()).then_some(offset as Index)
    }

    /// Returns the distance from the first frame; wraps below it, which is past every table.
    #[inline]
    fn offset(&self, pfn: Pfn) -> usize {
        usize::try_from(pfn.0.wrapping_sub(self.base)).unwrap_or(usize::MAX)
    }

    pub(crate) fn pfn(&self, i: Index) -> Pfn {
        Pfn(self.base + u64::from(i))
    }

    pub(crate) fn state(&self, i: Index) -> FrameState {
        FrameState::decode(self.states[i as usize].load(Relaxed))
    }

    #[inline]
    pub(crate) fn is_hole(&self, i: Index) -> bool {
        self.states[i as usize].load(Relaxed) == HOLE
    }

    #[inline(always)]
    pub(crate) fn set(&self, i: Index, state: FrameState) {
        self.states[i as usize].store(state.encode(), Relaxed);
    }

    #[inline]
    pub(crate) fn is_allocated(&self, i: Index, order: Order) -> bool {
        is_allocated(self.states[i as usize].load(Relaxed), order)
    }

    /// Tells whether a block of exactly this order, on a CPU list, starts at `i`.
    #[inline(always)]
    pub(crate) fn is_on_cpu_list(&self, i: Index, order: Order) -> bool {
        let byte = self.states[i as usize].load(Relaxed);
        byte < ALLOCATED && byte & 0xf == order
    }

    /// Returns the offset and state byte of a frame, where an allocated block of exactly this order, at most
    /// [`ORDER_LIMIT`], starts at it. The offset is an [`Index`].
    #[inline(always)]
    pub(crate) fn allocated(&self, pfn: Pfn, order: Order) -> Option<(usize, StateByte<'m>)> {
        let offset = self.offset(pfn);
        let byte = self.states.get(offset)?;
        is_allocated(byte.load(Relaxed), order).then_some((offset, StateByte(byte)))
    }

    #[inline(always)]
    pub(crate) fn state_byte(&self, i: Index) -> StateByte<'m> {
        StateByte(&self.states[i as usize])
    }

    /// Returns the index of a frame, where an allocated block of exactly this order starts at it. `None`
    /// for a hole.
    #[inline]
    pub(crate) fn allocated_at(&self, pfn: Pfn, order: Order) -> Option<Index> {
        let offset = self.offset(pfn);
        let byte = self.states.get(offset)?.load(Relaxed);
        is_allocated(byte, order).then_some(offset as Index)
    }

    /// Returns the list type of the free block of exactly this order that starts at `i`.
    #[inline]
    pub(crate) fn free_list(&self, i: Index, order: Order) -> Option<Migratetype> {
        let byte = self.states.get(i as usize)?.load(Relaxed);
        if byte & (FREE | 0xf) != FREE | order {
            return None;
        }
        Migratetype::from_index((byte >> 4 & 7) as usize)
    }

    /// Returns the free block that holds a frame: its first frame, order and list type.
    pub(crate) fn free_block_of(&self, i: Index) -> Option<(Index, Order, Migratetype)> {
        (0..=crate::base::frame::ORDER_LIMIT).find_map(|at_least| {
            let start = i & !((1 << at_least) - 1);
            match self.state(start) {
                FrameState::Free { order, list } if order >= at_least => Some((start, order, list)),
                _ => None,
            }
        })
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    fn block(&self, i: Index) -> &AtomicU8 {
        &self.blocks[(i >> self.pageblock_order) as usize]
    }

    /// Returns the type of the pageblock that holds the frame (`get_pageblock_migratetype`).
    #[inline]
    pub(crate) fn block_type(&self, i: Index) -> Migratetype {
        Self::type_in(self.block(i).load(Relaxed))
    }

    /// Tells whether the pageblock of the frame at an offset has a type and is not being emptied
    /// (`zone/packing.rs`).
    #[inline(always)]
    pub(crate) fn is_in_block_of(&self, offset: usize, mt: Migratetype) -> bool {
        // Below 64, so that the shift needs no masking.
        let block = self.blocks.get(offset >> (self.pageblock_order & 63));
        block.is_some_and(|byte| byte.load(Relaxed) & (SPARSE | TYPE_BITS) == mt as u8)
    }

    /// Returns the type in the three lowest bits.
    #[inline]
    fn type_in(byte: u8) -> Migratetype {
        Migratetype::from_index((byte & TYPE_BITS) as usize).unwrap_or(Migratetype::Movable)
    }

    /// Sets the type of the pageblock, which ends its isolation.
    pub(crate) fn set_block_type(&self, i: Index, mt: Migratetype) {
        let byte = self.block(i);
        byte.store(byte.load(Relaxed) & SKIP | block_byte(mt), Relaxed);
    }

    /// Sets or clears the isolation; the type below it stays.
    pub(crate) fn set_isolated(&self, i: Index, isolated: bool) -> Migratetype {
        let byte = self.block(i);
        let old = byte.load(Relaxed);
        let below = Self::type_in(old >> BELOW);
        let counts = if isolated { Migratetype::Isolate } else { below };
        byte.store(old & (SKIP | BELOW_BITS) | counts as u8, Relaxed);
        below
    }

    /// Returns the type of the CPU list that a freed block goes to; `None` where it goes to the zone because
    /// its pageblock is isolated or being emptied (`zone/packing.rs`).
    #[inline]
    pub(crate) fn cpu_list_type(&self, i: Index, order: Order) -> Option<Migratetype> {
        let byte = self.block(i).load(Relaxed);
        let emptying = byte & SPARSE != 0 && order < self.pageblock_order;
        let mt = Self::type_in(byte);
        (mt != Migratetype::Isolate && !emptying).then_some(mt)
    }

    /// Returns the type of the pageblock of a frame, if it is being emptied.
    #[inline(always)]
    pub(crate) fn emptying_type(&self, i: Index) -> Option<Migratetype> {
        let byte = self.block(i).load(Relaxed);
        let mt = Self::type_in(byte);
        (byte & SPARSE != 0 && mt != Migratetype::Isolate).then_some(mt)
    }

    /// Tells whether the `block`-th pageblock is being emptied.
    pub(crate) fn is_sparse(&self, block: u32) -> bool {
        self.blocks[block as usize].load(Relaxed) & SPARSE != 0
    }

    /// Sets whether the `block`-th pageblock is being emptied.
    #[inline]
    pub(crate) fn set_sparse(&self, block: u32, sparse: bool) {
        let byte = &self.blocks[block as usize];
        let old = byte.load(Relaxed);
        let new = if sparse { old | SPARSE } else { old & !SPARSE };
        if new != old {
            byte.store(new, Relaxed);
        }
    }

    /// Returns the skip hint of compaction.
    pub(crate) fn skip(&self, i: Index) -> bool {
        self.block(i).load(Relaxed) & SKIP != 0
    }

    pub(crate) fn set_skip(&self, i: Index, skip: bool) {
        let byte = self.block(i);
        let old = byte.load(Relaxed);
        byte.store(if skip { old | SKIP } else { old & !SKIP }, Relaxed);
    }
}

impl Links for PageMap<'_> {
    #[inline]
    fn next(&self, i: Index) -> Index {
        self.links[i as usize][NEXT].load(Relaxed)
    }

    #[inline]
    fn prev(&self, i: Index) -> Index {
        self.links[i as usize][PREV].load(Relaxed)
    }

    #[inline]
    fn set_next(&self, i: Index, next: Index) {
        self.links[i as usize][NEXT].store(next, Relaxed);
    }

    #[inline]
    fn set_prev(&self, i: Index, prev: Index) {
        self.links[i as usize][PREV].store(prev, Relaxed);
    }

    fn frames(&self) -> Index {
        self.states.len() as Index
    }
}

impl FrameState {
    /// Returns the order of a block's first frame.
    #[must_use]
    pub const fn order(self) -> Option<Order> {
        match self {
            Self::Free { order, .. }
            | Self::CpuList { order, .. }
            | Self::Allocated { order, .. } => Some(order),
            Self::Hole | Self::Reserved | Self::Tail => None,
        }
    }
}

impl PageMap<'_> {
    /// Returns the block that holds a frame, free or not: its first frame and state. A frame in no
    /// block is returned itself.
    pub(crate) fn block_at(&self, i: Index) -> (Index, FrameState) {
        let holds = |at_least: Order| {
            let start = i & !((1 << at_least) - 1);
            let state = self.state(start);
            let order = state.order()?;
            (order >= at_least).then_some((start, state))
        };
        (0..=ORDER_LIMIT).find_map(holds).unwrap_or((i, self.state(i)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_survives_its_byte() {
        let orders = 0..=crate::base::frame::ORDER_LIMIT;
        let mut states = [FrameState::Hole, FrameState::Reserved, FrameState::Tail].to_vec();
        for order in orders {
            for mt in Migratetype::ALL {
                states.push(FrameState::Free { order, list: mt });
                states.push(FrameState::CpuList { order, cached: mt });
            }
            states.push(FrameState::Allocated { order, movable: false });
            states.push(FrameState::Allocated { order, movable: true });
        }
        let mut seen = [false; 256];
        for state in states {
            assert_eq!(FrameState::decode(state.encode()), state);
            assert!(!core::mem::replace(&mut seen[state.encode() as usize], true), "{state:?}");
        }
    }
}
