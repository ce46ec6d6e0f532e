//! Frees blocks in batches, and updates the counts once per batch.

use super::counts::ORDERS;
use super::{Block, Packing, bucket_order};
use crate::base::event::{Event, Observer};
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::policy::source::PolicySource;
use crate::table::block::types_in;
use crate::table::freelist::FreeArea;
use crate::table::map::{Index, NIL, PageMap};

/// A row for every value of three bits.
const TYPES: usize = MIGRATETYPES.next_power_of_two();

/// Blocks that were freed and are not yet in the zone's counts. None completed a whole pageblock. There are at most as
/// many as a CPU [collects](crate::zone::retune::ring_pages).
#[derive(Default)]
pub(crate) struct Batch {
    by_type: [OfType; TYPES],
}

/// The blocks of one type in a batch, by order.
#[derive(Default)]
pub(crate) struct OfType {
    freed: [u16; ORDERS],
    /// The free blocks that they merged into at once.
    merged: [u16; ORDERS],
}

impl Batch {
    /// Returns the types that have blocks.
    pub(crate) fn types(&self) -> impl Iterator<Item = (Migratetype, &OfType)> {
        let types = Migratetype::ALL.into_iter().zip(&self.by_type);
        types.filter(|(_, counts)| counts.freed.iter().fold(0, |any, n| any | n) != 0)
    }

    /// Adds a block of `order` that merged into one of order `merged`. `mt` is the number of their type.
    fn add(&mut self, mt: usize, (order, merged): (Order, Order)) {
        let counts = &mut self.by_type[mt % TYPES];
        counts.freed[usize::from(order) % ORDERS] += 1;
        counts.merged[usize::from(merged) % ORDERS] += 1;
    }
}

/// Blocks that left a CPU's lists, in the order in which they left, and the largest order into which they may merge.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) blocks: &'a [Index],
    pub(crate) cap: Order,
}

impl Listed<'_> {
    /// Returns the blocks from a place on.
    pub(crate) fn from(self, at: usize) -> Self {
        Self { blocks: &self.blocks[at..], ..self }
    }
}

impl Packing<'_> {
    /// Frees the leading blocks of a batch, pages or blocks of whole cells, whichever the first is. Stops before a block that
    /// may merge with the next one, and after a block that completed a free pageblock, which is then not counted. Returns
    /// the number of freed blocks, and the order of the last one if it completed a pageblock. Frames must have bits.
    #[inline(never)]
    pub(crate) fn free_listed(
        &mut self,
        map: PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        listed: Listed<'_>,
        batch: &mut Batch,
        observer: &mut impl Observer,
    ) -> (usize, Option<Order>) {
        let mut at = 0;
        loop {
            let (n, stop) = self.free_pages(&map, area, listed.from(at), batch, observer);
            at += n;
            match stop {
                Stop::Settle(block) => self.settle_now(&map, block),
                Stop::Whole => return (at, Some(0)),
                Stop::Other if at == 0 => {
                    return self.free_cells(&map, area, listed, batch, observer);
                }
                Stop::Other => return (at, None),
            }
        }
    }

    #[inline(never)]
    fn settle_now(&mut self, map: &PageMap<'_, impl PolicySource>, block: Block) {
        self.settle(map, block, map.block_type(self.start_of(block)));
    }

    /// [`free_listed`](Self::free_listed) for blocks of whole cells.
    #[inline(never)]
    fn free_cells(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        listed: Listed<'_>,
        batch: &mut Batch,
        observer: &mut impl Observer,
    ) -> (usize, Option<Order>) {
        let step = bucket_order(self.pageblock_order);
        for (at, &i) in listed.blocks.iter().enumerate() {
            let next = listed.blocks.get(at + 1).copied().unwrap_or(NIL);
            let freed = map.bits().free_listed_cells(i, next, listed.cap);
            let Some((order, merged)) = freed else { return (at, None) };
            if merged >= self.pageblock_order {
                return (at + 1, Some(order));
            }
            let (block, mt) = (self.block_of(i), map.block_type(i));
            batch.add(mt as usize, (order, merged));
            observer.event(Event::PcpuDrain { pfn: map.pfn(i), order, migratetype: mt });
            watch_merge(area, map, i, (order, merged));
            let same_bucket = self.blocks[block as usize].grow(order, step);
            if !(self.counts.merge(block, order, merged) && same_bucket) {
                self.settle_now(map, block);
            }
        }
        (listed.blocks.len(), None)
    }

    /// [`free_listed`](Self::free_listed) for pages, which also stops after one whose pageblock may have changed its class.
    fn free_pages(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        area: &mut FreeArea,
        listed: Listed<'_>,
        batch: &mut Batch,
        observer: &mut impl Observer,
    ) -> (usize, Stop) {
        let whole = self.pageblock_order;
        let step = bucket_order(whole);
        let (blocks, (words, changes)) = (&mut *self.blocks, self.counts.parts());
        let known = map.words();
        for (at, &i) in listed.blocks.iter().enumerate() {
            let block = (i >> (whole & 31)) as usize;
            let (Some(partial), Some(known)) = (blocks.get_mut(block), known.get(block)) else {
                return (at, Stop::Other);
            };
            let next = listed.blocks.get(at + 1).copied().unwrap_or(NIL);
            let Some(merged) = map.bits().free_listed_page(i, next, listed.cap) else {
                return (at, Stop::Other);
            };
            if merged >= whole {
                return (at + 1, Stop::Whole);
            }
            let (index, mt) = types_in(known);
            batch.add(index, (0, merged));
            observer.event(Event::PcpuDrain { pfn: map.pfn(i), order: 0, migratetype: mt });
            watch_merge(area, map, i, (0, merged));
            let same_bucket = partial.grow(0, step);
            let same_largest = changes.merge(words, block as Block, 0, merged);
            if !(same_largest && same_bucket) {
                return (at + 1, Stop::Settle(block as Block));
            }
        }
        (listed.blocks.len(), Stop::Other)
    }
}

/// The reason why the blocks after this one are not freed in the same step.
enum Stop {
    /// The last block's pageblock may have changed its class.
    Settle(Block),
    /// The last page completed a free pageblock.
    Whole,
    /// No more blocks, or none that can be freed in this way.
    Other,
}

/// Checks the movements of a block that is freed and merges into a larger one.
pub(super) fn watch_merge(
    area: &mut FreeArea,
    map: &PageMap<'_, impl PolicySource>,
    i: Index,
    (order, merged): (Order, Order),
) {
    if cfg!(debug_assertions) {
        let mt = map.block_type(i);
        // Each buddy that merged lies beside the block that had grown so far.
        let others = (order..merged).map(|at| (i >> at ^ 1) << at);
        others.for_each(|other| area.watch.one(map, other, mt));
        if merged < map.pageblock_order {
            area.watch.one(map, i >> merged << merged, mt);
        }
    }
}

impl OfType {
    /// Returns the number of pages of the freed blocks.
    pub(crate) fn pages(&self) -> u64 {
        let pages = (0..).zip(&self.freed).map(|(order, &n)| u64::from(n) << order);
        pages.sum()
    }

    /// Updates the counts of free blocks as if the blocks were freed one by one.
    pub(crate) fn count(&self, area: &mut FreeArea, mt: Migratetype) {
        // Blocks that have passed this order on their way to the order that they merged into.
        let mut growing = 0;
        for (order, (&freed, &merged)) in (0..=ORDER_LIMIT).zip(self.freed.iter().zip(&self.merged))
        {
            growing = growing + u32::from(freed) - u32::from(merged);
            area.count_by(order, mt, u32::from(merged).wrapping_sub(growing));
        }
        debug_assert_eq!(growing, 0, "a freed block did not merge into any");
    }
}
