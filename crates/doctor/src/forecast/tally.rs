//! Counts the uses of the frames of a zone, pageblock by pageblock, in one pass.
//!
//! Memory does not grow with frames: a pageblock takes about 50 bytes.

use super::frames::{Run, Sink};
use super::held::Held;
use super::kind::{KINDS, Kind, Movable, Reclaimable, Rules};

/// The sizes of blocks that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// The order of a pageblock.
    pub pageblock: u8,
    /// The largest order of the buddy allocator.
    pub largest: u8,
    /// The order of a block of 1 GiB.
    pub gigantic: u8,
}

/// A pageblock, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Free.
    pub free: u16,
    /// Moves unless pinned.
    pub sure: u16,
    /// May move.
    pub maybe: u16,
    /// Kernel memory, or free on a per-CPU list.
    pub unknown: u16,
    /// Does not move, holes included.
    pub never: u16,
    /// Those of `maybe` in folios above order 0, which move from 6.9 on, though a run may end at one.
    pub large: u16,
    /// Whether every 32nd frame, from its first on, includes a free one.
    pub sampled: bool,
    /// The most frequent kind of its used frames; `Free` if it has none.
    pub most: Kind,
}

/// The largest distance between the pages of a pageblock that are tested for room (`COMPACT_CLUSTER_MAX`).
const STRIDE: usize = 32;

impl Block {
    /// Returns the number of frames that keep it from becoming free.
    #[must_use]
    pub const fn held(&self) -> u16 {
        self.unknown + self.never
    }
}

/// Aligned blocks of an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Units {
    /// The order.
    pub order: u8,
    /// Free blocks.
    pub free: u64,
    /// Blocks of frames that are free or move.
    pub sure: u64,
    /// Blocks of frames that are free, move or may move, by the number of frames that are not free.
    pub moving: Vec<u32>,
    /// Blocks without a frame that stays, by the number of frames of unknown use.
    pub unknown: Vec<u32>,
    /// Blocks of frames that are free or that `drop_caches` frees.
    pub dropped: u64,
    /// Blocks of frames that are free or can be reclaimed, by the number of frames that need swap for that.
    pub reclaimed: Vec<u32>,
    /// Blocks of frames that are free, can be reclaimed or are of unknown use, by the number of frames of unknown use.
    pub reclaimed_unknown: Vec<u32>,
    /// Blocks without a hole.
    pub whole: u64,
}

/// The counts of an aligned block while it is read.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    free: u32,
    sure: u32,
    unknown: u32,
    maybe: u32,
    dropped: u32,
    cache: u32,
    swap: u32,
    hole: bool,
}

impl Sink for Tally {
    fn push(&mut self, run: Run) {
        self.add(run.kind, run.dropped, run.frames);
    }

    /// Ends the zone: the missing part of its last block of 1 GiB is a hole.
    fn finish(&mut self) {
        let holes = self.frames[Kind::Hole as usize];
        let pages = 1_u64 << self.sizes.pageblock;
        let whole = 1_u64 << self.sizes.gigantic;
        let have = self.blocks.len() as u64 * pages + self.open.len() as u64;
        self.add(Kind::Hole, false, have.next_multiple_of(whole) - have);
        self.frames[Kind::Hole as usize] = holes;
    }
}

impl Units {
    fn new(order: u8) -> Self {
        Self { order, ..Self::default() }
    }

    /// Adds equal blocks.
    fn add(&mut self, sum: Sum, count: u32) {
        let all = 1_u32 << self.order;
        let blocks = u64::from(count);
        self.whole += if sum.hole { 0 } else { blocks };
        self.free += if sum.free == all { blocks } else { 0 };
        self.sure += if sum.free + sum.sure == all { blocks } else { 0 };
        if sum.free + sum.sure + sum.maybe + sum.unknown == all {
            match sum.unknown {
                0 => count_in(&mut self.moving, sum.sure + sum.maybe, count),
                unknown => count_in(&mut self.unknown, unknown, count),
            }
        }
        self.dropped += if sum.free + sum.dropped == all { blocks } else { 0 };
        if sum.free + sum.cache + sum.swap + sum.unknown == all {
            match sum.unknown {
                0 => count_in(&mut self.reclaimed, sum.swap, count),
                unknown => count_in(&mut self.reclaimed_unknown, unknown, count),
            }
        }
    }
}

/// Adds to a place of a histogram, which grows as needed.
fn count_in(histogram: &mut Vec<u32>, place: u32, count: u32) {
    let place = place as usize;
    if histogram.len() <= place {
        histogram.resize(place + 1, 0);
    }
    histogram[place] += count;
}

impl Sum {
    const fn plus(self, other: Self) -> Self {
        Self {
            free: self.free + other.free,
            sure: self.sure + other.sure,
            maybe: self.maybe + other.maybe,
            dropped: self.dropped + other.dropped,
            cache: self.cache + other.cache,
            swap: self.swap + other.swap,
            unknown: self.unknown + other.unknown,
            hole: self.hole || other.hole,
        }
    }
}

/// The use of a zone's frames.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The sizes of blocks.
    pub sizes: Sizes,
    /// Frames by kind.
    pub frames: [u64; KINDS],
    /// Frames that `drop_caches` frees.
    pub dropped: u64,
    /// The number of the first pageblock, which begins a block of 1 GiB; holes may be before the zone.
    pub first: u64,
    /// The pageblocks.
    pub blocks: Vec<Block>,
    /// For each pageblock and each order below a pageblock: its free blocks, and then those that are free when all that
    /// surely moves has moved.
    parts: Vec<[u16; 2]>,
    /// The orders up to the largest, then that of 1 GiB.
    pub units: Vec<Units>,
    /// The pageblocks that pages block.
    pub held: Held,
    /// The blocks of 1 GiB that pages block.
    pub held_gigantic: Held,
    pub(super) rules: Rules,
    /// The frames of the current pageblock: their kinds, and whether `drop_caches` frees them.
    open: Vec<(Kind, bool)>,
    /// The blocks of a pageblock and more that are read, in the order of `units`.
    upper: Vec<Sum>,
    gigantic: [u32; KINDS],
}

impl Tally {
    /// Returns the tally of a zone whose first frame is `start`.
    #[must_use]
    pub fn new(start: u64, sizes: Sizes, rules: Rules) -> Self {
        let orders = 0..=sizes.largest.max(sizes.pageblock);
        let orders = orders.filter(|&order| order != sizes.gigantic).chain([sizes.gigantic]);
        let units: Vec<Units> = orders.map(Units::new).collect();
        let gigantic = start >> sizes.gigantic << sizes.gigantic;
        let mut tally = Self {
            sizes,
            frames: [0; KINDS],
            dropped: 0,
            first: gigantic >> sizes.pageblock,
            blocks: Vec::new(),
            parts: Vec::new(),
            upper: vec![Sum::default(); units.len() - usize::from(sizes.pageblock)],
            units,
            held: Held::default(),
            held_gigantic: Held::default(),
            rules,
            open: Vec::with_capacity(1 << sizes.pageblock),
            gigantic: [0; KINDS],
        };
        tally.add(Kind::Hole, false, start - gigantic);
        tally.frames = [0; KINDS];
        tally
    }

    /// Returns the free blocks of an order below a pageblock in a pageblock: now, and when all that surely moves moved.
    #[must_use]
    pub fn parts_of(&self, block: usize, order: u8) -> [u16; 2] {
        self.parts[block * usize::from(self.sizes.pageblock) + usize::from(order)]
    }

    /// Adds frames of one kind.
    fn add(&mut self, kind: Kind, dropped: bool, mut frames: u64) {
        self.frames[kind as usize] += frames;
        self.dropped += if dropped { frames } else { 0 };
        let pages = 1_u64 << self.sizes.pageblock;
        while frames > 0 {
            let room = pages - self.open.len() as u64;
            let now = frames.min(room);
            if now == pages {
                self.close_uniform(kind, dropped);
            } else {
                self.open.extend(std::iter::repeat_n((kind, dropped), now as usize));
                if now == room {
                    self.close();
                }
            }
            frames -= now;
        }
    }

    fn close_uniform(&mut self, kind: Kind, dropped: bool) {
        let order = self.sizes.pageblock;
        for part in 0..order {
            let sum = self.sum_of(kind, dropped, 1 << part);
            let count = 1_u32 << (order - part);
            self.units[usize::from(part)].add(sum, count);
            let free = if sum.free > 0 { count as u16 } else { 0 };
            let after = if sum.free + sum.sure > 0 { count as u16 } else { 0 };
            self.parts.push([free, after]);
        }
        let mut kinds = [0; KINDS];
        kinds[kind as usize] = 1 << order;
        self.end_block(self.sum_of(kind, dropped, 1 << order), &kinds, kind == Kind::Free);
    }

    fn sum_of(&self, kind: Kind, dropped: bool, frames: u32) -> Sum {
        let mut sum = Sum { hole: kind == Kind::Hole, ..Sum::default() };
        sum.dropped = if dropped { frames } else { 0 };
        match kind.reclaimable() {
            Reclaimable::No => {}
            Reclaimable::Cache => sum.cache = frames,
            Reclaimable::Swap => sum.swap = frames,
        }
        match kind.movable(self.rules) {
            Movable::Free => sum.free = frames,
            Movable::Yes => sum.sure = frames,
            Movable::Maybe => sum.maybe = frames,
            Movable::Unknown => sum.unknown = frames,
            Movable::No => {}
        }
        sum
    }

    fn close(&mut self) {
        let mut kinds = [0_u32; KINDS];
        for &(kind, _) in &self.open {
            kinds[kind as usize] += 1;
        }
        let sampled = self.open.iter().step_by(STRIDE).any(|&(kind, _)| kind == Kind::Free);
        let each = [false, true].map(|dropped| Kind::ALL.map(|kind| self.sum_of(kind, dropped, 1)));
        let open = self.open.drain(..);
        let mut sums: Vec<Sum> =
            open.map(|(kind, dropped)| each[usize::from(dropped)][kind as usize]).collect();
        for order in 0..self.sizes.pageblock {
            let (mut free, mut after) = (0, 0);
            let all = 1_u32 << order;
            for &sum in &sums {
                self.units[usize::from(order)].add(sum, 1);
                free += u16::from(sum.free == all);
                after += u16::from(sum.free + sum.sure == all);
            }
            self.parts.push([free, after]);
            for at in 0..sums.len() / 2 {
                sums[at] = sums[2 * at].plus(sums[2 * at + 1]);
            }
            sums.truncate(sums.len() / 2);
        }
        self.end_block(sums[0], &kinds, sampled);
    }

    /// Adds a pageblock to the blocks above it.
    fn end_block(&mut self, sum: Sum, kinds: &[u32; KINDS], sampled: bool) {
        let pages = 1_u32 << self.sizes.pageblock;
        let used = Kind::ALL.into_iter().skip(1).max_by_key(|&kind| kinds[kind as usize]);
        let most = used.filter(|_| sum.free < pages).unwrap_or(Kind::Free);
        self.blocks.push(Block {
            free: sum.free as u16,
            sure: sum.sure as u16,
            maybe: sum.maybe as u16,
            unknown: sum.unknown as u16,
            never: (pages - sum.free - sum.sure - sum.maybe - sum.unknown) as u16,
            large: if self.rules.large_folios {
                kinds[Kind::LargeFolio as usize] as u16
            } else {
                0
            },
            sampled,
            most,
        });
        if !sum.hole {
            self.held.add(kinds, self.rules);
        }
        for (total, &frames) in self.gigantic.iter_mut().zip(kinds) {
            *total += frames;
        }
        let number = self.first + self.blocks.len() as u64;
        for at in 0..self.upper.len() {
            self.upper[at] = self.upper[at].plus(sum);
            let units = &mut self.units[usize::from(self.sizes.pageblock) + at];
            if !number.is_multiple_of(1 << (units.order - self.sizes.pageblock)) {
                continue;
            }
            let whole = std::mem::take(&mut self.upper[at]);
            units.add(whole, 1);
            if units.order == self.sizes.gigantic {
                let kinds = std::mem::take(&mut self.gigantic);
                if !whole.hole {
                    self.held_gigantic.add(&kinds, self.rules);
                }
            }
        }
    }
}
