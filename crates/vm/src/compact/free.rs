//! The free scanner: goes down through a zone for free pages as migration targets.
//!
//! Source: `isolate_freepages`, `suitable_migration_target`, `isolate_freepages_block`
//! (mm/compaction.c).

use pageblock::FrameState;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{Cma, Isolate, Movable, Reserve};
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{
    CompactTarget, Compaction, FreeScanner, IsolateMark, SkipHints,
};

use super::{Compactor, Content, Memory, Mode};

impl Compactor {
    /// Takes at least `wanted` free pages, if there are as many above the migration scanner.
    pub(super) fn isolate_free<C: Content>(&mut self, on: &mut Memory<'_, '_, C>, wanted: usize) {
        if self.rules.free_scanner != FreeScanner::AsNeeded {
            self.isolate_free_blocks(on);
            return;
        }
        // A search without a target leaves the range to the walk.
        if !self.search_free(on, wanted) {
            self.walk_free(on, wanted);
        }
    }

    /// Goes down through the pageblocks (`isolate_freepages`). From 5.1 it looks at every second page of a pageblock
    /// after one without free pages, then at every fourth, up to every 32nd (4fca9730c51d).
    fn walk_free<C: Content>(&mut self, on: &mut Memory<'_, '_, C>, wanted: usize) {
        let order = on.allocator.geometry().pageblock_order;
        let low = Pfn(self.migrate_pfn).align_up(order).0;
        let (mut found, mut stride) = (Vec::new(), 1);
        let visited = self.rules.skip_hints != SkipHints::NothingFound;
        // Asynchronous compaction prefers few looks to a complete search.
        if self.goal.mode == Mode::Async {
            stride = u64::from(self.rules.compact_batch);
        }
        while self.free_pfn >= low {
            let Some((zone, _)) =
                on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
            else {
                return;
            };
            let at = Pfn(self.free_pfn).align_down(order);
            // With enough targets of other orders it passes a single pageblock.
            let low = if self.targets.pages() < wanted { low } else { at.0 };
            let Some(block) = self.last_to_try(zone, Pfn(low), at) else {
                self.free_pfn = low.saturating_sub(pages(order));
                return;
            };
            if block != at {
                self.free_pfn = block.0;
            }
            if self.may_fill(zone, block) {
                let end = (block.0 + pages(order)).min(zone.span().end.0);
                let step = if self.rules.sampling { stride } else { 1 };
                let taken = self.scan_free(zone, end, step, wanted, &mut found);
                if self.free_pfn >= end && (visited || taken == 0) {
                    self.note_target(zone, on.state, block);
                }
                for (pfn, order) in found.drain(..) {
                    self.take(on, pfn, order);
                }
                if self.free_pfn < end {
                    // The next targets come from the same block.
                    return;
                }
                stride = if taken > 0 {
                    1
                } else {
                    (2 * stride).min(u64::from(self.rules.compact_batch))
                };
            }
            self.free_pfn = block.0.saturating_sub(pages(order));
            if block.0 == 0 || self.targets.pages() >= wanted {
                return;
            }
        }
    }

    /// Returns the last pageblock from `low` to `high` that a hint does not exclude; `None` if there is none.
    pub(super) fn last_to_try(&self, zone: &Zone<'_>, low: Pfn, high: Pfn) -> Option<Pfn> {
        if self.goal.ignore_hints {
            return Some(high);
        }
        // A step may pass all pageblocks of a zone: word by word, as each of them alone costs more.
        zone.last_without_hint(low, high)
    }

    /// Returns whether content may be migrated to a pageblock (`suitable_migration_target`).
    pub(super) fn may_fill(&self, zone: &Zone<'_>, block: Pfn) -> bool {
        let order = match zone.state(block) {
            Some(FrameState::Free { order, .. }) => Some(order),
            _ => None,
        };
        let pageblock = zone.geometry().pageblock_order;
        let too_large: Order = match self.rules.compact_target {
            CompactTarget::AcceptLarge => Order::MAX,
            CompactTarget::RejectPageblock => pageblock,
            CompactTarget::RejectOrder => self.goal.order.unwrap_or(pageblock),
        };
        // Large free blocks stay whole: compaction is meant to make more of them.
        if order.is_some_and(|order| order >= too_large) {
            return false;
        }
        let large = self.rules.compact_target == CompactTarget::AcceptLarge
            && order.is_some_and(|order| order >= pageblock);
        match zone.block_type(block) {
            Some(Movable | Cma) => true,
            // Content there would undo the reserve, or the isolation.
            Some(Reserve | Isolate) | None => false,
            // In 3.10 a free block of a whole pageblock is a target, whatever its type.
            Some(_) => self.goal.any_block || large,
        }
    }

    /// Takes free pages off their lists from the free scanner's position up to the end of its pageblock, until there
    /// are enough (`isolate_freepages_block`). Returns the number of pages.
    fn scan_free(
        &mut self,
        zone: &mut Zone<'_>,
        end: u64,
        stride: u64,
        wanted: usize,
        found: &mut Vec<(Pfn, Order)>,
    ) -> usize {
        let wanted = wanted.saturating_sub(self.targets.pages());
        let start = self.free_pfn.max(zone.span().start.0);
        let (next, taken) = self.take_free(zone, (start, end), stride, wanted, found);
        let stopped = next < end && taken < wanted;
        let ends = stopped && !self.rules.free_scanner_stops;
        self.free_pfn = if ends { 0 } else { next };
        taken
    }

    /// Takes the free blocks of a range until there are enough pages, or too few are free to take more. Returns the
    /// frame after the last one that was looked at, and the number of pages.
    pub(super) fn take_free(
        &mut self,
        zone: &mut Zone<'_>,
        (start, end): (u64, u64),
        stride: u64,
        wanted: usize,
        found: &mut Vec<(Pfn, Order)>,
    ) -> (u64, usize) {
        let (mut pfn, mut taken) = (start, 0);
        while pfn < end {
            self.scanned.free += 1;
            let order = match zone.state(Pfn(pfn)) {
                Some(FrameState::Free { order, .. }) => order,
                Some(FrameState::Allocated { order, .. }) => {
                    self.scanned.free_passed += pages(order) - 1;
                    pfn += pages(order) - 1 + stride;
                    continue;
                }
                _ => {
                    pfn += stride;
                    continue;
                }
            };
            // `__isolate_free_page` would refuse, and ends the scan of the pageblock.
            if !may_take(zone, order, &self.rules) {
                return (pfn, taken);
            }
            if zone.isolate_free_page(Pfn(pfn)).is_some() {
                debug_assert_eq!(
                    zone.state(Pfn(pfn)),
                    Some(FrameState::Allocated { order, movable: true }),
                    "a target is not held"
                );
                found.push((Pfn(pfn), order));
                taken += 1usize << order;
                self.scanned.free_taken += pages(order) - 1;
            }
            pfn += pages(order);
            // The scanner goes on behind this block when more targets are needed.
            if taken >= wanted {
                return (pfn.min(end), taken);
            }
            pfn += stride - 1;
        }
        (end, taken)
    }

    /// Keeps a free block that was taken as targets: from 6.9 as a whole, before as single pages, the last
    /// first (`split_map_pages`).
    pub(super) fn take<C: Content>(&mut self, on: &mut Memory<'_, '_, C>, pfn: Pfn, order: Order) {
        self.scanned.isolated += pages(order);
        if self.rules.moves_folios {
            on.content.hold(pfn, order);
            self.targets.push_last(pfn, order);
            return;
        }
        if let Err(error) = on.allocator.split_allocated(pfn, order, 0) {
            panic!("splitting the free block at {pfn}: {error}");
        }
        for page in (0..pages(order)).map(|n| pfn.plus(n)) {
            on.content.hold(page, 0);
            self.targets.push_next(page, 0);
        }
    }
}

/// Returns whether the watermark of `__isolate_free_page` allows a block to be taken.
pub(super) fn may_take(zone: &Zone<'_>, order: Order, rules: &Compaction) -> bool {
    let (mark, flags) = match rules.isolate_mark {
        IsolateMark::Low => (zone.watermarks().low, AllocFlags(0)),
        IsolateMark::Min => (zone.watermarks().min, AllocFlags::CMA),
    };
    zone.watermark_ok(0, mark + pages(order), ZoneKind::Dma, flags)
}
