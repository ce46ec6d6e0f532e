//! The skip hints of a zone, and the positions at which its scanners start.
//!
//! Up to 5.0 a hint says that nothing was found in a pageblock. From 5.1 it says that the pageblock was scanned, and it
//! is cleared only if a sample shows that another scan is worthwhile.
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
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;

/// What a sample of a pageblock looks for.
#[derive(Clone, Copy)]
struct Wanted {
    /// Movable content.
    content: bool,
    /// Free pages.
    room: bool,
}

/// Where the migration scanner entered a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// At its start.
    Start,
    /// Behind its start: an earlier scan, or a search, led there.
    Within,
}

impl Compactor {
    /// Returns whether this compaction sets hints: one that ignores them sets them from 4.15 on (2583d6713267), here if
    /// hints say what was scanned.
    fn sets_hints(&self) -> bool {
        !self.goal.ignore_hints || self.rules.skip_hints != SkipHints::NothingFound
    }

    /// Notes that the migration scanner took the first movable page of a pageblock.
    pub(super) fn note_source(&self, zone: &mut Zone<'_>, block: Pfn, first: Pfn, entry: Entry) {
        let marks = match self.rules.skip_hints {
            SkipHints::FirstFrame => first == block,
            SkipHints::FromStart => entry == Entry::Start,
            SkipHints::NothingFound => false,
        };
        if marks && !self.goal.ignore_hints {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
    }

    /// Notes that the migration scanner has scanned a pageblock. `marked`: it took content there first.
    pub(super) fn note_scanned(
        &self,
        zone: &mut Zone<'_>,
        state: &mut ZoneCompact,
        block: Pfn,
        entry: Entry,
        marked: bool,
    ) {
        if !self.sets_hints() {
            return;
        }
        if entry == Entry::Start && !marked {
            // The block is in the zone: the scanner is there.
            let _ = zone.set_skip(block, true);
        }
        self.start_after(state, self.migrate_pfn);
    }

    /// Moves the position at which later compactions start the migration scanner.
    pub(super) fn start_after(&self, state: &mut ZoneCompact, pfn: u64) {
        state.migrate[0] = state.migrate[0].max(pfn);
        if self.goal.mode != Mode::Async {
            state.migrate[1] = state.migrate[1].max(pfn);
        }
    }

    /// Notes that the free scanner has scanned a pageblock.
    pub(super) fn note_target(&self, zone: &mut Zone<'_>, state: &mut ZoneCompact, block: Pfn) {
        if !self.sets_hints() {
            return;
        }
        // The block is in the zone: the scanner is there.
        let _ = zone.set_skip(block, true);
        let below = block.0.saturating_sub(pages(zone.geometry().pageblock_order));
        state.free = state.free.min(below.max(zone.span().start.0));
    }
}

/// Clears the hints of a zone and moves the positions at which the scanners start (`__reset_isolation_suitable`).
pub(super) fn reset<C: Content>(
    allocator: &mut Allocator<'_>,
    zone: usize,
    state: &mut ZoneCompact,
    content: &C,
    rule: SkipHints,
) {
    let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)) else {
        return;
    };
    if rule == SkipHints::NothingFound {
        reset_all(zone, state);
    } else if state.flush {
        reset_worthwhile(zone, state, content);
    }
    state.flush = false;
}

/// Clears all hints.
fn reset_all(zone: &mut Zone<'_>, state: &mut ZoneCompact) {
    state.reset(zone);
    let step = pages(zone.geometry().pageblock_order);
    let mut pfn = zone.span().start;
    while pfn < zone.span().end {
        // Every frame of the span is the zone's or a hole in it.
        let _ = zone.set_skip(pfn, false);
        pfn = pfn.align_down(zone.geometry().pageblock_order).plus(step);
    }
}

/// Clears hints from both ends of a zone: the scanners start at the outermost pageblocks with content and free pages;
/// from there on either suffices to clear a hint.
fn reset_worthwhile<C: Content>(zone: &mut Zone<'_>, state: &mut ZoneCompact, content: &C) {
    let step = pages(zone.geometry().pageblock_order);
    let (mut low, mut high) = (zone.span().start.0, zone.span().end.0 - 1);
    let (mut source, mut target) = (None, None);
    while low < high {
        let wanted = Wanted { content: true, room: source.is_some() };
        if reset_block(zone, Pfn(low), wanted, content) && source.is_none() {
            source = Some(low);
            (state.init_migrate, state.migrate) = (low, [low; 2]);
        }
        let wanted = Wanted { content: target.is_some(), room: true };
        if reset_block(zone, Pfn(high), wanted, content) && target.is_none() {
            target = Some(high);
            // Linux: the scanner starts at the block's last page, and so takes hardly anything there.
            (state.init_free, state.free) = (high, high);
        }
        low += step;
        high = high.saturating_sub(step);
    }
    let start = zone.span().start.0;
    if source.unwrap_or(zone.span().end.0 - 1) >= target.unwrap_or(start) {
        (state.migrate, state.free) = ([low; 2], high);
    }
    debug_assert!(state.free < zone.span().end.0, "the free scanner starts beyond the zone");
}

/// Clears the hint of a pageblock if a sample of every eighth page finds what is wanted. Returns whether it does, or
/// the hint is clear already.
fn reset_block<C: Content>(zone: &mut Zone<'_>, pfn: Pfn, wanted: Wanted, content: &C) -> bool {
    let pageblock = zone.geometry().pageblock_order;
    let block = pfn.align_down(pageblock);
    let first = block.max(zone.span().start);
    // Both ends were found, and the hint is clear already.
    if wanted.content && wanted.room && !zone.skip(first) {
        return true;
    }
    let state = zone.state(first);
    // A block of a whole pageblock has neither content to move away nor room.
    if matches!(state, Some(FrameState::Allocated { order, .. }) if order >= pageblock) {
        return false;
    }
    // The free scanner must not start at an unmovable pageblock.
    if !wanted.content && zone.block_type(first) != Some(Movable) {
        return false;
    }
    let is_wanted = |pfn, state| match state {
        Some(FrameState::Free { .. }) => wanted.room,
        Some(FrameState::Allocated { .. }) => wanted.content && content.is_movable(pfn, Mode::Sync),
        _ => false,
    };
    let end = (block.0 + pages(pageblock)).min(zone.span().end.0);
    let mut others = (first.0..end).step_by(1 << PAGE_ALLOC_COSTLY_ORDER).skip(1).map(Pfn);
    let found = is_wanted(first, state) || others.any(|pfn| is_wanted(pfn, zone.state(pfn)));
    if found {
        // The block is in the zone.
        let _ = zone.set_skip(first, false);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::testing::{rules, with_allocator};

    /// Only the content of the first pageblock is movable.
    struct First;

    impl Content for First {
        fn is_movable(&self, pfn: Pfn, _mode: Mode) -> bool {
            pfn.0 < 512
        }

        fn migrate(&mut self, _from: Pfn, _to: Pfn, _mode: Mode) -> bool {
            false
        }
    }

    /// Returns which pageblocks lose their hints: of one with content, one in use as a whole, one with free pages, and
    /// one with neither.
    fn cleared(policy: &str) -> Vec<u64> {
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
            reset(allocator, 0, &mut state, &First, rules(policy).skip_hints);
            assert!(!state.flush);
            let blocks = allocator.zones()[0].pageblocks();
            blocks.filter(|&(_, _, skip)| !skip).map(|(pfn, ..)| pfn.0).collect()
        })
    }

    #[test]
    fn from_5_1_only_worthwhile_pageblocks_lose_their_hints() {
        assert_eq!(cleared("linux-5.0"), [0, 512, 1024, 1536]);
        assert_eq!(cleared("linux-5.1"), [0, 1024]);
    }
}
