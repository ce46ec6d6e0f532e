//! The part of a cache that the fast paths use: the table of lists, and the [stacks](crate::percpu::list) of the
//! lists.

use super::{CpuCache, LISTS, MAX_LISTS};
use crate::base::frame::{Order, pages};
use crate::base::ids::ListIndex;
use crate::base::mobility::{MIGRATE_PCPTYPES, Migratetype};
use crate::policy::source::PolicySource;
use crate::table::map::{Index, PageMap};

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

impl<P: PolicySource> CpuCache<'_, P> {
    /// Returns the list of an order and type for the allocation fast path. It may be the closed list, which yields
    /// nothing.
    #[inline(always)]
    pub(crate) fn take_list(&self, order: Order, mt: Migratetype) -> Option<ListIndex> {
        if order == 0 && (mt as usize) < MIGRATE_PCPTYPES {
            return Some(ListIndex(mt as usize));
        }
        Some(ListIndex(self.list_of.get(usize::from(order))?[mt as usize].into()))
    }

    /// Returns the list for the free fast path. It may be the closed list, which takes nothing.
    #[inline(always)]
    pub(crate) fn put_list(&self, order: Order, mt: Migratetype) -> Option<ListIndex> {
        Some(ListIndex(self.put_lists.get(usize::from(order))?[mt as usize].into()))
    }

    /// Takes the block at the head of a list, if it is on the stack, marks it allocated (as movable or not), and
    /// counts it.
    #[inline(always)]
    pub(crate) fn take_hot(
        &mut self,
        map: &PageMap<'_, P>,
        index: ListIndex,
        order: Order,
        movable: bool,
    ) -> Option<Index> {
        if self.last_freed_is_on(index) {
            return self.take_last_freed(map, movable);
        }
        if !self.flush_hot() {
            // Its list has no room: the full path makes some.
            return None;
        }
        let i = self.lists[index.index() % LISTS].top()?;
        if !map.take(i, order, movable) {
            return None;
        }
        self.took_top(index, order);
        Some(i)
    }

    /// Returns the block at the head of a list, if it is on the stack. No page is kept aside.
    #[inline]
    pub(crate) fn top(&self, index: ListIndex) -> Option<Index> {
        self.lists[index.index() % LISTS].top()
    }

    /// Drops the block at the head of a list, which was marked allocated, and counts it.
    #[inline(always)]
    pub(crate) fn took_top(&mut self, index: ListIndex, order: Order) {
        debug_assert_eq!(self.list_order(index), order, "the list has another order");
        self.lists[index.index() % LISTS].drop_top();
        self.count -= self.weight(order);
        self.pgalloc += pages(order);
        self.note_alloc();
    }

    /// Puts a freed block on a list, at the [free place](Self::free_place) of its stack, and counts it. The cache
    /// then has `count` pages ([`count_if_kept`](Self::count_if_kept)). No page may be kept aside, and only its
    /// size may make the cache drain ([`ZoneSnapshot::only_size_drains`]).
    #[inline(always)]
    pub(crate) fn put_hot(
        &mut self,
        i: Index,
        (index, place): (ListIndex, usize),
        order: Order,
        count: u32,
    ) {
        debug_assert!(
            self.last_freed_on(index).is_none(),
            "the page kept aside must stay the head"
        );
        debug_assert_eq!(self.list_order(index), order, "the list has another order");
        debug_assert_eq!(count, self.count + self.weight(order), "counted from another state");
        self.lists[index.index() % LISTS].push_at(place, i);
        self.count = count;
        self.count_free(order);
        self.note_kept_free(order);
    }

    /// Returns the next free place on the stack of a list, `None` if it is full.
    #[inline(always)]
    pub(crate) fn free_place(&self, index: ListIndex) -> Option<usize> {
        self.lists[index.index() % LISTS].free_place()
    }

    /// Returns the next free place on the stack of a list. Moves the older half of a full stack to the rest of the
    /// list first; `None` if there is no room.
    #[inline(always)]
    pub(crate) fn make_place(&mut self, map: &PageMap<'_, P>, index: ListIndex) -> Option<usize> {
        // The closed list always looks full.
        if index.index() >= MAX_LISTS {
            return None;
        }
        self.free_place(index).or_else(|| {
            let (list, rest) = self.list_mut(map, index);
            list.make_room(rest);
            list.free_place()
        })
    }

    /// Moves blocks of a list of an order to its stack, if that is empty. Returns whether the stack has a block now.
    #[inline(never)]
    pub(crate) fn warm(&mut self, map: &PageMap<'_, P>, index: ListIndex, order: Order) -> bool {
        // The closed list has no memory beyond its stack.
        if index.index() >= MAX_LISTS {
            return false;
        }
        let (list, rest) = self.list_mut(map, index);
        list.top().is_some() || list.warm(rest, |i| map.is_byte_on_cpu_list(i, order))
    }
}
