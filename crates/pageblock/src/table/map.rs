//! The page map: the state of every frame and pageblock.
//!
//! A frame costs nine bytes, two list links and a state byte; under packed placement, which links no frames,
//! [four bits](super::bits). A pageblock costs two bytes more. These tables are plain atomics with relaxed loads and stores, ordinary moves on every machine, because a
//! frame on a CPU list belongs to that CPU and a free frame to the holder of its zone.

use core::marker::PhantomData;

use crate::base::frame::{FrameRange, ORDER_LIMIT, Order, Pfn};
use crate::base::mobility::Migratetype;
use crate::base::sync::{AtomicU8, AtomicU16, Relaxed};
use crate::policy::Placement;
use crate::policy::source::{Chosen, PolicySource, may_be};
use crate::table::bits::{self, FrameBits, NOBODY, Owner};
use crate::table::block::block_byte;
use crate::table::chain::Tag;
use crate::table::links::{Link, Links, NEXT, PREV};
use crate::table::memory::{Tables, TablesLayout};
pub use crate::table::state::FrameState;
use crate::table::state::{HOLE, RESERVED, RETURNED, free_in};
use crate::table::usage::BlockUsage;

/// The index of a frame in its zone's tables.
pub(crate) type Index = u32;

/// No frame.
pub(crate) const NIL: Index = Index::MAX;

/// Size of the tables in bytes per frame if blocks are linked, without pageblocks.
pub const BYTES_PER_FRAME: usize = size_of::<Link>() + size_of::<AtomicU8>();

// A model checker's atomics are larger.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(BYTES_PER_FRAME == 9);

/// The tables of one zone. Copies share them.
#[derive(Clone, Copy)]
pub(crate) struct PageMap<'m, P: PolicySource = Chosen> {
    source: PhantomData<P>,
    base: u64,
    pub(crate) pageblock_order: Order,
    frames: Index,
    /// The CPU that this copy belongs to, if CPUs may own pageblocks.
    pub(super) owner: Owner,
    links: &'m [Link],
    /// Empty if frames have [bits](FrameBits).
    pub(super) states: &'m [AtomicU8],
    pub(super) bits: FrameBits<'m>,
    pub(super) blocks: &'m [AtomicU16],
}

impl<'m, P: PolicySource> PageMap<'m, P> {
    /// Tables of no frames.
    pub(crate) const EMPTY: Self = Self {
        source: PhantomData,
        base: 0,
        pageblock_order: 0,
        frames: 0,
        owner: NOBODY,
        links: &[],
        states: &[],
        bits: FrameBits::EMPTY,
        blocks: &[],
    };

    /// Adds the tables for `frames` frames to `layout`.
    pub(crate) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
        placement: Placement,
    ) -> Option<TablesLayout> {
        let blocks = |layout: TablesLayout| layout.and::<AtomicU16>(frames >> pageblock_order);
        match placement {
            Placement::Linux => blocks(layout.and::<Link>(frames)?.and::<AtomicU8>(frames)?),
            Placement::Packed => FrameBits::layout(blocks(layout)?, frames, pageblock_order),
        }
    }

    /// Returns tables for `frames` frames from `base` on, all holes, in movable pageblocks.
    pub(crate) fn new(
        tables: &mut Tables<'m>,
        base: Pfn,
        frames: usize,
        pageblock_order: Order,
        placement: Placement,
    ) -> Option<Self> {
        let of = |other: Placement| if other == placement { frames } else { 0 };
        // Links are read of blocks on lists only.
        let links = tables.take_pairs(of(Placement::Linux))?;
        let states = tables.take(of(Placement::Linux), |_| AtomicU8::new(HOLE))?;
        let movable = block_byte(Migratetype::Movable);
        let blocks =
            &*tables.take(frames >> pageblock_order, |_| AtomicU16::new(movable.into()))?;
        let bits = FrameBits::new(tables, of(Placement::Packed), pageblock_order, blocks)?;
        let (base, frames) = (base.0, frames as Index);
        let (source, owner) = (PhantomData, NOBODY);
        Some(Self { source, base, pageblock_order, frames, owner, links, states, bits, blocks })
    }

    /// Returns the copy of a CPU, which may own pageblocks. `tag` is the CPU's.
    pub(crate) fn of_cpu(self, tag: Tag) -> Self {
        let owner = if self.has_bits() { bits::owner(tag) } else { NOBODY };
        Self { owner, ..self }
    }

    /// Tells whether the frames have bits, so that every free page counts for the type of its pageblock: packed placement.
    #[inline(always)]
    pub(crate) fn has_bits(&self) -> bool {
        match P::PLACEMENT {
            Some(placement) => matches!(placement, Placement::Packed),
            None => self.states.is_empty(),
        }
    }

    /// Returns the state byte of a frame, if frames have bytes.
    #[inline(always)]
    pub(super) fn byte(&self, i: usize) -> Option<&'m AtomicU8> {
        match P::PLACEMENT {
            Some(Placement::Packed) => None,
            Some(Placement::Linux) => Some(&self.states[i]),
            None => self.states.get(i),
        }
    }

    /// Returns whether frames have bits, and blocks of an order have [whole cells](FrameBits::has_cells).
    #[inline(always)]
    pub(crate) fn has_cells(&self, order: Order) -> bool {
        may_be::<P>(Placement::Packed) && self.bits.has_cells(order)
    }

    /// Returns whether frames have bits, and blocks of an order have two pages or more, but less than a cell.
    #[inline(always)]
    pub(crate) fn has_pairs(&self, order: Order) -> bool {
        self.has_bits() && (1..bits::LEAST_ORDER).contains(&order)
    }

    /// Returns the bits of the frames.
    #[inline(always)]
    pub(crate) fn bits(&self) -> &FrameBits<'m> {
        &self.bits
    }

    /// Notes that a block was taken off its list, and that its frames are about to get other states.
    pub(crate) fn set_taken(&self, i: Index, order: Order) {
        if !self.has_bits() {
            self.set_byte(i, FrameState::Tail);
        } else if order < self.pageblock_order {
            self.bits.set(i, FrameState::CpuList { order, cached: Migratetype::Movable });
        } else {
            self.bits.unmix(i);
        }
    }

    /// Marks the upper half of a merged block as part of it. `order` is the half's.
    pub(crate) fn set_upper_half(&self, i: Index, order: Order) {
        if !self.has_bits() {
            self.set_byte(i, FrameState::Tail);
        } else if order >= self.pageblock_order {
            self.bits.unmix(i);
        } else if order >= bits::LEAST_ORDER {
            self.bits.join(i, order);
        } else {
            self.bits.set(i, FrameState::Tail);
        }
    }

    /// Sets the state of a block of whole pageblocks, as [`set`](Self::set) does.
    #[inline(always)]
    pub(crate) fn set_whole(&self, i: Index, state: FrameState) {
        match self.byte(i as usize) {
            Some(byte) => byte.store(state.encode(), Relaxed),
            None => self.bits.set_whole(i, state),
        }
    }

    /// Sets the state of a block, and makes the rest of its frames its tail.
    pub(crate) fn set_block(&self, i: Index, order: Order, state: FrameState) {
        self.set(i, state);
        // The frames that `set` covers.
        let first = match self.has_bits() {
            true if order >= self.pageblock_order => 1 << self.pageblock_order,
            true => 1 << order.min(bits::LEAST_ORDER),
            false => 1,
        };
        let (start, end) = (self.pfn(i).plus(first), self.pfn(i).plus(1 << order));
        self.fill(FrameRange { start, end }, FrameState::Tail);
    }

    /// Returns the state bytes of a range of frames, if the tables have all of them.
    fn states_in(&self, range: FrameRange) -> Option<&'m [AtomicU8]> {
        let start = self.offset(range.start);
        let len = usize::try_from(range.len()).ok()?;
        self.states.get(start..start.checked_add(len)?)
    }

    /// Counts the frames of the pageblock that starts at `i` by use.
    pub(crate) fn usage(&self, i: Index) -> BlockUsage {
        self.usage_with_fixed(i, &mut |_, _| {})
    }

    /// [`usage`](Self::usage) that also calls `fixed` with the index and the order of each unmovable block.
    pub(crate) fn usage_with_fixed(
        &self,
        i: Index,
        fixed: &mut impl FnMut(Index, Order),
    ) -> BlockUsage {
        if self.has_bits() {
            return self.bits.usage(i, fixed);
        }
        let (start, pages) = (i as usize, 1 << self.pageblock_order);
        let states = self.states.get(start..start + pages).unwrap_or_default();
        BlockUsage::with_fixed(states, &mut |at, order| fixed(i + at as Index, order))
    }

    /// Returns whether every frame of a range is reserved.
    pub(crate) fn all_reserved(&self, range: FrameRange) -> bool {
        if self.has_bits() {
            let frames = self.indices_in(range);
            return range.is_empty()
                || frames.is_some_and(|(start, end)| self.bits.all_reserved(start, end));
        }
        let is = |byte: &AtomicU8| byte.load(Relaxed) | (RESERVED ^ RETURNED) == RESERVED;
        range.is_empty() || self.states_in(range).is_some_and(|states| states.iter().all(is))
    }

    /// Reserves the frames from `start` to `end`, which are memory.
    pub(crate) fn set_returned(&self, start: Index, end: Index) {
        if self.has_bits() {
            return self.bits.set_returned(start, end);
        }
        for byte in &self.states[start as usize..end as usize] {
            byte.store(RETURNED, Relaxed);
        }
    }

    /// Returns whether [`set_returned`](Self::set_returned) reserved a frame.
    pub(crate) fn is_returned(&self, i: Index) -> bool {
        match self.byte(i as usize) {
            Some(byte) => byte.load(Relaxed) == RETURNED,
            None => self.bits.is_returned(i, self.block_type(i)),
        }
    }

    /// Sets the state of every frame of a range. The tables must have all of them.
    pub(crate) fn fill(&self, range: FrameRange, state: FrameState) {
        if let Some((start, end)) = self.indices_in(range).filter(|_| self.has_bits()) {
            self.bits.fill(start, end, state);
        }
        for byte in self.states_in(range).unwrap_or_default() {
            byte.store(state.encode(), Relaxed);
        }
    }

    /// Returns the indices of a range of frames, if the tables have all of them.
    fn indices_in(&self, range: FrameRange) -> Option<(Index, Index)> {
        let start = self.offset(range.start);
        let end = start.checked_add(usize::try_from(range.len()).ok()?)?;
        (end <= self.frames as usize).then_some((start as Index, end as Index))
    }

    pub(crate) fn frames(&self) -> Index {
        self.frames
    }

    #[inline]
    pub(crate) fn index(&self, pfn: Pfn) -> Option<Index> {
        let offset = self.offset(pfn);
        (offset < self.frames as usize).then_some(offset as Index)
    }

    /// Returns the distance from the first frame. For frames below it this wraps to a value beyond every table.
    #[inline]
    pub(crate) fn offset(&self, pfn: Pfn) -> usize {
        usize::try_from(pfn.0.wrapping_sub(self.base)).unwrap_or(usize::MAX)
    }

    pub(crate) fn pfn(&self, i: Index) -> Pfn {
        Pfn(self.base + u64::from(i))
    }

    /// Sets the state of a frame that has a byte.
    #[inline(always)]
    pub(crate) fn set_byte(&self, i: Index, state: FrameState) {
        self.states[i as usize].store(state.encode(), Relaxed);
    }

    /// [`free_list`](Self::free_list) for a frame that has a byte.
    #[inline(always)]
    pub(crate) fn byte_free_list(&self, i: Index, order: Order) -> Option<Migratetype> {
        free_in(self.states.get(i as usize)?.load(Relaxed), order)
    }

    pub(crate) fn state(&self, i: Index) -> FrameState {
        match self.byte(i as usize) {
            Some(byte) => FrameState::decode(byte.load(Relaxed)),
            None => self.bits.state(i, self.block_type(i)),
        }
    }

    #[inline]
    pub(crate) fn is_hole(&self, i: Index) -> bool {
        match self.byte(i as usize) {
            Some(byte) => byte.load(Relaxed) == HOLE,
            None => self.bits.is_hole(i),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, i: Index, state: FrameState) {
        match self.byte(i as usize) {
            Some(byte) => byte.store(state.encode(), Relaxed),
            None => self.bits.set(i, state),
        }
    }

    /// Returns the list type of the free block of exactly this order that starts at `i`.
    #[inline]
    pub(crate) fn free_list(&self, i: Index, order: Order) -> Option<Migratetype> {
        match self.byte(i as usize) {
            Some(byte) => free_in(byte.load(Relaxed), order),
            None => self.bits.free_list(i, order, || self.block_type(i)),
        }
    }

    /// [`free_list`](Self::free_list) for a block of whole pageblocks that starts at `i`.
    #[inline(always)]
    pub(crate) fn whole_free_list(&self, i: Index, order: Order) -> Option<Migratetype> {
        match self.byte(i as usize) {
            Some(byte) => free_in(byte.load(Relaxed), order),
            None => self.bits.whole_free_list(i, order),
        }
    }

    /// Returns the first frame, order and list type of the free block that contains a frame.
    pub(crate) fn free_block_of(&self, i: Index) -> Option<(Index, Order, Migratetype)> {
        (0..=crate::base::frame::ORDER_LIMIT).find_map(|at_least| {
            let start = i & !((1 << at_least) - 1);
            match self.state(start) {
                FrameState::Free { order, list } if order >= at_least => Some((start, order, list)),
                _ => None,
            }
        })
    }
}

impl<P: PolicySource> Links for PageMap<'_, P> {
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
        self.frames
    }
}

impl<P: PolicySource> PageMap<'_, P> {
    /// Returns the first frame and the state of the block, free or not, that contains a frame. A frame in no block
    /// is returned itself.
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
