//! Whether a zone has enough free memory for a request (`__zone_watermark_ok`).

use crate::alloc_flags::{AllocFlags, Watermark};
use crate::frame::{Order, pages};
use crate::layout::ZoneKind;
use crate::mobility::Migratetype::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use crate::policy::{WmarkCheck, WmarkFast};
use crate::request::Gfp;
use crate::zone::Zone;

impl Zone<'_> {
    /// Tells whether `mark` pages and the lowmem reserve stay free if a block of `order` is taken,
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
        self.watermark_ok_if(self.free_pages, order, mark, highest, flags)
    }

    /// The same as [`watermark_ok`](Self::watermark_ok) if `free_pages` pages were free: with what
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
        if order > self.geometry.max_order {
            return false;
        }
        let free = signed(free_pages) - signed(pages(order)) + 1;
        let usable = free - signed(self.unusable_free(flags));
        let min = self.reduced_mark(signed(mark), flags);
        let reserve = signed(self.lowmem_reserve[highest as usize]);
        if usable <= min + reserve {
            return false;
        }
        match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => self.enough_above_each_order(order, free, min),
            _ => order == 0 || self.has_block_for(order, flags),
        }
    }

    /// Tells whether so much is free that [`watermark_fast`](Self::watermark_fast) holds for every
    /// request of this order and highest zone, by every mark, with any flags, and under every policy:
    /// the high mark and every reserve are left, and blocks that anyone may take.
    #[inline]
    pub(crate) fn has_plenty(&self, order: Order, highest: ZoneKind) -> bool {
        let reserves =
            self.free_pages_of(Cma) + self.free_pages_of(HighAtomic) + self.reserved_highatomic;
        let mark = self.boost + self.watermarks.high + self.lowmem_reserve[highest as usize];
        if signed(self.free_pages) < signed(reserves + mark + pages(order)) {
            return false;
        }
        order == 0
            || (self.policy.wmark_check != WmarkCheck::HalvePerOrder
                && self.area.any_from(order, &[Unmovable, Movable, Reclaimable]))
    }

    /// Part of the mark may be used by those who cannot wait.
    fn reduced_mark(&self, mark: i64, flags: AllocFlags) -> i64 {
        let mut min = mark;
        match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists44 => {
                if flags.has(AllocFlags::MIN_RESERVE) {
                    min -= min / 2;
                }
                if flags.has(AllocFlags::OOM) {
                    min -= min / 2;
                } else if flags.has(AllocFlags::NON_BLOCK) {
                    min -= min / 4;
                }
            }
            WmarkCheck::ListExists63 | WmarkCheck::ListExists612 => {
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

    /// Free pages that this request may not use (`__zone_watermark_unusable_free`).
    #[inline]
    fn unusable_free(&self, flags: AllocFlags) -> u64 {
        let highatomic = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => 0,
            WmarkCheck::ListExists44
                if flags.has_any(AllocFlags::NON_BLOCK.with(AllocFlags::OOM)) =>
            {
                0
            }
            WmarkCheck::ListExists63 | WmarkCheck::ListExists612
                if flags.has_any(AllocFlags::RESERVES) =>
            {
                0
            }
            WmarkCheck::ListExists44 | WmarkCheck::ListExists63 => self.reserved_highatomic,
            WmarkCheck::ListExists612 => self.free_pages_of(HighAtomic),
        };
        let cma = if flags.has(AllocFlags::CMA) { 0 } else { self.free_pages_of(Cma) };
        highatomic + cma
    }

    /// Up to 4.3, where unusable pages count again: what is left in larger orders must exceed the mark, halved for each order.
    fn enough_above_each_order(&self, order: Order, mut free: i64, mut min: i64) -> bool {
        for smaller in 0..order {
            free -= signed(self.area.nr_free(smaller) << smaller);
            min >>= 1;
            if free <= min {
                return false;
            }
        }
        true
    }

    fn has_block_for(&self, order: Order, flags: AllocFlags) -> bool {
        if self.area.any_from(order, &[Unmovable, Movable, Reclaimable])
            || (flags.has(AllocFlags::CMA) && self.area.any_from(order, &[Cma]))
        {
            return true;
        }
        let reserve = match self.policy.wmark_check {
            WmarkCheck::ListExists44 => AllocFlags::NON_BLOCK.with(AllocFlags::OOM),
            _ => AllocFlags::HIGHATOMIC.with(AllocFlags::OOM),
        };
        flags.has_any(reserve) && self.area.any_from(order, &[HighAtomic])
    }

    /// The check of the fast path (`zone_watermark_fast`): a short cut for order 0, and from 5.10
    /// a second try without the boost for those who may use reserves (up to 6.2: `__GFP_ATOMIC`).
    #[inline]
    pub(crate) fn watermark_fast(
        &self,
        order: Order,
        mark: Watermark,
        highest: ZoneKind,
        flags: AllocFlags,
        gfp: Gfp,
    ) -> bool {
        if order == 0 && self.policy.wmark_fast != WmarkFast::Off {
            let unusable = match self.policy.wmark_fast {
                WmarkFast::Cma if flags.has(AllocFlags::CMA) => 0,
                WmarkFast::Cma => self.free_pages_of(Cma),
                _ => self.unusable_free(flags),
            };
            let left = signed(self.free_pages) - signed(unusable);
            let needed = self.watermark(mark) + self.lowmem_reserve[highest as usize];
            if left > signed(needed) {
                return true;
            }
        }
        self.watermark_in_full(order, mark, highest, flags, gfp)
    }

    /// What follows the short cut of [`watermark_fast`](Self::watermark_fast).
    #[inline(never)]
    fn watermark_in_full(
        &self,
        order: Order,
        mark: Watermark,
        highest: ZoneKind,
        flags: AllocFlags,
        gfp: Gfp,
    ) -> bool {
        if self.watermark_ok(order, self.watermark(mark), highest, flags) {
            return true;
        }
        let urgent = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists44 => gfp.has(Gfp::ATOMIC),
            WmarkCheck::ListExists63 | WmarkCheck::ListExists612 => {
                flags.has(AllocFlags::MIN_RESERVE)
            }
        };
        // The attempt's own watermark counts, even where `mark` is the high one that is tested
        // before it.
        self.policy.wmark_fast == WmarkFast::Unusable
            && order == 0
            && self.boost > 0
            && flags.selected_watermark() == Watermark::Min
            && urgent
            && self.watermark_ok(order, self.watermarks.min, highest, flags)
    }
}

fn signed(n: u64) -> i64 {
    n as i64
}
