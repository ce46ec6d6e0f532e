//! The page that a CPU freed last, kept aside before it comes to its list.
//!
//! Where the next allocation takes it again, the changes of both to the list and to the counts cancel
//! out, and are never written. In every other case the page is [flushed](CpuCache::flush_last_freed) first:
//! it comes to its list and is counted, as if that had been done at once.

use super::{CpuCache, LISTS};
use crate::base::ids::ListIndex;
use crate::base::mobility::Migratetype;
use crate::percpu::list::CpuList;
use crate::table::map::{Index, PageMap};
use crate::zone::ZoneCounters;

/// The list of the page freed last where none is kept aside.
pub(super) const NONE: u8 = u8::MAX;

impl CpuCache<'_> {
    /// See [`PageMap::put_own_page`].
    #[inline(always)]
    pub(crate) fn put_own_page(
        &mut self,
        map: &PageMap<'_>,
        offset: usize,
        cached: Migratetype,
        code: u16,
    ) -> bool {
        map.put_own_page(offset, cached, code, &mut self.aside)
    }

    /// Keeps a freed page aside for a list. None is kept aside yet, and the cache has room
    /// ([`count_if_kept`](Self::count_if_kept)).
    #[inline(always)]
    pub(crate) fn keep_last_freed(&mut self, i: Index, index: ListIndex) {
        debug_assert_eq!(self.last_freed_list, NONE, "a page is kept aside already");
        self.last_freed = i;
        self.last_freed_list = index.0 as u8;
        self.prev_free_high_order = false;
    }

    /// Tells whether the page freed last is the first of a list, and its free and an allocation together leave
    /// the tuning as it is.
    #[inline(always)]
    pub(super) fn last_freed_is_on(&self, index: ListIndex) -> bool {
        usize::from(self.last_freed_list) == index.0
            && self.free_count <= u32::from(self.keep_rule.pair_keeps)
    }

    /// Takes the page freed last for a request.
    #[inline(always)]
    pub(super) fn take_last_freed(&mut self, map: &PageMap<'_>, movable: bool) -> Option<Index> {
        let i = self.last_freed;
        // By its list it is as movable as the request.
        if !map.take_own_page(i, movable, self.aside) {
            return None;
        }
        self.last_freed_list = NONE;
        self.pairs += 1;
        Some(i)
    }

    /// Puts the page freed last, if one is kept aside, on its list, if there is room on the stack. Tells whether
    /// none is kept aside now.
    #[inline(always)]
    pub(crate) fn flush_hot(&mut self) -> bool {
        if self.last_freed_list == NONE {
            return true;
        }
        if !self.lists[usize::from(self.last_freed_list) % LISTS].push_hot(self.last_freed) {
            return false;
        }
        self.last_freed_list = NONE;
        self.count += 1;
        self.count_free(0);
        self.note_kept_free(0);
        true
    }

    /// Puts the page freed last on its list.
    #[inline(always)]
    pub(crate) fn flush_last_freed(&mut self, map: &PageMap<'_>) {
        if !self.flush_hot() {
            self.make_room_and_flush(map);
        }
    }

    #[inline(never)]
    fn make_room_and_flush(&mut self, map: &PageMap<'_>) {
        let (list, rest) = self.list_mut(map, ListIndex(self.last_freed_list.into()));
        list.make_room(rest);
        self.flush_hot();
    }

    /// Returns the page freed last, if it is the first of a list.
    pub(super) fn last_freed_on(&self, index: ListIndex) -> Option<Index> {
        (usize::from(self.last_freed_list) == index.0).then_some(self.last_freed)
    }

    fn pages_aside(&self) -> u32 {
        u32::from(self.last_freed_list != NONE)
    }

    /// Returns the pages of the cache: on its lists, and under packed placement those that it collects for the zone.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.listed() + self.unweighed() + self.leaving_pages()
    }

    /// Returns the pages on all lists, by [`weight`](Self::weight).
    pub(crate) fn listed(&self) -> u32 {
        self.count + self.pages_aside()
    }

    /// Returns what an allocation halves: pages freed in a row (`free_count`, 6.7 and later), or doublings of
    /// the drain (`free_factor`, 5.13 to 6.6).
    #[must_use]
    pub fn free_count(&self) -> u32 {
        self.free_count + self.pages_aside() * u32::from(self.keep_rule.is_rising(self.free_count))
    }

    /// Sets a page count that differs from the pages on the lists.
    #[cfg(feature = "replay")]
    pub(crate) fn set_count(&mut self, pages: u32) {
        self.count = pages.saturating_sub(self.pages_aside());
    }

    /// Returns the pages that the CPU allocated and freed in the zone.
    #[must_use]
    pub fn counters(&self) -> ZoneCounters {
        ZoneCounters {
            pgalloc: self.pgalloc + self.pairs,
            pgfree: self.pgfree + self.pairs + u64::from(self.pages_aside()),
            ..ZoneCounters::default()
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self, index: ListIndex) -> bool {
        self.lists[index.index()].is_empty() && self.last_freed_on(index).is_none()
    }

    /// Returns the first block of a list.
    #[cfg(feature = "replay")]
    pub(crate) fn head(&self, map: &PageMap<'_>, index: ListIndex) -> Option<Index> {
        self.iter(map, index).next()
    }

    /// Returns the last block of a list.
    #[cfg(feature = "replay")]
    pub(crate) fn tail(&self, map: &PageMap<'_>, index: ListIndex) -> Option<Index> {
        let rest = self.rest(map, index);
        self.lists[index.index()].last(rest).or_else(|| self.last_freed_on(index))
    }

    /// Returns the blocks of a list, first to last.
    #[cfg(feature = "replay")]
    pub(crate) fn iter<'a>(
        &'a self,
        map: &'a PageMap<'_>,
        index: ListIndex,
    ) -> impl Iterator<Item = Index> {
        let list = self.lists[index.index()].iter(self.rest(map, index));
        self.last_freed_on(index).into_iter().chain(list)
    }

    /// Returns the blocks of a list that are in the CPU's own memory, and the list.
    pub(crate) fn parts(
        &self,
        index: ListIndex,
    ) -> (impl Iterator<Item = Index> + use<>, &CpuList) {
        let list = &self.lists[index.index()];
        (self.last_freed_on(index).into_iter().chain(list.hot()), list)
    }
}
