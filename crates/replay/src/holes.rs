//! Holes of a machine: pageblocks within a zone that do not exist, as a snapshot from `/proc` tells.
//!
//! * Of most no frame is named.
//! * Some kernels print flags of 0 for them (6.18 does): runs of such frames, the longest first, are holes as far as the zone
//!   has fewer frames than are named.

use std::cmp::Reverse;

use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock_recording::{PageUse, Snapshot, ZoneSnapshot};

use crate::error::Error;

/// Returns the holes of a snapshot. One that is inferred from events does not name every frame, and tells of none.
pub(crate) fn of(snapshot: &Snapshot, pageblock_order: Order) -> Vec<FrameRange> {
    let present: u64 = snapshot.zones.iter().map(|zone| zone.present).sum();
    let frames: u64 = named(snapshot).map(|(_, count)| count).fold(0, u64::saturating_add);
    if snapshot.exact || frames < present {
        return Vec::new();
    }
    let zones = snapshot.zones.iter().filter(|zone| zone.managed > 0);
    zones.flat_map(|zone| of_zone(snapshot, zone, pageblock_order)).collect()
}

fn of_zone(snapshot: &Snapshot, zone: &ZoneSnapshot, pageblock_order: Order) -> Vec<FrameRange> {
    let within = |(pfn, count): (Pfn, u64)| {
        let start = pfn.max(zone.span().start);
        let end = Pfn(pfn.0.saturating_add(count)).min(zone.span().end);
        FrameRange { start, end: end.max(start) }
    };
    let frames: u64 = named(snapshot).map(|run| within(run).len()).sum();
    let mut too_many = frames.saturating_sub(zone.present);
    let without_flags = snapshot.used.iter().filter(|used| used.state == PageUse::KernelOrPcp);
    let pageblock = 1 << pageblock_order;
    let whole_blocks = |run: FrameRange| FrameRange {
        start: Pfn(run.start.0.next_multiple_of(pageblock)),
        end: run.end.align_down(pageblock_order),
    };
    let runs = without_flags.map(|used| whole_blocks(within((used.pfn, used.count))));
    let mut runs: Vec<FrameRange> = runs.filter(|run| run.start < run.end).collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    runs.retain(|run| {
        let is_hole = run.len() <= too_many;
        too_many -= if is_hole { run.len() } else { 0 };
        is_hole
    });
    runs.extend(unnamed(snapshot, zone.span(), pageblock_order));
    runs
}

/// Marks holes, so that they are not counted as memory.
///
/// # Errors
/// Where a frame is in no zone, or in use.
pub(crate) fn mark(allocator: &mut Allocator<'_>, holes: &[FrameRange]) -> Result<(), Error> {
    let mark =
        |hole: &FrameRange| allocator.mark_holes(*hole).map_err(|_| Error::Frame(hole.start));
    holes.iter().try_for_each(mark)
}

/// Returns the runs of frames that a snapshot names: where they begin, and how many they are.
fn named(snapshot: &Snapshot) -> impl Iterator<Item = (Pfn, u64)> {
    let free = snapshot.free.iter().map(|block| (block.pfn, 1 << block.order));
    let lists = snapshot.pcp.iter().map(|page| (page.pfn, 1 << page.order));
    free.chain(lists).chain(snapshot.used.iter().map(|used| (used.pfn, used.count)))
}

/// Returns the runs of pageblocks of a zone of which no frame is named.
fn unnamed(snapshot: &Snapshot, span: FrameRange, order: Order) -> Vec<FrameRange> {
    let block_of = |frame: u64| ((frame >> order) - (span.start.0 >> order)) as usize;
    let mut is_named = vec![false; span.end.0.checked_sub(1).map_or(0, |last| block_of(last) + 1)];
    for (pfn, count) in named(snapshot) {
        let (from, to) = (pfn.0.max(span.start.0), pfn.0.saturating_add(count).min(span.end.0));
        if from < to {
            is_named[block_of(from)..=block_of(to - 1)].fill(true);
        }
    }
    let mut holes: Vec<FrameRange> = Vec::new();
    for at in (0..is_named.len()).filter(|&at| !is_named[at]) {
        let frame = |block: usize| ((span.start.0 >> order) + block as u64) << order;
        let start = Pfn(frame(at).max(span.start.0));
        let end = Pfn(frame(at + 1).min(span.end.0));
        match holes.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => holes.push(FrameRange { start, end }),
        }
    }
    holes
}

#[cfg(test)]
mod tests {
    use pageblock::policy::Policy;
    use pageblock_recording::{FreeBlock, PageUse, UsedRange, ZoneSnapshot};

    use crate::machine::Machine;
    use crate::recorded::end_state;

    use super::*;

    /// The pageblocks that are counted of a zone from frame 1 to 4096, where frames 1024 to 2048 do not exist.
    fn counted(snapshot: &Snapshot) -> u64 {
        let machine = Machine::of_snapshot(snapshot, 9).unwrap();
        let policy = Policy::parse("linux-6.18").unwrap();
        let mut memory = machine.table_memory(policy).unwrap();
        let allocator = machine.allocator(policy, snapshot, &mut memory).unwrap();
        assert_eq!(allocator.zones()[0].present(), 3071);
        end_state(&allocator).blocks.unwrap().total()
    }

    #[test]
    fn pageblocks_in_holes_are_no_memory() {
        let zone = ZoneSnapshot {
            name: "DMA".into(),
            start_pfn: Pfn(1),
            spanned: 4095,
            present: 3071,
            managed: 3000,
            ..ZoneSnapshot::default()
        };
        let used = |pfn, count| UsedRange { state: PageUse::Reserved, pfn: Pfn(pfn), count };
        let mut snapshot = Snapshot {
            zones: vec![zone],
            used: vec![used(1, 1023), used(3072, 1024)],
            free: vec![FreeBlock { zone: 0, order: 10, mt: None, pfn: Pfn(2048) }],
            ..Snapshot::default()
        };
        assert_eq!(counted(&snapshot), 6);
        // A kernel may name frames that do not exist.
        let without_flags = used(1000, 1048);
        snapshot.used.push(UsedRange { state: PageUse::KernelOrPcp, ..without_flags });
        assert_eq!(counted(&snapshot), 6);
        snapshot.used.pop();
        // As where the start state is inferred: what is not named may exist.
        snapshot.used.pop();
        assert_eq!(counted(&snapshot), 8);
    }
}
