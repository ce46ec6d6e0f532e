//! The LRU lists: active and inactive pages of files and of anonymous mappings.
//!
//! Up to 4.7 every zone has its lists, from 4.8 every node (`struct lruvec`).

use crate::base::list::List;
use crate::page::table::{Owner, Page, PageFlags, PageTable};

/// One of the lists (`enum lru_list`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous pages not used of late.
    InactiveAnon = 0,
    /// Anonymous pages in use.
    ActiveAnon = 1,
    /// Pages of files not used of late.
    InactiveFile = 2,
    /// Pages of files in use.
    ActiveFile = 3,
    /// Pages locked in memory.
    Unevictable = 4,
}

impl LruList {
    /// Those that reclaim scans.
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
#[derive(Clone, Debug, Default)]
pub struct Lruvec {
    lists: [List; 5],
    /// Pages on each list.
    pub(crate) pages: [u64; 5],
    /// Pages scanned of late: anonymous, file (up to 5.7).
    pub(crate) recent_scanned: [u64; 2],
    /// Pages of those put back as used (up to 5.7).
    pub(crate) recent_rotated: [u64; 2],
    /// What reclaim cost: anonymous, file (from 5.8).
    pub(crate) cost: [u64; 2],
    /// Evictions and activations so far, the clock of refault distances (`inactive_age`).
    pub(crate) age: u64,
    /// kswapd met a batch of nothing but dirty pages of files at the end of a list, and writes such pages until
    /// the zone has its high watermark (3.11 to 4.7: `ZONE_TAIL_LRU_DIRTY`).
    pub(crate) tail_dirty: bool,
    /// Inactive pages that reclaim looked at.
    pub scanned: u64,
    /// Refaulted pages that were activated, and how many when reclaim last looked.
    pub(crate) activations: u64,
    pub(crate) activations_seen: u64,
}

impl Lruvec {
    /// The pages on a list.
    #[must_use]
    pub const fn size(&self, list: LruList) -> u64 {
        self.pages[list as usize]
    }

    /// The pages of files.
    #[must_use]
    pub const fn file(&self) -> u64 {
        self.size(LruList::InactiveFile) + self.size(LruList::ActiveFile)
    }

    /// The anonymous pages.
    #[must_use]
    pub const fn anon(&self) -> u64 {
        self.size(LruList::InactiveAnon) + self.size(LruList::ActiveAnon)
    }

    pub(crate) fn list(&self, list: LruList) -> &List {
        &self.lists[list as usize]
    }
}

/// All lists of a machine.
#[derive(Debug)]
pub struct Lru {
    vecs: Vec<Lruvec>,
    /// The lruvec of each zone.
    vec_of_zone: Vec<u8>,
    /// Pages of each zone on each list (`NR_ZONE_INACTIVE_ANON` and so on).
    zone_pages: Vec<[u64; 5]>,
}

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Head,
    Tail,
}

impl Lru {
    /// Lists for zones, of which `vec_of_zone` says where each has its pages.
    pub(crate) fn new(vec_of_zone: Vec<u8>) -> Self {
        let vecs = vec_of_zone.iter().map(|&v| usize::from(v) + 1).max().unwrap_or(0);
        let zones = vec_of_zone.len();
        Self { vecs: vec![Lruvec::default(); vecs], vec_of_zone, zone_pages: vec![[0; 5]; zones] }
    }

    /// The lists that hold a zone's pages.
    #[must_use]
    pub fn of_zone(&self, zone: usize) -> usize {
        usize::from(self.vec_of_zone[zone])
    }

    /// All lists.
    #[must_use]
    pub fn vecs(&self) -> &[Lruvec] {
        &self.vecs
    }

    pub(crate) fn vec(&mut self, at: usize) -> &mut Lruvec {
        &mut self.vecs[at]
    }

    /// The pages of a zone on a list.
    #[must_use]
    pub fn zone_pages(&self, zone: usize, list: LruList) -> u64 {
        self.zone_pages[zone][list as usize]
    }

    /// The pages of a zone that reclaim may free (`zone_reclaimable_pages`): without swap those of
    /// files.
    #[must_use]
    pub fn zone_reclaimable(&self, zone: usize, swap: bool) -> u64 {
        let pages = &self.zone_pages[zone];
        pages[2] + pages[3] + if swap { pages[0] + pages[1] } else { 0 }
    }

    /// The list that a page belongs on.
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
    pub(crate) fn add(&mut self, pages: &mut PageTable, pfn: u32, at: At) {
        let page = &mut pages[pfn];
        let list = Self::list_of(page) as usize;
        let zone = usize::from(page.zone);
        let n = 1u64 << page.order();
        page.set(PageFlags::LRU);
        let vec = &mut self.vecs[usize::from(self.vec_of_zone[zone])];
        match at {
            At::Head => vec.lists[list].push_head(&mut pages.0, pfn),
            At::Tail => vec.lists[list].push_tail(&mut pages.0, pfn),
        }
        vec.pages[list] += n;
        self.zone_pages[zone][list] += n;
    }

    /// Takes a page off its list.
    pub(crate) fn remove(&mut self, pages: &mut PageTable, pfn: u32) {
        let page = &mut pages[pfn];
        let list = Self::list_of(page) as usize;
        let zone = usize::from(page.zone);
        let n = 1u64 << page.order();
        page.clear(PageFlags::LRU);
        let vec = &mut self.vecs[usize::from(self.vec_of_zone[zone])];
        vec.lists[list].remove(&mut pages.0, pfn);
        vec.pages[list] -= n;
        self.zone_pages[zone][list] -= n;
    }
}
