//! The numbers of a zone that are read without its lock.

use crate::base::frame::Order;
use crate::base::layout::ZoneKind;
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::zone::Zone;
use crate::zone::tuning::Watermarks;
use crate::zone::watermark::Checks;

/// The numbers of a zone for decisions without its lock. The owner of all zones reads them in place, CPUs that
/// share zones read them from the lock-free snapshot.
pub(crate) trait ZoneStat {
    /// Returns the switches of watermark checks.
    fn checks(&self) -> Checks;
    /// See [`Zone::free_pages`].
    fn free_pages(&self) -> u64;
    /// See [`Zone::free_pages_of`]; only for CMA and highatomic.
    fn free_pages_of(&self, mt: Migratetype) -> u64;
    /// See [`Zone::reserved_highatomic`].
    fn reserved_highatomic(&self) -> u64;
    /// See [`Zone::watermarks`].
    fn watermarks(&self) -> Watermarks;
    /// See [`Zone::boost`].
    fn boost(&self) -> u64;
    /// See [`Zone::lowmem_reserve`].
    fn lowmem_reserve(&self, highest: ZoneKind) -> u64;
    /// Returns the orders that have free blocks of a type, one bit each.
    fn orders(&self, mt: Migratetype) -> u16;
    /// See [`Zone::nr_free`]; only used under
    /// [`WmarkCheck::HalvePerOrder`](crate::policy::WmarkCheck::HalvePerOrder).
    fn nr_free(&self, order: Order) -> u64;
    /// Returns the largest order.
    fn max_order(&self) -> Order;
    /// See [`Zone::managed`].
    fn managed(&self) -> u64;
    /// See [`Zone::below_high`].
    fn below_high(&self) -> bool;
    /// See [`Zone::boosted`].
    fn boosted(&self) -> bool;
    /// See [`Zone::reclaim_active`].
    fn reclaim_active(&self) -> bool;
}

impl<P: PolicySource> ZoneStat for Zone<'_, P> {
    fn checks(&self) -> Checks {
        Checks::of(&self.policy)
    }
    fn free_pages(&self) -> u64 {
        self.free_pages
    }
    fn free_pages_of(&self, mt: Migratetype) -> u64 {
        self.free_by_type[mt as usize]
    }
    fn reserved_highatomic(&self) -> u64 {
        self.reserved_highatomic
    }
    fn watermarks(&self) -> Watermarks {
        self.watermarks
    }
    fn boost(&self) -> u64 {
        self.boost
    }
    fn lowmem_reserve(&self, highest: ZoneKind) -> u64 {
        self.lowmem_reserve[highest as usize]
    }
    fn orders(&self, mt: Migratetype) -> u16 {
        self.area.orders(mt)
    }
    fn nr_free(&self, order: Order) -> u64 {
        self.area.nr_free(order)
    }
    fn max_order(&self) -> Order {
        self.geometry.max_order
    }
    fn managed(&self) -> u64 {
        self.managed
    }
    fn below_high(&self) -> bool {
        self.below_high
    }
    fn boosted(&self) -> bool {
        self.boosted
    }
    fn reclaim_active(&self) -> bool {
        self.reclaim_active
    }
}

/// The inputs from which the cached masks were computed, as far as moves of pages can change them. They are stored
/// in the zone, so that one comparison follows a batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct MaskInputs {
    /// While there are more free pages than this, and all else is equal, the same orders are served.
    steady_above: u64,
    kept: u64,
    orders: u16,
    below_high: bool,
    boosted: bool,
}

impl MaskInputs {
    pub(crate) fn holds(&self, zone: &Zone<'_, impl PolicySource>) -> bool {
        let orders = zone.open_orders();
        zone.free_pages > self.steady_above
            && zone.kept() == self.kept
            // The largest order is the same.
            && orders ^ self.orders <= orders & self.orders
            && zone.below_high == self.below_high
            && zone.boosted == self.boosted
    }
}

impl<P: PolicySource> Zone<'_, P> {
    /// Returns whether the masks computed when [`set_mask_inputs`](Self::set_mask_inputs) was called are still
    /// valid, if only pages were moved since.
    pub(crate) fn mask_inputs_hold(&self) -> bool {
        self.mask_inputs.holds(self)
    }

    /// Stores the values that [`MaskInputs::holds`] compares.
    pub(crate) fn set_mask_inputs(&mut self, steady_above: u64, kept: u64) {
        self.mask_inputs = MaskInputs {
            steady_above,
            kept,
            orders: self.open_orders(),
            below_high: self.below_high,
            boosted: self.boosted,
        };
    }
}
