//! What the fast paths need of a cache: the lists by order and type, and their [stacks](crate::percpu::list).

use super::{CpuCache, LISTS, MAX_LISTS};
use crate::base::frame::{Order, pages};
use crate::base::ids::ListIndex;
use crate::base::mobility::{MIGRATE_PCPTYPES, Migratetype};
use crate::table::map::{Index, PageMap};

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

impl CpuCache<'_> {
    /// Returns the list of an order and type for the fast path of requests; it may be one that yields nothing.
    #[inline(always)]
    pub(crate) fn take_list(&self, order: Order, mt: Migratetype) -> Option<ListIndex> {
        if order == 0 && (mt as usize) < MIGRATE_PCPTYPES {
            return Some(ListIndex(mt as usize));
        }
        Some(ListIndex(self.list_of.get(usize::from(order))?[mt as usize].into()))
    }

    /// Returns the list for the fast path of frees; it may be one that takes nothing.
    #[inline(always)]
    pub(crate) fn put_list(&self, order: Order, mt: Migratetype) -> Option<ListIndex> {
        Some(ListIndex(self.put_lists.get(usize::from(order))?[mt as usize].into()))
    }

    /// Takes the first block of a list of this order for a request, if it is on the stack, and counts
    /// it: it is allocated, movable or not.
    #[inline(always)]
    pub(crate) fn take_hot<const PAIRS: bool>(
        &mut self,
        map: &PageMap<'_>,
        index: ListIndex,
        order: Order,
        movable: bool,
    ) -> Option<Index> {
        if self.last_freed_is_on(index) {
            return self.take_last_freed(map, movable);
        }
        if !self.flush_hot() {
            return None;
        }
        let list = &mut self.lists[index.index() % LISTS];
        let i = list.top()?;
        if !map.take::<PAIRS>(i, order, movable) {
            return None;
        }
        list.drop_top();
        self.count -= self.weight(order);
        self.pgalloc += pages(order);
        self.note_alloc();
        Some(i)
    }

    /// Puts a freed block on a list, at the [free place](Self::free_place) of its stack, and counts it; the cache
    /// has `count` pages then ([`count_if_kept`](Self::count_if_kept)). Only where no page is kept aside, and for a
    /// zone of which nothing but its size drains the cache ([`ZoneSnapshot::only_size_drains`]).
    #[inline(always)]
    pub(crate) fn put_hot(
        &mut self,
        i: Index,
        (index, place): (ListIndex, usize),
        order: Order,
        count: u32,
    ) {
        self.lists[index.index() % LISTS].push_at(place, i);
        self.count = count;
        self.count_free(order);
        self.note_kept_free(order);
    }

    /// Returns the place of the next block on the stack of a list, if there is room.
    #[inline(always)]
    pub(crate) fn free_place(&self, index: ListIndex) -> Option<usize> {
        self.lists[index.index() % LISTS].free_place()
    }

    /// Returns the same, after the older half of a full stack moved behind it, if there is room there.
    #[inline(always)]
    pub(crate) fn make_place(&mut self, map: &PageMap<'_>, index: ListIndex) -> Option<usize> {
        if index.index() >= MAX_LISTS {
            return None;
        }
        self.free_place(index).or_else(|| {
            let (list, rest) = self.list_mut(map, index);
            list.make_room(rest);
            list.free_place()
        })
    }

    /// Moves blocks to the stack of the list of an order and type, if it is empty. Returns whether
    /// there is a first block then.
    pub(crate) fn warm(&mut self, map: &PageMap<'_>, order: Order, mt: Migratetype) -> bool {
        let Some(index) = self.list_index(order, mt) else { return false };
        let (list, rest) = self.list_mut(map, index);
        if list.is_empty() {
            return false;
        }
        list.top().is_some()
            || if map.has_bits() {
                // A ring has no links that could be wrong, and each block is looked at when it is taken.
                list.warm(rest, |_| true)
            } else {
                list.warm(rest, |i| map.is_byte_on_cpu_list(i, order))
            }
    }
}
