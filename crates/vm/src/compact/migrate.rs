//! The migration scanner: upwards through a zone, for content that can be moved.
//!
//! Source: `isolate_migratepages`, `isolate_migratepages_block` (mm/compaction.c).

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{Cma, Movable};
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{
    AsyncSource, MigrationScanner, SearchedBlock, SkipHints,
};

use super::{CLUSTER, Compactor, Content, Mode, ZoneCompact};

impl Compactor {
    /// Fills the batch from the next pageblock that is worth it, or moves on to the free scanner.
    pub(super) fn isolate_content<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &C,
    ) {
        let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
        else {
            return;
        };
        if self.rules.migration_scanner == MigrationScanner::ByFrame {
            return self.isolate_content_by_frame(zone, state, content);
        }
        let pageblock = zone.geometry().pageblock_order;
        if !self.takes_rest && self.passes_what_search_found(zone, state) {
            return;
        }
        let visited = self.rules.skip_hints != SkipHints::NothingFound;
        // Pageblocks that are skipped cost little, but not nothing: a step has an end.
        for _ in 0..CLUSTER {
            let block = Pfn(self.migrate_pfn).align_down(pageblock);
            let end = block.0 + pages(pageblock);
            if end > self.free_pfn {
                self.migrate_pfn = end.max(self.migrate_pfn);
                return;
            }
            let from_start = self.migrate_pfn <= block.0.max(zone.span().start.0);
            let hint = from_start || !visited;
            if hint && !self.goal.ignore_hints && zone.skip(block) {
                self.migrate_pfn = end;
                continue;
            }
            if !self.is_source(zone, block) {
                self.migrate_pfn = end;
                if visited {
                    self.start_after(state, end);
                }
                continue;
            }
            let taken = self.isolate_block(zone, content, end);
            if let Some(first) = taken {
                self.note_source(zone, block, first, from_start);
            }
            self.after_block(zone, state, (block, end), from_start, taken.is_some());
            if !self.batch.is_empty() {
                return;
            }
        }
    }

    /// The pageblock is scanned, perhaps to its end.
    fn after_block(
        &self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        (block, end): (Pfn, u64),
        from_start: bool,
        marked: bool,
    ) {
        let visited = self.rules.skip_hints != SkipHints::NothingFound;
        let useless = self.batch.is_empty() && (from_start || visited);
        if self.migrate_pfn >= end && (useless || self.takes_rest) {
            self.note_scanned(zone, state, block, from_start, marked && visited);
        }
    }

    /// Looks for a pageblock by the lists. Up to 6.5 the hint that the search leaves makes the scanner pass over
    /// what it found (7efc3b726103); tells whether that was the case.
    fn passes_what_search_found(&mut self, zone: &mut Zone<'_>, state: &mut ZoneCompact) -> bool {
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

    /// Whether a pageblock is looked into.
    fn is_source(&self, zone: &Zone<'_>, block: Pfn) -> bool {
        if self.goal.mode != Mode::Async || !self.goal.direct {
            return true;
        }
        let Some(mt) = zone.block_type(block) else { return false };
        let movable = matches!(mt, Movable | Cma);
        if self.rules.async_source == AsyncSource::Movable || self.goal.migratetype == Movable {
            movable
        } else {
            mt == self.goal.migratetype
        }
    }

    /// Fills the batch from a pageblock; gives the first page that was taken, also if it was given up again.
    fn isolate_block<C: Content>(&mut self, zone: &Zone<'_>, content: &C, end: u64) -> Option<Pfn> {
        let mode = self.goal.mode;
        // What would have to be waited for is left alone but by those who wait for writes.
        let waits = self.rules.sync_light_waits;
        let patience = if mode == Mode::SyncLight && !waits { Mode::Async } else { mode };
        let mut first = None;
        // A task that does not wait wants whole blocks of its order or nothing.
        let unit = match (mode, self.goal.direct, self.goal.order) {
            (Mode::Async, true, Some(order)) => Some(order),
            _ => None,
        };
        let mut pfn = self.migrate_pfn;
        let mut next_unit = unit_end(pfn, unit);
        while pfn < end && (self.batch.len() < CLUSTER || self.takes_rest) {
            if pfn >= next_unit {
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
                Some(FrameState::Allocated { order: 0, .. })
                    if content.is_movable(Pfn(pfn), patience) =>
                {
                    first = first.or(Some(Pfn(pfn)));
                    self.batch.push(pfn as u32);
                    pfn += 1;
                    continue;
                }
                // Linux: from 6.9 content of larger blocks is moved too, where it is below the order
                // that is wanted.
                Some(FrameState::Allocated { order, .. }) => {
                    self.scanned.migrate_passed += pages(order) - 1;
                    pfn += pages(order);
                }
                _ => pfn += 1,
            }
            if unit.is_some() {
                self.batch.clear();
                pfn = pfn.max(next_unit);
                next_unit = unit_end(pfn, unit);
            }
        }
        self.migrate_pfn = pfn.min(end);
        first
    }
}

fn unit_end(pfn: u64, unit: Option<Order>) -> u64 {
    unit.map_or(u64::MAX, |order| Pfn(pfn + 1).align_up(order).0)
}
