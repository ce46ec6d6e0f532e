//! The walk along a zonelist until a zone serves a request.
//!
//! Source: `get_page_from_freelist` / `rmqueue` (mm/page_alloc.c).

use crate::alloc::{AllocError, Allocator};
use crate::alloc_flags::{AllocFlags, Watermark};
use crate::event::{Event, NodeReclaim, Observer};
use crate::fallback::Mode;
use crate::frame::{Order, Pfn};
use crate::levels::{Front, Levels};
use crate::local::{Check, Local, Zones};
use crate::machine::Attempt;
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype::{self, HighAtomic};
use crate::policy::{BelowHigh, Fair, Nofragment, PcpOrders, Policy, Reserve, WmarkCheck};
use crate::request::{Gfp, Request};
use crate::zone::Zone;

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// Walks the zonelist until a zone serves the request (`get_page_from_freelist`). `preferred` is
    /// the first zone that may.
    pub(crate) fn get_page_from_freelist(
        &mut self,
        attempt: &Attempt,
        preferred: usize,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let skip_active = self.machine.skips_active();
        let mut walk = Walk {
            preferred,
            flags,
            skip_active,
            skipped_active: false,
            skipped_fair: false,
            by_marks: true,
        };
        match self.visit(preferred, attempt, &mut walk, observer) {
            Visit::Served(pfn) => Some(pfn),
            visit => self.walk_on(attempt, walk, visit, observer),
        }
    }

    /// Goes on where the preferred zone did not serve: with the zones after it, then with further
    /// passes that are less choosy.
    #[cold]
    #[inline(never)]
    fn walk_on(
        &mut self,
        attempt: &Attempt,
        mut walk: Walk,
        mut visit: Visit,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let mut zones = self.machine.zonelist(attempt);
        zones.find(|&zone| zone == walk.preferred);
        loop {
            while matches!(visit, Visit::Next) {
                let Some(at) = zones.find(|&zone| self.eligible(zone, attempt)) else { break };
                visit = self.visit(at, attempt, &mut walk, observer);
            }
            match visit {
                Visit::Served(pfn) => return Some(pfn),
                Visit::Restart => {}
                Visit::Next | Visit::Stop => self.prepare_next_pass(&mut walk)?,
            }
            walk.skipped_fair = false;
            walk.by_marks = true;
            zones = self.machine.zonelist(attempt);
            visit = Visit::Next;
        }
    }

    /// Tries one zone.
    fn visit(
        &mut self,
        at: usize,
        attempt: &Attempt,
        walk: &mut Walk,
        observer: &mut impl Observer,
    ) -> Visit {
        let fronts = self.machine.fronts;
        let (node, preferred_node) = (fronts[at].node, fronts[walk.preferred].node);
        if self.machine.policy.fair != Fair::Off {
            let local = node == preferred_node;
            match self.fair_test(at, local, walk.flags, attempt.gfp) {
                FairTest::Use => {}
                FairTest::Skip => {
                    walk.skipped_fair = true;
                    return walk.pass_over();
                }
                FairTest::Stop => {
                    walk.by_marks = false;
                    return Visit::Stop;
                }
            }
        }
        if attempt.gfp.has(Gfp::WRITE)
            && walk.flags.selected_watermark() == Watermark::Low
            && !observer.node_dirty_ok(node)
        {
            return walk.pass_over();
        }
        if self.machine.nr_nodes > 1
            && walk.flags.has(AllocFlags::NOFRAGMENT)
            && self.machine.policy.nofragment != Nofragment::DefragMode
            && node != preferred_node
        {
            walk.flags = walk.flags.without(AllocFlags::NOFRAGMENT);
            return Visit::Restart;
        }
        if walk.skip_active && self.machine.kswapd_runs(node) {
            walk.skipped_active = true;
            return walk.pass_over();
        }
        let plenty = walk.flags.selected_watermark() != Watermark::High
            && fronts[at].has_plenty(attempt.order, attempt.highest);
        if !plenty && !self.has_watermark(at, attempt, walk.flags, observer) {
            // With reclaim in between the answer may be another.
            walk.by_marks &= self.machine.policy.zone_reclaim_mode == 0;
            return Visit::Next;
        }
        match self.rmqueue(at, attempt, walk.flags, observer) {
            Some(pfn) => Visit::Served(pfn),
            None => walk.pass_over(),
        }
    }

    /// Makes the walk less choosy after a pass that found nothing; `None` where it cannot be.
    fn prepare_next_pass(&mut self, walk: &mut Walk) -> Option<()> {
        if walk.skip_active && walk.skipped_active {
            walk.skip_active = false;
        } else if self.fair_pass_again(walk.flags, walk.skipped_fair, walk.preferred) {
            walk.flags = walk.flags.without(AllocFlags::FAIR);
        } else if walk.flags.has(AllocFlags::NOFRAGMENT)
            && self.machine.policy.nofragment != Nofragment::DefragMode
            // Linux: walks again even so, to the same end, as the flag is none of the marks'.
            && !walk.by_marks
        {
            walk.flags = walk.flags.without(AllocFlags::NOFRAGMENT);
        } else {
            return None;
        }
        Some(())
    }

    /// Whether the zone may serve, by the flag for zones under their high watermark and the
    /// watermark of the attempt.
    fn has_watermark(
        &mut self,
        at: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> bool {
        let Attempt { order, highest, gfp, .. } = *attempt;
        let levels = self.levels(at);
        let high_first = self.machine.policy.below_high == BelowHigh::On && !levels.below_high();
        let mark = if high_first { Some(Watermark::High) } else { flags.watermark() };
        mark.is_none_or(|mark| Check { order, mark, highest, flags, gfp }.holds(levels))
            || self.has_lower_watermark(at, attempt, flags, high_first, observer)
    }

    /// What follows where the first watermark is not met.
    #[cold]
    #[inline(never)]
    fn has_lower_watermark(
        &mut self,
        at: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        high_first: bool,
        observer: &mut impl Observer,
    ) -> bool {
        let Attempt { order, highest, gfp, .. } = *attempt;
        if high_first {
            self.with(at, |zone, _| zone.below_high = true);
        }
        let Some(mark) = flags.watermark() else { return true };
        let check = Check { order, mark, highest, flags, gfp };
        if high_first && check.holds(self.levels(at)) {
            return true;
        }
        if self.machine.policy.zone_reclaim_mode == 0 {
            return false;
        }
        match observer.node_reclaim(self.machine.fronts[at].node, order) {
            NodeReclaim::NoScan | NodeReclaim::Full => false,
            NodeReclaim::Some => self
                .with(at, |zone, _| zone.watermark_ok(order, zone.watermark(mark), highest, flags)),
        }
    }

    /// Takes a block from a zone, through the CPU's cache where it has a list (`rmqueue`).
    fn rmqueue(
        &mut self,
        at: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Attempt { order, mt, .. } = *attempt;
        let policy = &self.machine.policy;
        let list = self.cache(at).list_index(order, mt).filter(|_| !attempt.past_lists);
        let cached = list.and_then(|list| self.rmqueue_pcplist(at, list, attempt, flags, observer));
        let taken = if cached.is_some() || (list.is_some() && !policy.zone_after_empty_cpu_list()) {
            cached
        } else {
            let movable = attempt.gfp.has(Gfp::MOVABLE);
            self.with_pages(at, |zone, _| {
                let i = zone.rmqueue_buddy(order, mt, flags, observer)?;
                // Under the lock, so that whoever holds it finds every frame in a block.
                zone.map.set(i, FrameState::Allocated { order, movable });
                Some(i)
            })
        };
        if self.levels(at).boosted() && flags.has(AllocFlags::KSWAPD) {
            self.with(at, |zone, _| zone.wake_for_boost(observer));
        }
        let pfn = self.hand_out(at, taken?, attempt, observer);
        if order > 0 && adds_to_reserve(policy, flags, cached.is_some()) {
            self.with(at, |zone, _| zone.reserve_highatomic(pfn, order));
        }
        Some(pfn)
    }

    /// Takes a block from a CPU list, after filling it if it is empty (`rmqueue_pcplist`).
    fn rmqueue_pcplist(
        &mut self,
        at: usize,
        list: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        let Attempt { order, mt, .. } = *attempt;
        let cache = self.row.zones[at].settled();
        cache.note_alloc();
        if !cache.is_empty(list)
            && let Some(i) = cache.pop(&self.machine.fronts[at].map, list, order)
        {
            self.zones.renew_short(self.machine, at);
            return Some(i);
        }
        self.with_pages(at, |zone, cache| {
            cache.refill_and_pop(zone, list, order, mt, flags, observer)
        })
    }

    /// Gives a block that was taken off a list to the request.
    pub(crate) fn hand_out(
        &mut self,
        at: usize,
        i: Index,
        attempt: &Attempt,
        observer: &mut impl Observer,
    ) -> Pfn {
        let Attempt { order, mt, gfp, .. } = *attempt;
        let map = &self.machine.fronts[at].map;
        map.set(i, FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) });
        let pfn = map.pfn(i);
        self.cache(at).count_alloc(order);
        if self.machine.policy.fair != Fair::Off {
            self.with(at, |zone, _| zone.spend_fair_batch(order));
        }
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        pfn
    }
}

/// How choosy a walk still is.
struct Walk {
    preferred: usize,
    flags: AllocFlags,
    skip_active: bool,
    skipped_active: bool,
    /// In this pass.
    skipped_fair: bool,
    /// In this pass nothing but their watermarks kept zones from serving.
    by_marks: bool,
}

impl Walk {
    /// Passes over a zone for something that another pass may see otherwise.
    fn pass_over(&mut self) -> Visit {
        self.by_marks = false;
        Visit::Next
    }
}

/// What came of trying a zone.
enum Visit {
    Served(Pfn),
    /// The next zone is tried.
    Next,
    /// The pass ends.
    Stop,
    /// The pass starts again, less choosy already.
    Restart,
}

/// What the fair pass says of a zone.
enum FairTest {
    Use,
    Skip,
    Stop,
}

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// The fair zone allocator, by version (seed 3; facts 2.7).
    fn fair_test(&mut self, at: usize, local: bool, flags: AllocFlags, gfp: Gfp) -> FairTest {
        let low = flags.watermark() == Some(Watermark::Low);
        let (spent, depleted) =
            self.with(at, |zone, _| (zone.alloc_batch <= 0, zone.fair_depleted));
        match self.machine.policy.fair {
            Fair::Off => FairTest::Use,
            Fair::V312 if low && spent => FairTest::Skip,
            Fair::V312 if low && self.machine.policy.zone_reclaim_mode != 0 && !local => {
                FairTest::Skip
            }
            Fair::V313 if low && local && spent && !gfp.has(Gfp::THISNODE) => FairTest::Skip,
            Fair::V312 | Fair::V313 => FairTest::Use,
            Fair::V316 | Fair::V44 if !flags.has(AllocFlags::FAIR) => FairTest::Use,
            Fair::V316 | Fair::V44 if !local => FairTest::Stop,
            Fair::V316 if spent => FairTest::Skip,
            Fair::V44 if depleted => FairTest::Skip,
            Fair::V316 | Fair::V44 => FairTest::Use,
        }
    }

    /// Whether a fair pass that found nothing is followed by one without fairness; starts a new
    /// round of batches then. 4.4 does so only if a zone was passed over for its batch.
    fn fair_pass_again(&mut self, flags: AllocFlags, skipped: bool, preferred: usize) -> bool {
        if !flags.has(AllocFlags::FAIR) {
            return false;
        }
        let always = self.machine.policy.fair == Fair::V316;
        if skipped || always {
            let Front { node, kind, .. } = self.machine.fronts[preferred];
            for (at, front) in self.machine.fronts.iter().enumerate() {
                if front.node == node && front.kind <= kind {
                    self.with(at, |zone, _| zone.reset_fair_batch());
                }
            }
        }
        skipped || always || self.machine.nr_nodes > 1
    }

    /// See [`Allocator::reset_fair_batches`].
    pub(crate) fn reset_fair_batches(&mut self, request: &Request) -> Result<(), AllocError> {
        let attempt = self.machine.attempt(self.row.node, request)?;
        let local_only = match self.machine.policy.fair {
            Fair::V312 => self.machine.policy.zone_reclaim_mode != 0,
            Fair::V313 => true,
            Fair::Off | Fair::V316 | Fair::V44 => return Ok(()),
        };
        let Some(preferred) = self.preferred_zone(&attempt) else { return Ok(()) };
        let fronts = self.machine.fronts;
        for at in self.machine.zonelist(&attempt) {
            let local = fronts[at].node == fronts[preferred].node;
            if self.eligible(at, &attempt) && (!local_only || local) {
                self.with(at, |zone, _| zone.reset_fair_batch());
            }
        }
        Ok(())
    }
}

impl Allocator<'_> {
    /// Starts a new round of fair batches for the zones that a request considered, as 3.12 and 3.13
    /// do on entry to the slow path, together with waking kswapd (`prepare_slowpath`). Later
    /// versions do it by themselves, and nothing happens here.
    ///
    /// # Errors
    /// For a request that is no request.
    pub fn reset_fair_batches(&mut self, cpu: usize, request: &Request) -> Result<(), AllocError> {
        self.new_fair_round(cpu, request)
    }
}

impl Zone<'_> {
    /// Starts a round of the fair batch: the distance of the high and the low watermark.
    pub(crate) fn reset_fair_batch(&mut self) {
        self.alloc_batch = self.watermarks.high as i64 - self.watermarks.low as i64;
        self.fair_depleted = false;
    }

    /// Tells whether CPU caches have a list for an order (`pcp_allowed_order`).
    #[inline]
    pub(crate) fn has_cpu_list(&self, order: Order) -> bool {
        order == 0
            || (self.policy.pcp_orders == PcpOrders::CostlyAndThp
                && (order <= crate::cpu_cache::COSTLY_ORDER
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
        if order > 0
            && highatomic
            && reserves_for(&self.policy, flags)
            && let Some((i, _)) = self.rmqueue_from(order, HighAtomic, mt, observer)
        {
            return Some(i);
        }
        let mut mode = Mode::Normal;
        if let Some((i, _)) = self.rmqueue(order, mt, flags, &mut mode, observer) {
            return Some(i);
        }
        let last = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists44 => return None,
            WmarkCheck::ListExists63 => AllocFlags::OOM,
            WmarkCheck::ListExists612 => AllocFlags::OOM.with(AllocFlags::NON_BLOCK),
        };
        if !flags.has_any(last) {
            return None;
        }
        self.rmqueue_from(order, HighAtomic, mt, observer).map(|(i, _)| i)
    }

    /// Wakes kswapd if the watermarks were boosted since it was last woken.
    fn wake_for_boost(&mut self, observer: &mut impl Observer) {
        if core::mem::take(&mut self.boosted) {
            observer.wake_kswapd(self.node, self.kind, 0);
        }
    }

    /// Takes a block into account in the round of the fair batch.
    fn spend_fair_batch(&mut self, order: Order) {
        self.alloc_batch -= 1 << order;
        self.fair_depleted |= self.alloc_batch <= 0;
    }
}

/// Whether a block that an attempt got makes its pageblock part of the reserve.
fn adds_to_reserve(policy: &Policy, flags: AllocFlags, from_cpu_list: bool) -> bool {
    let applies = match policy.reserve {
        Reserve::MigrateReserve => false,
        Reserve::Highatomic44 | Reserve::Highatomic67 => true,
        Reserve::Highatomic72 => !from_cpu_list,
        Reserve::Highatomic73 => !from_cpu_list && flags.selected_watermark() == Watermark::Min,
    };
    applies && reserves_for(policy, flags)
}

/// Whether an attempt may use the reserve of high-order blocks.
fn reserves_for(policy: &Policy, flags: AllocFlags) -> bool {
    match policy.wmark_check {
        WmarkCheck::HalvePerOrder => false,
        WmarkCheck::ListExists44 => flags.has(AllocFlags::NON_BLOCK),
        _ => flags.has(AllocFlags::HIGHATOMIC),
    }
}
