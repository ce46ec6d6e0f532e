//! The lock-free snapshot of a zone: the numbers that CPUs read without its lock.
//!
//! Decisions before the lock is taken (is there memory above the watermark, is reclaim active) need the zone's
//! numbers. An exclusive owner of all zones reads them in place. CPUs that share zones read the copies in a
//! [`ZoneSnapshot`], which are refreshed whenever the zone's lock is released. A copy lags behind by the pages that
//! the lock's holder has moved so far: at most one batch of a CPU list, or one block. Unlike the kernel's `vm_stat`
//! it does not drift with the number of CPUs.

use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::ids::NodeId;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use crate::base::sync::{AtomicBool, AtomicU16, AtomicUsize, Relaxed};
use crate::percpu::machine::Machine;
use crate::policy::source::{Chosen, PolicySource};
use crate::policy::{BelowHigh, PcpFree, WmarkCheck};
use crate::table::map::PageMap;
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;
use crate::zone::tuning::Watermarks;
use crate::zone::watermark::{Checks, Headroom, Shortage};

/// The types whose free blocks count in watermark checks, in the order of [`Copies::orders`].
const CHECKED: [Migratetype; 5] = [Unmovable, Movable, Reclaimable, HighAtomic, Cma];

/// The lock-free snapshot of a zone, and its page map.
pub(crate) struct ZoneSnapshot<'m, P: PolicySource = Chosen> {
    pub(crate) map: PageMap<'m, P>,
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    /// The alloc flags of the fast path, if this zone is preferred: those that do not depend on the request.
    pub(crate) fast_flags: AllocFlags,
    policy: P,
    max_order: Order,
    /// `served`, `refused` and `only_size` are up to date.
    current: AtomicBool,
    /// Only its size makes a CPU cache drain pages: reclaim is not active, and the zone is not below its high
    /// watermark.
    only_size: AtomicBool,
    /// By the highest zone of a request: the orders, one bit each, that the zone serves at once, under any flags
    /// and any watermark but an explicit high one. May lack a bit, never has one too many.
    served: [AtomicU16; MAX_NR_ZONES],
    /// By the highest zone of a request: the orders that the zone refuses silently (no event, no question to the
    /// observer, no change) to a walk with the fast path's flags and without access to a reserve. May lack a bit,
    /// never has one too many.
    refused: [AtomicU16; MAX_NR_ZONES],
    copies: Copies,
}

/// Copies of a zone's numbers, refreshed under its lock with each move of pages. They are not on the cache lines
/// that the fast paths read.
#[repr(align(128))]
struct Copies {
    free_pages: AtomicUsize,
    cma: AtomicUsize,
    highatomic: AtomicUsize,
    reserved_highatomic: AtomicUsize,
    watermarks: [AtomicUsize; 4],
    boost: AtomicUsize,
    lowmem_reserve: [AtomicUsize; MAX_NR_ZONES],
    orders: [AtomicU16; CHECKED.len()],
    nr_free: [AtomicUsize; ORDER_LIMIT as usize + 1],
    managed: AtomicUsize,
    below_high: AtomicBool,
    boosted: AtomicBool,
    reclaim_active: AtomicBool,
}

/// Stores a page count. It fits, as a zone's frames have 32-bit indices.
fn store(copy: &AtomicUsize, pages: u64) {
    copy.store(usize::try_from(pages).unwrap_or(usize::MAX), Relaxed);
}

/// Stores a mask of orders only if it changed: other CPUs read its cache line all the time.
fn store_orders(copy: &AtomicU16, orders: u16) {
    if copy.load(Relaxed) != orders {
        copy.store(orders, Relaxed);
    }
}

fn load(copy: &AtomicUsize) -> u64 {
    copy.load(Relaxed) as u64
}

impl<'m, P: PolicySource> ZoneSnapshot<'m, P> {
    /// Returns the snapshot of a zone that has its page map.
    pub(crate) fn of(zone: &Zone<'m, P>, policy: P, fast_flags: AllocFlags) -> Self {
        let zeros = || core::array::from_fn(|_| AtomicUsize::new(0));
        Self {
            map: *zone.map(),
            node: zone.node(),
            kind: zone.kind(),
            fast_flags,
            policy,
            current: AtomicBool::new(false),
            only_size: AtomicBool::new(false),
            max_order: zone.geometry().max_order,
            served: core::array::from_fn(|_| AtomicU16::new(0)),
            refused: core::array::from_fn(|_| AtomicU16::new(0)),
            copies: Copies {
                free_pages: AtomicUsize::new(0),
                cma: AtomicUsize::new(0),
                highatomic: AtomicUsize::new(0),
                reserved_highatomic: AtomicUsize::new(0),
                watermarks: core::array::from_fn(|_| AtomicUsize::new(0)),
                boost: AtomicUsize::new(0),
                lowmem_reserve: core::array::from_fn(|_| AtomicUsize::new(0)),
                orders: core::array::from_fn(|_| AtomicU16::new(0)),
                nr_free: zeros(),
                managed: AtomicUsize::new(0),
                below_high: AtomicBool::new(false),
                boosted: AtomicBool::new(false),
                reclaim_active: AtomicBool::new(false),
            },
        }
    }

    /// Returns whether a request of this order is served at once, by the highest zone that it may use. An attempt
    /// that names the high watermark may still be refused.
    #[inline(always)]
    pub(crate) fn serves_at_once(&self, order: Order, highest: ZoneKind) -> bool {
        self.served[highest as usize].load(Relaxed) >> (order & 0xf) & 1 != 0
    }

    /// Returns whether a request of this order, without access to a reserve, skips the zone silently.
    #[inline(always)]
    pub(crate) fn refuses(&self, order: Order, highest: ZoneKind) -> bool {
        self.refused[highest as usize].load(Relaxed) >> (order & 0xf) & 1 != 0
    }

    /// Returns whether only its size makes a CPU cache drain pages.
    #[inline(always)]
    pub(crate) fn only_size_drains(&self) -> bool {
        self.only_size.load(Relaxed)
    }

    /// Invalidates the masks until the next [`refresh_mask`](Self::refresh_mask).
    pub(crate) fn invalidate(&self) {
        self.current.store(false, Relaxed);
        self.only_size.store(false, Relaxed);
        for orders in self.served.iter().chain(&self.refused) {
            orders.store(0, Relaxed);
        }
    }

    /// Returns whether the masks were computed from the zone as it is.
    pub(crate) fn is_current(&self) -> bool {
        self.current.load(Relaxed)
    }

    /// Returns whether the masks are still valid after pages of the zone were moved, and nothing else happened.
    #[inline(always)]
    fn is_still_current(&self, zone: &Zone<'_, P>) -> bool {
        let holds = self.is_current() && zone.mask_inputs_hold();
        debug_assert!(
            !holds || self.serves_no_more_than(zone),
            "an order is served that is not free"
        );
        holds
    }

    /// Returns whether the mask of served orders has none that the zone would not serve as it is.
    fn serves_no_more_than(&self, zone: &Zone<'_, P>) -> bool {
        let headroom = zone.headroom(zone.kept());
        let mut reserves = zone.lowmem_reserve().iter().zip(&self.served);
        reserves
            .all(|(&reserve, served)| served.load(Relaxed) & !headroom.orders_above(reserve) == 0)
    }

    /// Computes the masks of orders. `serves` is false if something other than its watermark may make a walk skip
    /// the zone.
    #[cold]
    #[inline(never)]
    pub(crate) fn refresh_mask(&self, zone: &mut Zone<'_, P>, serves: bool) {
        let serves = serves && zone.managed() > 0 && !zone.boosted() && !zone.mobility_off();
        let kept = zone.kept();
        let headroom = if serves { zone.headroom(kept) } else { Headroom::NONE };
        let most_reserved = zone.lowmem_reserve().iter().max().copied().unwrap_or(0);
        // The largest reserve decides: above it, no highest zone's mask changes while pages move.
        zone.set_mask_inputs(if serves { headroom.steady_above(most_reserved) } else { 0 }, kept);
        let shortage =
            if serves && self.refuses_silently(zone) { zone.shortage() } else { Shortage::NONE };
        let existing = u16::MAX >> (15 - self.max_order.min(15));
        let reserves = zone.lowmem_reserve().iter();
        for (at, &reserve) in reserves.enumerate().skip(self.kind as usize) {
            debug_assert_eq!(
                headroom.orders_above(reserve) & shortage.orders_refused(reserve) & existing,
                0,
                "an order is both served and refused"
            );
            store_orders(&self.served[at], headroom.orders_above(reserve));
            store_orders(&self.refused[at], shortage.orders_refused(reserve) & existing);
        }
        let only_size = self.policy.pcp_free == PcpFree::Batch
            || (!zone.reclaim_active() && !zone.below_high());
        if self.only_size.load(Relaxed) != only_size || !self.is_current() {
            self.only_size.store(only_size, Relaxed);
            self.current.store(true, Relaxed);
        }
    }

    /// Returns whether a walk that fails the zone's low watermark leaves no trace: it neither marks the zone as
    /// below its high watermark nor reclaims from the node.
    fn refuses_silently(&self, zone: &Zone<'_, P>) -> bool {
        self.policy.zone_reclaim_mode == 0
            && (self.policy.below_high != BelowHigh::On || zone.below_high())
    }

    /// Computes the masks after pages of the zone were moved, if they may have changed.
    #[inline(never)]
    pub(crate) fn refresh_mask_after_moves(
        &self,
        zone: &mut Zone<'_, P>,
        machine: &Machine<'_, P>,
    ) {
        if !self.is_still_current(zone) {
            self.refresh_mask(zone, machine.first_zone_serves());
        }
    }

    /// Refreshes the copies after pages of the zone were moved.
    #[inline(never)]
    pub(crate) fn refresh_after_moves(&self, zone: &mut Zone<'_, P>, machine: &Machine<'_, P>) {
        if self.is_still_current(zone) {
            self.refresh_pages(zone);
        } else {
            self.refresh(zone, machine.first_zone_serves());
        }
    }

    /// Refreshes the copies that change with every move of pages.
    fn refresh_pages(&self, zone: &Zone<'_, P>) {
        let copies = &self.copies;
        store(&copies.free_pages, zone.free_pages());
        store(&copies.cma, zone.free_pages_of(Cma));
        store(&copies.highatomic, zone.free_pages_of(HighAtomic));
        store(&copies.reserved_highatomic, zone.reserved_highatomic());
        store(&copies.boost, zone.boost());
        for (copy, mt) in copies.orders.iter().zip(CHECKED) {
            copy.store(zone.orders(mt), Relaxed);
        }
        if self.policy.wmark_check == WmarkCheck::HalvePerOrder {
            for (order, copy) in (0..=ORDER_LIMIT).zip(&copies.nr_free) {
                store(copy, ZoneStat::nr_free(zone, order));
            }
        }
    }

    /// Refreshes everything that CPUs read without the lock.
    pub(crate) fn refresh(&self, zone: &mut Zone<'_, P>, serves: bool) {
        self.refresh_mask(zone, serves);
        self.refresh_pages(zone);
        let copies = &self.copies;
        let Watermarks { min, low, high, promo } = zone.watermarks();
        for (copy, mark) in copies.watermarks.iter().zip([min, low, high, promo]) {
            store(copy, mark);
        }
        for (copy, &pages) in copies.lowmem_reserve.iter().zip(zone.lowmem_reserve()) {
            store(copy, pages);
        }
        store(&copies.managed, zone.managed());
        copies.below_high.store(zone.below_high(), Relaxed);
        copies.boosted.store(zone.boosted(), Relaxed);
        copies.reclaim_active.store(zone.reclaim_active(), Relaxed);
    }
}

impl<P: PolicySource> ZoneStat for ZoneSnapshot<'_, P> {
    fn checks(&self) -> Checks {
        Checks::of(&self.policy)
    }
    fn free_pages(&self) -> u64 {
        load(&self.copies.free_pages)
    }
    fn free_pages_of(&self, mt: Migratetype) -> u64 {
        match mt {
            Cma => load(&self.copies.cma),
            HighAtomic => load(&self.copies.highatomic),
            _ => 0,
        }
    }
    fn reserved_highatomic(&self) -> u64 {
        load(&self.copies.reserved_highatomic)
    }
    fn watermarks(&self) -> Watermarks {
        let [min, low, high, promo] = &self.copies.watermarks;
        Watermarks { min: load(min), low: load(low), high: load(high), promo: load(promo) }
    }
    fn boost(&self) -> u64 {
        load(&self.copies.boost)
    }
    fn lowmem_reserve(&self, highest: ZoneKind) -> u64 {
        load(&self.copies.lowmem_reserve[highest as usize])
    }
    fn orders(&self, mt: Migratetype) -> u16 {
        CHECKED
            .iter()
            .position(|&checked| checked == mt)
            .map_or(0, |at| self.copies.orders[at].load(Relaxed))
    }
    fn nr_free(&self, order: Order) -> u64 {
        self.copies.nr_free.get(usize::from(order)).map_or(0, load)
    }
    fn max_order(&self) -> Order {
        self.max_order
    }
    fn managed(&self) -> u64 {
        load(&self.copies.managed)
    }
    fn below_high(&self) -> bool {
        self.copies.below_high.load(Relaxed)
    }
    fn boosted(&self) -> bool {
        self.copies.boosted.load(Relaxed)
    }
    fn reclaim_active(&self) -> bool {
        self.copies.reclaim_active.load(Relaxed)
    }
}
