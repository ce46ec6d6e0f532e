//! The states of frames in four bits each, where every free page counts for the type of its pageblock.
//!
//! A pageblock has a byte. It tells the state of its first frame, and that of all others, where the pageblock is
//! part of one block or has only reserved frames, or only holes; else that its frames have states of their own.
//! Those are three bits a frame, in words that cover as many frames as a word has bits:
//!
//! | | in use | kind | held |
//! |---|---|---|---|
//! | allocated | 1 | movable | 1 |
//! | on a CPU list | 0 | movable when it was allocated last | 1 |
//! | first frame of a free block | 0 | 1 | 0 |
//! | not the first frame of its block | 0 | 0 | 0 |
//! | reserved | 1 | 1 | 0 |
//! | hole | 1 | 0 | 0 |
//!
//! The order of a block follows from the frames behind it that are not first ones.
//!
//! Whether a block is in use changes without a lock, by the CPU that allocates or frees it, while other CPUs do the same
//! with other frames of the word. So it is stored as the difference of two bits, in different words: the CPU that
//! owns a pageblock changes the one by plain loads and stores, as it alone writes there; all others change the
//! other by an atomic operation. `kind` and `held` change under the zone's lock only, both in one word: who frees a block
//! reads without the lock whether the frame behind it starts another, so that this must never seem to be part of a block
//! while it changes hands. A pageblock has no owner (0) when its
//! frames get states of their own, and the first CPU that refills a list from it becomes its owner.
//!
//! Words have no meaning before the byte of their pageblock says so: memory of any content will do.

mod cpu;
mod run;
mod search;

use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::sync::{Acquire, AtomicU8, AtomicU16, AtomicUsize, Relaxed, Release};
use crate::table::map::Index;
use crate::table::memory::{Tables, TablesLayout};
use crate::table::state::{FrameState, free_in};

/// Frames that a group of words covers.
pub(super) const GROUP: usize = usize::BITS as usize;
const GROUP_ORDER: Order = usize::BITS.ilog2() as Order;

/// Frames whose kind is in the lower half of a word, and held in the upper one.
const HALF: usize = GROUP / 2;
const LOW: usize = usize::MAX >> HALF;

/// The words of some frames: use as changed by the owner, and by others; kind and held of the first half, and of the second.
pub(crate) type Group = [AtomicUsize; 4];
const OWN: usize = 0;
const OTHERS: usize = 1;
const HALVES: usize = 2;

/// A CPU that may own pageblocks, from 1 on.
pub(crate) type Owner = u16;

/// A CPU that owns none.
pub(crate) const NOBODY: Owner = 0x3fff;
const OWNERS: u16 = 0x3fff;

/// Beside the owner of a pageblock: its frames have states of their own, and its byte means nothing.
const MIXED: u16 = 0x4000;

/// Beside the owner of a pageblock: its reserved frames are known to be memory.
const KNOWN: u16 = 0x8000;

/// The words of a group, read once.
#[derive(Clone, Copy)]
struct Words {
    in_use: usize,
    kind: usize,
    held: usize,
}

impl Words {
    /// Returns the frames that are not the first of their block.
    #[inline(always)]
    fn tails(self) -> usize {
        !(self.in_use | self.kind | self.held)
    }

    /// Returns the first frames of free blocks.
    #[inline(always)]
    fn free(self) -> usize {
        self.kind & !(self.in_use | self.held)
    }
}

/// See the [module](self).
#[derive(Clone, Copy)]
pub(crate) struct FrameBits<'m> {
    pageblock_order: Order,
    groups: &'m [Group],
    kinds: &'m [AtomicU8],
    owners: &'m [AtomicU16],
}

impl<'m> FrameBits<'m> {
    pub(super) const EMPTY: Self =
        Self { pageblock_order: 0, groups: &[], kinds: &[], owners: &[] };

    pub(super) fn layout(
        layout: TablesLayout,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<TablesLayout> {
        let blocks = frames >> pageblock_order;
        layout
            .and::<Group>(frames.div_ceil(GROUP))?
            .and::<AtomicU8>(blocks)?
            .and::<AtomicU16>(blocks)
    }

    /// Returns those of frames that are all holes.
    pub(super) fn new(
        tables: &mut Tables<'m>,
        frames: usize,
        pageblock_order: Order,
    ) -> Option<Self> {
        let blocks = frames >> pageblock_order;
        let groups: &[Group] = tables.take_groups(frames.div_ceil(GROUP))?;
        if pageblock_order < GROUP_ORDER {
            // Pageblocks share words.
            groups.iter().flatten().for_each(|word| word.store(0, Relaxed));
        }
        Some(Self {
            pageblock_order,
            groups,
            kinds: tables.take(blocks, |_| AtomicU8::new(FrameState::Hole.encode()))?,
            owners: tables.take(blocks, |_| AtomicU16::new(0))?,
        })
    }

    #[inline(always)]
    fn kind_of(&self, i: Index) -> &'m AtomicU8 {
        &self.kinds[(i >> (self.pageblock_order & 31)) as usize]
    }

    #[inline(always)]
    fn owner_of(&self, i: Index) -> &'m AtomicU16 {
        &self.owners[(i >> (self.pageblock_order & 31)) as usize]
    }

    #[inline(always)]
    pub(super) fn is_mixed(&self, i: Index) -> bool {
        self.owner_of(i).load(Acquire) & MIXED != 0
    }

    #[inline(always)]
    fn words(&self, group: usize) -> Words {
        let [own, others, low, high] = &self.groups[group];
        let in_use = own.load(Relaxed) ^ others.load(Relaxed);
        let (low, high) = (low.load(Relaxed), high.load(Relaxed));
        Words { in_use, kind: low & LOW | high << HALF, held: low >> HALF | high & !LOW }
    }

    /// Changes kind and held in a group that was read as `now`. Under the zone's lock.
    #[inline(always)]
    fn put(&self, group: usize, now: Words, kind: usize, held: usize) {
        let [_, _, low, high] = &self.groups[group];
        let differs = now.kind ^ kind | now.held ^ held;
        if differs & LOW != 0 {
            low.store(kind & LOW | held << HALF, Relaxed);
        }
        if differs & !LOW != 0 {
            high.store(kind >> HALF | held & !LOW, Relaxed);
        }
    }

    /// Returns words whose lowest bits are those of a frame, and if it is even, of the next one.
    #[inline(always)]
    fn words_from(group: &Group, i: Index) -> Words {
        let place = i as usize % GROUP;
        let in_use = (group[OWN].load(Relaxed) ^ group[OTHERS].load(Relaxed)) >> place;
        let kind = group[HALVES + place / HALF].load(Relaxed) >> (place % HALF);
        Words { in_use, kind, held: kind >> HALF }
    }

    #[inline(always)]
    fn words_at(&self, i: Index) -> Words {
        Self::words_from(&self.groups[i as usize / GROUP], i)
    }

    #[inline(always)]
    fn words_of(&self, i: Index) -> Words {
        self.words(i as usize / GROUP)
    }

    #[inline(always)]
    fn bit(i: Index) -> usize {
        1 << (i as usize % GROUP)
    }

    /// Tells whether a frame of a mixed pageblock is not the first of its block.
    #[inline]
    fn is_tail(&self, i: Index) -> bool {
        self.words_at(i).tails() & 1 != 0
    }

    /// Tells whether a block that starts at `i`, in a mixed pageblock, has this order, which is less than the
    /// pageblock's. Of a block that starts at an aligned frame, the middle one is part of it; the frame after it
    /// starts another, or is part of one that starts there or before.
    #[inline(always)]
    fn has_order(&self, i: Index, order: Order) -> bool {
        if order == 0 {
            // The frame after an odd one is no part of the block.
            return i & 1 != 0 || self.words_at(i).tails() & 2 == 0;
        }
        let size = 1 << order;
        i & (size - 1) == 0
            && self.is_tail(i + size / 2)
            && (i & size != 0 || !self.is_tail(i + size))
    }

    /// Returns the order of the block that starts at `i`, in a mixed pageblock.
    #[inline(always)]
    fn order_at(&self, i: Index) -> Order {
        let mut order = 0;
        while order + 1 < self.pageblock_order
            && i & (1 << order) == 0
            && i.trailing_zeros() > u32::from(order)
            && self.is_tail(i + (1 << order))
        {
            order += 1;
        }
        order
    }

    /// Returns the state of a frame; `block_type` is that of its pageblock.
    #[inline(never)]
    pub(super) fn state(&self, i: Index, block_type: Migratetype) -> FrameState {
        if !self.is_mixed(i) {
            let byte = self.kind_of(i).load(Relaxed);
            let first = i & ((1 << self.pageblock_order) - 1) == 0;
            return match FrameState::decode(byte) {
                state @ (FrameState::Reserved | FrameState::Hole) => state,
                state if first => state,
                _ => FrameState::Tail,
            };
        }
        let (words, bit) = (self.words_of(i), Self::bit(i));
        let is = |word: usize| word & bit != 0;
        match (is(words.in_use), is(words.kind), is(words.held)) {
            (true, movable, true) => FrameState::Allocated { order: self.order_at(i), movable },
            (false, _, true) => FrameState::CpuList { order: self.order_at(i), cached: block_type },
            (false, true, false) => FrameState::Free { order: self.order_at(i), list: block_type },
            (false, false, false) => FrameState::Tail,
            (true, true, false) => FrameState::Reserved,
            (true, false, false) => FrameState::Hole,
        }
    }

    /// Returns the groups of a pageblock with those of their bits that are its own.
    fn groups_of(&self, block: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let pages = 1usize << self.pageblock_order;
        let (start, n) = (block * pages, pages.div_ceil(GROUP));
        let mask = if pages < GROUP { ((1 << pages) - 1) << (start % GROUP) } else { usize::MAX };
        (start / GROUP..start / GROUP + n).map(move |group| (group, mask))
    }

    /// Gives the frames of a pageblock states of their own, which are those that they have.
    #[inline(never)]
    fn mix(&self, i: Index) {
        let block = (i >> self.pageblock_order) as usize;
        let (in_use, kind) = match FrameState::decode(self.kinds[block].load(Relaxed)) {
            FrameState::Reserved => (usize::MAX, usize::MAX),
            FrameState::Hole => (usize::MAX, 0),
            _ => (0, 0),
        };
        for (group, mask) in self.groups_of(block) {
            let words = &self.groups[group];
            let now = self.words(group);
            self.put(group, now, now.kind & !mask | kind & mask, now.held & !mask);
            if mask == usize::MAX {
                words[OWN].store(0, Relaxed);
                words[OTHERS].store(in_use, Relaxed);
            } else {
                // Nobody owns a pageblock of less than a word.
                let differs = (words[OTHERS].load(Relaxed) ^ in_use) & mask;
                words[OTHERS].fetch_xor(differs, Relaxed);
            }
        }
        self.owners[block].store(MIXED, Release);
    }

    /// Sets the state of a frame. Without the zone's lock only for a block on a CPU list that is freed or allocated
    /// by that CPU, and as [`is_as_movable`](Self::is_as_movable) says.
    #[inline(never)]
    pub(super) fn set(&self, i: Index, state: FrameState, by: Owner) {
        let kind = self.kind_of(i);
        if state.order().is_some_and(|order| order >= self.pageblock_order) {
            kind.store(state.encode(), Relaxed);
            self.owner_of(i).store(0, Release);
            return;
        }
        if !self.is_mixed(i) {
            let now = FrameState::decode(kind.load(Relaxed));
            if now == state {
                return;
            }
            if state == FrameState::Tail && !matches!(now, FrameState::Reserved | FrameState::Hole)
            {
                if i & ((1 << self.pageblock_order) - 1) == 0 {
                    kind.store(state.encode(), Relaxed);
                }
                return;
            }
            self.mix(i);
        }
        self.set_mixed(i, state, by);
    }

    #[inline]
    fn set_mixed(&self, i: Index, state: FrameState, by: Owner) {
        let (words, bit) = (self.words_of(i), Self::bit(i));
        let (in_use, kind, held) = match state {
            FrameState::Allocated { movable, .. } => (true, movable, true),
            FrameState::CpuList { .. } if words.held & bit != 0 => {
                (false, words.kind & bit != 0, true)
            }
            FrameState::CpuList { cached, .. } => (false, cached == Migratetype::Movable, true),
            FrameState::Free { .. } => (false, true, false),
            FrameState::Tail => (false, false, false),
            FrameState::Reserved => (true, true, false),
            FrameState::Hole => (true, false, false),
        };
        let with = |word: usize, is: bool| if is { word | bit } else { word & !bit };
        self.put(i as usize / GROUP, words, with(words.kind, kind), with(words.held, held));
        if (words.in_use & bit != 0) != in_use {
            self.flip(i, by);
        }
    }

    /// Puts a frame of a mixed pageblock in use, or out of use.
    #[inline(always)]
    fn flip(&self, i: Index, by: Owner) {
        let [own, others, ..] = &self.groups[i as usize / GROUP];
        if self.owner_of(i).load(Relaxed) & OWNERS == by {
            own.store(own.load(Relaxed) ^ Self::bit(i), Relaxed);
        } else {
            others.fetch_xor(Self::bit(i), Relaxed);
        }
    }

    /// Has a CPU own the pageblock of a frame, if that has no owner. Under the zone's lock.
    #[inline]
    pub(super) fn own(&self, i: Index, by: Owner) {
        let owner = self.owner_of(i);
        let now = owner.load(Relaxed);
        if now & OWNERS == 0 && now & MIXED != 0 && self.pageblock_order >= GROUP_ORDER {
            owner.store(now | (by & OWNERS), Relaxed);
        }
    }

    /// Notes that the pageblock of a frame is part of one block, free or about to be.
    pub(super) fn unmix(&self, i: Index) {
        self.kind_of(i).store(FrameState::Tail.encode(), Relaxed);
        self.owner_of(i).store(0, Release);
    }

    /// Sets the state of every frame from `start` to `end`.
    pub(super) fn fill(&self, start: Index, end: Index, state: FrameState) {
        let pages = 1 << self.pageblock_order;
        let mut at = start;
        while at < end {
            if at & (pages - 1) == 0 && end - at >= pages {
                self.kind_of(at).store(state.encode(), Relaxed);
                self.owner_of(at).store(0, Release);
                at += pages;
            } else {
                self.set(at, state, NOBODY);
                at += 1;
            }
        }
    }

    /// Returns the order of a block of less than a pageblock that starts at `i`, if it is on a CPU list.
    #[inline(always)]
    pub(crate) fn listed_order(&self, i: Index) -> Option<Order> {
        let words = self.words_of(i);
        let listed = words.held & !words.in_use & Self::bit(i) != 0 && self.is_mixed(i);
        listed.then(|| self.order_at(i))
    }

    /// Makes a frame reserved that is memory. All reserved frames of its pageblock are known to be memory then.
    pub(super) fn set_returned(&self, i: Index) {
        self.set(i, FrameState::Reserved, NOBODY);
        if self.is_mixed(i) {
            let owner = self.owner_of(i);
            owner.store(owner.load(Relaxed) | KNOWN, Relaxed);
        }
    }

    /// Tells whether a frame is reserved and known to be memory.
    pub(super) fn is_returned(&self, i: Index, block_type: Migratetype) -> bool {
        let known = self.owner_of(i).load(Relaxed) & KNOWN != 0;
        known && self.is_mixed(i) && self.state(i, block_type) == FrameState::Reserved
    }

    #[inline]
    pub(super) fn is_hole(&self, i: Index) -> bool {
        if !self.is_mixed(i) {
            return FrameState::decode(self.kind_of(i).load(Relaxed)) == FrameState::Hole;
        }
        let (words, bit) = (self.words_of(i), Self::bit(i));
        words.in_use & !words.kind & !words.held & bit != 0
    }

    /// Tells whether every frame from `start` to `end` is reserved.
    pub(super) fn all_reserved(&self, start: Index, end: Index) -> bool {
        let pages = 1 << self.pageblock_order;
        let mut at = start;
        while at < end {
            if !self.is_mixed(at) {
                let byte = self.kind_of(at).load(Relaxed);
                if FrameState::decode(byte) != FrameState::Reserved {
                    return false;
                }
                at = (at & !(pages - 1)) + pages;
                continue;
            }
            let (words, bit) = (self.words_of(at), Self::bit(at));
            if words.in_use & words.kind & !words.held & bit == 0 {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Returns the type of the free block of exactly this order that starts at `i`.
    #[inline]
    pub(super) fn free_list(
        &self,
        i: Index,
        order: Order,
        block_type: impl FnOnce() -> Migratetype,
    ) -> Option<Migratetype> {
        if i as usize >= self.kinds.len() << self.pageblock_order {
            return None;
        }
        if order >= self.pageblock_order {
            return free_in(self.whole(i)?, order);
        }
        let free = self.is_mixed(i)
            && self.words_of(i).free() & Self::bit(i) != 0
            && self.has_order(i, order);
        free.then(block_type)
    }
}

#[cfg(test)]
mod tests;
