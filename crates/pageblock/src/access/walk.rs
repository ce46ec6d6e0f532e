//! The walk along a zonelist until a zone serves a request.
//!
//! Source: `get_page_from_freelist` / `rmqueue` (mm/page_alloc.c).

use crate::access::fair::FairTest;
use crate::access::local::{Access, Check, Local};
use crate::base::alloc_flags::{AllocFlags, Watermark};
use crate::base::decide::Decide;
use crate::base::event::{Event, NodeReclaim, Observer};
use crate::base::frame::Pfn;
use crate::base::ids::{ListIndex, ZoneIndex};
use crate::base::request::Gfp;
use crate::percpu::machine::Attempt;
use crate::policy::source::PolicySource;
use crate::policy::{BelowHigh, Boost, Fair, Nofragment, PcpEmpty, Policy, Reserve};
use crate::table::map::{FrameState, Index};
use crate::zone::reserve::reserves_for;
use crate::zone::stat::ZoneStat;

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// Walks the zonelist until a zone serves the request (`get_page_from_freelist`). `preferred` is the first
    /// eligible zone.
    pub(crate) fn get_page_from_freelist(
        &mut self,
        attempt: &Attempt,
        preferred: ZoneIndex,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        if let Some(mut decider) = observer.decider() {
            decider.on(self.caches.cpu(), attempt.gfp);
        }
        let skip_active = self.machine.skips_active();
        let mut walk = Walk {
            preferred,
            flags,
            skip_active,
            skipped_active: false,
            skipped_fair: false,
            only_watermarks: true,
        };
        match self.visit(preferred, attempt, &mut walk, observer) {
            Visit::Served(pfn) => Some(pfn),
            visit => self.walk_on(attempt, walk, visit, observer),
        }
    }

    /// Continues after the preferred zone did not serve: with the zones after it, then in further passes with fewer
    /// restrictions.
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
        // `visit` is the preferred zone's outcome: the first pass goes on after it.
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
            // Both flags describe a single pass, so the next one starts without them.
            walk.skipped_fair = false;
            walk.only_watermarks = true;
            zones = self.machine.zonelist(attempt);
            visit = Visit::Next;
        }
    }

    /// Tries one zone.
    fn visit(
        &mut self,
        at: ZoneIndex,
        attempt: &Attempt,
        walk: &mut Walk,
        observer: &mut impl Observer,
    ) -> Visit {
        debug_assert!(self.eligible(at, attempt), "zone {at:?} may not serve the request");
        let snapshots = self.machine.snapshots;
        let (node, preferred_node) =
            (snapshots[at.index()].node, snapshots[walk.preferred.index()].node);
        if self.machine.policy.fair != Fair::Off {
            let local = node == preferred_node;
            match self.fair_test(at, local, walk.flags, attempt.gfp) {
                FairTest::Use => {}
                FairTest::Skip => {
                    walk.skipped_fair = true;
                    return walk.skip();
                }
                FairTest::Stop => {
                    walk.only_watermarks = false;
                    return Visit::Stop;
                }
            }
        }
        // Dirty pages are spread over nodes (`node_dirty_ok`) in the fast path only: the slow path ignores the
        // limit.
        if attempt.gfp.has(Gfp::WRITE)
            && walk.flags.selected_watermark() == Watermark::Low
            && !observer.node_dirty_ok(node)
        {
            return walk.skip();
        }
        // A remote node is worse than mixed pageblocks on the local one (`alloc_flags_nofragment`).
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
            return walk.skip();
        }
        // The mask is computed for watermarks up to low. An explicit high one needs the full check.
        let served = walk.flags.selected_watermark() != Watermark::High
            && snapshots[at.index()].serves_at_once(attempt.order, attempt.highest);
        if !served && !self.has_watermark(at, attempt, walk.flags, observer) {
            // Reclaim in between may change the result.
            walk.only_watermarks &= self.machine.policy.zone_reclaim_mode == 0;
            return Visit::Next;
        }
        match self.rmqueue(at, attempt, walk.flags, observer) {
            Some(pfn) => Visit::Served(pfn),
            None => walk.skip(),
        }
    }

    /// Lifts a restriction of the walk after a pass that found nothing. `None` if there is nothing to lift.
    fn prepare_next_pass(&mut self, walk: &mut Walk) -> Option<()> {
        // The kernel's order: nodes with a running kswapd first, then fairness, then fragmentation.
        if walk.skip_active && walk.skipped_active {
            walk.skip_active = false;
        } else if self.fair_pass_again(walk.flags, walk.skipped_fair, walk.preferred) {
            walk.flags = walk.flags.without(AllocFlags::FAIR);
        } else if walk.flags.has(AllocFlags::NOFRAGMENT)
            && self.machine.policy.nofragment != Nofragment::DefragMode
            // Linux walks again even so, with the same result, as the flag does not affect watermarks.
            && !walk.only_watermarks
        {
            walk.flags = walk.flags.without(AllocFlags::NOFRAGMENT);
        } else {
            return None;
        }
        Some(())
    }

    /// Returns whether the zone may serve, by the mark of zones below their high watermark and the attempt's
    /// watermark.
    fn has_watermark(
        &mut self,
        at: ZoneIndex,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> bool {
        let Attempt { order, highest, gfp, .. } = *attempt;
        let stat = self.stat(at);
        let high_first = self.machine.policy.below_high == BelowHigh::On && !stat.below_high();
        let mark = if high_first { Some(Watermark::High) } else { flags.watermark() };
        mark.is_none_or(|mark| Check { order, mark, highest, flags, gfp }.holds(stat))
            || self.has_lower_watermark(at, attempt, flags, high_first, observer)
    }

    /// Returns whether the zone may serve although it fails the first watermark.
    #[cold]
    #[inline(never)]
    fn has_lower_watermark(
        &mut self,
        at: ZoneIndex,
        attempt: &Attempt,
        flags: AllocFlags,
        high_first: bool,
        observer: &mut impl Observer,
    ) -> bool {
        let Attempt { order, highest, gfp, .. } = *attempt;
        // From then on until the zone is above high again, walks test the low watermark at once.
        if high_first {
            self.with(at, |zone, _| zone.mark_below_high());
        }
        // A request that ignores watermarks was tested against the high one only to mark the zone.
        let Some(mark) = flags.watermark() else { return true };
        let check = Check { order, mark, highest, flags, gfp };
        if high_first && check.holds(self.stat(at)) {
            return true;
        }
        // Without node reclaim the caller tries the next zone at once.
        if self.machine.policy.zone_reclaim_mode == 0 {
            return false;
        }
        match observer.node_reclaim(self.machine.snapshots[at.index()].node, order) {
            // A node that was not scanned, or where nothing was found, has no more free pages than before.
            NodeReclaim::NoScan | NodeReclaim::Full => false,
            NodeReclaim::Some => self
                .with(at, |zone, _| zone.watermark_ok(order, zone.watermark(mark), highest, flags)),
        }
    }

    /// Takes a block from a zone, through the CPU's cache if that has a list for it (`rmqueue`).
    fn rmqueue(
        &mut self,
        at: ZoneIndex,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Attempt { order, mt, .. } = *attempt;
        let policy = &self.machine.policy;
        let list = self.cache(at).list_index(order, mt).filter(|_| !attempt.past_lists);
        let cached = list.and_then(|list| self.rmqueue_pcplist(at, list, attempt, flags, observer));
        // Up to 6.0 an empty CPU list after a refill fails the request; later kernels try the zone itself.
        let taken = if cached.is_some() || (list.is_some() && policy.pcp_empty == PcpEmpty::Fails) {
            cached
        } else {
            let movable = attempt.gfp.has(Gfp::MOVABLE);
            self.with_pages(at, |zone, _| {
                let i = zone.rmqueue_buddy(order, mt, flags, observer)?;
                // Done under the lock, so that another holder of the lock finds every frame in a block.
                zone.map().set(i, FrameState::Allocated { order, movable });
                Some(i)
            })
        };
        // Before the block is handed out, as in `rmqueue`: the wakeup precedes the allocation's event.
        if self.machine.policy.boost != Boost::Off
            && self.stat(at).boosted()
            && flags.has(AllocFlags::KSWAPD)
        {
            self.with(at, |zone, _| zone.wake_for_boost(observer));
        }
        let pfn = self.hand_out(at, taken?, attempt, observer);
        if order > 0 && adds_to_reserve(policy, flags, cached.is_some()) {
            self.with(at, |zone, _| zone.reserve_highatomic(pfn, order));
        }
        Some(pfn)
    }

    /// Takes a block from a CPU list, after a refill if it is empty (`rmqueue_pcplist`).
    fn rmqueue_pcplist(
        &mut self,
        at: ZoneIndex,
        list: ListIndex,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        let Attempt { order, mt, .. } = *attempt;
        let cache = self.caches.zones[at.index()].flushed();
        cache.note_alloc();
        // The zone's lock is taken only for a refill.
        if !cache.is_empty(list) {
            if let Some(i) = cache.pop(&self.machine.snapshots[at.index()].map, list, order) {
                self.zones.refresh_mask(self.machine, at);
                return Some(i);
            }
        }
        self.with_pages(at, |zone, cache| {
            cache.refill_and_pop(zone, list, order, mt, flags, observer)
        })
    }

    /// Marks a block that was taken off a list as allocated, counts and reports it.
    pub(crate) fn hand_out(
        &mut self,
        at: ZoneIndex,
        i: Index,
        attempt: &Attempt,
        observer: &mut impl Observer,
    ) -> Pfn {
        let Attempt { order, mt, gfp, .. } = *attempt;
        let movable = gfp.has(Gfp::MOVABLE);
        let map = &self.caches.zones[at.index()].map;
        let pfn = map.pfn(i);
        if !map.hand_out(i, order, movable) {
            self.with(at, |zone, _| zone.map().set(i, FrameState::Allocated { order, movable }));
        }
        self.cache(at).count_alloc(order);
        if self.machine.policy.fair != Fair::Off {
            self.with(at, |zone, _| zone.spend_fair_batch(order));
        }
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        pfn
    }
}

/// The restrictions that still apply to the walk.
struct Walk {
    preferred: ZoneIndex,
    flags: AllocFlags,
    skip_active: bool,
    skipped_active: bool,
    /// A zone was skipped for its fair batch in this pass.
    skipped_fair: bool,
    /// Only watermarks kept zones from serving in this pass.
    only_watermarks: bool,
}

impl Walk {
    /// Skips a zone for a reason that may not apply in another pass.
    fn skip(&mut self) -> Visit {
        self.only_watermarks = false;
        Visit::Next
    }
}

/// The outcome of trying a zone.
enum Visit {
    Served(Pfn),
    /// The zone does not serve; the next one is tried.
    Next,
    /// The pass ends.
    Stop,
    /// The pass starts again with fewer restrictions.
    Restart,
}

/// Returns whether a block that an attempt got adds its pageblock to the highatomic reserve.
fn adds_to_reserve(policy: &Policy, flags: AllocFlags, from_cpu_list: bool) -> bool {
    let applies = match policy.reserve {
        Reserve::MigrateReserve | Reserve::Off => false,
        Reserve::Highatomic | Reserve::HighatomicRounded => true,
        Reserve::HighatomicFirst => !from_cpu_list,
        Reserve::HighatomicBelowLow => {
            !from_cpu_list && flags.selected_watermark() == Watermark::Min
        }
    };
    applies && reserves_for(policy, flags)
}
