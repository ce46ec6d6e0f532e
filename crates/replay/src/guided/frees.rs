//! Blocks that come back: to a CPU list, to the zone, or from the one to the other.

use pageblock::FrameState;
use pageblock::cpu_cache::{CacheLimits, CacheState, CpuCache, ZoneFlags};
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::policy::PcpType;
use pageblock::replay::ListEnd;
use pageblock_measure::verification::Agreement;

use super::tally::{agreement, imposed, kind};
use super::words::or_none;
use super::{Delayed, Draining, Guided, Inferred, Promise, Task};
use crate::look_ahead::Destination;

/// As many tasks may have taken a block from a list and not yet reported it.
pub(super) const IN_FLIGHT: usize = 2;

impl Guided<'_, '_> {
    /// `mm_page_free`: the block reaches a list now, with its batch, or not at all.
    pub(super) fn free(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        order: Order,
        destination: Destination,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        self.forget_delayed(pfn);
        self.prepare(at, pfn, order);
        self.tally.placed(pfn);
        // Without a probe on isolation, what compaction frees is kept only if it had isolated it.
        let kept = self.look_ahead.has_isolation() || self.keeps(pid, pfn, destination);
        match destination {
            Destination::Kept if !kept => {
                self.inferred.push(Inferred::Freed);
                self.commit(cpu, pid, at, pfn, order, Destination::Listed);
            }
            Destination::Batched | Destination::Kept | Destination::Part => {}
            Destination::Joined(joined) => {
                let head = pfn.align_down(joined);
                self.make_allocated(at, head, joined);
                self.commit(cpu, pid, at, head, joined, Destination::Listed);
            }
            Destination::Delayed => self.delayed.push(Delayed {
                cpu,
                pid,
                pfn,
                order,
                destination: Destination::Listed,
            }),
            Destination::Listed | Destination::Direct => {
                self.commit(cpu, pid, at, pfn, order, destination)
            }
        }
    }

    /// A page of a batch goes past a CPU list.
    pub(super) fn pass_list(&mut self, cpu: usize, pid: u32, pfn: Pfn, order: Order) {
        if let Some(at) = self.zone_of(pfn) {
            self.prepare(at, pfn, order);
            self.commit(cpu, pid, at, pfn, order, Destination::Direct);
            self.past_lists += 1;
        }
    }

    /// `mm_page_free_batched`.
    pub(super) fn free_batched(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        destination: Destination,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        let state = self.allocator.zones()[at].state(pfn);
        if let Some(FrameState::Allocated { order, .. }) = state {
            self.commit(cpu, pid, at, pfn, order, destination);
        }
    }

    /// Makes the block one that is allocated with this order: it may have been allocated before the
    /// recording, as part of a larger block, or by what raises no event.
    fn prepare(&mut self, at: usize, pfn: Pfn, order: Order) {
        let state = self.allocator.zones()[at].state(pfn);
        if !matches!(state, Some(FrameState::Allocated { order: has, .. }) if has == order) {
            self.split_around(at, pfn, order);
            self.make_allocated(at, pfn, order);
        }
    }

    /// A piece of a larger allocated block is freed: the block is split into pages.
    fn split_around(&mut self, at: usize, pfn: Pfn, order: Order) {
        let max = self.allocator.geometry().max_order;
        for larger in order..=max {
            let head = pfn.align_down(larger);
            let state = self.allocator.zones()[at].state(head);
            if let Some(FrameState::Allocated { order: has, .. }) = state
                && has > order
                && has >= larger
            {
                let split = self.allocator.split_allocated(head, has, order);
                self.tally.imposed(imposed::SPLIT, split);
                return;
            }
        }
    }

    pub(super) fn commit(
        &mut self,
        cpu: usize,
        pid: u32,
        at: usize,
        pfn: Pfn,
        order: Order,
        destination: Destination,
    ) {
        let policy = *self.allocator.policy();
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let mt = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
        let list = cache.list_index(order, mt).filter(|_| mt != Migratetype::Isolate);
        let Some(list) = list.filter(|_| destination != Destination::Direct) else {
            self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, None));
            self.fresh.push(Delayed { cpu, pid, pfn, order, destination: Destination::Direct });
            return;
        };
        let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Head);
        if put.is_err() {
            return self.tally.imposed(imposed::CPU_LIST_PUT, put);
        }
        let flags =
            ZoneFlags { reclaim_active: zone.reclaim_active(), below_high: zone.below_high() };
        let before = Tuning::of(cache);
        let n = cache.pages_to_drain(&policy, order, flags);
        let after = Tuning::of(cache);
        let drain = cache.drain(&policy, n, list);
        self.set_holder(pfn, Some(cpu));
        self.cpus[cpu].pushed += 1;
        self.cpus[cpu].drains.push(Draining {
            pid,
            zone: at,
            owner: cpu,
            list,
            drain,
            want: Some(n),
            got: 0,
            exceeded: false,
            order,
            before,
            after,
            last: None,
        });
    }

    /// `mm_page_pcpu_drain`: which block the CPU list gives back, to which type.
    pub(super) fn drain(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        new_tick: bool,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        let policy = *self.allocator.policy();
        let arrived = self.arrive(pfn, order);
        let Some(owner) = self.holder(pfn) else {
            self.tally.compare_frame(kind::DRAIN_FRAME, pfn, Agreement::None, || {
                (format!("{pfn} of order {order}"), "is on no CPU list".to_owned())
            });
            self.prepare(at, pfn, order);
            if let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) {
                self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, Some(mt)));
            }
            return;
        };
        let mut explained = self.take_untraced(owner, at, pfn, ListEnd::Tail) || arrived;
        let place =
            self.cpus[cpu].drains.iter().position(|d| (d.pid, d.zone, d.owner) == (pid, at, owner));
        let known = place.map(|place| self.cpus[cpu].drains.swap_remove(place));
        let known = match known {
            Some(over) if new_tick => {
                self.close(over);
                None
            }
            known => known,
        };
        let running = known.filter(|d| d.drain.left() > 0);
        let worker = self.look_ahead.ticks().is_worker(pid);
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, owner) else { return };
        // A free gives back from its own list first; other drains, from the first.
        let missed = known.filter(|d| {
            d.want.is_some() && (d.got > 0 || cache.list_of(zone, pfn) == Some(d.list))
        });
        let other = known.filter(|d| d.want.is_some() && missed.is_none());
        let mut running = running.unwrap_or_else(|| {
            let list = missed.map_or(0, |d| d.list);
            let drain = match missed {
                Some(_) => cache.drain(&policy, u32::MAX, list),
                // `decay_pcp_high`: each round starts anew.
                None if worker => cache.drain(&policy, cache.limits().batch.max(1), 0),
                None => cache.drain_round(&policy),
            };
            Draining {
                pid,
                zone: at,
                owner,
                list,
                drain,
                want: missed.and_then(|d| d.want),
                got: missed.map_or(0, |d| d.got),
                exceeded: missed.is_some(),
                order: missed.map_or(0, |d| d.order),
                before: missed.map_or_else(|| Tuning::of(cache), |d| d.before),
                after: missed.map_or_else(|| Tuning::of(cache), |d| d.after),
                last: missed.and_then(|d| d.last),
            }
        });
        let has = cache.list_of(zone, pfn);
        let mut found_empty = false;
        let list = loop {
            let list = running.drain.next_list(cache);
            // What the kernel leaves at the head of a list was taken already, and is reported late.
            let passed = list.filter(|_| list != has);
            let few = passed.filter(|&l| cache.blocks(zone, l).nth(IN_FLIGHT).is_none());
            // Where no probe tells of the bulk allocator, it was all that.
            let bulk = passed.filter(|_| !self.look_ahead.has_isolation() && list == running.last);
            found_empty |= few.is_none() && bulk.is_some();
            let Some(delayed) = few.or(bulk).and_then(|l| cache.next(zone, l)) else { break list };
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, delayed));
            self.holder[delayed.0 as usize] = 0;
            self.cpus[owner].promised.push(Promise {
                pfn: delayed,
                to: Task::Any,
                explained: true,
            });
            explained = true;
            running.drain.restart();
        };
        let next = list.and_then(|l| cache.last(zone, l));
        let to = cache.drain_type(zone, pfn);
        let taken = cache.impose_take(zone, pfn);
        let shape =
            list.is_some() && has == list && !found_empty && taken.is_ok() && to == Some(mt);
        let exact = shape && next == Some(pfn);
        if to != Some(mt) && policy.pcp_type == PcpType::Reread && mt != Migratetype::Isolate {
            self.tally.imposed(imposed::TYPE, zone.impose_reserve(pfn, mt));
        }
        self.tally.imposed(imposed::CPU_LIST_TAKE, taken);
        self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, Some(mt)));
        running.drain.gave(order);
        running.got += 1 << order;
        running.last = has;
        self.cpus[cpu].drains.push(running);
        self.set_holder(pfn, None);
        if shape && !exact {
            self.passed_over(owner, at, next, ListEnd::Head);
        }
        if let Some(other) = other {
            self.close(other);
        }
        let agreement = agreement(exact, shape, explained);
        self.tally.compare_frame(kind::DRAIN_FRAME, pfn, agreement, || {
            (
                format!("{pfn} of list {} to {mt}", or_none(has)),
                format!("last of list {} is {}, to {}", or_none(list), or_none(next), or_none(to)),
            )
        });
    }

    /// A block became whole as this page went back to the zone, and was taken at once.
    pub(super) fn complete_capture(&mut self, pid: u32, pfn: Pfn) {
        let completes = |c: &Delayed| c.pid == pid && pfn.align_down(c.order) == c.pfn;
        if let Some(place) = self.captured.iter().position(completes) {
            let Delayed { pfn, order, .. } = self.captured.remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.make_allocated(at, pfn, order);
            }
        }
    }

    /// The drain is over: it should have given back what the model asked for.
    pub(super) fn close_drain(&mut self, cpu: usize, pid: Option<u32>) {
        while let Some(place) =
            self.cpus[cpu].drains.iter().position(|d| pid.is_none_or(|pid| d.pid == pid))
        {
            let draining = self.cpus[cpu].drains.swap_remove(place);
            self.close(draining);
        }
    }

    fn close(&mut self, draining: Draining) {
        let Draining { got, owner, zone: at, drain, .. } = draining;
        let Some(want) = draining.want else { return };
        if want == 0 && got == 0 {
            return self.tally.agree(kind::DRAIN_COUNT);
        }
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, owner) else { return };
        // Blocks are given back whole, so the pages may be more than were asked for.
        let over = drain.left() == 0 || cache.count() == 0;
        let exact = want > 0 && over && !draining.exceeded;
        if got > 0 {
            zone.leave_below_high();
        }
        let (reclaim, below) = (zone.reclaim_active(), zone.below_high());
        let both = want > 0 && got > 0;
        if exact && self.limit_seen.is_some_and(|(cpu, zone, _)| (cpu, zone) == (owner, at)) {
            self.limit_seen = None;
        }
        self.seen.not_drained += u64::from(want > 0 && got == 0);
        // What was learned from the kernel's answer was not foreseen.
        let explained = !exact && self.explain(&draining);
        let shape = exact || (want > 0) == (got > 0);
        self.drains.count(got > 0, want > 0, exact, exact || explained);
        self.tally.compare_drain(both, exact, explained && !both);
        let agreement = agreement(exact || explained, shape, explained);
        self.tally.compare(kind::DRAIN_COUNT, agreement, || {
            (
                format!("{got} pages"),
                format!(
                    "{want} pages; {:?}, reclaim active {reclaim}, below high {below}",
                    draining.before
                ),
            )
        });
    }

    /// The kernel gave back another number of pages: looks for the unseen input that explains it, and
    /// lets the state follow. Tells whether it was one that raises no event.
    ///
    /// * kswapd clears the zone's mark before it reports that it sleeps.
    /// * A task may have taken a block that it reports only when it runs again.
    /// * The limit of a list decays without an event (counted as a mismatch).
    fn explain(&mut self, draining: &Draining) -> bool {
        let Draining { owner, zone: at, got, .. } = *draining;
        let drained = got > 0;
        let Some((zone, _)) = self.allocator.zone_and_cache(at, owner) else { return false };
        let (node, reclaim) = (zone.node(), zone.reclaim_active());
        let explained = if drained {
            self.put_delayed(draining, reclaim)
        } else {
            self.take_perhaps(draining, reclaim)
        };
        if explained {
            return true;
        }
        if !drained && self.learn_free_high_batch(draining, reclaim) {
            return true;
        }
        let may_run = self.kswapd_woken >> node & 1 == 1;
        if (reclaim || may_run) && self.would_drain(draining, !reclaim, 0) == drained {
            self.would_drain(draining, !reclaim, 0);
            self.allocator.set_kswapd_running(node, !reclaim);
            if reclaim {
                self.end_kswapd(node);
            }
            self.kswapd_ends += u64::from(reclaim);
            return reclaim;
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(at, owner) {
            let below = zone.below_high();
            zone.impose_below_high(!below);
            if below && self.would_drain(draining, reclaim, 0) == drained {
                self.left_below += 1;
                return true;
            }
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(at, owner) {
            zone.impose_below_high(!zone.below_high());
        }
        self.follow_limit(draining);
        false
    }

    /// Tasks that may have taken a block have, as far as that explains why nothing was given back.
    fn take_perhaps(&mut self, draining: &Draining, reclaim_active: bool) -> bool {
        let at = draining.zone;
        let mut candidates = Vec::new();
        let mut pages = 0;
        for &taken in &self.perhaps {
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
            self.perhaps.retain(|&other| other != taken);
            self.take_before(taken);
            self.taken_by_count += 1;
        }
        true
    }

    /// Learns from a run of high-order frees that does not drain a list shorter than a batch that the CPUs
    /// have `PCPF_FREE_HIGH_BATCH`: their share of the last-level cache is large. A snapshot from `/proc`
    /// does not say so. Tells whether that explains it.
    fn learn_free_high_batch(&mut self, draining: &Draining, reclaim_active: bool) -> bool {
        let (owner, at) = (draining.owner, draining.zone);
        if !draining.before.prev_free_high_order {
            return false;
        }
        let set = |guided: &mut Self, to: bool| {
            let cache = guided.allocator.zone_and_cache(at, owner).map(|(_, cache)| cache);
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
                if let Some((_, cache)) = self.allocator.zone_and_cache(zone, cpu) {
                    cache.impose_state(CacheState { free_high_batch: true, ..cache.state() });
                }
            }
        }
        self.free_high_batch += 1;
        true
    }

    /// Decides a drain again, as if kswapd ran or not, and as if the list had fewer pages.
    pub(super) fn would_drain(&mut self, draining: &Draining, reclaim_active: bool, fewer: i32) -> bool {
        let policy = *self.allocator.policy();
        let Some((zone, cache)) = self.allocator.zone_and_cache(draining.zone, draining.owner)
        else {
            return false;
        };
        let now = Tuning::of(cache);
        draining.before.restore(cache);
        cache.impose_count(draining.before.count.saturating_add_signed(-fewer));
        let flags = ZoneFlags { reclaim_active, below_high: zone.below_high() };
        let n = cache.pages_to_drain(&policy, draining.order, flags);
        // What others made of it since stays.
        if (Tuning { count: 0, ..now }) != (Tuning { count: 0, ..draining.after }) {
            now.restore(cache);
        }
        cache.impose_count(now.count);
        n > 0
    }

    /// The limit is what makes the list drain, or not drain, as it did.
    fn follow_limit(&mut self, draining: &Draining) {
        let Draining { owner, zone: at, got, before, .. } = *draining;
        let reclaim = self.allocator.zones()[at].reclaim_active();
        self.would_drain(draining, reclaim, 0);
        let Some((_, cache)) = self.allocator.zone_and_cache(at, owner) else { return };
        let CacheLimits { high_min, high_max, .. } = cache.limits();
        // The limit is just past what it was seen to be, or where that was not enough, anywhere.
        let seen = (owner, at, got > 0);
        let again = self.limit_seen == Some(seen);
        let high = match (got > 0, again) {
            (true, false) => before.count,
            (true, true) => high_min,
            (false, false) => cache.high().max(before.count + cache.limits().batch.max(1)),
            (false, true) => high_max,
        };
        self.limit_seen = Some(seen).filter(|_| !again);
        // As the kernel's macro, whose upper bound wins where they cross.
        let high = high.max(high_min).min(high_max);
        cache.impose_state(CacheState { high, ..cache.state() });
    }
}

/// The drains that the kernel or the model made, of the many frees that drain nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Drains {
    both: u64,
    another_number: u64,
    explained: u64,
    only_recorded: u64,
    only_replayed: u64,
}

impl Drains {
    fn count(&mut self, recorded: bool, replayed: bool, exact: bool, agrees: bool) {
        match (recorded, replayed) {
            (true, true) => {
                self.both += 1;
                self.another_number += u64::from(!exact);
            }
            _ if agrees => self.explained += 1,
            (true, false) => self.only_recorded += 1,
            (false, _) => self.only_replayed += 1,
        }
    }

    pub(super) fn note(&self) -> Option<String> {
        let Self { both, another_number, explained, only_recorded, only_replayed } = *self;
        let any = both + explained + only_recorded + only_replayed > 0;
        any.then(|| {
            format!(
                "drains: {both} in both, {another_number} of them of another number of pages; \
                 {only_recorded} only recorded, {only_replayed} only replayed, {explained} explained \
                 afterwards"
            )
        })
    }
}

/// What decides how much a CPU list gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuning {
    count: u32,
    high: u32,
    free_count: u32,
    alloc_factor: u8,
    prev_free_high_order: bool,
}

impl Tuning {
    pub(super) fn of(cache: &CpuCache) -> Self {
        Self {
            count: cache.count(),
            high: cache.high(),
            free_count: cache.free_count(),
            alloc_factor: cache.state().alloc_factor,
            prev_free_high_order: cache.state().prev_free_high_order,
        }
    }

    pub(super) fn restore(self, cache: &mut CpuCache) {
        cache.impose_state(CacheState {
            high: self.high,
            free_count: self.free_count,
            alloc_factor: self.alloc_factor,
            prev_free_high_order: self.prev_free_high_order,
            ..cache.state()
        });
    }
}
