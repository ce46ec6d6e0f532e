//! Fast searches, from 5.1: the free lists tell where free pages and nearly empty pageblocks are, so that the scanners
//! need not look at every page.
//!
//! A search changes the list that it looks at: afterwards the list starts with another block.
//!
//! Source: `fast_isolate_freepages`, `fast_isolate_around`, `fast_find_migrateblock`
//! (mm/compaction.c).

use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::Movable;
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{AroundHint, SearchedBlock};

use super::free::may_take;
use super::{Compactor, Content, Memory, Mode};
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;

/// The state of a compaction's searches (fields of `struct compact_control`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Searches {
    /// The order that the search for free pages starts with.
    order: Order,
    /// Failed searches since the last success.
    fails: u32,
    /// The lowest block that a search led to; the linear scan starts there once, `None` afterwards.
    lowest: Option<u64>,
}

impl Searches {
    pub(super) fn new(order: Option<Order>) -> Self {
        Self { order: order.unwrap_or(0), fails: 0, lowest: Some(u64::MAX) }
    }

    /// Returns the number of list entries to look at (`freelist_scan_limit`).
    fn limit(&self, most: u32) -> u64 {
        u64::from(most).checked_shr(self.fails).unwrap_or(0) + 1
    }
}

/// The frames that a search for free pages accepts.
#[derive(Clone, Copy)]
struct Wanted {
    /// The first block from here on is taken.
    low: u64,
    /// Otherwise the highest block from here on is taken.
    min: u64,
}

/// The result of searching one list.
#[derive(Default)]
struct Found {
    pfn: Option<u64>,
    /// Blocks that were looked at.
    scanned: u64,
    /// The highest pageblock that was met.
    highest: Option<u64>,
}

impl Compactor {
    /// Returns the order of the request if the version searches for such requests.
    fn search_order(&self) -> Option<Order> {
        self.goal.order.filter(|&order| order > 0 && self.rules.fast_search)
    }

    /// Takes free pages from the movable lists, high in the range between the scanners. Returns whether there are
    /// targets.
    pub(super) fn search_free<C: Content>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        wanted: usize,
    ) -> bool {
        let Some((zone, _)) = on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
        else {
            return false;
        };
        let Some(order) = self.search_order() else { return false };
        let pageblock = zone.geometry().pageblock_order;
        let at_end = self.free_pfn >= on.state.init_free;
        let distance = self.free_pfn.saturating_sub(self.migrate_pfn);
        let block_of = |pfn: u64| Pfn(pfn).align_down(pageblock).0;
        let range = Wanted {
            low: block_of(self.free_pfn - distance / 4),
            min: block_of(self.free_pfn - distance / 2),
        };
        let (taken, highest) = self.search_lists(zone, order, range, at_end);
        let mut around = taken.map(|(pfn, _)| pfn);
        // Only a first search moves the scanner: later it is where the walk came to.
        if taken.is_none() && at_end {
            around = self.start_from(zone, highest, range.min);
        }
        if let Some(block) = highest.filter(|&block| block >= on.state.free) {
            on.state.free = block.saturating_sub(pages(pageblock)).max(zone.span().start.0);
        }
        if let Some((pfn, order)) = taken {
            self.take(on, Pfn(pfn), order);
        }
        if let Some(pfn) = around {
            self.search_around(on, block_of(pfn), wanted);
        }
        !self.targets.is_empty()
    }

    /// Searches every list once, downwards from the order of the last success. Returns the block taken, and the highest
    /// pageblock met.
    fn search_lists(
        &mut self,
        zone: &mut Zone<'_>,
        order: Order,
        range: Wanted,
        at_end: bool,
    ) -> (Option<(u64, Order)>, Option<u64>) {
        let mut limit = (self.searches.limit(self.rules.fast_search_limit) / 2).max(1);
        if at_end {
            limit = pages(zone.geometry().pageblock_order) / 2;
        }
        let first = self.searches.order.min(order - 1);
        self.searches.order = first;
        let mut highest = None;
        for at in (0..order).map(|n| (first + order - n) % order) {
            // An empty list costs no part of the limit.
            if zone.nr_free(at) == 0 {
                continue;
            }
            let found = self.search_list(zone, at, range, &mut limit);
            self.scanned.free += found.scanned;
            highest = highest.max(found.highest);
            if let Some(pfn) = found.pfn {
                if may_take(zone, at, &self.rules) && zone.isolate_free_page(Pfn(pfn)).is_some() {
                    self.scanned.free_taken += pages(at) - 1;
                    return (Some((pfn, at)), highest);
                }
                // Too few pages are free.
                break;
            }
            // A list that used up its limit is long: the others are searched less.
            if found.scanned >= limit {
                limit = (limit / 2).max(1);
            }
        }
        self.searches.fails += 1;
        self.searches.order = self.searches.order.checked_sub(1).unwrap_or(order - 1);
        (None, highest)
    }

    /// Sets the start of the free scanner after a first search failed: the highest pageblock that it met, or, in direct
    /// compaction, the middle of the range.
    fn start_from(&mut self, zone: &Zone<'_>, highest: Option<u64>, min: u64) -> Option<u64> {
        if let Some(block) = highest.filter(|&block| block >= min) {
            self.free_pfn = block;
            return Some(block);
        }
        // Only a task that waits for a block saves the walk of the upper half.
        self.goal.direct?;
        self.free_pfn = min;
        (!self.rules.middle_must_fit || self.may_fill(zone, Pfn(min))).then_some(min)
    }

    /// Searches a list of free blocks from its tail; afterwards the list starts with the block at which the search
    /// ended.
    fn search_list(
        &mut self,
        zone: &mut Zone<'_>,
        order: Order,
        wanted: Wanted,
        limit: &mut u64,
    ) -> Found {
        let pageblock = zone.geometry().pageblock_order;
        let mut found = Found::default();
        let (mut high, mut last) = (None, None);
        for pfn in zone.free_list_from_tail(order, Movable).map(|pfn| pfn.0) {
            found.scanned += 1;
            if found.highest.is_none_or(|highest| pfn >= highest) {
                found.highest = Some(Pfn(pfn).align_down(pageblock).0.max(zone.span().start.0));
            }
            if pfn >= wanted.low {
                found.pfn = Some(pfn);
                (self.searches.fails, self.searches.order) = (0, order);
                break;
            }
            if pfn >= wanted.min && high.is_none_or(|high| pfn > high) {
                high = Some(pfn);
                *limit /= 2;
            }
            if found.scanned >= *limit {
                last = Some(pfn);
                break;
            }
        }
        found.pfn = found.pfn.or(high);
        if let Some(pfn) = found.pfn.or(last) {
            zone.rotate_free_list(Pfn(pfn));
        }
        found
    }

    /// Takes more free pages from the pageblock that a search led to, until there are enough. Asynchronous direct
    /// compaction does not.
    fn search_around<C: Content>(&mut self, on: &mut Memory<'_, '_, C>, block: u64, wanted: usize) {
        let async_direct = self.goal.direct.is_some() && self.goal.mode == Mode::Async;
        // A task that may not wait leaves it at the block that it found.
        if self.targets.pages() >= wanted || async_direct {
            return;
        }
        let Some((zone, _)) = on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
        else {
            return;
        };
        let start = block.max(zone.span().start.0);
        let end = (block + pages(zone.geometry().pageblock_order)).min(zone.span().end.0);
        let (mut found, missing) = (Vec::new(), wanted - self.targets.pages());
        let (next, taken) = self.take_free(zone, (start, end), 1, missing, &mut found);
        let spent = match self.rules.around_hint {
            AroundHint::AtEnd => next >= end,
            AroundHint::Short => taken < missing,
        };
        if spent {
            // The block is in the zone. It has no more free pages, or hardly any.
            let _ = zone.set_skip(Pfn(start), true);
        }
        for (pfn, order) in found {
            self.take(on, pfn, order);
        }
    }

    /// Moves the migration scanner to a pageblock with a large free block, if it is at the start of a pageblock and the
    /// request is costly and movable. Returns whether there is one.
    pub(super) fn search_source(&mut self, zone: &mut Zone<'_>) -> bool {
        let Some(order) = self.search_order() else { return false };
        let (pageblock, start) = (zone.geometry().pageblock_order, zone.span().start.0);
        let at_start = self.migrate_pfn == start;
        let continues = !at_start && !Pfn(self.migrate_pfn).is_aligned(pageblock);
        let only_movable = self.goal.direct.is_some() && self.goal.migratetype != Movable;
        if self.goal.ignore_hints || continues || only_movable || order <= PAGE_ALLOC_COSTLY_ORDER {
            return false;
        }
        let distance = self.free_pfn.saturating_sub(self.migrate_pfn);
        let part = if at_start { distance / 2 } else { distance / 8 };
        let high = Pfn(self.migrate_pfn + part).align_down(pageblock).0;
        let limit = self.searches.limit(self.rules.fast_search_limit);
        let mut scanned = 0;
        for order in (PAGE_ALLOC_COSTLY_ORDER..order).rev() {
            // The limit is for all lists together.
            if scanned >= limit {
                break;
            }
            if let Some(pfn) = self.search_low(zone, order, high, limit, &mut scanned) {
                let block = Pfn(pfn).align_down(pageblock).0.max(start);
                self.searches.fails = 0;
                self.searches.lowest = self.searches.lowest.map(|lowest| lowest.min(pfn));
                self.migrate_pfn = block;
                if self.rules.searched_block == SearchedBlock::Skipped {
                    // The block is in the zone.
                    let _ = zone.set_skip(Pfn(pfn), true);
                }
                self.scanned.migrate += scanned;
                return true;
            }
        }
        self.scanned.migrate += scanned;
        self.searches.fails += 1;
        // The linear scan starts where the searches did.
        if let Some(lowest) = self.searches.lowest.take().filter(|&lowest| lowest < u64::MAX) {
            self.migrate_pfn = lowest;
        }
        false
    }

    /// Returns a free block below a frame, searched from a list's head; the blocks that were looked at move to its
    /// tail.
    fn search_low(
        &self,
        zone: &mut Zone<'_>,
        order: Order,
        high: u64,
        limit: u64,
        scanned: &mut u64,
    ) -> Option<u64> {
        let (mut found, mut over) = (None, false);
        let mut blocks = zone.free_list(order, Movable);
        for pfn in blocks.by_ref() {
            over = *scanned >= limit;
            *scanned += 1;
            if over {
                break;
            }
            if pfn.0 < high && !zone.skip(pfn) {
                found = Some(pfn.0);
                break;
            }
        }
        let next = blocks.next().filter(|_| over || found.is_some());
        drop(blocks);
        if let Some(next) = next {
            zone.rotate_free_list(next);
        }
        found
    }
}
