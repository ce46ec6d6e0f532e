//! Holes of a machine: pageblocks within a zone that do not exist, as inferred from a snapshot from `/proc`.
//!
//! * Most holes have no frame that is named.
//! * Some kernels print flags of 0 for them (6.18 does). Runs of such frames are holes, the longest first, until
//!   the zone has no fewer frames than are named.

use std::cmp::Reverse;

use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::zone::Zone;
use pageblock_recording::{PageUse, Snapshot, UsedRange, ZoneSnapshot};

use crate::error::Error;

/// Removes the frames from a snapshot that it names although they do not exist.
pub(crate) fn forget(snapshot: &mut Snapshot, pageblock_order: Order) {
    if !names_all(snapshot) {
        return;
    }
    let zones = snapshot.zones.iter().filter(|zone| zone.managed > 0);
    let holes: Vec<FrameRange> =
        zones.flat_map(|zone| named_holes(snapshot, zone, pageblock_order)).collect();
    for hole in holes {
        let cut = |used: UsedRange| {
            let end = used.pfn.0.saturating_add(used.count);
            let before = (used.pfn.0, end.min(hole.start.0));
            let after = (used.pfn.0.max(hole.end.0), end);
            let rest = |(from, to): (u64, u64)| UsedRange {
                pfn: Pfn(from),
                count: to.saturating_sub(from),
                ..used
            };
            [rest(before), rest(after)].into_iter().filter(|rest| rest.count > 0)
        };
        snapshot.used = std::mem::take(&mut snapshot.used).into_iter().flat_map(cut).collect();
    }
}

/// Returns whether a snapshot names every frame that exists. One that is inferred from events does not.
fn names_all(snapshot: &Snapshot) -> bool {
    let present: u64 = snapshot.zones.iter().map(|zone| zone.present).sum();
    let frames: u64 = named(snapshot).map(|(_, count)| count).fold(0, u64::saturating_add);
    !snapshot.exact && frames >= present
}

/// Returns the holes of a zone that a snapshot names.
fn named_holes(snapshot: &Snapshot, zone: &ZoneSnapshot, order: Order) -> Vec<FrameRange> {
    let within = |(pfn, count): (Pfn, u64)| {
        let start = pfn.max(zone.span().start);
        let end = Pfn(pfn.0.saturating_add(count)).min(zone.span().end);
        FrameRange { start, end: end.max(start) }
    };
    let frames: u64 = named(snapshot).map(|run| within(run).len()).sum();
    let mut too_many = frames.saturating_sub(zone.present);
    let without_flags = snapshot.used.iter().filter(|used| used.state == PageUse::KernelOrPcp);
    let whole_blocks = |run: FrameRange| FrameRange {
        start: Pfn(run.start.0.next_multiple_of(1 << order)),
        end: run.end.align_down(order),
    };
    let runs = without_flags.map(|used| whole_blocks(within((used.pfn, used.count))));
    let mut runs: Vec<FrameRange> = runs.filter(|run| run.start < run.end).collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    runs.retain(|run| {
        let is_hole = run.len() <= too_many;
        too_many -= if is_hole { run.len() } else { 0 };
        is_hole
    });
    runs
}

/// Marks holes, so that they are not counted as memory.
///
/// # Errors
/// If a frame of a hole is allocated.
pub(crate) fn mark(allocator: &mut Allocator<'_>, snapshot: &Snapshot) -> Result<(), Error> {
    if !names_all(snapshot) {
        return Ok(());
    }
    let order = allocator.geometry().pageblock_order;
    let spans: Vec<FrameRange> = allocator.zones().iter().map(Zone::span).collect();
    for hole in spans.into_iter().flat_map(|span| unnamed(snapshot, span, order)) {
        allocator.mark_holes(hole).map_err(|_| Error::Frame(hole.start))?;
    }
    Ok(())
}

/// Returns the runs of frames that a snapshot names: their starts and lengths.
fn named(snapshot: &Snapshot) -> impl Iterator<Item = (Pfn, u64)> {
    let free = snapshot.free.iter().map(|block| (block.pfn, 1 << block.order));
    let lists = snapshot.pcp.iter().map(|page| (page.pfn, 1 << page.order));
    free.chain(lists).chain(snapshot.used.iter().map(|used| (used.pfn, used.count)))
}

/// Returns the runs of pageblocks of a zone in which no frame is named.
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
    use pageblock_recording::FreeBlock;

    use crate::machine::Machine;
    use crate::recorded::end_state;

    use super::*;

    /// Counts the pageblocks of a zone of frames 1 to 4096, where frames 1024 to 2048 do not exist.
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
        assert_eq!(counted(&snapshot), 8);
        forget(&mut snapshot, 9);
        assert_eq!(
            snapshot.used[2..],
            [used(1000, 24)].map(|used| UsedRange { state: PageUse::KernelOrPcp, ..used })
        );
        assert_eq!(counted(&snapshot), 6);
        snapshot.used.pop();
        // As for an inferred start state: unnamed frames may exist.
        snapshot.used.pop();
        assert_eq!(counted(&snapshot), 8);
    }
}
