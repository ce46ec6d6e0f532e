//! Free pages that leave the free lists without an event of their own, such as those that compaction isolates: they
//! are free, and next they are seen to be freed, or to be in use at the end.

use pageblock::frame::{Order, Pfn};
use pageblock_recording::Snapshot;

/// When pages left the free lists silently.
#[derive(Default)]
pub struct Untraced {
    /// The page, the first event before which it may have left, and the first event before which it must have left;
    /// sorted.
    stays: Vec<(Pfn, u64, u64)>,
}

impl Untraced {
    /// Returns whether a page may have left the free lists silently just before this event.
    fn page(&self, pfn: Pfn, event: u64) -> bool {
        let after = self.stays.partition_point(|&(page, from, _)| (page, from) <= (pfn, event));
        let last = after.checked_sub(1).map(|at| self.stays[at]);
        last.is_some_and(|(page, _, to)| page == pfn && event < to)
    }

    /// Returns whether all pages of a block may have left silently just before this event.
    #[must_use]
    pub fn block(&self, pfn: Pfn, order: Order, event: u64) -> bool {
        (pfn.0..pfn.0 + (1 << order)).all(|page| self.page(Pfn(page), event))
    }
}

/// Finds such pages in one pass.
pub(super) struct UntracedFinder {
    /// By page: the event since which it is on the free lists, plus one; 0 if it is not.
    since: Vec<u64>,
    found: Untraced,
}

impl UntracedFinder {
    /// Creates a finder for other lists than those with the start snapshot's free blocks.
    pub(super) fn without(start: &Snapshot) -> Self {
        Self { since: vec![0; start.end_pfn().0 as usize], found: Untraced::default() }
    }

    pub(super) fn new(start: &Snapshot) -> Self {
        let mut finder = Self::without(start);
        for block in &start.free {
            finder.put(0, block.pfn, block.order);
        }
        finder
    }

    fn frames(&mut self, pfn: Pfn, order: Order) -> &mut [u64] {
        let start = (pfn.0 as usize).min(self.since.len());
        let end = (start + (1usize << order)).min(self.since.len());
        &mut self.since[start..end]
    }

    /// Notes a block that reaches the free lists.
    pub(super) fn put(&mut self, event: u64, pfn: Pfn, order: Order) {
        self.frames(pfn, order).fill(event + 1);
    }

    /// Notes a block that leaves them with an event.
    pub(super) fn take(&mut self, pfn: Pfn, order: Order) {
        self.frames(pfn, order).fill(0);
    }

    /// Notes a page that was free between two events, and left the lists in between.
    pub(super) fn stayed(&mut self, pfn: Pfn, from: u64, to: u64) {
        self.found.stays.push((pfn, from, to));
    }

    /// Notes a block that is seen in use.
    pub(super) fn in_use(&mut self, event: u64, pfn: Pfn, order: Order) {
        for page in pfn.0..pfn.0 + (1 << order) {
            let since = self.since.get_mut(page as usize).map_or(0, std::mem::take);
            if since > 0 {
                self.found.stays.push((Pfn(page), since - 1, event));
            }
        }
    }

    /// Returns such pages. At the end only the blocks of the end snapshot are free.
    pub(super) fn finish(mut self, end: Option<&Snapshot>) -> Untraced {
        if let Some(end) = end {
            for block in &end.free {
                self.take(block.pfn, block.order);
            }
            let left = self.since.iter().enumerate().filter(|&(_, &since)| since > 0);
            let stays = left.map(|(page, &since)| (Pfn(page as u64), since - 1, u64::MAX));
            self.found.stays.extend(stays);
        }
        self.found.stays.sort_unstable();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_recording::ZoneSnapshot;

    #[test]
    fn a_free_page_that_is_freed_left_silently() {
        let zone = ZoneSnapshot { spanned: 8, ..ZoneSnapshot::default() };
        let start = Snapshot { zones: vec![zone], ..Snapshot::default() };
        let mut finder = UntracedFinder::new(&start);
        finder.put(3, Pfn(4), 1);
        finder.in_use(7, Pfn(4), 0);
        finder.take(Pfn(5), 0);
        finder.in_use(8, Pfn(5), 0);
        let untraced = finder.finish(None);
        assert!(untraced.block(Pfn(4), 0, 3) && untraced.block(Pfn(4), 0, 6));
        assert!(!untraced.block(Pfn(4), 0, 2) && !untraced.block(Pfn(4), 0, 7));
        assert!(!untraced.block(Pfn(4), 1, 6));
    }
}
