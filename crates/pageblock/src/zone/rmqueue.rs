//! Serves a request from the zone itself: from its own list, from CMA, then by a fallback.
//!
//! Source: `__rmqueue`, `rmqueue_buddy` (mm/page_alloc.c).

use crate::base::alloc_flags::AllocFlags;
use crate::base::decide::Want;
use crate::base::event::Observer;
use crate::base::frame::Order;
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic};
use crate::policy::source::PolicySource;
use crate::policy::{ClaimRule, CmaUse, FallbackPick, PcpOrders, Reserve};
use crate::table::map::Index;
use crate::zone::Zone;
use crate::zone::fallback::{Mode, Outcome};
use crate::zone::reserve::{reserves_for, takes_highatomic_last};

impl<P: PolicySource> Zone<'_, P> {
    /// Returns whether CPU caches have a list for an order (`pcp_allowed_order`).
    pub(crate) fn has_cpu_list(&self, order: Order) -> bool {
        order == 0
            || (self.policy.pcp_orders == PcpOrders::CostlyAndThp
                && (order <= crate::base::frame::COSTLY_ORDER
                    || order == self.geometry.pageblock_order))
    }

    /// Takes a block past the CPU lists (`rmqueue_buddy`).
    #[inline(never)]
    pub(crate) fn rmqueue_buddy(
        &mut self,
        order: Order,
        mt: Migratetype,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        self.counters.lock_acquired += 1;
        let highatomic = self.policy.reserve != Reserve::MigrateReserve;
        if order > 0 && highatomic && reserves_for(&self.policy, flags) {
            if let Some((i, _)) = self.rmqueue_from(order, HighAtomic, mt, observer) {
                return Some(i);
            }
        }
        let mut mode = Mode::Normal;
        if let Some((i, _)) = self.rmqueue(order, mt, flags, &mut mode, observer) {
            return Some(i);
        }
        if !takes_highatomic_last(self.policy.wmark_check, flags) {
            return None;
        }
        self.rmqueue_from(order, HighAtomic, mt, observer).map(|(i, _)| i)
    }

    /// Takes a block of `order` from the zone for a request of a type (`__rmqueue`).
    ///
    /// Returns the block's first frame, and the type that a CPU list remembers for it (up to 6.9).
    pub(crate) fn rmqueue(
        &mut self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: &mut Mode,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let modes = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        if !modes {
            *mode = Mode::Normal;
        }
        let mut cma_first = self.prefers_cma(flags);
        if flags.has(AllocFlags::CMA) {
            if let Some(mut decider) = observer.decider() {
                let want = Want { order, kind: start, flags };
                cma_first = self.asked_cma(want, cma_first, &mut decider);
            }
        }
        if cma_first {
            if let Some(page) = self.rmqueue_from(order, Cma, start, observer) {
                return Some(page);
            }
        }
        // A bulk operation that fell back does not probe the empty list again (6.15 and later).
        if *mode == Mode::Normal {
            if let Some(page) = self.rmqueue_own(order, start, flags, observer) {
                return Some(page);
            }
        }
        let cma = flags.has(AllocFlags::CMA) && self.policy.cma != CmaUse::InFallback;
        if cma && *mode <= Mode::Cma {
            if let Some(page) = self.rmqueue_from(order, Cma, start, observer) {
                *mode = Mode::Cma;
                return Some(page);
            }
        }
        let search = match observer.decider() {
            Some(mut decider) => {
                self.asked_fallback(Want { order, kind: start, flags }, *mode, &mut decider)
            }
            None => self.find_fallback(order, start, flags, *mode),
        };
        self.counters.list_probes += u64::from(search.probes);
        self.block_looks += u64::from(search.looks);
        // Each failed claim boosts, before the block that was found is taken.
        for _ in 0..search.failed_claims {
            self.boost_watermark(start, flags, observer);
        }
        if let Some(fallback) = search.found {
            let steal = fallback.outcome == Outcome::Single;
            *mode = if modes && steal { Mode::Steal } else { Mode::Normal };
            return self.take_fallback(order, start, fallback, flags, observer);
        }
        if self.policy.reserve == crate::policy::Reserve::MigrateReserve {
            return self.rmqueue_from(order, Migratetype::Reserve, start, observer);
        }
        None
    }

    /// Takes up to `n` blocks for a request of a type, as `n` calls of [`rmqueue`](Self::rmqueue) would if they
    /// find consecutive blocks in one block of the requested type. Returns the first block, and their number;
    /// `None` if only `rmqueue` can decide.
    pub(crate) fn rmqueue_run(
        &mut self,
        order: Order,
        start: Migratetype,
        mode: Mode,
        n: u32,
        observer: &mut impl Observer,
    ) -> Option<(Index, u32)> {
        let modes = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        // With CMA pages each call compares CMA with other free memory again; a decider names each block.
        let asks = !self.is_packed() && observer.decider().is_some();
        if asks || (modes && mode != Mode::Normal) || self.free_pages_of(Cma) > 0 {
            return None;
        }
        let (i, taken) = self.take_run(order, start, n)?;
        for at in 0..taken {
            self.trace_zone_locked(i + (at << order), order, start, start, observer);
        }
        Some((i, taken))
    }

    /// Returns whether a request tries CMA first. From 5.8 movable requests keep CMA and other free memory in
    /// balance.
    pub(crate) fn prefers_cma(&self, flags: AllocFlags) -> bool {
        flags.has(AllocFlags::CMA)
            && match self.policy.cma {
                CmaUse::InFallback | CmaUse::BeforeFallback => false,
                CmaUse::HalfRule => self.free_pages_of(Cma) > self.free_pages / 2,
                CmaUse::First => true,
            }
    }

    /// Takes a block from one list for a request of a type, and reports it.
    pub(crate) fn rmqueue_from(
        &mut self,
        order: Order,
        list: Migratetype,
        requested: Migratetype,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let page = self.rmqueue_smallest(order, list)?;
        self.trace_zone_locked(page, order, list, requested, observer);
        Some((page, list))
    }

    /// Returns the type that is remembered for a block that a refill took from a list of type `list`. Up to 3.15
    /// that is the requested type, whatever list the block came from.
    pub(crate) fn remembered_type(
        &self,
        i: Index,
        requested: Migratetype,
        list: Migratetype,
    ) -> Migratetype {
        match self.policy.claim_rule {
            ClaimRule::RestTakenEventAfter | ClaimRule::RestTaken => match self.map.block_type(i) {
                special @ (Migratetype::Cma | Migratetype::Isolate) => special,
                _ => requested,
            },
            _ => list,
        }
    }
}
