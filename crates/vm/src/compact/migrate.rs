//! The migration scanner: goes up through a zone for content that can be migrated.
//!
//! Source: `isolate_migratepages`, `isolate_migratepages_block` (mm/compaction.c).

use super::hints::Entry;
use pageblock::FrameState;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{Cma, Movable};
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{
    AsyncSource, MigrationScanner, SearchedBlock, SkipHints,
};

use super::{CLUSTER, Compactor, Content, Memory, Mode, ZoneCompact};

impl Compactor {
    /// Scans the next suitable pageblock for the batch, or advances to the free scanner. Only a scanned pageblock is followed by
    /// another search: after one that was passed over the linear scan goes on.
    pub(super) fn isolate_content<C: Content>(&mut self, on: &mut Memory<'_, '_, C>) {
        let Some((zone, _)) = on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
        else {
            return;
        };
        if self.rules.migration_scanner == MigrationScanner::ByFrame {
            return self.isolate_content_by_frame(zone, on.state, on.content);
        }
        let pageblock = zone.geometry().pageblock_order;
        let goes_on = std::mem::take(&mut self.passes_on);
        if !self.takes_rest && !goes_on && self.skips_searched_block(zone, on.state) {
            return;
        }
        let visited = self.rules.skip_hints != SkipHints::NothingFound;
        // Skipped pageblocks are cheap but not free: a step is bounded.
        for _ in 0..CLUSTER {
            let block = Pfn(self.migrate_pfn).align_down(pageblock);
            let end = block.0 + pages(pageblock);
            // The scanners have met: above this is the free scanner's part of the zone.
            if end > self.free_pfn {
                self.migrate_pfn = end.max(self.migrate_pfn);
                return;
            }
            let start = block.0.max(zone.span().start.0);
            let entry = if self.migrate_pfn <= start { Entry::Start } else { Entry::Within };
            let hint = entry == Entry::Start || !visited;
            if hint && !self.goal.ignore_hints && zone.skip(block) {
                self.migrate_pfn = end;
                continue;
            }
            if !self.is_source(zone, block) {
                self.migrate_pfn = end;
                if visited {
                    self.start_after(on.state, end);
                }
                continue;
            }
            debug_assert!(
                (block.0..end).contains(&self.migrate_pfn),
                "the scanner left its pageblock"
            );
            let taken = self.isolate_block(zone, on.content, end);
            if let Some(first) = taken {
                self.note_source(zone, block, first, entry);
            }
            self.after_block(zone, on.state, (block, end), entry, taken.is_some());
            return;
        }
        self.passes_on = true;
    }

    /// Notes that a pageblock was scanned, if it was scanned to its end.
    fn after_block(
        &self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        (block, end): (Pfn, u64),
        entry: Entry,
        marked: bool,
    ) {
        let visited = self.rules.skip_hints != SkipHints::NothingFound;
        let useless = self.batch.is_empty() && (entry == Entry::Start || visited);
        if self.migrate_pfn >= end && (useless || self.takes_rest) {
            self.note_scanned(zone, state, block, entry, marked && visited);
        }
    }

    /// Searches the free lists for a pageblock. Up to 6.5 the hint that the search sets makes the scanner skip what it
    /// found (7efc3b726103). Returns whether it did.
    fn skips_searched_block(&mut self, zone: &mut Zone<'_>, state: &mut ZoneCompact) -> bool {
        let before = self.migrate_pfn;
        let found = self.search_source(zone);
        if !found || self.rules.searched_block == SearchedBlock::Scanned {
            return false;
        }
        let elsewhere = self.migrate_pfn != before;
        let pageblock = zone.geometry().pageblock_order;
        self.migrate_pfn = Pfn(self.migrate_pfn).align_down(pageblock).0 + pages(pageblock);
        if elsewhere {
            self.start_after(state, self.migrate_pfn);
        }
        elsewhere
    }

    /// Returns whether a pageblock is scanned (`suitable_migration_source`).
    fn is_source(&self, zone: &Zone<'_>, block: Pfn) -> bool {
        // Compaction that waits, or runs in the background, leaves nothing out.
        if self.goal.mode != Mode::Async || self.goal.direct.is_none() {
            return true;
        }
        let Some(mt) = zone.block_type(block) else { return false };
        let whole =
            || self.goal.order.is_some_and(|order| order >= zone.geometry().pageblock_order);
        let from_movable = match self.rules.async_source {
            AsyncSource::Movable => true,
            AsyncSource::OwnType => self.goal.migratetype == Movable,
            AsyncSource::MovableForWhole => self.goal.migratetype == Movable || whole(),
        };
        if from_movable { matches!(mt, Movable | Cma) } else { mt == self.goal.migratetype }
    }

    /// Adds a block in use to the batch.
    pub(super) fn isolate(&mut self, pfn: u64, order: Order) {
        self.batch.push((pfn as u32, order));
        self.batch_pages += 1 << order;
    }

    /// Returns the lowest order of blocks that stay where they are (`skip_isolation_on_order`).
    fn too_large(&self, pageblock: Order) -> Order {
        if self.rules.moves_folios {
            self.goal.order.map_or(pageblock, |order| order.min(pageblock))
        } else {
            1
        }
    }

    /// Fills the batch from a pageblock. Returns the first page that was taken, even if it was put back.
    fn isolate_block<C: Content>(&mut self, zone: &Zone<'_>, content: &C, end: u64) -> Option<Pfn> {
        let mode = self.goal.mode;
        // Only compaction that waits for writes takes pages under writeback.
        let waits = self.rules.sync_light_waits;
        let waits_for = if mode == Mode::SyncLight && !waits { Mode::Async } else { mode };
        let mut first = None;
        // Asynchronous direct compaction takes whole blocks of its order or nothing.
        let unit = match (mode, self.goal.direct.is_some(), self.goal.order) {
            (Mode::Async, true, Some(order)) => Some(order),
            _ => None,
        };
        let too_large = self.too_large(zone.geometry().pageblock_order);
        let mut pfn = self.migrate_pfn;
        let mut next_unit = unit_end(pfn, unit);
        while pfn < end && (self.batch_pages < self.batch_most() || self.takes_rest) {
            if pfn >= next_unit {
                // A whole block was isolated: it is moved before the next is begun.
                if !self.batch.is_empty() {
                    break;
                }
                next_unit = unit_end(pfn, unit);
            }
            self.scanned.migrate += 1;
            match zone.state(Pfn(pfn)) {
                Some(FrameState::Free { order, .. }) => {
                    self.scanned.migrate_passed += pages(order) - 1;
                    pfn += pages(order);
                    continue;
                }
                Some(FrameState::Allocated { order, .. })
                    if order < too_large && content.is_movable(Pfn(pfn), waits_for) =>
                {
                    first = first.or(Some(Pfn(pfn)));
                    self.isolate(pfn, order);
                    self.scanned.migrate_passed += pages(order) - 1;
                    pfn += pages(order);
                    continue;
                }
                Some(FrameState::Allocated { order, .. }) => {
                    self.scanned.migrate_passed += pages(order) - 1;
                    pfn += pages(order);
                }
                _ => pfn += 1,
            }
            // One page that stays keeps the block from becoming free: what was isolated of it is put back.
            if unit.is_some() {
                self.batch.clear();
                self.batch_pages = 0;
                pfn = pfn.max(next_unit);
                next_unit = unit_end(pfn, unit);
            }
        }
        self.migrate_pfn = pfn.min(end);
        first
    }
}

/// Returns the end of the block of an order that holds a frame.
fn unit_end(pfn: u64, unit: Option<Order>) -> u64 {
    unit.map_or(u64::MAX, |order| Pfn(pfn + 1).align_up(order).0)
}

#[cfg(test)]
mod tests {
    use pageblock::request::{Gfp, Request};
    use pageblock::tuning::Watermarks;

    use super::*;
    use crate::compact::testing::{AllMovable, goal, rules, with_allocator};
    use crate::compact::{Goal, ZoneStep};

    /// `isolate_migratepages` searches once and passes over as many pageblocks as it must: a second search would lead back to
    /// what the first one found.
    #[test]
    fn pageblocks_that_are_passed_over_begin_no_second_search() {
        const BLOCKS: u64 = 64;
        // More than are passed over in a step.
        const SKIPPED: u64 = CLUSTER as u64 + 8;
        with_allocator("linux-6.6", BLOCKS * 512, |allocator| {
            let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.impose_watermarks(Watermarks { min: 0, low: 0, high: 0, promo: 0 });
            while allocator.alloc(CpuId(0), &request, &mut ()).is_ok() {}
            // Free blocks above the part that is searched: 16 of order 3.
            let high = (BLOCKS - 4) * 512;
            for pfn in (high..high + 256).filter(|pfn| pfn / 8 % 2 == 0) {
                allocator.free(CpuId(0), Pfn(pfn), 0, &mut ()).unwrap();
            }
            allocator.drain_all(&mut ());
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            for block in 0..SKIPPED {
                zone.set_skip(Pfn(block * 512), true).unwrap();
            }
            let goal = Goal { order: Some(5), direct: None, ..goal(Movable) };
            let mut state = ZoneCompact::new(&allocator.zones()[0]);
            let mut compactor = Compactor::new(goal, rules("linux-6.6"));
            let mut looks = Vec::new();
            for _ in 0..2 {
                let step = compactor.step(
                    &mut Memory { allocator, state: &mut state, content: &mut AllMovable },
                    0,
                    &mut (),
                );
                assert_eq!(step, ZoneStep::More);
                looks.push((compactor.scanned.migrate, compactor.scanned.moved));
            }
            // The first step looks at the 16 blocks, the second at the pages that it moves.
            assert_eq!(looks, [(16, 0), (CLUSTER as u64, CLUSTER as u64)]);
        });
    }
}
