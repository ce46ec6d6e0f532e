//! The migration scanner: upwards through a zone, for content that can be moved.
//!
//! Source: `isolate_migratepages`, `isolate_migratepages_block` (mm/compaction.c).

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::mobility::Migratetype::{Cma, Movable};
use pageblock::policy::{CompactScan, Slowpath};
use pageblock::zone::Zone;

use super::{CLUSTER, Compactor, Content, Mode, ZoneCompact};

impl Compactor {
    /// Fills the batch from the next pageblock that is worth it, or moves on to the free scanner.
    pub(super) fn isolate_content<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &C,
    ) {
        let Some((zone, _)) = allocator.zone_and_cache(self.goal.zone, 0) else { return };
        if zone.policy().compact_scan <= CompactScan::V316 {
            return self.isolate_content_by_frame(zone, state, content);
        }
        let pageblock = zone.geometry().pageblock_order;
        let mut found = self.search_source(zone);
        // Pageblocks that are passed over cost little, but not nothing: a step has an end.
        for _ in 0..CLUSTER {
            let block = Pfn(self.migrate_pfn).align_down(pageblock);
            let end = block.0 + pages(pageblock);
            if end > self.free_pfn {
                self.migrate_pfn = end.max(self.migrate_pfn);
                return;
            }
            if !self.is_source(zone, block, std::mem::take(&mut found)) {
                self.migrate_pfn = end;
                continue;
            }
            let start = self.migrate_pfn;
            self.isolate_block(zone, content, end);
            if self.batch.is_empty()
                && start <= block.0.max(zone.span.start.0)
                && self.migrate_pfn >= end
            {
                self.note_useless(zone, state, block);
            }
            if !self.batch.is_empty() {
                return;
            }
        }
    }

    /// Whether a pageblock is looked into. The hint of one that a search found is the search's own.
    fn is_source(&self, zone: &Zone<'_>, block: Pfn, found: bool) -> bool {
        if !self.goal.ignore_hints && !found && zone.skip(block) {
            return false;
        }
        if self.goal.mode != Mode::Async || !self.goal.direct {
            return true;
        }
        let Some(mt) = zone.block_type(block) else { return false };
        let movable = matches!(mt, Movable | Cma);
        // From 4.12 the whole block is to become the requester's; before, only what was easy.
        if zone.policy().slowpath < Slowpath::G2Noncostly || self.goal.migratetype == Movable {
            movable
        } else {
            mt == self.goal.migratetype
        }
    }

    fn isolate_block<C: Content>(&mut self, zone: &Zone<'_>, content: &C, end: u64) {
        let mode = self.goal.mode;
        // A task that does not wait wants whole blocks of its order or nothing.
        let unit = match (mode, self.goal.direct, self.goal.order) {
            (Mode::Async, true, Some(order)) => Some(order),
            _ => None,
        };
        let mut pfn = self.migrate_pfn;
        let mut next_unit = unit_end(pfn, unit);
        while pfn < end && self.batch.len() < CLUSTER {
            if pfn >= next_unit {
                if !self.batch.is_empty() {
                    break;
                }
                next_unit = unit_end(pfn, unit);
            }
            self.scanned.migrate += 1;
            match zone.state(Pfn(pfn)) {
                Some(FrameState::Free { order, .. }) => {
                    pfn += pages(order);
                    continue;
                }
                Some(FrameState::Allocated { order: 0, .. })
                    if content.is_movable(Pfn(pfn), mode) =>
                {
                    self.batch.push(pfn as u32);
                    pfn += 1;
                    continue;
                }
                // Linux: from 6.9 content of larger blocks is moved too, where it is below the order
                // that is wanted.
                Some(FrameState::Allocated { order, .. }) => pfn += pages(order),
                _ => pfn += 1,
            }
            if unit.is_some() {
                self.batch.clear();
                pfn = pfn.max(next_unit);
                next_unit = unit_end(pfn, unit);
            }
        }
        self.migrate_pfn = pfn.min(end);
    }

    /// Nothing could be isolated in a whole pageblock: it is passed over until the hints go.
    fn note_useless(&self, zone: &mut Zone<'_>, state: &mut ZoneCompact, block: Pfn) {
        if self.goal.ignore_hints {
            return;
        }
        // The block is in the zone: the scanner is there.
        let _ = zone.set_skip(block, true);
        let sync = usize::from(self.goal.mode != Mode::Async);
        state.migrate[0] = state.migrate[0].max(self.migrate_pfn);
        if sync == 1 {
            state.migrate[1] = state.migrate[1].max(self.migrate_pfn);
        }
    }
}

fn unit_end(pfn: u64, unit: Option<Order>) -> u64 {
    unit.map_or(u64::MAX, |order| Pfn(pfn + 1).align_up(order).0)
}
