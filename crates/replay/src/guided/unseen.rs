//! Blocks that leave the free lists without an event, in recordings without a probe on compaction's isolation.
//!
//! A scan of a pageblock for free pages reports how many it took.

use pageblock::FrameState;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_recording::Other;

use super::Guided;
use crate::look_ahead::Destination;

/// What a replay infers from its state although no event says it. A free replay is given these, because its own
/// state differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inferred {
    /// Compaction took a block of free pages.
    Isolated {
        /// The block.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// A page left a CPU's list: the bulk allocator took it.
    LeftList {
        /// The page.
        pfn: Pfn,
        /// The CPU.
        cpu: usize,
        /// The type of the list.
        mt: Migratetype,
    },
    /// A page that compaction reports free does reach a list.
    Freed,
}

/// The strides that a scan may take (`isolate_freepages`).
const STRIDES: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Parses a frame number such as `0x3a00`.
fn frame(text: &str) -> Option<Pfn> {
    let digits = text.trim().trim_start_matches('(').trim_start_matches("0x");
    u64::from_str_radix(digits.trim_end_matches([')', ',']), 16).ok().map(Pfn)
}

/// Parses the frame number that follows a key such as `free_pfn=`.
pub(super) fn frame_of(other: &Other, key: &str) -> Option<Pfn> {
    frame(other.args.split_once(key)?.1.split_whitespace().next()?)
}

/// Parses the range of frames in `range=(0x3a00 ~ 0x3c00) nr_scanned=32 nr_taken=8`.
pub(crate) fn range(other: &Other) -> Option<(Pfn, Pfn)> {
    let (_, rest) = other.args.split_once("range=")?;
    let (start, end) = rest.split_once(')')?.0.split_once('~')?;
    frame(start).zip(frame(end))
}

impl Guided<'_, '_> {
    /// Follows events of compaction.
    pub(super) fn compaction(&mut self, event: u64, pid: u32, other: &Other) {
        if self.look_ahead.has_isolation() {
            return;
        }
        match &*other.name {
            "mm_compaction_try_to_compact_pages" | "mm_compaction_kcompactd_wake" => {
                let order = other.number("order").and_then(|order| Order::try_from(order).ok());
                self.compaction.wanted_order.insert(pid, order.unwrap_or(0));
            }
            "mm_compaction_begin" => self.begin_run(event, pid, other),
            "mm_compaction_end" => {
                self.compaction.runs.remove(&pid);
            }
            "mm_compaction_isolate_migratepages" => self.scanned_to_migrate(pid, other),
            "mm_compaction_fast_isolate_freepages" => self.searched_for_free(event, pid, other),
            "mm_compaction_isolate_freepages" => self.scanned_for_free(event, pid, other),
            _ => {}
        }
    }

    /// Follows `mm_compaction_isolate_freepages`: takes as many pages as the scan took, with the stride that yields
    /// that number.
    fn scanned_for_free(&mut self, event: u64, pid: u32, other: &Other) {
        let taken = other.number("nr_taken").unwrap_or(0);
        let Some((start, end)) = range(other) else { return };
        // The lists did not change.
        if taken <= 0 {
            return;
        }
        let taken = taken as u64;
        let pages = |blocks: &[(Pfn, Order)]| blocks.iter().map(|b| 1u64 << b.1).sum::<u64>();
        let scans = STRIDES.map(|stride| self.scan(event, start, end, stride));
        let exact = scans.iter().find(|blocks| pages(blocks) == taken);
        let mut left = taken;
        for &(pfn, order) in exact.unwrap_or(&scans[0]) {
            if left >= 1 << order {
                left -= 1 << order;
                self.isolated_unseen(pid, pfn, order, Destination::Listed);
            }
        }
    }

    /// Returns the free blocks that a scan finds and that leave the lists without an event.
    fn scan(&self, event: u64, start: Pfn, end: Pfn, stride: u64) -> Vec<(Pfn, Order)> {
        let mut blocks = Vec::new();
        let mut at = start.0;
        while at < end.0 {
            let pfn = Pfn(at);
            let Some(zone) = self.zone_of(pfn).and_then(|zone| self.allocator.zones().get(zone))
            else {
                break;
            };
            if let Some((block, order, _)) = zone.free_block_of(pfn).filter(|free| free.0 == pfn) {
                if self.look_ahead.untraced().block(block, order, event) {
                    blocks.push((block, order));
                }
                at += (1 << order) - 1;
            } else if let Some(FrameState::Allocated { order, .. }) = zone.state(pfn)
                && at + (1 << order) <= end.0
            {
                at += (1 << order) - 1;
            }
            at += stride;
        }
        blocks
    }
}
