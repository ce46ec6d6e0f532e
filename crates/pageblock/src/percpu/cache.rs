//! Per-CPU page lists (PCP): a few blocks of each low order and type that a CPU allocates and frees
//! without the zone.
//!
//! A cache belongs to one CPU and one zone. The CPU owns it as `&mut`, in place of disabled
//! interrupts, so the fast path has no atomic read-modify-write.
//!
//! Source: `rmqueue_pcplist`, `free_unref_page_commit`, `free_pcppages_bulk` (mm/page_alloc.c). The sizes of
//! refills and drains are in `percpu/tuning.rs`.

mod drain;
mod hot;
mod last_freed;
pub(crate) mod rings;
mod state;

use core::marker::PhantomData;

pub use crate::base::frame::COSTLY_ORDER;
use crate::policy::source::{Chosen, PolicySource};
pub use crate::zone::retune::CacheLimits;
pub use drain::Drain;
#[cfg(feature = "replay")]
pub(crate) use drain::drained_type;
pub use state::CacheState;

use crate::base::alloc_flags::AllocFlags;
use crate::base::decide::End;
use crate::base::event::Observer;
use crate::base::frame::{ORDER_LIMIT, Order, pages};
use crate::base::geometry::Geometry;
use crate::base::ids::{CpuId, ListIndex};
use crate::base::mobility::{MIGRATE_PCPTYPES, MIGRATETYPES, Migratetype};
use crate::percpu::cache::rings::Rings;
use crate::percpu::list::CpuList;
use crate::percpu::tuning::{KeepRule, shares_refills};
use crate::policy::{PcpOrders, PcpThpLists, Policy, Reserve};
use crate::table::chain::Tag;
use crate::table::map::{Index, NIL, PageMap};
use crate::zone::Zone;
use crate::zone::fallback::Mode;

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

const LOW_ORDER_LISTS: usize = (COSTLY_ORDER as usize + 1) * MIGRATE_PCPTYPES;

/// The order of each low-order list. A table, because a division is slow.
const LOW_ORDER_OF: [Order; LOW_ORDER_LISTS] = {
    let mut orders = [0; LOW_ORDER_LISTS];
    let mut index = 0;
    while index < LOW_ORDER_LISTS {
        orders[index] = (index / MIGRATE_PCPTYPES) as Order;
        index += 1;
    }
    orders
};

/// The largest number of lists a cache can have (`NR_PCP_LISTS`).
pub const MAX_LISTS: usize = LOW_ORDER_LISTS + MIGRATE_PCPTYPES;

/// Dimensions of the table of lists. The number of types is rounded up to a power of two, so that indexing shifts
/// instead of multiplies.
const ORDERS: usize = ORDER_LIMIT as usize + 1;
const TYPES: usize = MIGRATETYPES.next_power_of_two();

/// The index of the closed list, which never takes or yields a block: it stands for "no list".
const NO_LIST: u8 = MAX_LISTS as u8;

/// Number of lists with the closed one: a power of two.
const LISTS: usize = MAX_LISTS + 1;

/// The lists of one CPU for one zone (`struct per_cpu_pages`). The fields that the fast paths write, apart from the
/// list itself, share one cache line.
#[repr(C)]
pub struct CpuCache<'m, P: PolicySource = Chosen> {
    source: PhantomData<P>,
    lists: [CpuList; LISTS],
    /// Pages that this CPU allocated and freed in the zone; see [`counters`](Self::counters).
    pgalloc: u64,
    pgfree: u64,
    /// Pages that were kept aside and allocated again. Such a pair changes no other counter.
    pairs: u64,
    /// See [`count`](Self::count) and [`free_count`](Self::free_count). Both exclude the page freed last.
    pub(super) count: u32,
    pub(super) free_count: u32,
    pub(super) keep_rule: KeepRule,
    /// The page freed last, and the list whose head it is; see [`last_freed`].
    last_freed: Index,
    last_freed_list: u8,
    /// Doublings of the refill (6.7 and later).
    pub(super) alloc_factor: u8,
    /// The last free was of a high order (`PCPF_PREV_FREE_HIGH_ORDER`).
    pub(super) prev_free_high_order: bool,
    /// The CPU's share of the data cache holds more than three batches (`PCPF_FREE_HIGH_BATCH`).
    pub(super) free_high_batch: bool,
    /// The state of the page kept aside; see [`PageMap::put_own_page`].
    aside: u16,
    /// The number of pages that the cache may hold now.
    pub(super) high: u32,
    /// The limits of batch and `high`.
    pub(super) limits: CacheLimits,
    /// The CPU's tag, which marks the links of its lists.
    tag: Tag,
    /// How often a list led to a block that this CPU does not own.
    strays: u32,
    nr_lists: u8,
    thp_order: Order,
    /// The list of each order and type, or [`NO_LIST`].
    list_of: [[u8; TYPES]; ORDERS],
    /// The same table for frees in the fast path, where isolated blocks have no list.
    put_lists: [[u8; TYPES]; ORDERS],
    rings: Rings<'m>,
    /// Blocks of larger orders count as one block of this order towards [`high`](Self::high).
    weight_order: Order,
    /// See [`shares_refills`].
    pub(super) shares_refills: bool,
}

const _: () = {
    use core::mem::offset_of;
    let first = offset_of!(CpuCache, pgalloc);
    assert!(first % 64 == 0 && offset_of!(CpuCache, free_high_batch) - first < 64);
};

impl CpuCache<'_> {
    /// Returns an empty cache of a CPU.
    #[must_use]
    pub fn new(cpu: CpuId, policy: &Policy, geometry: Geometry, limits: CacheLimits) -> Self {
        Self::of_cpu(cpu, policy, geometry, limits)
    }
}

impl<P: PolicySource> CpuCache<'_, P> {
    /// See [`new`](CpuCache::new).
    pub(crate) fn of_cpu(
        cpu: CpuId,
        policy: &Policy,
        geometry: Geometry,
        limits: CacheLimits,
    ) -> Self {
        let costly = policy.pcp_orders == PcpOrders::CostlyAndThp;
        let thp_lists = match policy.pcp_thp_lists {
            _ if !costly => 0,
            PcpThpLists::Three => 3,
            PcpThpLists::One => 1,
            PcpThpLists::Two => 2,
        };
        let low = if costly { LOW_ORDER_LISTS as u8 } else { MIGRATE_PCPTYPES as u8 };
        let mut lists = [CpuList::EMPTY; LISTS];
        lists[usize::from(NO_LIST)] = CpuList::CLOSED;
        let list_of = list_table(costly, thp_lists, geometry.pageblock_order);
        Self {
            source: PhantomData,
            lists,
            tag: cpu.index() as Tag + 1,
            strays: 0,
            list_of,
            put_lists: put_table(&list_of),
            nr_lists: low + thp_lists,
            thp_order: geometry.pageblock_order,
            count: 0,
            high: limits.high_min,
            limits,
            alloc_factor: 0,
            free_count: 0,
            last_freed: NIL,
            last_freed_list: last_freed::NONE,
            aside: 0,
            pairs: 0,
            prev_free_high_order: false,
            free_high_batch: false,
            keep_rule: KeepRule::default(),
            pgalloc: 0,
            pgfree: 0,
            rings: Rings::default(),
            weight_order: ORDER_LIMIT,
            shares_refills: shares_refills(policy),
        }
    }

    #[inline(always)]
    pub(crate) fn count_alloc(&mut self, order: Order) {
        self.pgalloc += pages(order);
    }

    #[inline(always)]
    pub(crate) fn count_free(&mut self, order: Order) {
        self.pgfree += pages(order);
    }

    /// Returns the list of an order and type (`order_to_pindex`); `None` for an order without lists. Types that no
    /// request has share the movable list.
    #[inline]
    #[must_use]
    pub fn list_index(&self, order: Order, mt: Migratetype) -> Option<ListIndex> {
        let index = usize::from(self.list_of.get(usize::from(order))?[mt as usize]);
        (index < MAX_LISTS).then_some(ListIndex(index))
    }

    /// Returns the order of a list's blocks (`pindex_to_order`).
    #[inline]
    #[must_use]
    pub fn list_order(&self, index: ListIndex) -> Order {
        LOW_ORDER_OF.get(index.index()).copied().unwrap_or(self.thp_order)
    }

    /// Returns the number of lists.
    #[must_use]
    pub fn nr_lists(&self) -> usize {
        usize::from(self.nr_lists)
    }

    /// Returns the lists in index order.
    pub(crate) fn lists(&self) -> impl Iterator<Item = ListIndex> + use<P> {
        ListIndex::up_to(self.nr_lists())
    }

    /// Returns the next list; the first one after the last.
    fn list_after(&self, index: ListIndex) -> ListIndex {
        if index.0 + 1 < self.nr_lists() { ListIndex(index.0 + 1) } else { ListIndex(0) }
    }

    /// Returns the previous list; the last one before the first.
    fn list_before(&self, index: ListIndex) -> ListIndex {
        ListIndex(index.0.checked_sub(1).unwrap_or(self.nr_lists() - 1))
    }

    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// Takes the block at the head of a list, whose order the caller gives. `None` if the list is empty.
    pub(crate) fn pop(
        &mut self,
        map: &PageMap<'_, P>,
        index: ListIndex,
        order: Order,
    ) -> Option<Index> {
        debug_assert_eq!(self.list_order(index), order, "the list has another order");
        loop {
            if self.lists[index.index() % LISTS].top().is_none() {
                self.warm(map, index, order);
            }
            let list = &mut self.lists[index.index() % LISTS];
            if list.is_empty() {
                return None;
            }
            if let Some(i) = list.top().filter(|&i| map.is_on_cpu_list(i, order)) {
                list.drop_top();
                debug_assert!(
                    self.count >= self.weight(order),
                    "more blocks on lists than counted"
                );
                self.count -= self.weight(order);
                return Some(i);
            }
            self.mend(map, index);
        }
    }

    /// Drops the frames that this CPU does not own (lost to a racing double free) from a list.
    #[cold]
    #[inline(never)]
    fn mend(&mut self, map: &PageMap<'_, P>, index: ListIndex) {
        let order = self.list_order(index);
        let (list, rest) = self.list_mut(map, index);
        let dropped = list.mend(rest, |i| map.is_on_cpu_list(i, order));
        self.strays += 1;
        if self.has_rings() {
            self.count -= dropped * self.weight(order);
            return;
        }
        // The chain of another list may have run through them, so the pages of all lists are counted again. A damaged
        // chain may be a circle.
        let limit = map.frames() as usize;
        let pages_of = |index: ListIndex| {
            let blocks = self.lists[index.index()].iter(self.rest(map, index)).take(limit).count();
            blocks as u32 * self.weight(self.list_order(index))
        };
        self.count = self.lists().map(pages_of).sum();
    }

    /// Refills an empty list from the zone, and takes a block from it (`__rmqueue_pcplist`). From 7.2 a request
    /// that may use the highatomic reserve leaves the list empty.
    #[inline(never)]
    pub(crate) fn refill_and_pop(
        &mut self,
        zone: &mut Zone<'_, P>,
        index: ListIndex,
        order: Order,
        mt: Migratetype,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        debug_assert!(self.is_empty(index), "a list with blocks needs no refill");
        let to_reserve = order > 0 && flags.has(AllocFlags::HIGHATOMIC);
        if to_reserve
            && matches!(
                zone.policy().reserve,
                Reserve::HighatomicFirst | Reserve::HighatomicBelowLow
            )
        {
            // The caller takes a single block from the reserve: a refill would put reserved blocks on a list that
            // any request may use.
            return None;
        }
        let mut n = self.refill_count(zone.policy(), order, zone.below_high());
        if let Some(mut decider) = observer.decider() {
            n = self.asked_refill(order, n, &mut decider);
        }
        self.refill(zone, order, mt, n, flags, observer);
        self.pop(zone.map(), index, order)
    }

    /// Moves up to `n` blocks from the zone to a list (`rmqueue_bulk`). Returns how many were moved.
    pub(crate) fn refill(
        &mut self,
        zone: &mut Zone<'_, P>,
        order: Order,
        mt: Migratetype,
        n: u32,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> u32 {
        let Some(index) = self.list_index(order, mt) else { return 0 };
        let mut mode = Mode::Normal;
        zone.count_lock();
        // Blocks that are to go back to the zone go first, so that the refill can use them.
        self.give_leaving(zone, observer);
        let n = n.min(self.room(index));
        let mut taken = 0;
        while taken < n {
            let run = zone.rmqueue_run(order, mt, mode, n - taken, observer);
            let (i, more, cached) = if let Some((i, more)) = run {
                (i, more, mt)
            } else {
                let single = zone.rmqueue(order, mt, flags, &mut mode, observer);
                let Some((i, cached)) = single else { break };
                // The block goes to the list of the requested type, whichever pageblock it came from.
                (i, 1, zone.remembered_type(i, mt, cached))
            };
            debug_assert!(more <= n - taken, "a longer run than was asked for");
            self.append_run(zone, i, more, index, cached);
            taken += more;
        }
        taken
    }

    /// Puts a freed block at an end of its list. Returns whether there was room.
    #[inline]
    pub(crate) fn push(
        &mut self,
        map: &PageMap<'_, P>,
        i: Index,
        order: Order,
        (index, cached): (ListIndex, Migratetype),
        end: End,
    ) -> bool {
        debug_assert_eq!(self.list_order(index), order, "the list has another order");
        let (list, rest) = self.list_mut(map, index);
        let is_there = match end {
            End::Head => list.push_head(rest, i),
            End::Tail => list.push_tail(rest, i),
        };
        if !is_there {
            return false;
        }
        map.put_on_cpu_list(i, order, cached);
        self.count += self.weight(order);
        true
    }

    /// Returns whether a block is on one of the cache's lists.
    #[cfg(feature = "replay")]
    pub(crate) fn contains(&self, map: &PageMap<'_, P>, i: Index, index: ListIndex) -> bool {
        self.lists[index.index()].contains(self.rest(map, index), self.tag, i)
    }

    /// Removes a given block from its list.
    #[inline]
    #[cfg(feature = "replay")]
    pub(crate) fn unlink(&mut self, map: &PageMap<'_, P>, i: Index, index: ListIndex) {
        debug_assert!(self.contains(map, i, index), "not on this list");
        let (list, rest) = self.list_mut(map, index);
        list.remove(rest, i);
        self.count -= self.weight(self.list_order(index));
    }
}

/// Returns the list of each order and type (`order_to_pindex`).
fn list_table(costly: bool, thp_lists: u8, thp_order: Order) -> [[u8; TYPES]; ORDERS] {
    let list = |order: Order, mt: Migratetype| {
        let mt = if (mt as usize) < MIGRATE_PCPTYPES { mt } else { Migratetype::Movable };
        if order == 0 || (costly && order <= COSTLY_ORDER) {
            return order * MIGRATE_PCPTYPES as u8 + mt as u8;
        }
        let of_thp_order = match thp_lists {
            _ if order != thp_order => return NO_LIST,
            0 => return NO_LIST,
            1 => 0,
            2 => u8::from(mt == Migratetype::Movable),
            _ => mt as u8,
        };
        LOW_ORDER_LISTS as u8 + of_thp_order
    };
    let mut table = [[NO_LIST; TYPES]; ORDERS];
    for (order, row) in (0..).zip(&mut table) {
        for mt in Migratetype::ALL {
            row[mt as usize] = list(order, mt);
        }
    }
    table
}

/// See [`CpuCache::put_list`].
fn put_table(list_of: &[[u8; TYPES]; ORDERS]) -> [[u8; TYPES]; ORDERS] {
    core::array::from_fn(|order| {
        let mut row = list_of[order];
        row[Migratetype::Isolate as usize] = NO_LIST;
        row
    })
}

/// The flags of a zone on which the size of a drain depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneFlags {
    /// kswapd is reclaiming.
    pub reclaim_active: bool,
    /// The zone is under its high watermark.
    pub below_high: bool,
}
