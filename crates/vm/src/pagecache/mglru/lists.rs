//! The lists of the generations, and their sizes: what is on a list, and what counts to it.

use super::{Generations, Kind, slot};
use crate::base::list::List;
use crate::page::{MAX_GENS, Page, PageFlags, PageTable};
use crate::pagecache::lru::{At, Lru, LruList};

/// The lists of a zone: one for each kind and generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneLists {
    lists: [[List; MAX_GENS]; 2],
    /// Pages of each generation, on whatever list they are.
    pages: [[u64; MAX_GENS]; 2],
}

impl ZoneLists {
    pub(super) const fn list(&self, kind: Kind, at: usize) -> &List {
        &self.lists[kind as usize][at]
    }

    pub(super) const fn pages(&self, kind: Kind, at: usize) -> u64 {
        self.pages[kind as usize][at]
    }
}

impl Generations {
    /// Returns the sizes of each kind's generations in a zone, and the number of folios on each list.
    pub(crate) fn sizes(&self, zone: usize) -> [[(u64, u64); MAX_GENS]; 2] {
        let of = |kind: Kind| {
            std::array::from_fn(|at| {
                (self.zones[zone].pages(kind, at), self.zones[zone].list(kind, at).len().into())
            })
        };
        Kind::ALL.map(of)
    }

    /// Returns the number of folios on all lists of a zone, as counted and as linked by entries that name their list.
    pub(crate) fn count_listed(&self, zone: usize, table: &[Page]) -> (u64, u64) {
        let (mut counted, mut linked) = (0, 0);
        for kind in Kind::ALL {
            for at in 0..MAX_GENS {
                let list = self.zones[zone].list(kind, at);
                counted += u64::from(list.len());
                let its = |&pfn: &u32| {
                    let page = &table[pfn as usize];
                    page.has(PageFlags::LRU)
                        && Kind::of(page) == kind
                        && usize::from(page.zone) == zone
                        && page.list_generation() == at
                };
                linked += list.iter(table).take(list.len() as usize + 1).filter(its).count() as u64;
            }
        }
        (counted, linked)
    }
}

/// Returns the list of active or inactive pages that pages of a kind count to.
const fn counted(kind: Kind, active: bool) -> LruList {
    match (kind, active) {
        (Kind::Anon, false) => LruList::InactiveAnon,
        (Kind::Anon, true) => LruList::ActiveAnon,
        (Kind::File, false) => LruList::InactiveFile,
        (Kind::File, true) => LruList::ActiveFile,
    }
}

impl Lru {
    /// Returns the list that a page on a list counts to.
    pub(crate) fn counted_list(&self, vec: usize, page: &Page) -> LruList {
        match self.generations.get(vec) {
            Some(of) if !page.has(PageFlags::UNEVICTABLE) => {
                counted(Kind::of(page), of.is_active(page.generation()))
            }
            _ => Self::list_of(page),
        }
    }

    /// Puts a page on the list of the generation that its flags say.
    // Not inlined, as below: lists of active and inactive pages are to cost no more for it.
    #[inline(never)]
    pub(in crate::pagecache) fn join_generation(
        &mut self,
        pages: &mut PageTable,
        pfn: u32,
        at: At,
    ) {
        let vec = self.of_zone(pages[pfn].zone.into());
        let generation = slot(self.generations[vec].join(&mut pages[pfn], at == At::Tail));
        self.enter(pages, pfn, generation, at);
    }

    /// Puts a page on the list of the generation that it was in before it was split off.
    pub(in crate::pagecache) fn rejoin(&mut self, pages: &mut PageTable, pfn: u32) {
        let generation = pages[pfn].generation();
        self.enter(pages, pfn, generation, At::Head);
    }

    fn enter(&mut self, pages: &mut PageTable, pfn: u32, generation: usize, at: At) {
        let page = &mut pages[pfn];
        debug_assert!(page.kind().is_lru() && !page.has(PageFlags::LRU), "{page:?} is on a list");
        let (kind, zone, n) = (Kind::of(page), usize::from(page.zone), 1u64 << page.order());
        page.set(PageFlags::LRU);
        page.set_generation(generation);
        page.set_list_generation(generation);
        let vec = self.of_zone(zone);
        let of_zone = &mut self.generations[vec].zones[zone];
        let list = &mut of_zone.lists[kind as usize][generation];
        match at {
            At::Head => list.push_head(pages.entries_mut(), pfn),
            At::Tail => list.push_tail(pages.entries_mut(), pfn),
        }
        of_zone.pages[kind as usize][generation] += n;
        let active = self.generations[vec].is_active(generation);
        self.count(zone, counted(kind, active), n, 0);
    }

    /// Takes a page off its list. One that counts as active is marked so, unless reclaim takes it.
    #[inline(never)]
    pub(in crate::pagecache) fn leave_generation(
        &mut self,
        pages: &mut PageTable,
        pfn: u32,
        reclaim: bool,
    ) {
        let page = &mut pages[pfn];
        debug_assert!(page.has(PageFlags::LRU), "{page:?} is on no list");
        let (kind, zone, n) = (Kind::of(page), usize::from(page.zone), 1u64 << page.order());
        let (generation, list) = (page.generation(), page.list_generation());
        let vec = self.of_zone(zone);
        let active = self.generations[vec].is_active(generation);
        page.clear(PageFlags::LRU);
        if active && !reclaim {
            page.set(PageFlags::ACTIVE);
        }
        let of_zone = &mut self.generations[vec].zones[zone];
        of_zone.lists[kind as usize][list].remove(pages.entries_mut(), pfn);
        of_zone.pages[kind as usize][generation] -= n;
        self.count(zone, counted(kind, active), 0, n);
    }

    /// Gives a page on a list another generation; it stays on its list. Returns the one that it had.
    pub(super) fn count_to(&mut self, pages: &mut PageTable, pfn: u32, generation: usize) -> usize {
        let page = &mut pages[pfn];
        let (kind, zone, n) = (Kind::of(page), usize::from(page.zone), 1u64 << page.order());
        let before = page.generation();
        page.set_generation(generation);
        let vec = self.of_zone(zone);
        let of = &mut self.generations[vec];
        let counts = &mut of.zones[zone].pages[kind as usize];
        counts[before] -= n;
        counts[generation] += n;
        let (was, is) = (of.is_active(before), of.is_active(generation));
        if was != is {
            self.count(zone, counted(kind, was), 0, n);
            self.count(zone, counted(kind, is), n, 0);
        }
        before
    }

    /// Moves a page to an end of the list of its generation.
    pub(crate) fn move_to_its_list(&mut self, pages: &mut PageTable, pfn: u32, head: bool) {
        let page = &mut pages[pfn];
        let (kind, zone) = (Kind::of(page), usize::from(page.zone));
        let (from, to) = (page.list_generation(), page.generation());
        page.set_list_generation(to);
        let vec = self.of_zone(zone);
        let lists = &mut self.generations[vec].zones[zone].lists[kind as usize];
        lists[from].remove(pages.entries_mut(), pfn);
        if head {
            lists[to].push_head(pages.entries_mut(), pfn);
        } else {
            lists[to].push_tail(pages.entries_mut(), pfn);
        }
    }

    /// Begins a generation. What was the second youngest no longer counts as active.
    pub(crate) fn begin_generation(&mut self, vec: usize, now_ms: u64) {
        let max_seq = self.generations[vec].max_seq;
        let (leaves, enters) = (slot(max_seq - 1), slot(max_seq + 1));
        for zone in 0..self.generations[vec].zones.len() {
            for kind in Kind::ALL {
                let of_zone = &self.generations[vec].zones[zone];
                let (left, entered) = (of_zone.pages(kind, leaves), of_zone.pages(kind, enters));
                self.count(zone, counted(kind, true), entered, left);
                self.count(zone, counted(kind, false), left, entered);
            }
        }
        self.generations[vec].begin(now_ms);
    }
}
