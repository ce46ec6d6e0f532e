//! Blocks that leave the free lists unseen, in recordings without a probe on compaction's isolation.
//!
//! A scan of a pageblock for free pages reports how many it took: the lowest ones.

use pageblock::frame::Pfn;
use pageblock_recording::Other;

use super::Guided;

/// A frame number in a range such as `(0x3a00 ~ 0x3c00)`.
fn frame(text: &str) -> Option<Pfn> {
    let digits = text.trim().trim_start_matches('(').trim_start_matches("0x");
    u64::from_str_radix(digits.trim_end_matches(')'), 16).ok().map(Pfn)
}

impl Guided<'_, '_> {
    /// `mm_compaction_isolate_freepages`: takes as many pages as the scan took.
    pub(super) fn scanned_for_free(&mut self, other: &Other) {
        if self.fates.has_isolation() {
            return;
        }
        // range=(0x3a00 ~ 0x3c00) nr_scanned=32 nr_taken=8
        let range = other.args.split_once("range=").and_then(|(_, rest)| rest.split_once(')'));
        let ends = range.and_then(|(range, _)| range.split_once('~'));
        let Some((Some(start), Some(end))) = ends.map(|(a, b)| (frame(a), frame(b))) else {
            return;
        };
        let mut left = other.number("nr_taken").unwrap_or(0);
        let mut at = start.0;
        while left > 0 && at < end.0 {
            let Some(zone) = self.zone_of(Pfn(at)) else { return };
            let Some((zone, _)) = self.allocator.zone_and_cache(zone, 0) else { return };
            at = match zone.free_block_of(Pfn(at)) {
                Some((block, order, _)) => {
                    let _ = zone.follow_take(block, order, true);
                    left -= 1 << order;
                    self.unseen += 1 << order;
                    block.0 + (1 << order)
                }
                None => at + 1,
            };
        }
    }
}
