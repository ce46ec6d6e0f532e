//! Shadow entries of evicted pages: the generation and the uses that they had, and what a refault makes of that.
//!
//! Source: `lru_gen_eviction`, `lru_gen_test_recent`, `lru_gen_refault` (mm/workingset.c).

use pageblock_kernel::rules::mglru::GenUses;

use super::{Generations, Kind};
use crate::page::{MAX_GENS, MAX_USES, Page, PageFlags};

/// Bits of the uses in a token.
const USES_BITS: u32 = 2;

/// What a refault means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::pagecache) struct Refault {
    /// The page counts as activated.
    pub(in crate::pagecache) activated: bool,
    /// The page is of the working set again.
    pub(in crate::pagecache) restored: bool,
}

impl Generations {
    /// Counts a page that is evicted. Returns the token of its shadow entry.
    pub(in crate::pagecache) const fn evict(&mut self, page: &Page, kind: Kind) -> u64 {
        let uses = self.uses(page);
        self.tiers_mut(kind).note_eviction(uses.tier, 1 << page.order());
        self.min_seq(kind) << USES_BITS | uses.count.saturating_sub(1) as u64
    }

    /// Counts the refault of a page that left a token not long ago, and restores its uses. `mask` has the bits that a shadow
    /// entry keeps; `fault` if a program's access to its memory reads the page.
    pub(in crate::pagecache) fn refault(
        &mut self,
        page: &mut Page,
        (token, workingset): (u64, bool),
        mask: u64,
        fault: bool,
    ) -> Refault {
        let kind = Kind::of(page);
        let pages = 1 << page.order();
        if !self.is_recent(kind, token, mask) {
            return Refault::default();
        }
        let stored = (token & ((1 << USES_BITS) - 1)) as u16;
        match self.rules.gen_uses {
            GenUses::First => {
                let uses = stored + u16::from(workingset);
                self.tiers_mut(kind).note_refault(super::uses::tier(uses + 1), pages);
                // It was pushed out by hotter pages, or would have been protected.
                let restored = fault || uses >= MAX_USES;
                if restored {
                    page.set_counted_uses(MAX_USES);
                    page.set(PageFlags::WORKINGSET);
                }
                Refault { activated: true, restored }
            }
            GenUses::Second => {
                let uses = stored + 1;
                let tier = if workingset { super::TIERS - 1 } else { super::uses::tier(uses) };
                self.tiers_mut(kind).note_refault(tier, pages);
                if workingset {
                    page.set(PageFlags::WORKINGSET);
                } else {
                    page.set_counted_uses(uses - 1);
                }
                Refault { activated: workingset && fault, restored: workingset }
            }
        }
    }

    /// Returns whether a page was evicted recently: up to 6.13 from the generation that is still the oldest, later from one
    /// of the last four.
    fn is_recent(&self, kind: Kind, token: u64, mask: u64) -> bool {
        let (evicted, mask) = (token >> USES_BITS, mask >> USES_BITS);
        match self.rules.gen_uses {
            GenUses::First => evicted == self.min_seq(kind) & mask,
            GenUses::Second => (self.max_seq & mask).abs_diff(evicted) < MAX_GENS as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Owner, PageTable};
    use pageblock_kernel::Named;

    const MASK: u64 = (1 << 24) - 1;

    /// A page that was used so often and evicted, and refaults after the window moved on.
    fn refaulted(kernel: &str, used: u32, moved: u64, fault: bool) -> Refault {
        let mut of = Generations::new(Named::parse(kernel).unwrap().kernel.mglru, 1);
        let mut table = PageTable::new(1);
        table[0].own(Owner::File, 0, 0, 0);
        (0..used).for_each(|_| of.count_use(&mut table[0]));
        let token = of.evict(&table[0], Kind::File);
        let shadow = (token, table[0].has(PageFlags::WORKINGSET));
        table[0].own(Owner::File, 0, 0, 0);
        of.max_seq += moved;
        of.min_seq = [moved; 2];
        of.refault(&mut table[0], shadow, MASK, fault)
    }

    #[test]
    fn a_refault_is_recent_for_as_long_as_the_version_says() {
        let restored = |kernel, moved| refaulted(kernel, 5, moved, false).restored;
        assert_eq!([0, 1].map(|moved| restored("linux-6.12", moved)), [true, false]);
        assert_eq!([0, 1].map(|moved| restored("linux-6.14", moved)), [true, false]);
        // 6.14 counts from the youngest generation, which was the fourth when the page was evicted from the first.
        let few = |kernel, used| refaulted(kernel, used, 0, false).restored;
        assert_eq!([few("linux-6.12", 3), few("linux-6.12", 4)], [false, true]);
        assert_eq!([few("linux-6.14", 4), few("linux-6.14", 5)], [false, true]);
    }

    #[test]
    fn a_fault_restores_a_page_at_once_up_to_6_13() {
        let restored = |kernel| refaulted(kernel, 1, 0, true).restored;
        assert_eq!([restored("linux-6.12"), restored("linux-6.14")], [true, false]);
    }
}
