//! Lists of blocks, and the free lists of a zone: one for every order and type.

use crate::frame::{ORDER_LIMIT, Order};
use crate::map::{Index, NIL, PageMap};
use crate::mobility::{MIGRATETYPES, Migratetype};

/// A doubly linked list of blocks, linked through the page map by their first frames. What the head
/// has as its previous block means nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: Index,
    /// Of a list that is not empty.
    tail: Index,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    #[inline]
    pub(crate) fn head(&self) -> Option<Index> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(crate) fn tail(&self) -> Option<Index> {
        (!self.is_empty()).then_some(self.tail)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline(always)]
    pub(crate) fn push_head(&mut self, map: &PageMap<'_>, i: Index) {
        map.set_next(i, self.head);
        if self.head == NIL {
            self.tail = i;
        } else {
            map.set_prev(self.head, i);
        }
        self.head = i;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, map: &PageMap<'_>, i: Index) {
        map.set_next(i, NIL);
        if self.is_empty() {
            self.head = i;
        } else {
            map.set_prev(i, self.tail);
            map.set_next(self.tail, i);
        }
        self.tail = i;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn remove(&mut self, map: &PageMap<'_>, i: Index) {
        self.len -= 1;
        let next = map.next(i);
        if self.head == i {
            self.head = next;
            return;
        }
        let prev = map.prev(i);
        map.set_next(prev, next);
        if next == NIL {
            self.tail = prev;
        } else {
            map.set_prev(next, prev);
        }
    }

    #[inline(always)]
    pub(crate) fn pop_head(&mut self, map: &PageMap<'_>) -> Option<Index> {
        let i = self.head()?;
        self.head = map.next(i);
        self.len -= 1;
        Some(i)
    }

    /// Moves all that stands before `i` behind the tail, so that `i` becomes the head
    /// (`move_freelist_tail` of compaction's fast search; also a way to follow one unseen).
    pub(crate) fn rotate_to(&mut self, map: &PageMap<'_>, i: Index) {
        if self.head == i {
            return;
        }
        let before = map.prev(i);
        map.set_next(self.tail, self.head);
        map.set_prev(self.head, self.tail);
        map.set_next(before, NIL);
        self.head = i;
        self.tail = before;
    }

    /// Iterates from the head to the tail.
    pub(crate) fn iter<'a>(&self, map: &'a PageMap<'_>) -> impl Iterator<Item = Index> + use<'a> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let i = (at != NIL).then_some(at)?;
            at = map.next(i);
            Some(i)
        })
    }
}

const ORDERS: usize = ORDER_LIMIT as usize + 1;

/// The free lists of one zone (`struct free_area` of every order).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeArea {
    lists: [[List; ORDERS]; MIGRATETYPES],
    nonempty: [u16; MIGRATETYPES],
}

impl FreeArea {
    pub(crate) const EMPTY: Self =
        Self { lists: [[List::EMPTY; ORDERS]; MIGRATETYPES], nonempty: [0; MIGRATETYPES] };

    #[inline]
    pub(crate) fn list(&self, order: Order, mt: Migratetype) -> &List {
        &self.lists[mt as usize][order as usize]
    }

    #[inline]
    pub(crate) fn push_head(&mut self, map: &PageMap<'_>, i: Index, order: Order, mt: Migratetype) {
        self.lists[mt as usize][order as usize].push_head(map, i);
        self.nonempty[mt as usize] |= 1 << order;
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, map: &PageMap<'_>, i: Index, order: Order, mt: Migratetype) {
        self.lists[mt as usize][order as usize].push_tail(map, i);
        self.nonempty[mt as usize] |= 1 << order;
    }

    #[inline]
    pub(crate) fn remove(&mut self, map: &PageMap<'_>, i: Index, order: Order, mt: Migratetype) {
        let list = &mut self.lists[mt as usize][order as usize];
        list.remove(map, i);
        if list.is_empty() {
            self.nonempty[mt as usize] &= !(1 << order);
        }
    }

    pub(crate) fn rotate_to(&mut self, map: &PageMap<'_>, i: Index, order: Order, mt: Migratetype) {
        self.lists[mt as usize][order as usize].rotate_to(map, i);
    }

    /// The smallest order, not under `order`, with a block of this type.
    #[inline]
    pub(crate) fn smallest(&self, order: Order, mt: Migratetype) -> Option<Order> {
        let orders = self.nonempty[mt as usize] >> order;
        (orders != 0).then(|| order + orders.trailing_zeros() as Order)
    }

    /// The orders that have blocks of a type, one bit each.
    #[inline]
    pub(crate) fn orders(&self, mt: Migratetype) -> u16 {
        self.nonempty[mt as usize]
    }

    /// The number of free blocks of an order, of all types (`nr_free`).
    pub(crate) fn nr_free(&self, order: Order) -> u64 {
        self.lists.iter().map(|of_type| u64::from(of_type[order as usize].len())).sum()
    }
}
