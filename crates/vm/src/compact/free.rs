//! The free scanner: downwards through a zone, for free pages to move content to.
//!
//! Source: `isolate_freepages`, `suitable_migration_target`, `isolate_freepages_block`
//! (mm/compaction.c).

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{Cma, Isolate, Movable, Reserve};
use pageblock::policy::{CompactScan, CompactTarget};
use pageblock::zone::Zone;

use super::{Compactor, Content, ZoneCompact};

impl Compactor {
    /// Takes at least `wanted` free pages, if there are so many above the migration scanner.
    pub(super) fn isolate_free<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &mut C,
        wanted: usize,
    ) {
        if self.search_free(allocator, state, content, wanted) {
            self.targets.reverse();
            return;
        }
        if allocator.policy().compact_scan <= CompactScan::V319 {
            self.isolate_free_blocks(allocator, state, content);
            return;
        }
        let pageblock = allocator.geometry().pageblock_order;
        let low = Pfn(self.migrate_pfn).align_up(pageblock).0;
        let mut found = Vec::new();
        while self.free_pfn >= low && self.targets.len() < wanted {
            let Some((zone, _)) = allocator.zone_and_cache(self.goal.zone, 0) else { return };
            let block = Pfn(self.free_pfn).align_down(pageblock);
            if self.is_target(zone, block) {
                let done = self.scan_free(zone, block, wanted, &mut found);
                for (pfn, order) in found.drain(..) {
                    self.take(allocator, content, pfn, order);
                }
                if !done {
                    // The same block gives the next targets too.
                    break;
                }
            }
            if block.0 < pages(pageblock) {
                self.free_pfn = 0;
                break;
            }
            self.free_pfn = block.0 - pages(pageblock);
        }
        state.free = state.free.min(self.free_pfn);
        // Targets are taken from the end of the list: the first that were found come first.
        self.targets.reverse();
    }

    pub(super) fn is_target(&self, zone: &Zone<'_>, block: Pfn) -> bool {
        if !self.goal.ignore_hints && zone.skip(block) {
            return false;
        }
        let order = match zone.state(block) {
            Some(FrameState::Free { order, .. }) => Some(order),
            _ => None,
        };
        let pageblock = zone.geometry().pageblock_order;
        let too_good: Order = match zone.policy().compact_target {
            CompactTarget::AcceptLarge => Order::MAX,
            CompactTarget::RejectPageblock => pageblock,
            CompactTarget::RejectOrder => self.goal.order.unwrap_or(pageblock),
        };
        if order.is_some_and(|order| order >= too_good) {
            return false;
        }
        let large = zone.policy().compact_target == CompactTarget::AcceptLarge
            && order.is_some_and(|order| order >= pageblock);
        match zone.block_type(block) {
            Some(Movable | Cma) => true,
            Some(Reserve | Isolate) | None => false,
            // In 3.10 a whole free block will do, whatever its type.
            Some(_) => self.goal.any_block || large,
        }
    }

    /// Takes the free pages of a pageblock off their lists until there are enough. Tells whether the
    /// whole block was looked at.
    pub(super) fn scan_free(
        &mut self,
        zone: &mut Zone<'_>,
        block: Pfn,
        wanted: usize,
        found: &mut Vec<(Pfn, Order)>,
    ) -> bool {
        let end = (block.0 + pages(zone.geometry().pageblock_order)).min(zone.span.end.0);
        let first = block.0.max(zone.span.start.0);
        // The last targets may have come from the lower part of the same block.
        let mut pfn =
            if (first..end).contains(&self.free_resume) { self.free_resume } else { first };
        let whole = pfn == first;
        let mut taken = 0;
        while pfn < end {
            self.scanned.free += 1;
            let order = match zone.state(Pfn(pfn)) {
                Some(FrameState::Free { order, .. }) => order,
                Some(FrameState::Allocated { order, .. }) => {
                    pfn += pages(order);
                    continue;
                }
                _ => {
                    pfn += 1;
                    continue;
                }
            };
            if !may_take(zone, order) {
                // Too little is free to take more: the scanner ends here.
                self.free_pfn = 0;
                return false;
            }
            if zone.isolate_free_page(Pfn(pfn)).is_some() {
                found.push((Pfn(pfn), order));
                taken += 1usize << order;
            }
            pfn += pages(order);
            if self.targets.len() + taken >= wanted {
                self.free_resume = pfn;
                return pfn >= end;
            }
        }
        if taken == 0 && whole && !self.goal.ignore_hints {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
        true
    }

    pub(super) fn take<C: Content>(
        &mut self,
        allocator: &mut Allocator<'_>,
        content: &mut C,
        pfn: Pfn,
        order: Order,
    ) {
        if let Err(error) = allocator.split_allocated(pfn, order, 0) {
            panic!("splitting the free block at {pfn}: {error}");
        }
        self.scanned.isolated += pages(order);
        for offset in 0..pages(order) {
            content.hold(pfn.plus(offset), true);
            self.targets.push((pfn.0 + offset) as u32);
        }
    }
}

/// Whether a block may be taken, by the watermark of `__isolate_free_page`.
pub(super) fn may_take(zone: &Zone<'_>, order: Order) -> bool {
    // Linux: the low watermark without CMA up to 4.8.
    if zone.policy().compact_scan <= CompactScan::V319 {
        let mark = zone.watermarks.low + pages(order);
        return zone.watermark_ok(0, mark, ZoneKind::Dma, AllocFlags(0));
    }
    zone.watermark_ok(0, zone.watermarks.min + pages(order), ZoneKind::Dma, AllocFlags::CMA)
}
