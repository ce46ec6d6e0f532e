//! Drains that only the kernel or only the model made, and the input without an event that explains them.

use pageblock::FrameState;
use pageblock::cpu_cache::{CacheLimits, CacheState, ZoneFlags};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::replay::ListEnd;

use super::Guided;
use super::drain::{Draining, Tuning};
use super::in_flight::Delayed;
use super::tally::imposed;

impl Guided<'_, '_> {
    /// Looks for the unseen input that explains why the kernel drained another number of pages, and changes the
    /// state accordingly. Returns whether it was an input that raises no event.
    ///
    /// * kswapd clears the zone's mark before it reports that it sleeps.
    /// * A task may have taken a block that it reports only when it runs again.
    /// * A list's limit decays without an event (counted as a mismatch).
    pub(super) fn explain(&mut self, draining: &Draining) -> bool {
        let Draining { owner, zone: at, got, .. } = *draining;
        let drained = got > 0;
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return false;
        };
        let (node, reclaim) = (zone.node(), zone.reclaim_active());
        let explained = if drained {
            self.put_delayed(draining, reclaim)
        } else {
            self.take_possible(draining, reclaim)
        };
        // From the most specific explanation to the least: a block in flight, then a flag of the CPUs, then
        // kswapd's state, then the zone's mark. A limit explains every number of pages, so it is changed last and
        // never counts as an explanation.
        if explained {
            return true;
        }
        if !drained && self.learn_free_high_batch(draining, reclaim) {
            return true;
        }
        let may_run = self.kswapd.woken >> node.0 & 1 == 1;
        if (reclaim || may_run) && self.would_drain(draining, !reclaim, 0) == drained {
            self.would_drain(draining, !reclaim, 0);
            self.allocator.set_kswapd_running(node, !reclaim);
            if reclaim {
                self.end_kswapd(node.0);
            }
            self.counts.kswapd_ends += u64::from(reclaim);
            return reclaim;
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner)) {
            let below = zone.below_high();
            zone.impose_below_high(!below);
            if below && self.would_drain(draining, reclaim, 0) == drained {
                self.counts.left_below += 1;
                return true;
            }
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner)) {
            zone.impose_below_high(!zone.below_high());
        }
        self.follow_limit(draining);
        false
    }

    /// Puts blocks on their list that were thought to arrive late, if that explains a drain.
    pub(super) fn put_delayed(&mut self, draining: &Draining, reclaim_active: bool) -> bool {
        let delayed = self.tasks.delayed.iter().filter(|delayed| {
            delayed.is_for(draining.owner) && self.zone_of(delayed.pfn) == Some(draining.zone)
        });
        let pages: i32 = delayed.map(|delayed| 1 << delayed.order).sum();
        if pages == 0 || !self.would_drain(draining, reclaim_active, -pages) {
            return false;
        }
        let (owner, zone) = (draining.owner, draining.zone);
        while let Some(place) =
            self.tasks.delayed.iter().position(|delayed| {
                delayed.is_for(owner) && self.zone_of(delayed.pfn) == Some(zone)
            })
        {
            let Delayed { pfn, order, .. } = self.tasks.delayed.remove(place);
            if let Some((zone, cache)) =
                self.allocator.zone_and_cache(ZoneIndex::new(draining.zone), CpuId(owner))
            {
                let mt = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
                let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Head);
                if put.is_ok() {
                    self.set_holder(pfn, Some(owner));
                }
                self.tally.imposed(imposed::CPU_LIST_PUT, put);
            }
        }
        true
    }

    /// Lets tasks that may have taken a block have taken it, if that explains a missing drain.
    pub(super) fn take_possible(&mut self, draining: &Draining, reclaim_active: bool) -> bool {
        let at = draining.zone;
        let mut candidates = Vec::new();
        let mut pages = 0;
        for &taken in &self.tasks.may_have_taken {
            if self.holder(taken.pfn) == Some(draining.owner)
                && self.zone_of(taken.pfn) == Some(at)
                && let Some(FrameState::CpuList { order, .. }) =
                    self.allocator.zones()[at].state(taken.pfn)
            {
                pages += 1 << order;
                candidates.push((taken, pages));
            }
        }
        let enough = candidates
            .iter()
            .position(|&(_, pages)| !self.would_drain(draining, reclaim_active, pages));
        let Some(last) = enough else { return false };
        for &(taken, _) in &candidates[..=last] {
            self.tasks.may_have_taken.retain(|&other| other != taken);
            self.take_before(taken);
            self.counts.taken_by_count += 1;
        }
        true
    }

    /// Infers from a run of high-order frees, which does not drain a list shorter than a batch, that the CPUs have
    /// `PCPF_FREE_HIGH_BATCH`, because their share of the last-level cache is large. A snapshot from `/proc` does
    /// not say so. Returns whether that explains the missing drain.
    pub(super) fn learn_free_high_batch(
        &mut self,
        draining: &Draining,
        reclaim_active: bool,
    ) -> bool {
        let (owner, at) = (draining.owner, draining.zone);
        if !draining.before.prev_free_high_order {
            return false;
        }
        let set = |guided: &mut Self, to: bool| {
            let cache = guided
                .allocator
                .zone_and_cache(ZoneIndex::new(at), CpuId(owner))
                .map(|(_, cache)| cache);
            cache.is_some_and(|cache| {
                let was = cache.state().free_high_batch;
                cache.impose_state(CacheState { free_high_batch: to, ..cache.state() });
                !was
            })
        };
        if !set(self, true) {
            return false;
        }
        if self.would_drain(draining, reclaim_active, 0) {
            set(self, false);
            return false;
        }
        for zone in 0..self.allocator.zones().len() {
            for cpu in 0..self.allocator.cpus() {
                if let Some((_, cache)) =
                    self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(cpu))
                {
                    cache.impose_state(CacheState { free_high_batch: true, ..cache.state() });
                }
            }
        }
        self.counts.free_high_batch += 1;
        true
    }

    /// Decides a drain again, as if kswapd ran or not, and as if the list had fewer pages.
    pub(super) fn would_drain(
        &mut self,
        draining: &Draining,
        reclaim_active: bool,
        fewer: i32,
    ) -> bool {
        let policy = *self.allocator.policy();
        let Some((zone, cache)) =
            self.allocator.zone_and_cache(ZoneIndex::new(draining.zone), CpuId(draining.owner))
        else {
            return false;
        };
        let now = Tuning::of(cache);
        draining.before.restore(cache);
        cache.impose_count(draining.before.count.saturating_add_signed(-fewer));
        let flags = ZoneFlags { reclaim_active, below_high: zone.below_high() };
        let n = cache.pages_to_drain(&policy, draining.order, flags);
        // Later changes by others stay.
        if (Tuning { count: 0, ..now }) != (Tuning { count: 0, ..draining.after }) {
            now.restore(cache);
        }
        cache.impose_count(now.count);
        n > 0
    }

    /// Sets the limit so that the list drains, or does not, as in the recording.
    pub(super) fn follow_limit(&mut self, draining: &Draining) {
        let Draining { owner, zone: at, got, before, .. } = *draining;
        let reclaim = self.allocator.zones()[at].reclaim_active();
        self.would_drain(draining, reclaim, 0);
        let Some((_, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        let CacheLimits { high_min, high_max, .. } = cache.limits();
        // The limit is just beyond the observed size; if that was not enough before, anything.
        let seen = (owner, at, got > 0);
        let again = self.lists.limit_seen == Some(seen);
        let high = match (got > 0, again) {
            (true, false) => before.count,
            (true, true) => high_min,
            (false, false) => cache.high().max(before.count + cache.limits().batch.max(1)),
            (false, true) => high_max,
        };
        self.lists.limit_seen = Some(seen).filter(|_| !again);
        // The kernel's macro: the upper bound wins if they cross.
        let high = high.max(high_min).min(high_max);
        cache.impose_state(CacheState { high, ..cache.state() });
    }
}
