//! Whether a zone has enough free memory for a request (`__zone_watermark_ok`).

use crate::base::alloc_flags::{AllocFlags, Watermark};
use crate::base::frame::{Order, pages};
use crate::base::layout::ZoneKind;
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use crate::base::request::Gfp;
use crate::policy::source::PolicySource;
use crate::policy::{BelowHigh, Policy, WmarkCheck, WmarkFast};
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;
use crate::zone::tuning::Watermarks;

impl<P: PolicySource> Zone<'_, P> {
    /// Returns whether `mark` pages and the lowmem reserve stay free if a block of `order` is taken,
    /// and (from 4.4) whether such a block exists on a list that some request can use.
    ///
    /// `highest` is the highest zone that the request may use. Source: `__zone_watermark_ok`.
    #[must_use]
    pub fn watermark_ok(
        &self,
        order: Order,
        mark: u64,
        highest: ZoneKind,
        flags: AllocFlags,
    ) -> bool {
        watermark_ok(self, self.free_pages, order, mark, highest, flags)
    }

    /// Tells what [`watermark_ok`](Self::watermark_ok) would if `free_pages` pages were free: with what
    /// could be reclaimed, or of whole blocks only. Whether a block exists is asked of the lists as
    /// they are.
    #[must_use]
    pub fn watermark_ok_if(
        &self,
        free_pages: u64,
        order: Order,
        mark: u64,
        highest: ZoneKind,
        flags: AllocFlags,
    ) -> bool {
        watermark_ok(self, free_pages, order, mark, highest, flags)
    }

    /// Returns the headroom from which the orders that the zone serves at once follow. `kept` are the pages that [it
    /// keeps](Self::kept).
    pub(crate) fn headroom(&self, kept: u64) -> Headroom {
        Headroom { free: self.free_pages, kept, orders: self.orders_asked_for() }
    }

    /// Returns the shortage from which the orders that the zone refuses follow.
    pub(crate) fn shortage(&self) -> Shortage {
        let unusable = match self.policy.wmark_fast {
            WmarkFast::Cma => 0,
            _ => unusable_free(self, AllocFlags::CMA),
        };
        Shortage {
            left: signed(self.free_pages) - signed(unusable + self.watermarks.low + self.boost),
            orders: self.orders_asked_for(),
            refuses_larger: self.policy.wmark_check != WmarkCheck::HalvePerOrder
                && self.free_pages_of(Cma) == 0,
        }
    }

    /// Returns the orders up to the largest of the blocks which anyone may take, one bit each; order 0 where blocks
    /// do not matter.
    fn orders_asked_for(&self) -> u16 {
        match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => 1,
            _ => 1 | u16::MAX.checked_shr(self.open_orders().leading_zeros()).unwrap_or(0),
        }
    }

    /// Returns the mark that requests have to leave at first, and every reserve of the zone itself.
    pub(crate) fn kept(&self) -> u64 {
        let Watermarks { low, high, .. } = self.watermarks;
        let high_first = self.policy.below_high == BelowHigh::On && !self.below_high;
        self.free_pages_of(Cma)
            + self.free_pages_of(HighAtomic)
            + self.reserved_highatomic
            + self.boost
            + if high_first { high } else { low }
    }

    /// Returns the orders that have blocks which anyone may take, one bit each.
    pub(crate) fn open_orders(&self) -> u16 {
        let orders = |mt| self.area.orders(mt);
        orders(Unmovable) | orders(Movable) | orders(Reclaimable)
    }
}

/// What requests are served by the low mark and less, with any flags, and under every policy: that mark is
/// left, or the high one where it is looked at first, and every reserve, and blocks that anyone may take.
#[derive(Clone, Copy)]
pub(crate) struct Headroom {
    free: u64,
    /// See [`Zone::kept`].
    kept: u64,
    /// The orders that there are blocks for, one bit each, without a gap.
    orders: u16,
}

impl Headroom {
    pub(crate) const NONE: Self = Self { free: 0, kept: 0, orders: 0 };

    /// Returns the orders, one bit each, that are served beside a lowmem reserve.
    pub(crate) fn orders_above(self, reserve: u64) -> u16 {
        match self.free.saturating_sub(self.kept.saturating_add(reserve)) {
            0 => 0,
            left @ 1..0x8000 => self.orders & ((2 << left.ilog2()) - 1),
            _ => self.orders,
        }
    }

    /// Returns the free pages above which [`orders_above`](Self::orders_above) allows all orders for every reserve up to
    /// this one; the maximum where the zone has fewer now.
    pub(crate) fn steady_above(self, reserve: u64) -> u64 {
        let above = self.kept.saturating_add(reserve).saturating_add(u64::from(self.orders));
        if self.free > above { above } else { u64::MAX }
    }
}

/// What requests without part in a reserve are refused by the low mark, whether or not they may use contiguous memory
/// areas: never one too many. What it depends on is what [`Headroom`] does.
#[derive(Clone, Copy)]
pub(crate) struct Shortage {
    /// Free pages above the mark, without those of the reserves.
    left: i64,
    /// The orders up to the largest of the blocks there are, one bit each.
    orders: u16,
    /// Whether larger ones are refused.
    refuses_larger: bool,
}

impl Shortage {
    pub(crate) const NONE: Self = Self { left: i64::MAX, orders: 0, refuses_larger: false };

    /// Returns the orders, one bit each, that are refused beside a lowmem reserve.
    pub(crate) fn orders_refused(self, reserve: u64) -> u16 {
        let larger = if self.refuses_larger { !self.orders } else { 0 };
        match self.left.saturating_sub(signed(reserve)) {
            ..=0 => u16::MAX,
            left @ 1..0x8000 => larger | (self.orders & !((2 << left.ilog2()) - 1)),
            _ => larger,
        }
    }
}

/// See [`Zone::watermark_ok`].
fn watermark_ok(
    zone: &impl ZoneStat,
    free_pages: u64,
    order: Order,
    mark: u64,
    highest: ZoneKind,
    flags: AllocFlags,
) -> bool {
    if order > zone.max_order() {
        return false;
    }
    let free = signed(free_pages) - signed(pages(order)) + 1;
    let usable = free - signed(unusable_free(zone, flags));
    let min = reduced_mark(zone.checks().check, signed(mark), flags);
    let reserve = signed(zone.lowmem_reserve(highest));
    if usable <= min + reserve {
        return false;
    }
    match zone.checks().check {
        WmarkCheck::HalvePerOrder => {
            enough_above_each_order(order, free, min, |order| zone.nr_free(order))
        }
        _ => order == 0 || has_block_for(zone, order, flags),
    }
}

/// Lowers a mark, in pages, for requests that cannot wait.
#[must_use]
pub fn reduced_mark(check: WmarkCheck, mark: i64, flags: AllocFlags) -> i64 {
    let mut min = mark;
    match check {
        WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => {
            if flags.has(AllocFlags::MIN_RESERVE) {
                min -= min / 2;
            }
            if flags.has(AllocFlags::OOM) {
                min -= min / 2;
            } else if flags.has(AllocFlags::NON_BLOCK) {
                min -= min / 4;
            }
        }
        WmarkCheck::FlagsCombine | WmarkCheck::FreeHighatomic => {
            if flags.has(AllocFlags::MIN_RESERVE) {
                min -= min / 2;
                if flags.has(AllocFlags::NON_BLOCK) {
                    min -= min / 4;
                }
            }
            if flags.has(AllocFlags::OOM) {
                min -= min / 2;
            }
        }
    }
    min
}

/// Returns the free pages that this request may not use (`__zone_watermark_unusable_free`).
fn unusable_free(zone: &impl ZoneStat, flags: AllocFlags) -> u64 {
    let check = zone.checks().check;
    let highatomic = match check {
        _ if counts_highatomic(check, flags) => 0,
        WmarkCheck::FreeHighatomic => zone.free_pages_of(HighAtomic),
        _ => zone.reserved_highatomic(),
    };
    let cma = if flags.has(AllocFlags::CMA) { 0 } else { zone.free_pages_of(Cma) };
    highatomic + cma
}

/// Tells whether the highatomic reserve counts as free for an attempt.
#[must_use]
pub const fn counts_highatomic(check: WmarkCheck, flags: AllocFlags) -> bool {
    match check {
        WmarkCheck::HalvePerOrder => true,
        WmarkCheck::ListExists => flags.has_any(AllocFlags::NON_BLOCK.with(AllocFlags::OOM)),
        WmarkCheck::FlagsCombine | WmarkCheck::FreeHighatomic => {
            flags.has_any(AllocFlags::RESERVES)
        }
    }
}

/// Tells whether what is left in larger orders exceeds the mark, halved for each order (up to 4.3, where unusable pages
/// count again). `free` are the free pages but for the rest of the block, `min` the [`reduced_mark`]; `nr_free` returns the
/// free blocks of an order.
pub fn enough_above_each_order(
    order: Order,
    mut free: i64,
    mut min: i64,
    nr_free: impl Fn(Order) -> u64,
) -> bool {
    for smaller in 0..order {
        free -= signed(nr_free(smaller) << smaller);
        min >>= 1;
        if free <= min {
            return false;
        }
    }
    true
}

fn has_block_for(zone: &impl ZoneStat, order: Order, flags: AllocFlags) -> bool {
    if any_from(zone, order, &[Unmovable, Movable, Reclaimable])
        || (flags.has(AllocFlags::CMA) && any_from(zone, order, &[Cma]))
    {
        return true;
    }
    finds_highatomic(zone.checks().check, flags) && any_from(zone, order, &[HighAtomic])
}

/// Tells whether a block of the highatomic reserve counts for an attempt of an order above 0 (from 4.4).
#[must_use]
pub const fn finds_highatomic(check: WmarkCheck, flags: AllocFlags) -> bool {
    flags.has_any(match check {
        WmarkCheck::ListExists => AllocFlags::NON_BLOCK.with(AllocFlags::OOM),
        _ => AllocFlags::HIGHATOMIC.with(AllocFlags::OOM),
    })
}

/// Returns a watermark with the boost.
fn mark_of(zone: &impl ZoneStat, mark: Watermark) -> u64 {
    let marks = zone.watermarks();
    zone.boost()
        + match mark {
            Watermark::Min => marks.min,
            Watermark::Low => marks.low,
            Watermark::High => marks.high,
        }
}

/// Returns whether one of the types has a block of this order or larger.
fn any_from(zone: &impl ZoneStat, order: Order, types: &[Migratetype]) -> bool {
    types.iter().any(|&mt| zone.orders(mt) >> order != 0)
}

/// Returns whether a zone passes the check of the fast path (`zone_watermark_fast`): a short cut for order 0, and from 5.10
/// a second try without the boost for those who may use reserves (up to 6.2: `__GFP_ATOMIC`).
pub(crate) fn watermark_fast(
    zone: &impl ZoneStat,
    order: Order,
    mark: Watermark,
    highest: ZoneKind,
    flags: AllocFlags,
    gfp: Gfp,
) -> bool {
    if order == 0 && zone.checks().fast != WmarkFast::Off {
        let unusable = match zone.checks().fast {
            WmarkFast::Cma if flags.has(AllocFlags::CMA) => 0,
            WmarkFast::Cma => zone.free_pages_of(Cma),
            _ => unusable_free(zone, flags),
        };
        let left = signed(zone.free_pages()) - signed(unusable);
        let needed = mark_of(zone, mark) + zone.lowmem_reserve(highest);
        if left > signed(needed) {
            return true;
        }
    }
    watermark_in_full(zone, order, mark, highest, flags, gfp)
}

/// Returns whether a zone passes what follows the short cut of [`watermark_fast`].
#[inline(never)]
fn watermark_in_full(
    zone: &impl ZoneStat,
    order: Order,
    mark: Watermark,
    highest: ZoneKind,
    flags: AllocFlags,
    gfp: Gfp,
) -> bool {
    if watermark_ok(zone, zone.free_pages(), order, mark_of(zone, mark), highest, flags) {
        return true;
    }
    zone.boost() > 0
        && forgives_boost(zone.checks(), order, flags, gfp)
        && watermark_ok(zone, zone.free_pages(), order, zone.watermarks().min, highest, flags)
}

/// The switches of a watermark check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    pub(crate) check: WmarkCheck,
    pub(crate) fast: WmarkFast,
}

impl Checks {
    /// Returns those of a policy.
    #[must_use]
    pub const fn of(policy: &Policy) -> Self {
        Self { check: policy.wmark_check, fast: policy.wmark_fast }
    }
}

/// Tells whether an attempt that fails is made once more without the boost.
#[must_use]
pub fn forgives_boost(checks: Checks, order: Order, flags: AllocFlags, gfp: Gfp) -> bool {
    let urgent = match checks.check {
        WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => gfp.has(Gfp::ATOMIC),
        WmarkCheck::FlagsCombine | WmarkCheck::FreeHighatomic => flags.has(AllocFlags::MIN_RESERVE),
    };
    // The attempt's own watermark counts, even where `mark` is the high one that is tested
    // before it.
    checks.fast == WmarkFast::Unusable
        && order == 0
        && flags.selected_watermark() == Watermark::Min
        && urgent
}

fn signed(n: u64) -> i64 {
    n as i64
}

impl<P: PolicySource> Zone<'_, P> {
    /// Marks the zone as below its high watermark.
    pub(crate) fn mark_below_high(&mut self) {
        self.below_high = true;
    }

    /// Clears the mark after a drain, if the zone is above its high watermark again.
    pub fn leave_below_high(&mut self) {
        if self.below_high {
            let high = self.watermark(Watermark::High);
            self.below_high = !self.watermark_ok(0, high, ZoneKind::Movable, AllocFlags(0));
        }
    }
}
