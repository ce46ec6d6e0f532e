//! Uses of pages: through files they count up, through page tables they make a page young.
//!
//! Source: `lru_gen_inc_refs`, `folio_add_lru` (mm/swap.c), `folio_update_gen`, `lru_gen_set_refs` (mm/vmscan.c).

use pageblock_kernel::rules::mglru::GenUses;

use super::{Generations, slot};
use crate::page::{MAX_USES, Page, PageFlags, PageTable};
use crate::pagecache::lru::Lru;

/// The uses of a page, and the tier that they put it in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Uses {
    /// Up to 6.13 those after the first, at most four; later all but those of pages that no file counts.
    pub(super) count: u16,
    /// The tier (`lru_tier_from_refs`).
    pub(crate) tier: usize,
    /// The page has all uses that can be counted, and is promoted without being counted as protected.
    pub(crate) full: bool,
}

/// Returns the logarithm of a number of uses, rounded up.
pub(super) const fn tier(uses: u16) -> usize {
    if uses < 2 { 0 } else { (uses - 1).ilog2() as usize + 1 }
}

impl Generations {
    /// Returns the uses of a page.
    pub(crate) const fn uses(&self, page: &Page) -> Uses {
        let working = page.has(PageFlags::WORKINGSET);
        match self.rules.gen_uses {
            GenUses::First => {
                let count = page.counted_uses() + working as u16;
                Uses { count, tier: tier(count + 1), full: count == MAX_USES + 1 }
            }
            GenUses::Second => {
                let referenced = page.has(PageFlags::REFERENCED);
                let count = if referenced { page.counted_uses() + 1 } else { 0 };
                let tier = if working { super::TIERS - 1 } else { tier(count) };
                Uses { count, tier, full: working && count == MAX_USES + 1 }
            }
        }
    }

    /// Counts a use of a page through a file (`folio_mark_accessed`).
    pub(in crate::pagecache) const fn count_use(&self, page: &mut Page) {
        let first = matches!(self.rules.gen_uses, GenUses::First);
        if page.has(PageFlags::UNEVICTABLE) {
        } else if !page.has(PageFlags::REFERENCED) {
            page.set(PageFlags::REFERENCED);
            if !first {
                page.set_counted_uses(0);
            }
        } else if first && !page.has(PageFlags::WORKINGSET) {
            page.set(PageFlags::WORKINGSET);
        } else if page.counted_uses() < MAX_USES {
            page.set_counted_uses(page.counted_uses() + 1);
        } else {
            // The last use that is counted from 6.14 on; up to 6.13 it is set.
            page.set(PageFlags::WORKINGSET);
        }
    }

    /// Notes that a page that is added was faulted in (`folio_add_lru`).
    pub(in crate::pagecache) const fn count_fault(&self, page: &mut Page) {
        match self.rules.gen_uses {
            GenUses::First => page.set(PageFlags::ACTIVE),
            GenUses::Second if page.has(PageFlags::WORKINGSET) => page.set(PageFlags::ACTIVE),
            GenUses::Second if !page.has(PageFlags::REFERENCED) => self.count_use(page),
            GenUses::Second => {}
        }
    }

    /// Notes that the page tables of a page without a walk's means say that it was used (`lru_gen_set_refs`; up to 6.13 in
    /// `folio_check_references`). Returns whether it is to be promoted, rather than kept.
    pub(crate) const fn note_found(&self, page: &mut Page) -> bool {
        let noted = page.has(PageFlags::REFERENCED);
        match self.rules.gen_uses {
            GenUses::First => {
                page.set(PageFlags::REFERENCED);
                return noted;
            }
            GenUses::Second if !noted && !page.has(PageFlags::WORKINGSET) => {
                page.set_counted_uses(0);
                page.set(PageFlags::REFERENCED);
                return false;
            }
            GenUses::Second if self.uses(page).count > 1 => {
                self.forget_uses(page);
                page.set(PageFlags::WORKINGSET);
            }
            GenUses::Second => self.count_use(page),
        }
        true
    }

    /// Clears the uses of a page that moves to another generation. Up to 6.13 it is then of no working set any more.
    pub(crate) const fn forget_uses(&self, page: &mut Page) {
        page.set_counted_uses(0);
        page.clear(PageFlags::REFERENCED);
        if matches!(self.rules.gen_uses, GenUses::First) {
            page.clear(PageFlags::WORKINGSET);
        }
    }
}

impl Lru {
    /// Gives a page that a walk of page tables found in use the youngest generation, without moving it
    /// (`folio_update_gen`). From 6.14 on the first such find is only noted. Returns whether it was promoted.
    pub(crate) fn promote(&mut self, vec: usize, pages: &mut PageTable, pfn: u32) -> bool {
        let of = &self.generations[vec];
        let page = &mut pages[pfn];
        let first = of.rules.gen_uses == GenUses::First;
        if !first && !page.has(PageFlags::REFERENCED) && !page.has(PageFlags::WORKINGSET) {
            page.set_counted_uses(0);
            page.set(PageFlags::REFERENCED);
            return false;
        }
        if !page.has(PageFlags::LRU) || page.has(PageFlags::UNEVICTABLE) {
            if first {
                // Reclaim has it and will keep it.
                page.set(PageFlags::REFERENCED);
            }
            return false;
        }
        of.forget_uses(page);
        if !first {
            page.set(PageFlags::WORKINGSET);
        }
        let youngest = slot(of.max_seq);
        self.count_to(pages, pfn, youngest) != youngest
    }

    /// Moves a page of the oldest generation to the next one, which clears its uses (`folio_inc_gen`); one that a walk
    /// promoted keeps its generation.
    pub(crate) fn advance(&mut self, vec: usize, pages: &mut PageTable, pfn: u32, head: bool) {
        let of = &self.generations[vec];
        let page = &mut pages[pfn];
        let oldest = of.min_seq(super::Kind::of(page));
        if page.generation() == slot(oldest) {
            of.forget_uses(page);
            self.count_to(pages, pfn, slot(oldest + 1));
        }
        self.move_to_its_list(pages, pfn, head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Owner;
    use pageblock_kernel::Named;

    /// The tiers of a page of a file after each of seven uses.
    fn tiers(kernel: &str) -> [usize; 7] {
        let of = Generations::new(Named::parse(kernel).unwrap().kernel.mglru, 1);
        let mut table = PageTable::new(1);
        table[0].own(Owner::File, 0, 0, 0);
        let tiers = std::array::from_fn(|_| {
            of.count_use(&mut table[0]);
            of.uses(&table[0]).tier
        });
        assert!(of.uses(&table[0]).full);
        tiers
    }

    #[test]
    fn uses_of_a_file_raise_a_page_by_tiers() {
        assert_eq!(tiers("linux-6.12"), [0, 1, 2, 2, 3, 3, 3]);
        assert_eq!(tiers("linux-6.14"), [0, 1, 2, 2, 3, 3, 3]);
    }

    /// 4d5d14a01e2c (6.14).
    #[test]
    fn the_second_find_of_a_use_promotes() {
        let found = |kernel| {
            let of = Generations::new(Named::parse(kernel).unwrap().kernel.mglru, 1);
            let mut table = PageTable::new(1);
            table[0].own(Owner::Anon, 0, 0, 0);
            of.count_fault(&mut table[0]);
            let active = table[0].test_and_clear(PageFlags::ACTIVE);
            (active, of.note_found(&mut table[0]), of.note_found(&mut table[0]))
        };
        assert_eq!(found("linux-6.12"), (true, false, true));
        // The fault counts as one.
        assert_eq!(found("linux-6.14"), (false, true, true));
    }
}
