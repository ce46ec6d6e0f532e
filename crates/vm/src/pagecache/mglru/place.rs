//! The generation that a page joins when it is put on a list (`lru_gen_add_folio`, `lru_gen_folio_seq`).

use pageblock_kernel::rules::mglru::GenUses;

use super::{Generations, Kind, MIN_GENS};
use crate::page::{MAX_GENS, Owner, Page, PageFlags};

impl Generations {
    /// Returns the generation that a page joins; `tail` if it is to be evicted next. Clears what says so in its flags.
    pub(super) fn join(&self, page: &mut Page, tail: bool) -> u64 {
        let seq = self.place(page, tail);
        // A page of a working set stays one.
        if page.test_and_clear(PageFlags::ACTIVE) && self.rules.gen_uses == GenUses::First {
            page.set_counted_uses(0);
            page.clear(PageFlags::REFERENCED);
        }
        seq
    }

    /// Returns the generation that a page would join.
    pub(super) fn would_join(&self, page: &Page) -> u64 {
        self.place(page, false)
    }

    fn place(&self, page: &Page, tail: bool) -> u64 {
        match self.rules.gen_uses {
            GenUses::First => self.place_first(page, tail),
            GenUses::Second => self.place_second(page, tail),
        }
    }

    /// Up to 6.13: active pages join the youngest, those that cannot be evicted at once the second youngest, others the second
    /// oldest if it is not active.
    fn place_first(&self, page: &Page, tail: bool) -> u64 {
        let oldest = self.min_seq(Kind::of(page));
        if page.has(PageFlags::ACTIVE) {
            self.max_seq
        } else if must_be_written(page) {
            self.max_seq - 1
        } else if tail || oldest + MIN_GENS >= self.max_seq {
            oldest
        } else {
            oldest + 1
        }
    }

    /// From 6.14: a count from the youngest on, which uses raise by one.
    fn place_second(&self, page: &Page, tail: bool) -> u64 {
        let working = page.has(PageFlags::WORKINGSET);
        let used = working || page.has(PageFlags::REFERENCED);
        let back = if page.has(PageFlags::ACTIVE) {
            MIN_GENS - u64::from(working)
        } else if tail {
            MAX_GENS as u64
        } else if must_be_written(page) {
            MIN_GENS
        } else {
            MAX_GENS as u64 - u64::from(used)
        };
        (self.max_seq + 1).saturating_sub(back).max(self.min_seq(Kind::of(page)))
    }
}

/// Returns whether a page has to be written before it can be evicted, and no reclaim started that or waits for it.
fn must_be_written(page: &Page) -> bool {
    let waits = page.has(PageFlags::RECLAIM)
        && (page.has(PageFlags::DIRTY) || page.has(PageFlags::WRITEBACK));
    waits || (page.kind() == Owner::Anon && page.swap_slot().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageTable;
    use pageblock_kernel::Named;

    /// Where pages with these flags join generations 3 to 6.
    #[track_caller]
    fn check(owner: Owner, flags: &[PageFlags], tail: bool, expect: [u64; 2]) {
        let joined = ["linux-6.12", "linux-6.14"].map(|kernel| {
            let mut of = Generations::new(Named::parse(kernel).unwrap().kernel.mglru, 1);
            (of.max_seq, of.min_seq) = (6, [3, 3]);
            let mut table = PageTable::new(1);
            table[0].own(owner, 0, 0, 0);
            flags.iter().for_each(|&flag| table[0].set(flag));
            let seq = of.join(&mut table[0], tail);
            assert!(!table[0].has(PageFlags::ACTIVE));
            seq
        });
        assert_eq!(joined, expect, "{flags:?}");
    }

    #[test]
    fn pages_join_the_generation_of_their_flags() {
        use PageFlags as F;
        check(Owner::File, &[], false, [4, 3]);
        check(Owner::File, &[F::REFERENCED], false, [4, 4]);
        check(Owner::File, &[F::WORKINGSET], true, [3, 3]);
        check(Owner::File, &[F::ACTIVE], false, [6, 5]);
        check(Owner::File, &[F::ACTIVE, F::WORKINGSET], false, [6, 6]);
        check(Owner::File, &[F::RECLAIM, F::DIRTY], false, [5, 5]);
        check(Owner::Anon, &[], false, [5, 5]);
    }
}
