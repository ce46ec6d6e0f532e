//! What the page cache tells the generations: uses, faults, pages that reclaim gives back, and mappings that are gone.

use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::GenUses;

use super::Kind;
use crate::page::{Owner, Page, PageFlags, PageTable};
use crate::pagecache::PageCache;
use crate::pagecache::lru::{At, Lru};
use crate::pagecache::space::SpaceId;
use crate::vm::Vm;

impl Lru {
    /// Notes that a page that is about to be added was faulted in.
    pub(in crate::pagecache) fn note_fault(&self, page: &mut Page) {
        if let Some(of) = self.generations.get(self.of_zone(page.zone.into())) {
            of.count_fault(page);
        }
    }

    /// Clears what a migrated page does not take along: up to 6.13 the counter of its uses.
    pub(in crate::pagecache) fn note_migrated(&self, page: &mut Page) {
        let of = self.generations.get(self.of_zone(page.zone.into()));
        if of.is_some_and(|of| of.rules().gen_uses == GenUses::First) {
            page.set_counted_uses(0);
        }
    }

    /// Keeps a page that reclaim could not free out of the oldest generation (`evict_folios`).
    pub(in crate::pagecache) fn reject(&self, page: &mut Page) {
        let of = &self.generations[self.of_zone(page.zone.into())];
        let writes = page.has(PageFlags::RECLAIM)
            && (page.has(PageFlags::DIRTY) || page.has(PageFlags::WRITEBACK));
        let rejected = match of.rules().gen_uses {
            GenUses::First if writes => {
                // Taking it off its list cleared it.
                if page.has(PageFlags::WORKINGSET) {
                    page.set(PageFlags::REFERENCED);
                }
                false
            }
            GenUses::First => true,
            GenUses::Second => of.would_join(page) == of.min_seq(Kind::of(page)),
        };
        if rejected {
            of.forget_uses(page);
            page.set(PageFlags::ACTIVE);
        }
    }
}

impl PageCache {
    /// Takes a page off its list for reclaim, which does not mark it as active.
    pub(crate) fn take_for_reclaim(&mut self, pages: &mut PageTable, pfn: u32) {
        self.lru.leave_generation(pages, pfn, true);
    }

    /// Moves a page to the youngest generation at once (`folio_activate`).
    pub(crate) fn activate(&mut self, pages: &mut PageTable, pfn: u32) {
        self.lru.leave_generation(pages, pfn, false);
        pages[pfn].set(PageFlags::ACTIVE);
        self.lru.join_generation(pages, pfn, At::Head);
    }

    /// Forgets how far walks of a mapping's page tables came.
    pub(in crate::pagecache) fn forget_walks(&mut self, space: SpaceId) {
        self.used_tables.forget(space);
        self.lru.generations.iter_mut().for_each(|of| of.walked.forget(space));
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Counts a use of a page: through a file, or through page tables if it is anonymous.
    #[inline(never)]
    pub(in crate::pagecache) fn count_access(&mut self, pfn: u32) {
        let page = self.pages[pfn];
        if page.kind() == Owner::Anon {
            self.pages[pfn].set(PageFlags::YOUNG);
            self.pagecache.note_used_table(page.owner, page.index);
            return;
        }
        let vec = self.lru().of_zone(page.zone.into());
        self.pagecache.lru.generations[vec].count_use(&mut self.pages[pfn]);
    }
}
