//! Huge pages that a replay gets where the recorded fault got none.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};

/// Milliseconds after which a huge page is freed if its task has requested no single page instead: it was not for a
/// page fault.
const UNUSED_MS: u32 = 1000;

/// Huge pages that stand for the single pages that recorded tasks took instead.
pub struct Instead {
    huge: Order,
    /// By fault.
    held: BTreeMap<u32, Held>,
    /// Recorded pages that are not requested here, and the faults that they belong to.
    of: BTreeMap<Pfn, u32>,
}

struct Held {
    block: Pfn,
    since: u32,
    /// The number of recorded pages in use that it stands for.
    pages: u32,
    /// It has stood for a page.
    used: bool,
}

impl Instead {
    /// Returns an empty set. `huge` is the order of a huge page.
    #[must_use]
    pub fn new(huge: Order) -> Self {
        Self { huge, held: BTreeMap::new(), of: BTreeMap::new() }
    }

    /// Notes the huge page that a fault got, and the time in milliseconds.
    pub fn hold(&mut self, fault: u32, block: Pfn, now: u32) {
        let held = Held { block, since: now, pages: 0, used: false };
        let lost = self.held.insert(fault, held).map(|held| held.block);
        debug_assert_eq!(lost, None, "fault {fault} has a huge page already");
    }

    /// Returns whether a fault has its huge page. Nothing else is requested for it then.
    #[must_use]
    pub fn has(&self, fault: u32) -> bool {
        self.held.contains_key(&fault)
    }

    /// Lets a fault's huge page stand for a recorded block, which is not requested here. If the recorded kernel got
    /// a huge page in the end, the block is this one: it is returned, and no longer followed.
    pub fn stand_for(&mut self, fault: u32, pfn: Pfn, order: Order) -> Option<Pfn> {
        if order >= self.huge {
            return self.drop(fault);
        }
        let held = self.held.get_mut(&fault)?;
        held.used = true;
        held.pages += 1 << order;
        self.of.extend((0..1 << order).map(|n| (pfn.plus(n), fault)));
        None
    }

    fn drop(&mut self, fault: u32) -> Option<Pfn> {
        let held = self.held.remove(&fault)?;
        debug_assert_eq!(held.pages, 0, "recorded pages would lose their huge page");
        Some(held.block)
    }

    /// Follows the move of a recorded page. Returns whether a huge page stands for it. The new frame may be
    /// unknown.
    pub fn relocate(&mut self, from: Pfn, to: Option<Pfn>) -> bool {
        let Some(fault) = self.of.remove(&from) else { return false };
        // A page whose new frame is unknown has no free that could be told from others.
        self.of.insert(to.unwrap_or(from), fault);
        true
    }

    /// Ends the use of a recorded block. Returns the number of its pages for which huge pages stood, and appends
    /// the huge pages that now stand for nothing.
    pub fn release(&mut self, pfn: Pfn, order: Order, gone: &mut Vec<Pfn>) -> u32 {
        if self.of.is_empty() {
            return 0;
        }
        let end = Pfn(pfn.0 + (1 << order));
        let faults: Vec<(Pfn, u32)> = self.of.range(pfn..end).map(|(&at, &of)| (at, of)).collect();
        for &(at, fault) in &faults {
            self.of.remove(&at);
            if let Some(held) = self.held.get_mut(&fault) {
                debug_assert!(held.pages > 0, "the huge page of fault {fault} stands for nothing");
                held.pages = held.pages.saturating_sub(1);
                if held.pages == 0 {
                    gone.push(held.block);
                    self.held.remove(&fault);
                }
            }
        }
        faults.len() as u32
    }

    /// Returns the huge pages that nobody has used by a time in milliseconds.
    pub fn unused(&mut self, now: u32) -> Vec<Pfn> {
        let old = |held: &Held| !held.used && now.saturating_sub(held.since) > UNUSED_MS;
        let unused: Vec<u32> =
            self.held.iter().filter(|(_, held)| old(held)).map(|(&fault, _)| fault).collect();
        unused.iter().filter_map(|fault| self.drop(*fault)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_page_is_held_as_long_as_what_it_stands_for() {
        let mut instead = Instead::new(9);
        instead.hold(1, Pfn(512), 0);
        assert!(instead.has(1) && !instead.has(2));
        for pfn in [3, 9] {
            assert_eq!(instead.stand_for(1, Pfn(pfn), 0), None);
        }
        let mut gone = Vec::new();
        assert_eq!(instead.release(Pfn(3), 0, &mut gone), 1);
        assert!(gone.is_empty());
        assert!(instead.relocate(Pfn(9), Some(Pfn(20))) && !instead.relocate(Pfn(3), None));
        assert_eq!(instead.release(Pfn(9), 0, &mut gone), 0);
        assert_eq!(instead.release(Pfn(16), 3, &mut gone), 1);
        assert_eq!(gone, [Pfn(512)]);
        assert!(!instead.has(1));
    }

    #[test]
    fn what_nobody_uses_goes() {
        let mut instead = Instead::new(9);
        instead.hold(1, Pfn(512), 5);
        instead.hold(2, Pfn(1024), 5);
        assert_eq!(instead.stand_for(2, Pfn(3), 0), None);
        assert!(instead.unused(1005).is_empty());
        assert_eq!(instead.unused(1006), [Pfn(512)]);
        assert!(instead.has(2) && !instead.has(1));
    }
}
