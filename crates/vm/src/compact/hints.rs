//! The hints of a zone: pageblocks that scanners pass over, and where they start.
//!
//! Up to 5.0 a hint says that nothing was found in a pageblock. From 5.1 it says that the pageblock was
//! looked into, and only those that a sample shows to be worth it lose it again.
//!
//! Source: `update_pageblock_skip`, `test_and_set_skip`, `update_cached_migrate`,
//! `__reset_isolation_suitable` (mm/compaction.c).

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::Movable;
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::SkipHints;

use super::{Compactor, Content, Mode, ZoneCompact};
use crate::slowpath_orders::PAGE_ALLOC_COSTLY_ORDER;

/// What a sample of a pageblock is to show.
#[derive(Clone, Copy)]
struct Wanted {
    content: bool,
    room: bool,
}

impl Compactor {
    /// Whether this compaction leaves hints behind: one that ignores them does from 4.15 on (2583d6713267), here
    /// where hints say what was visited.
    fn leaves_hints(&self) -> bool {
        !self.goal.ignore_hints || self.rules.skip_hints != SkipHints::NothingFound
    }

    /// The migration scanner takes the first page of a pageblock's content.
    pub(super) fn note_source(
        &self,
        zone: &mut Zone<'_>,
        block: Pfn,
        first: Pfn,
        from_start: bool,
    ) {
        let marks = match self.rules.skip_hints {
            SkipHints::FirstFrame => first == block,
            SkipHints::FromStart => from_start,
            SkipHints::NothingFound => false,
        };
        if marks && !self.goal.ignore_hints {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
    }

    /// The migration scanner is through with a pageblock; `marked` says that it was the first to take content
    /// there.
    pub(super) fn note_scanned(
        &self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        block: Pfn,
        from_start: bool,
        marked: bool,
    ) {
        if !self.leaves_hints() {
            return;
        }
        if from_start && !marked {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
        self.start_after(state, self.migrate_pfn);
    }

    /// Later compactions start the migration scanner here.
    pub(super) fn start_after(&self, state: &mut ZoneCompact, pfn: u64) {
        state.migrate[0] = state.migrate[0].max(pfn);
        if self.goal.mode != Mode::Async {
            state.migrate[1] = state.migrate[1].max(pfn);
        }
    }

    /// The free scanner is through with a pageblock.
    pub(super) fn note_target(&self, zone: &mut Zone<'_>, state: &mut ZoneCompact, block: Pfn) {
        if !self.leaves_hints() {
            return;
        }
        // The block is in the zone: the scanner is there.
        let _ = zone.set_skip(block, true);
        let below = block.0.saturating_sub(pages(zone.geometry().pageblock_order));
        state.free = state.free.min(below.max(zone.span().start.0));
    }
}

/// Clears the hints of a zone and moves the places where the scanners start.
pub(super) fn forget<C: Content>(
    allocator: &mut Allocator<'_>,
    zone: usize,
    state: &mut ZoneCompact,
    content: &C,
    rule: SkipHints,
) {
    let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)) else { return };
    if rule == SkipHints::NothingFound {
        forget_all(zone, state);
    } else if state.flush {
        forget_worthwhile(zone, state, content);
    }
    state.flush = false;
}

fn forget_all(zone: &mut Zone<'_>, state: &mut ZoneCompact) {
    state.reset(zone);
    let step = pages(zone.geometry().pageblock_order);
    let mut pfn = zone.span().start;
    while pfn < zone.span().end {
        // Every frame of the span is the zone's or a hole in it.
        let _ = zone.set_skip(pfn, false);
        pfn = pfn.align_down(zone.geometry().pageblock_order).plus(step);
    }
}

/// From both ends: the scanners start at the outermost pageblocks that have content and room, and from there on
/// either is enough for a hint to go.
fn forget_worthwhile<C: Content>(zone: &mut Zone<'_>, state: &mut ZoneCompact, content: &C) {
    let step = pages(zone.geometry().pageblock_order);
    let (mut low, mut high) = (zone.span().start.0, zone.span().end.0 - 1);
    let (mut source, mut target) = (None, None);
    while low < high {
        let wanted = Wanted { content: true, room: source.is_some() };
        if forget_block(zone, Pfn(low), wanted, content) && source.is_none() {
            source = Some(low);
            (state.init_migrate, state.migrate) = (low, [low; 2]);
        }
        let wanted = Wanted { content: target.is_some(), room: true };
        if forget_block(zone, Pfn(high), wanted, content) && target.is_none() {
            target = Some(high);
            // Linux: the scanner starts at the block's last page, and so takes next to nothing there.
            (state.init_free, state.free) = (high, high);
        }
        low += step;
        high = high.saturating_sub(step);
    }
    let start = zone.span().start.0;
    if source.unwrap_or(zone.span().end.0 - 1) >= target.unwrap_or(start) {
        (state.migrate, state.free) = ([low; 2], high);
    }
}

/// Tells whether a pageblock has no hint any more, by a look at every eighth page.
fn forget_block<C: Content>(zone: &mut Zone<'_>, pfn: Pfn, wanted: Wanted, content: &C) -> bool {
    let pageblock = zone.geometry().pageblock_order;
    let block = pfn.align_down(pageblock);
    let first = block.max(zone.span().start);
    let whole = matches!(zone.state(first), Some(FrameState::Allocated { order, .. }) if order >= pageblock);
    if whole {
        return false;
    }
    if wanted.content && wanted.room && !zone.skip(first) {
        return true;
    }
    if !wanted.content && zone.block_type(first) != Some(Movable) {
        return false;
    }
    let end = (block.0 + pages(pageblock)).min(zone.span().end.0);
    let found = (first.0..end).step_by(1 << PAGE_ALLOC_COSTLY_ORDER).any(|pfn| {
        match zone.state(Pfn(pfn)) {
            Some(FrameState::Free { .. }) => wanted.room,
            Some(FrameState::Allocated { order: 0, .. }) => {
                wanted.content && content.is_movable(Pfn(pfn), Mode::Sync)
            }
            _ => false,
        }
    });
    if found {
        // The block is in the zone.
        let _ = zone.set_skip(first, false);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{rules, with_allocator};
    use super::*;

    /// The content of the first pageblock can be moved, and no other.
    struct First;

    impl Content for First {
        fn is_movable(&self, pfn: Pfn, _mode: Mode) -> bool {
            pfn.0 < 512
        }

        fn migrate(&mut self, _from: Pfn, _to: Pfn, _mode: Mode) -> bool {
            false
        }
    }

    /// Of a pageblock with content, one in use as a whole, one with room and one with neither, all passed over, those
    /// that lose their hints.
    fn forgotten(policy: &str) -> Vec<u64> {
        let mut forgotten = Vec::new();
        with_allocator(policy, 2048, |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            assert_eq!([0, 1024].map(|pfn| zone.isolate_free_page(Pfn(pfn))), [Some(10); 2]);
            allocator.split_allocated(Pfn(0), 10, 9).unwrap();
            allocator.split_allocated(Pfn(0), 9, 0).unwrap();
            allocator.split_allocated(Pfn(1024), 10, 0).unwrap();
            allocator.free(CpuId(0), Pfn(1024 + 64), 0, &mut ()).unwrap();
            allocator.drain_cpu(CpuId(0), &mut ()).unwrap();
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let mut state = ZoneCompact::new(zone);
            state.flush = true;
            for block in [0, 512, 1024, 1536] {
                zone.set_skip(Pfn(block), true).unwrap();
            }
            forget(allocator, 0, &mut state, &First, rules(policy).skip_hints);
            assert!(!state.flush);
            let blocks = allocator.zones()[0].pageblocks();
            forgotten = blocks.filter(|&(_, _, skip)| !skip).map(|(pfn, ..)| pfn.0).collect();
        });
        forgotten
    }

    #[test]
    fn from_5_1_only_worthwhile_pageblocks_lose_their_hints() {
        assert_eq!(forgotten("linux-5.0"), [0, 512, 1024, 1536]);
        assert_eq!(forgotten("linux-5.1"), [0, 1024]);
    }
}
