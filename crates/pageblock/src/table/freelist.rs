//! Lists of blocks, and the free lists of a zone: one per order and type.

use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::policy::source::PolicySource;
use crate::table::chain::{Chain, Tag};
use crate::table::links::{BlockLinks, Links};
use crate::table::map::{Index, PageMap};
use crate::table::movement::Watch;

/// A chain of blocks and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    chain: Chain,
    len: u32,
}

/// The tag of zones, which no CPU has.
pub(crate) const ZONE: Tag = 0;

impl List {
    pub(crate) const EMPTY: Self = Self { chain: Chain::EMPTY, len: 0 };

    #[inline]
    pub(crate) fn head(&self) -> Option<Index> {
        self.chain.head()
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    #[inline]
    fn push_head(&mut self, map: &impl Links, i: Index) {
        self.chain.push_head(map, ZONE, i);
        self.len += 1;
    }

    #[inline]
    fn push_tail(&mut self, map: &impl Links, i: Index) {
        self.chain.push_tail(map, ZONE, i);
        self.len += 1;
    }

    #[inline]
    fn remove(&mut self, map: &impl Links, i: Index) {
        self.chain.remove(map, ZONE, i);
        self.len -= 1;
    }
}

const ORDERS: usize = ORDER_LIMIT as usize + 1;

/// The free lists of one zone (`struct free_area` of every order).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeArea {
    lists: [[List; ORDERS]; MIGRATETYPES],
    nonempty: [u16; MIGRATETYPES],
    /// Sees every change of a list through the functions below.
    pub(crate) watch: Watch,
}

impl FreeArea {
    pub(crate) const EMPTY: Self = Self {
        lists: [[List::EMPTY; ORDERS]; MIGRATETYPES],
        nonempty: [0; MIGRATETYPES],
        watch: Watch::NEW,
    };

    #[inline]
    pub(crate) fn list(&self, order: Order, mt: Migratetype) -> &List {
        &self.lists[mt as usize][order as usize]
    }

    #[inline]
    pub(crate) fn push_head(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        order: Order,
        mt: Migratetype,
    ) {
        self.watch.one(map, i, mt);
        self.lists[mt as usize][order as usize].push_head(map, i);
        self.nonempty[mt as usize] |= 1 << order;
    }

    #[inline]
    pub(crate) fn push_tail(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        order: Order,
        mt: Migratetype,
    ) {
        self.watch.one(map, i, mt);
        self.lists[mt as usize][order as usize].push_tail(map, i);
        self.nonempty[mt as usize] |= 1 << order;
    }

    #[inline]
    pub(crate) fn remove(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        order: Order,
        mt: Migratetype,
    ) {
        self.watch.one(map, i, mt);
        self.take_off(map, i, order, mt);
    }

    #[inline]
    fn take_off(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        order: Order,
        mt: Migratetype,
    ) {
        let list = &mut self.lists[mt as usize][order as usize];
        list.remove(map, i);
        if list.is_empty() {
            self.nonempty[mt as usize] &= !(1 << order);
        }
    }

    /// Moves a block to another list, whose type its pageblock has or is about to get.
    pub(crate) fn change(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        order: Order,
        [from, to]: [Migratetype; 2],
        end: End,
    ) {
        self.watch.change(map, i, [from, to]);
        self.take_off(map, i, order, from);
        let list = &mut self.lists[to as usize][order as usize];
        match end {
            End::Head => list.push_head(map, i),
            End::Tail => list.push_tail(map, i),
        }
        self.nonempty[to as usize] |= 1 << order;
    }

    pub(crate) fn rotate_to(&mut self, map: &impl Links, i: Index, order: Order, mt: Migratetype) {
        self.lists[mt as usize][order as usize].chain.rotate_to(map, ZONE, i);
    }

    /// Puts a block of whole pageblocks on a list that is linked through the pageblocks, without counting the
    /// movement.
    pub(crate) fn push_whole(
        &mut self,
        links: &BlockLinks<'_>,
        i: Index,
        order: Order,
        mt: Migratetype,
        end: End,
    ) {
        let list = &mut self.lists[mt as usize][order as usize];
        match end {
            End::Head => list.push_head(links, i),
            End::Tail => list.push_tail(links, i),
        }
        self.nonempty[mt as usize] |= 1 << order;
    }

    /// Removes a block of whole pageblocks from a list that is linked through the pageblocks.
    pub(crate) fn remove_whole(
        &mut self,
        links: &BlockLinks<'_>,
        i: Index,
        order: Order,
        mt: Migratetype,
    ) {
        let list = &mut self.lists[mt as usize][order as usize];
        list.remove(links, i);
        if list.is_empty() {
            self.nonempty[mt as usize] &= !(1 << order);
        }
    }

    /// Counts a free block that a pageblock's bitmap holds instead of a list.
    #[inline]
    pub(crate) fn count_in(&mut self, order: Order, mt: Migratetype) {
        self.lists[mt as usize][order as usize].len += 1;
        self.nonempty[mt as usize] |= 1 << order;
    }

    /// Stops counting a block of a pageblock's bitmap.
    #[inline]
    pub(crate) fn count_out(&mut self, order: Order, mt: Migratetype) {
        let len = &mut self.lists[mt as usize][order as usize].len;
        debug_assert!(*len > 0, "no free {mt} block of order {order} is counted");
        *len -= 1;
        if *len == 0 {
            self.nonempty[mt as usize] &= !(1 << order);
        }
    }

    /// Adds `more` blocks of bitmaps to the count. Wraps, so that a negative number subtracts.
    pub(crate) fn count_by(&mut self, order: Order, mt: Migratetype, more: u32) {
        let len = &mut self.lists[mt as usize][order as usize].len;
        *len = len.wrapping_add(more);
        match *len {
            0 => self.nonempty[mt as usize] &= !(1 << order),
            _ => self.nonempty[mt as usize] |= 1 << order,
        }
    }

    /// Returns the smallest order from `order` on that has a block of this type.
    #[inline]
    pub(crate) fn smallest(&self, order: Order, mt: Migratetype) -> Option<Order> {
        let orders = self.nonempty[mt as usize] >> order;
        (orders != 0).then(|| order + orders.trailing_zeros() as Order)
    }

    /// Returns the orders that have blocks of a type, one bit each.
    #[inline]
    pub(crate) fn orders(&self, mt: Migratetype) -> u16 {
        self.nonempty[mt as usize]
    }

    /// Returns the number of free blocks of an order, of all types (`nr_free`).
    pub(crate) fn nr_free(&self, order: Order) -> u64 {
        self.lists.iter().map(|of_type| u64::from(of_type[order as usize].len())).sum()
    }
}

pub(crate) use crate::base::decide::End;
