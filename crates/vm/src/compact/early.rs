//! The scanners of 3.10 to 4.0, and when their compaction is over.
//!
//! They look at every frame, even inside blocks; the free scanner empties whole pageblocks, however few pages are
//! wanted, and tries every free block even if the watermark allows none to be taken.
//!
//! Source: `isolate_freepages`, `isolate_freepages_block`, `isolate_migratepages_range`, `update_pageblock_skip`,
//! `compact_finished` (mm/compaction.c of 3.10, 3.13, 3.16 and 3.19).

use pageblock::FrameState;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{Cma, Movable};
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::FreeScanner;

use super::free::may_take;
use super::{CLUSTER, Compactor, Content, Memory, Mode, ZoneCompact};

impl Compactor {
    /// Takes the free pages of whole pageblocks until there are enough for the batch.
    pub(super) fn isolate_free_blocks<C: Content>(&mut self, on: &mut Memory<'_, '_, C>) {
        let scanner = self.rules.free_scanner;
        let order = on.allocator.geometry().pageblock_order;
        let mut pfn = Pfn(self.free_pfn).align_down(order).0;
        // 3.10 adds a pageblock to the migration scanner's frame, and leaves out the lowest block.
        let low = match scanner {
            FreeScanner::FromHighest => self.migrate_pfn + pages(order) + 1,
            _ => Pfn(self.migrate_pfn + 1).align_up(order).0,
        };
        let mut highest = pfn.min(self.migrate_pfn + pages(order));
        let mut found = Vec::new();
        while pfn >= low && self.targets.pages() < self.batch_pages {
            let Some((zone, _)) =
                on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(0))
            else {
                return;
            };
            while found.is_empty() && pfn >= low {
                let lowest = Pfn(low).align_up(order);
                let Some(block) = self.last_to_try(zone, lowest, Pfn(pfn)) else {
                    pfn = lowest.0 - pages(order);
                    break;
                };
                pfn = block.0;
                if self.may_fill(zone, block) {
                    self.empty_block(zone, on.state, block, &mut found);
                    if !found.is_empty() {
                        self.found_free = true;
                        highest = highest.max(pfn);
                    }
                    self.free_pfn = match scanner {
                        FreeScanner::FromHighest | FreeScanner::FromLast => pfn,
                        _ => pfn - pages(order),
                    };
                }
                pfn -= pages(order);
            }
            for (pfn, order) in found.drain(..) {
                self.take(on, pfn, order);
            }
        }
        if scanner == FreeScanner::FromHighest {
            // The next search starts where this one found its first page.
            self.free_pfn = highest;
        } else if pfn < low {
            self.free_pfn = self.migrate_pfn;
        }
    }

    /// Takes all free pages of a pageblock off their lists.
    fn empty_block(
        &mut self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        block: Pfn,
        found: &mut Vec<(Pfn, Order)>,
    ) {
        let end = (block.0 + pages(zone.geometry().pageblock_order)).min(zone.span().end.0);
        let mut pfn = block.0.max(zone.span().start.0);
        while pfn < end {
            let (order, free) = block_at(zone, pfn);
            if free
                && may_take(zone, order, &self.rules)
                && zone.isolate_free_page(Pfn(pfn)).is_some()
            {
                found.push((Pfn(pfn), order));
                self.scanned.free += 1;
            } else {
                self.scanned.free += pages(order).min(end - pfn);
            }
            pfn += pages(order);
        }
        if found.is_empty() && !self.goal.ignore_hints {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
            let moves = !self.found_free || self.rules.free_scanner == FreeScanner::BelowLast;
            if moves {
                state.free = state.free.min(block.0);
            }
        }
    }

    /// Fills the batch from the next pageblock with content, or advances to the free scanner (up to 3.18).
    pub(super) fn isolate_content_by_frame<C: Content>(
        &mut self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        content: &C,
    ) {
        let pageblock = zone.geometry().pageblock_order;
        // Skipped pageblocks are cheap but not free: a step is bounded.
        for _ in 0..CLUSTER {
            let start = self.migrate_pfn;
            let end = Pfn(start + 1).align_up(pageblock).0;
            // The scanners have met.
            if end > self.free_pfn {
                self.migrate_pfn = end;
                return;
            }
            let movable = matches!(zone.block_type(Pfn(start)), Some(Movable | Cma));
            let skips_type = self.goal.mode == Mode::Async && !movable;
            let skip = !self.goal.ignore_hints && zone.skip(Pfn(start).align_down(pageblock));
            if skip || skips_type {
                // The first frame suffices to decide.
                self.scanned.migrate += 1;
                self.migrate_pfn = end;
            } else {
                self.isolate_frames(zone, content, end);
            }
            self.found_content |= !self.batch.is_empty();
            if !self.batch.is_empty() {
                return;
            }
            if self.migrate_pfn == end && !self.goal.ignore_hints {
                self.note_block(zone, state, start, skips_type && !skip);
            }
        }
    }

    fn isolate_frames<C: Content>(&mut self, zone: &Zone<'_>, content: &C, end: u64) {
        let mut pfn = self.migrate_pfn;
        while pfn < end && self.batch_pages < self.batch_most() {
            let (order, free) = block_at(zone, pfn);
            // A huge page is recognised by its first frame.
            let huge = !free && order >= zone.geometry().pageblock_order;
            self.scanned.migrate += if huge { 1 } else { pages(order).min(end - pfn) };
            let used = matches!(zone.state(Pfn(pfn)), Some(FrameState::Allocated { .. }));
            if used && order == 0 && content.is_movable(Pfn(pfn), self.goal.mode) {
                self.isolate(pfn, 0);
            }
            pfn += pages(order);
        }
        self.migrate_pfn = pfn.min(end);
    }

    /// Notes that nothing was isolated up to the end of a pageblock. `skips_type`: only because asynchronous compaction
    /// skips its type; up to 3.13 the hint holds for synchronous compaction, too.
    fn note_block(
        &mut self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        start: u64,
        skips_type: bool,
    ) {
        let old = self.rules.async_hides;
        if old || !skips_type {
            let block = Pfn(start).align_down(zone.geometry().pageblock_order);
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
        self.found_content |= old && skips_type;
        // The next compaction starts no later than the first pageblock with content.
        if self.found_content {
            return;
        }
        state.migrate[0] = state.migrate[0].max(start);
        if old || self.goal.mode != Mode::Async {
            state.migrate[1] = state.migrate[1].max(start);
        }
    }
}

/// Returns the order of the block at a frame, and whether it is free; a frame without a block has order 0.
fn block_at(zone: &Zone<'_>, pfn: u64) -> (Order, bool) {
    match zone.state(Pfn(pfn)) {
        Some(FrameState::Free { order, .. }) => (order, true),
        Some(FrameState::Allocated { order, .. }) => (order, false),
        _ => (0, false),
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{self, Unmovable};
    use pageblock::request::{Gfp, Request};
    use pageblock::slowpath::CompactResult;

    use super::*;
    use crate::compact::ZoneStep;
    use crate::compact::testing::{
        AllMovable, FRAMES, fill, goal, raise_watermarks, rules, with_allocator,
    };

    const LAST: u64 = FRAMES - 512;

    /// Runs a test with a zone without watermarks, a compactor at the ends of the zone, and the zone's state.
    fn with_zone<T>(
        policy: &str,
        migratetype: Migratetype,
        test: impl FnOnce(&mut Memory<'_, '_, AllMovable>, &mut Compactor) -> T,
    ) -> T {
        with_allocator(policy, FRAMES, |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let mut state = ZoneCompact::new(zone);
            let mut compactor = Compactor::new(goal(migratetype), rules(policy));
            (compactor.started, compactor.whole_zone) = (true, true);
            compactor.free_pfn = LAST;
            test(
                &mut Memory { allocator, state: &mut state, content: &mut AllMovable },
                &mut compactor,
            )
        })
    }

    /// `isolate_freepages` of 3.10 starts again at the highest pageblock with free pages, of 3.16 at the last one, of
    /// 3.19 below it; `isolate_freepages_block` scans the whole pageblock.
    #[test]
    fn the_free_scanner_empties_whole_pageblocks() {
        let scan = |policy| {
            with_zone(policy, Movable, |on, compactor| {
                fill(on.allocator);
                // More than one pageblock has free pages.
                compactor.batch_pages = 130;
                compactor.isolate_free(on, 130);
                let targets = &mut compactor.targets;
                (
                    targets.pages(),
                    compactor.scanned.free,
                    compactor.free_pfn,
                    targets.take_any().map(|(pfn, _)| pfn.0),
                )
            })
        };
        assert_eq!(scan("linux-3.10"), (256, 1024, LAST, Some(3580)));
        assert_eq!(scan("linux-3.16"), (256, 1024, LAST - 512, Some(3580)));
        assert_eq!(scan("linux-3.19"), (256, 1024, LAST - 1024, Some(3580)));
        assert_eq!(scan("linux-4.4").0, 130);
    }

    /// `finished_update_free`: pageblocks without a free page below one with free pages are hinted, but the next
    /// compaction starts above them.
    #[test]
    fn the_next_free_scanner_starts_where_pages_were_found() {
        let place = |policy| {
            with_zone(policy, Movable, |on, compactor| {
                let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
                while on.allocator.alloc(CpuId(0), &request, &mut ()).is_ok() {}
                for pfn in (LAST..FRAMES).step_by(4) {
                    on.allocator.free(CpuId(0), Pfn(pfn), 0, &mut ()).unwrap();
                }
                on.allocator.drain_all(&mut ());
                compactor.batch_pages = 130;
                compactor.isolate_free(on, 130);
                (on.state.free, on.allocator.zones()[0].skip(Pfn(512)))
            })
        };
        assert_eq!(["linux-3.10", "linux-3.16"].map(place), [(LAST, false), (LAST, true)]);
        assert_eq!(place("linux-3.19"), (512, true));
    }

    /// `isolate_migratepages_range` does not skip free blocks up to 3.17 (99c0fd5e51c4).
    #[test]
    fn the_migration_scanner_looks_at_every_frame() {
        let looks = |policy| {
            with_zone(policy, Movable, |on, compactor| {
                compactor.isolate_content(on);
                compactor.scanned.migrate
            })
        };
        assert_eq!(looks("linux-3.10"), LAST);
        assert!(looks("linux-4.4") < LAST);
    }

    /// Asynchronous compaction sets the hints of unmovable pageblocks for synchronous compaction, too, up to 3.13
    /// (50b5b094e683).
    #[test]
    fn asynchronous_compaction_leaves_hints_in_old_kernels() {
        let hinted = |policy| {
            with_zone(policy, Movable, |on, compactor| {
                let request = Request::new(0, Gfp::GFP_KERNEL);
                let pfn = on.allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
                compactor.goal.mode = Mode::Async;
                compactor.migrate_pfn = pfn.align_down(9).0;
                compactor.isolate_content(on);
                on.allocator.zones()[0].skip(pfn.align_down(9))
            })
        };
        assert_eq!(["linux-3.10", "linux-3.16", "linux-4.4"].map(hinted), [true, false, false]);
    }

    /// `compact_finished` does not consider blocks of another type before 2149cdaef6c0 (4.1).
    #[test]
    fn a_block_of_another_type_ends_nothing_before_4_1() {
        let ends = |policy, migratetype| {
            with_zone(policy, migratetype, |on, compactor| {
                compactor.finished(&on.allocator.zones()[0], on.state)
            })
        };
        for policy in ["linux-3.10", "linux-3.13", "linux-3.16", "linux-3.19"] {
            assert_eq!(ends(policy, Unmovable), None, "{policy}");
            assert_eq!(ends(policy, Movable), Some(CompactResult::Success), "{policy}");
        }
        assert_eq!(ends("linux-4.2", Unmovable), Some(CompactResult::Success));
    }

    /// If the watermark allows no page to be taken, every pageblock is tried and hinted, and `-ENOMEM` ends
    /// `compact_zone`; from 3.14 on the scanners meet there.
    #[test]
    fn compaction_ends_without_free_pages() {
        let ends = |policy| {
            with_zone(policy, Unmovable, |on, compactor| {
                fill(on.allocator);
                raise_watermarks(on.allocator);
                let mut step = ZoneStep::More;
                while step == ZoneStep::More {
                    step = compactor.step(on, 0, &mut ());
                }
                let zone = &on.allocator.zones()[0];
                let hinted = (0..8).filter(|block| zone.skip(Pfn(512 * block))).count();
                (step, hinted, on.state.free)
            })
        };
        assert_eq!(ends("linux-3.10"), (ZoneStep::Done(CompactResult::Contended), 6, 1024));
        assert_eq!(ends("linux-3.16"), (ZoneStep::Done(CompactResult::Complete), 7, LAST));
    }

    /// Up to 3.13 the scanners' positions stay where they met (55b7c4c99f6a).
    #[test]
    fn scanners_that_met_start_over_from_3_14() {
        let place = |policy| {
            with_zone(policy, Unmovable, |on, compactor| {
                compactor.migrate_pfn = LAST;
                on.state.migrate = [LAST; 2];
                let result = compactor.finished(&on.allocator.zones()[0], on.state);
                assert_eq!(result, Some(CompactResult::Complete));
                assert!(on.state.flush);
                on.state.migrate[1]
            })
        };
        assert_eq!(["linux-3.10", "linux-3.16"].map(place), [LAST, 0]);
    }
}
