//! The LRU lists: active and inactive pages of files and of anonymous mappings.
//!
//! Up to 4.7 every zone has its lists, from 4.8 every node (`struct lruvec`). Under the multi-generational LRU pages are on lists
//! of generations instead, and only count as active or inactive (`mglru`).

use pageblock_kernel::rules::mglru::Mglru;
use pageblock_kernel::rules::reclaim::ScanBalance;

use super::mglru::{Generations, Kind};
use crate::base::list::List;
use crate::page::{Owner, Page, PageFlags, PageTable};
use crate::vm::Vm;

/// Pages taken off a list at a time, and the weight of a page that is read or written in the cost of reclaim
/// (`SWAP_CLUSTER_MAX`).
pub(crate) const SWAP_CLUSTER_MAX: u64 = 32;

/// One of the lists (`enum lru_list`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous pages not used recently.
    InactiveAnon = 0,
    /// Anonymous pages in use.
    ActiveAnon = 1,
    /// Pages of files not used recently.
    InactiveFile = 2,
    /// Pages of files in use.
    ActiveFile = 3,
    /// Pages locked in memory.
    Unevictable = 4,
}

impl LruList {
    /// The lists that reclaim scans.
    pub const EVICTABLE: [Self; 4] =
        [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile];

    pub(crate) const fn is_active(self) -> bool {
        matches!(self, Self::ActiveAnon | Self::ActiveFile)
    }

    pub(crate) const fn is_file(self) -> bool {
        matches!(self, Self::InactiveFile | Self::ActiveFile)
    }
}

/// The lists of a node, or of a zone up to 4.7 (`struct lruvec`), and what balances them.
///
/// Arrays of two have anonymous pages first, pages of files second.
#[derive(Clone, Debug, Default)]
pub struct Lruvec {
    lists: [List; 5],
    /// Pages on each list.
    pages: [u64; 5],
    /// Pages scanned recently (up to 5.7).
    recent_scanned: [u64; 2],
    /// Recently scanned pages that were put back as used (up to 5.7).
    recent_rotated: [u64; 2],
    /// The cost of reclaim (from 5.8).
    cost: [u64; 2],
    /// kswapd met a batch of nothing but dirty pages of files at the end of a list, and writes such pages until
    /// the zone has its high watermark (3.11 to 4.7: `ZONE_TAIL_LRU_DIRTY`).
    tail_dirty: bool,
    /// Inactive pages that reclaim scanned.
    pub scanned: u64,
    /// Evictions and activations so far, the clock of refault distances (`inactive_age`).
    pub(super) age: u64,
    /// Refaulted pages that were activated, anonymous ones and those of files.
    pub(super) activations: [u64; 2],
    /// `activations` when reclaim last scanned the lists.
    activations_seen: [u64; 2],
}

impl Lruvec {
    /// Returns the number of pages on a list.
    #[must_use]
    pub const fn size(&self, list: LruList) -> u64 {
        self.pages[list as usize]
    }

    /// Returns the number of pages of files.
    #[must_use]
    pub const fn file(&self) -> u64 {
        self.size(LruList::InactiveFile) + self.size(LruList::ActiveFile)
    }

    /// Returns the number of anonymous pages.
    #[must_use]
    pub const fn anon(&self) -> u64 {
        self.size(LruList::InactiveAnon) + self.size(LruList::ActiveAnon)
    }

    /// Returns a list.
    pub(crate) const fn list(&self, list: LruList) -> &List {
        &self.lists[list as usize]
    }

    /// Returns whether refaulted pages of a list's kind were activated since reclaim last scanned the lists.
    pub(crate) const fn is_refaulting(&self, list: LruList) -> bool {
        let kind = list.is_file() as usize;
        self.activations[kind] != self.activations_seen[kind]
    }

    /// Remembers how many refaulted pages were activated so far (`snapshot_refaults`).
    pub(crate) const fn snapshot_refaults(&mut self) {
        self.activations_seen = self.activations;
    }

    /// Returns the pages scanned recently, and those of them that were put back as used.
    pub(crate) const fn recent(&self) -> ([u64; 2], [u64; 2]) {
        (self.recent_scanned, self.recent_rotated)
    }

    /// Counts pages of a list that were scanned, and those of them that were put back as used.
    pub(crate) const fn note_scan(&mut self, list: LruList, scanned: u64, rotated: u64) {
        let kind = list.is_file() as usize;
        self.recent_scanned[kind] += scanned;
        self.recent_rotated[kind] += rotated;
    }

    /// Halves the recent counts of a kind after more than a quarter of its pages was scanned.
    pub(crate) fn decay_recent(&mut self) {
        for kind in 0..2 {
            if self.recent_scanned[kind] > (self.pages[2 * kind] + self.pages[2 * kind + 1]) / 4 {
                self.recent_scanned[kind] /= 2;
                self.recent_rotated[kind] /= 2;
            }
        }
    }

    /// Returns the cost of reclaim.
    pub(crate) const fn cost(&self) -> [u64; 2] {
        self.cost
    }

    /// Adds pages that were read or written, and pages that were scanned in vain, to the cost of reclaim from a list.
    /// Up to 7.2 this halves both costs when they exceed a quarter of all pages (`lru_note_cost`).
    pub(crate) fn note_cost(&mut self, rule: ScanBalance, list: LruList, io: u64, in_vain: u64) {
        let weighed = io * SWAP_CLUSTER_MAX + in_vain;
        self.cost[usize::from(list.is_file())] += match rule {
            ScanBalance::Rotated => return,
            ScanBalance::Io => io,
            ScanBalance::Cost | ScanBalance::Counters => weighed,
        };
        if rule != ScanBalance::Counters && self.is_costly() {
            self.cost = self.cost.map(|c| c / 2);
        }
    }

    /// Halves both costs, from 7.3 on, until they are at most a quarter of all pages (`prepare_scan_control`).
    pub(crate) fn decay_cost(&mut self) {
        while self.is_costly() {
            self.cost = self.cost.map(|c| c / 2);
        }
    }

    const fn is_costly(&self) -> bool {
        self.cost[0] + self.cost[1] > (self.anon() + self.file()) / 4
    }

    /// Returns whether kswapd writes the dirty pages of files that it meets.
    pub(crate) const fn is_tail_dirty(&self) -> bool {
        self.tail_dirty
    }

    /// Sets whether kswapd writes the dirty pages of files that it meets.
    pub(crate) const fn set_tail_dirty(&mut self, dirty: bool) {
        self.tail_dirty = dirty;
    }

    /// Returns lists with these sizes and no pages on them.
    #[cfg(test)]
    pub(crate) fn with_sizes(sizes: [u64; 4]) -> Self {
        let mut vec = Self::default();
        vec.pages[..4].copy_from_slice(&sizes);
        vec
    }
}

/// All lists of a machine.
#[derive(Debug)]
pub struct Lru {
    vecs: Vec<Lruvec>,
    /// The index of the lruvec of each zone.
    vec_of_zone: Vec<u8>,
    /// Pages of each zone on each list (`NR_ZONE_INACTIVE_ANON` and so on).
    zone_pages: Vec<[u64; 5]>,
    /// The generations of each lruvec; empty unless the kernel has them.
    pub(super) generations: Vec<Generations>,
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Head,
    Tail,
}

impl Lru {
    /// Returns empty lists; `vec_of_zone` has the index of each zone's lruvec.
    pub(super) fn new(vec_of_zone: Vec<u8>) -> Self {
        let vecs = vec_of_zone.iter().map(|&v| usize::from(v) + 1).max().unwrap_or(0);
        let zones = vec_of_zone.len();
        Self {
            vecs: vec![Lruvec::default(); vecs],
            vec_of_zone,
            zone_pages: vec![[0; 5]; zones],
            generations: Vec::new(),
        }
    }

    /// Has pages on lists of generations instead.
    pub(super) fn with_generations(mut self, rules: Mglru) -> Self {
        self.generations = vec![Generations::new(rules, self.vec_of_zone.len()); self.vecs.len()];
        self
    }

    /// Returns whether pages are on lists of generations.
    pub(crate) const fn has_generations(&self) -> bool {
        !self.generations.is_empty()
    }

    /// Returns the numbers of the youngest generation of a lruvec, and of the oldest of anonymous pages and of those of files;
    /// `None` without generations.
    #[must_use]
    pub fn generation_numbers(&self, at: usize) -> Option<(u64, [u64; 2])> {
        let of = self.generations.get(at)?;
        Some((of.max_seq(), Kind::ALL.map(|kind| of.min_seq(kind))))
    }

    /// Returns the generations of a lruvec, which the kernel must have.
    pub(crate) fn generations(&self, at: usize) -> &Generations {
        &self.generations[at]
    }

    /// Counts pages that joined and that left a list.
    pub(super) fn count(&mut self, zone: usize, list: LruList, joined: u64, left: u64) {
        let vec = &mut self.vecs[usize::from(self.vec_of_zone[zone])];
        for pages in [&mut vec.pages[list as usize], &mut self.zone_pages[zone][list as usize]] {
            *pages = *pages + joined - left;
        }
    }

    /// Returns the index of the lruvec of a zone.
    #[must_use]
    pub fn of_zone(&self, zone: usize) -> usize {
        usize::from(self.vec_of_zone[zone])
    }

    /// Returns every lruvec.
    #[must_use]
    pub fn vecs(&self) -> &[Lruvec] {
        &self.vecs
    }

    /// Returns a lruvec.
    pub(super) fn vec(&mut self, at: usize) -> &mut Lruvec {
        &mut self.vecs[at]
    }

    /// Returns the number of pages of a zone on a list.
    #[must_use]
    pub fn zone_pages(&self, zone: usize, list: LruList) -> u64 {
        self.zone_pages[zone][list as usize]
    }

    /// Returns the number of pages of a zone that reclaim may free (`zone_reclaimable_pages`): without swap only
    /// pages of files.
    #[must_use]
    pub fn zone_reclaimable(&self, zone: usize, swap: bool) -> u64 {
        let pages = &self.zone_pages[zone];
        pages[2] + pages[3] + if swap { pages[0] + pages[1] } else { 0 }
    }

    /// Returns the list that a page's flags name.
    pub(crate) fn list_of(page: &Page) -> LruList {
        if page.has(PageFlags::UNEVICTABLE) {
            return LruList::Unevictable;
        }
        match (page.kind() == Owner::File, page.has(PageFlags::ACTIVE)) {
            (false, false) => LruList::InactiveAnon,
            (false, true) => LruList::ActiveAnon,
            (true, false) => LruList::InactiveFile,
            (true, true) => LruList::ActiveFile,
        }
    }

    /// Puts a page on the list that its flags name.
    pub(super) fn add(&mut self, pages: &mut PageTable, pfn: u32, at: At) {
        if self.has_generations() && !pages[pfn].has(PageFlags::UNEVICTABLE) {
            self.join_generation(pages, pfn, at);
            return;
        }
        let page = &mut pages[pfn];
        let list = Self::list_of(page) as usize;
        let zone = usize::from(page.zone);
        let n = 1u64 << page.order();
        debug_assert!(page.kind().is_lru() && !page.has(PageFlags::LRU), "{page:?} is on a list");
        page.set(PageFlags::LRU);
        let vec = &mut self.vecs[usize::from(self.vec_of_zone[zone])];
        match at {
            At::Head => vec.lists[list].push_head(pages.entries_mut(), pfn),
            At::Tail => vec.lists[list].push_tail(pages.entries_mut(), pfn),
        }
        vec.pages[list] += n;
        self.zone_pages[zone][list] += n;
    }

    /// Takes a page off its list.
    pub(super) fn remove(&mut self, pages: &mut PageTable, pfn: u32) {
        if self.has_generations() && !pages[pfn].has(PageFlags::UNEVICTABLE) {
            self.leave_generation(pages, pfn, false);
            return;
        }
        let page = &mut pages[pfn];
        let list = Self::list_of(page) as usize;
        let zone = usize::from(page.zone);
        let n = 1u64 << page.order();
        debug_assert!(page.has(PageFlags::LRU), "{page:?} is on no list");
        page.clear(PageFlags::LRU);
        let vec = &mut self.vecs[usize::from(self.vec_of_zone[zone])];
        vec.lists[list].remove(pages.entries_mut(), pfn);
        vec.pages[list] -= n;
        self.zone_pages[zone][list] -= n;
    }
}

impl<O> Vm<'_, O> {
    /// Returns the LRU lists.
    #[must_use]
    pub fn lru(&self) -> &Lru {
        &self.pagecache.lru
    }

    /// Puts a page that reclaim did not free on the head of the list that its flags name (`putback_lru_page`).
    pub(crate) fn putback(&mut self, pfn: u32) {
        if self.pagecache.lru.has_generations() {
            self.pagecache.lru.reject(&mut self.pages[pfn]);
        }
        self.pagecache.lru.add(&mut self.pages, pfn, At::Head);
    }

    /// Takes a page off its list (`isolate_lru_page`).
    pub(crate) fn isolate(&mut self, pfn: u32) {
        self.pagecache.lru.remove(&mut self.pages, pfn);
    }
}
