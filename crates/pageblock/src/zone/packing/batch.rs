//! Free blocks by order and type, counted a batch at a time.

use super::counts::ORDERS;
use super::{BUCKETS, Block, Packing};
use crate::base::event::{Event, Observer};
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::table::freelist::FreeArea;
use crate::table::map::{Index, NIL, PageMap};

/// A row for whatever three bits say.
const TYPES: usize = MIGRATETYPES.next_power_of_two();

/// Blocks that were freed and are not in the counts of their zone yet, none of which made a whole pageblock.
#[derive(Default)]
pub(crate) struct Batch {
    by_type: [OfType; TYPES],
}

/// Those of a type, by order.
#[derive(Default)]
pub(crate) struct OfType {
    freed: [u32; ORDERS],
    /// The free blocks that they were part of at once.
    merged: [u32; ORDERS],
}

impl Batch {
    /// Adds a block of the order `order` that merged to one of `merged`.
    #[inline(always)]
    pub(crate) fn add(&mut self, mt: Migratetype, (order, merged): (Order, Order)) {
        self.add_to(mt as usize, (order, merged));
    }

    /// Returns the types that have blocks.
    pub(crate) fn types(&self) -> impl Iterator<Item = (Migratetype, &OfType)> {
        let types = Migratetype::ALL.into_iter().zip(&self.by_type);
        types.filter(|(_, counts)| counts.freed.iter().fold(0, |any, n| any | n) != 0)
    }

    #[inline(always)]
    fn add_to(&mut self, mt: usize, (order, merged): (Order, Order)) {
        let counts = &mut self.by_type[mt % TYPES];
        counts.freed[usize::from(order) % ORDERS] += 1;
        counts.merged[usize::from(merged) % ORDERS] += 1;
    }
}

impl Packing<'_> {
    /// Frees the pages that are the first of some blocks which left the lists of a CPU, one after the other, each merged up
    /// to the order `cap`. Stops at a block that is no page on a list, or may merge with the next one, and behind a page
    /// that made a pageblock free as a whole, which is not counted then. Returns how many it freed, and whether such a page
    /// is the last of them. Only where frames have bits, and the counts of a pageblock one word.
    #[inline(never)]
    pub(crate) fn free_pages(
        &mut self,
        map: PageMap<'_>,
        area: &mut FreeArea,
        (listed, cap): (&[Index], Order),
        batch: &mut Batch,
        observer: &mut impl Observer,
    ) -> (usize, bool) {
        let mut at = 0;
        loop {
            let run = self.free_pages_alike(&map, area, (&listed[at..], cap), batch, observer);
            at += run.0;
            match run.1 {
                Stop::Settle(block) => self.settle_now(&map, block),
                Stop::Whole => return (at, true),
                Stop::Other => return (at, false),
            }
        }
    }

    #[inline(never)]
    fn settle_now(&mut self, map: &PageMap<'_>, block: Block) {
        self.settle(map, block, map.block_type(self.start_of(block)));
    }

    /// Does the same, and stops behind a page whose pageblock may be of another class now.
    #[inline(always)]
    fn free_pages_alike(
        &mut self,
        map: &PageMap<'_>,
        area: &mut FreeArea,
        (listed, cap): (&[Index], Order),
        batch: &mut Batch,
        observer: &mut impl Observer,
    ) -> (usize, Stop) {
        let whole = self.pageblock_order;
        // A page changes the bucket where what was free filled one.
        let bucket = (1 << whole.saturating_sub(BUCKETS.ilog2() as Order)) - 1;
        let blocks = &mut *self.blocks;
        let Some((words, grown, one)) = self.counts.single() else { return (0, Stop::Other) };
        let (Some(words), Some(known)) =
            (words.get_mut(..blocks.len()), map.words().get(..blocks.len()))
        else {
            return (0, Stop::Other);
        };
        for (at, &i) in listed.iter().enumerate() {
            let block = (i >> (whole & 31)) as usize;
            let (Some(partial), Some(known)) = (blocks.get_mut(block), known.get(block)) else {
                return (at, Stop::Other);
            };
            let next = listed.get(at + 1).copied().unwrap_or(NIL);
            let Some(merged) = map.bits().free_listed_page(i, next, cap) else {
                return (at, Stop::Other);
            };
            if merged >= whole {
                return (at + 1, Stop::Whole);
            }
            let (index, mt) = PageMap::types_in(known);
            batch.add_to(index, (0, merged));
            observer.event(Event::PcpuDrain { pfn: map.pfn(i), order: 0, migratetype: mt });
            watch_merge(area, map, i, (0, merged));
            let (word, free) = (&mut words[block], partial.free);
            let was = *word;
            *word = was.wrapping_add(grown[usize::from(merged) % ORDERS]);
            partial.free = free + 1;
            if was < one[usize::from(merged) % ORDERS] || free & bucket == 0 {
                return (at + 1, Stop::Settle(block as Block));
            }
        }
        (listed.len(), Stop::Other)
    }
}

/// Why no more pages are freed at once.
enum Stop {
    /// The pageblock of the last may be of another class.
    Settle(Block),
    /// The last made a pageblock free as a whole.
    Whole,
    /// There are no more, or none that are freed so.
    Other,
}

/// Watches a block that is freed and merges to one of another order.
#[inline(always)]
pub(super) fn watch_merge(
    area: &mut FreeArea,
    map: &PageMap<'_>,
    i: Index,
    (order, merged): (Order, Order),
) {
    if cfg!(debug_assertions) {
        let mt = map.block_type(i);
        // What merged lies beside the freed block as that grew.
        let others = (order..merged).map(|at| (i >> at ^ 1) << at);
        others.for_each(|other| area.watch.one(map, other, mt));
        if merged < map.pageblock_order {
            area.watch.one(map, i >> merged << merged, mt);
        }
    }
}

impl OfType {
    /// Returns the pages of the freed blocks.
    pub(crate) fn pages(&self) -> u64 {
        let pages = (0..).zip(&self.freed).map(|(order, &n)| u64::from(n) << order);
        pages.sum()
    }

    /// Changes the counts of free blocks as freeing them one after the other would.
    pub(crate) fn count(&self, area: &mut FreeArea, mt: Migratetype) {
        // Blocks on their way from the order that they were freed in to the one that they merged to.
        let mut growing = 0;
        for order in 0..=ORDER_LIMIT {
            let at = usize::from(order);
            growing = growing + self.freed[at] - self.merged[at];
            area.count_by(order, mt, self.merged[at].wrapping_sub(growing));
        }
    }
}
