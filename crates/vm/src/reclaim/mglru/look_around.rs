//! Pages next to one that reclaim found in use: they are looked at too, and promoted.
//!
//! Source: `lru_gen_look_around` (mm/vmscan.c), `folio_check_references`.

use pageblock::event::Observer;

use crate::page::{Owner, PageFlags};
use crate::pagecache::mglru::{MIN_BATCH, TABLE_ORDER, is_dense, slot};
use crate::pagecache::space::Slot;
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

/// What page tables say of a folio that reclaim took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::reclaim) enum Found {
    /// It was not used.
    Unused,
    /// It was used, which is noted.
    Used,
    /// It was used again.
    UsedAgain,
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether the look at another page's surroundings found that one, which reclaim has taken, in use (up to 6.13).
    pub(in crate::reclaim) fn was_found_young(&self, pfn: u32) -> bool {
        let page = &self.pages[pfn];
        let of = self.lru().generations(self.lru().of_zone(page.zone.into()));
        of.moves_at_first_use() && page.has(PageFlags::MAPPED) && page.has(PageFlags::REFERENCED)
    }

    /// Looks whether a folio that reclaim took was used through page tables, and at those around it if so.
    #[inline(never)]
    pub(in crate::reclaim) fn look_at(&mut self, pfn: u32, sc: &ScanControl) -> Found {
        if !self.pages[pfn].test_and_clear(PageFlags::YOUNG) {
            return Found::Unused;
        }
        let vec = self.lru().of_zone(self.pages[pfn].zone.into());
        self.look_around(vec, pfn, sc);
        if self.pagecache.generations(vec).note_found(&mut self.pages[pfn]) {
            Found::UsedAgain
        } else {
            Found::Used
        }
    }

    /// Looks at the 64 entries around a page in its page table.
    fn look_around(&mut self, vec: usize, pfn: u32, sc: &ScanControl) {
        let page = self.pages[pfn];
        // The entry of a huge page has none around it.
        if page.kind() != Owner::Anon || u32::from(page.order()) >= TABLE_ORDER {
            return;
        }
        let (space, index) = (page.owner, page.index);
        let table = index >> TABLE_ORDER;
        let begin = table << TABLE_ORDER;
        let end = self.spaces().get(space).len().min(begin + (1 << TABLE_ORDER));
        let batch = MIN_BATCH as u32;
        let first =
            index.saturating_sub(batch / 2).max(begin).min(end.saturating_sub(batch).max(begin));
        let last = end.min(first + batch);
        // The page itself counts.
        let (mut young, mut at) = (1, first);
        while at < last {
            let Slot::Page(other) = self.spaces().slot(space, at) else {
                at += 1;
                continue;
            };
            let head = self.huge_head(other);
            let of = &self.pages[head];
            let next = of.index + (1 << of.order());
            if self.lru().of_zone(of.zone.into()) == vec
                && self.pages[head].test_and_clear(PageFlags::YOUNG)
            {
                young += u64::from(next.min(last) - at);
                self.promote_found(vec, head, sc);
            }
            at = next;
        }
        let entries = u64::from(last - first);
        self.work.ptes += entries;
        if is_dense(entries, young) {
            let of = self.pagecache.generations(vec);
            let seq = of.max_seq();
            of.walked.recommend(seq, space, table);
        }
    }

    /// Promotes a page that was found in use: in place with the means of a walk, else by moving it.
    fn promote_found(&mut self, vec: usize, pfn: u32, sc: &ScanControl) {
        if sc.walks {
            if self.pagecache.lru_mut().promote(vec, &mut self.pages, pfn) {
                self.pages.note_young(pfn);
            }
            return;
        }
        let of = self.pagecache.generations(vec);
        let (youngest, first) = (slot(of.max_seq()), of.moves_at_first_use());
        let page = &mut self.pages[pfn];
        let listed = page.has(PageFlags::LRU) && !page.has(PageFlags::UNEVICTABLE);
        let promotes = if first && listed {
            page.generation() != youngest
        } else {
            of.note_found(page) && listed && page.generation() != youngest
        };
        if promotes {
            if first {
                of.forget_uses(page);
            }
            let pages = 1 << page.order();
            self.pagecache.activate(&mut self.pages, pfn);
            self.stat.pgactivate += pages;
            self.pages.note_young(pfn);
        }
    }
}
