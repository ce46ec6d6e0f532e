//! The page that a CPU freed last, kept aside before it is put on its list.
//!
//! If the next allocation takes it, the two updates of the list and of the counts cancel out, and are never
//! written. In every other case the page is [flushed](CpuCache::flush_last_freed) first: it is put on its list and
//! counted, as if the free had done so.

use super::{CpuCache, LISTS};
use crate::base::ids::ListIndex;
use crate::base::mobility::Migratetype;
use crate::percpu::list::CpuList;
use crate::policy::source::PolicySource;
use crate::table::map::{Index, NIL, PageMap};
use crate::zone::ZoneCounters;

/// The value of `last_freed_list` while no page is kept aside.
pub(super) const NONE: u8 = u8::MAX;

impl<P: PolicySource> CpuCache<'_, P> {
    /// See [`PageMap::put_own_page`].
    #[inline(always)]
    pub(crate) fn put_own_page(
        &mut self,
        map: &PageMap<'_, P>,
        offset: usize,
        cached: Migratetype,
        code: u16,
    ) -> bool {
        map.put_own_page(offset, cached, code, &mut self.aside)
    }

    /// Keeps a freed page aside for a list. No page is kept aside yet, and the cache has room
    /// ([`count_if_kept`](Self::count_if_kept)).
    #[inline(always)]
    pub(crate) fn keep_last_freed(&mut self, i: Index, index: ListIndex) {
        debug_assert_eq!(self.last_freed_list, NONE, "a page is kept aside already");
        debug_assert_ne!(i, NIL, "no page");
        debug_assert_eq!(self.list_order(index), 0, "a page is kept aside for larger blocks");
        self.last_freed = i;
        self.last_freed_list = index.0 as u8;
        self.prev_free_high_order = false;
    }

    /// Returns whether the page freed last is the head of a list, and freeing and allocating it leaves the tuning
    /// state unchanged.
    #[inline(always)]
    pub(super) fn last_freed_is_on(&self, index: ListIndex) -> bool {
        usize::from(self.last_freed_list) == index.0
            && self.free_count <= u32::from(self.keep_rule.pair_keeps)
    }

    /// Takes the page freed last for a request.
    #[inline(always)]
    pub(super) fn take_last_freed(&mut self, map: &PageMap<'_, P>, movable: bool) -> Option<Index> {
        let i = self.last_freed;
        // Its list implies that it is as movable as the request.
        if !map.take_own_page(i, movable, self.aside) {
            return None;
        }
        self.last_freed_list = NONE;
        self.pairs += 1;
        Some(i)
    }

    /// Puts the page freed last, if one is kept aside, on the stack of its list, if that has room. Returns whether
    /// no page is kept aside now.
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
    pub(crate) fn flush_last_freed(&mut self, map: &PageMap<'_, P>) {
        if self.last_freed_list != NONE {
            self.make_room_and_flush(map);
        }
    }

    #[inline(never)]
    fn make_room_and_flush(&mut self, map: &PageMap<'_, P>) {
        if self.flush_hot() {
            return;
        }
        let (list, rest) = self.list_mut(map, ListIndex(self.last_freed_list.into()));
        list.make_room(rest);
        self.flush_hot();
        debug_assert_eq!(
            self.last_freed_list, NONE,
            "a cache holds no more than its lists have room for"
        );
    }

    /// Returns the page freed last, if it is the head of a list.
    pub(super) fn last_freed_on(&self, index: ListIndex) -> Option<Index> {
        (usize::from(self.last_freed_list) == index.0).then_some(self.last_freed)
    }

    fn pages_aside(&self) -> u32 {
        u32::from(self.last_freed_list != NONE)
    }

    /// Returns the number of pages of the cache: those on its lists, and under packed placement those that it
    /// collects for the zone.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.listed() + self.unweighed() + self.leaving_pages()
    }

    /// Returns the number of pages on all lists, by [`weight`](Self::weight).
    pub(crate) fn listed(&self) -> u32 {
        self.count + self.pages_aside()
    }

    /// Returns the number that an allocation halves: pages freed in a row (`free_count`, 6.7 and later), or the
    /// exponent of the drain's size (`free_factor`, 5.13 to 6.6).
    #[must_use]
    pub fn free_count(&self) -> u32 {
        self.free_count + self.pages_aside() * u32::from(self.keep_rule.is_rising(self.free_count))
    }

    /// Sets a page count that differs from the number of pages on the lists.
    #[cfg(feature = "replay")]
    pub(crate) fn set_count(&mut self, pages: u32) {
        self.count = pages.saturating_sub(self.pages_aside());
    }

    /// Returns the numbers of pages that the CPU allocated and freed in the zone.
    #[must_use]
    pub fn counters(&self) -> ZoneCounters {
        ZoneCounters {
            pgalloc: self.pgalloc + self.pairs,
            pgfree: self.pgfree + self.pairs + u64::from(self.pages_aside()),
            ..ZoneCounters::default()
        }
    }

    pub(crate) fn is_empty(&self, index: ListIndex) -> bool {
        self.lists[index.index()].is_empty() && self.last_freed_on(index).is_none()
    }

    /// Returns the block at the head of a list.
    #[cfg(feature = "replay")]
    pub(crate) fn head(&self, map: &PageMap<'_, P>, index: ListIndex) -> Option<Index> {
        self.iter(map, index).next()
    }

    /// Returns the block at the tail of a list.
    #[cfg(feature = "replay")]
    pub(crate) fn tail(&self, map: &PageMap<'_, P>, index: ListIndex) -> Option<Index> {
        let rest = self.rest(map, index);
        self.lists[index.index()].last(rest).or_else(|| self.last_freed_on(index))
    }

    /// Returns the blocks of a list, head to tail.
    #[cfg(feature = "replay")]
    pub(crate) fn iter<'a>(
        &'a self,
        map: &'a PageMap<'_, P>,
        index: ListIndex,
    ) -> impl Iterator<Item = Index> {
        let list = self.lists[index.index()].iter(self.rest(map, index));
        self.last_freed_on(index).into_iter().chain(list)
    }

    /// Returns the blocks of a list that are in the CPU's own memory, and the list itself.
    pub(crate) fn parts(
        &self,
        index: ListIndex,
    ) -> (impl Iterator<Item = Index> + use<P>, &CpuList) {
        let list = &self.lists[index.index()];
        (self.last_freed_on(index).into_iter().chain(list.hot()), list)
    }
}
