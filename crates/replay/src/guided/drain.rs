//! Drains: whether a free makes a CPU list drain, how many pages, and which.

use pageblock::cpu_cache::{CacheState, CpuCache, Drain};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ListIndex, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::policy::{PcpType, Policy};
use pageblock::replay::ListEnd;
use pageblock_measure::certificate::verification::Agreement;

use super::Guided;
use super::alloc::{Promise, Task};
use super::frees::IN_FLIGHT;
use super::limits::Votes;
use super::tally::{Comparison, DrainOutcome, imposed, kind};
use super::words::or_none;

/// A drain from a CPU list to the zone that is under way.
#[derive(Clone, Copy)]
pub(super) struct Draining {
    /// The draining task. Others may run in between, but not on the same list.
    pub(super) pid: u32,
    pub(super) zone: usize,
    /// The CPU whose lists are drained.
    pub(super) owner: usize,
    pub(super) drain: Drain,
    /// The list that it starts with.
    pub(super) list: ListIndex,
    /// The number of pages that the model drains; `None` if the kernel drains for another reason than a free.
    pub(super) want: Option<u32>,
    pub(super) got: u32,
    /// The kernel drained more than the model would.
    pub(super) exceeded: bool,
    /// The order of the block that was freed.
    pub(super) order: Order,
    /// The input of the list's decision.
    pub(super) before: Tuning,
    /// The state that the decision left.
    pub(super) after: Tuning,
    /// The decision under each guess of the limits.
    pub(super) votes: Votes,
    /// The list that yielded the last block.
    pub(super) last: Option<ListIndex>,
}

impl Draining {
    /// Starts a drain that no free caused: a vmstat worker's, whose batches each start at the first list
    /// (`decay_pcp_high`), or one that empties the lists in rounds (`drain_pages_zone`).
    fn without_free(
        cache: &CpuCache,
        policy: &Policy,
        worker: bool,
        [zone, owner]: [usize; 2],
        pid: u32,
    ) -> Self {
        let drain = if worker {
            cache.drain(policy, cache.limits().batch.max(1), ListIndex(0))
        } else {
            cache.drain_round(policy)
        };
        let now = Tuning::of(cache);
        Self {
            pid,
            zone,
            owner,
            drain,
            list: ListIndex(0),
            want: None,
            got: 0,
            exceeded: false,
            order: 0,
            before: now,
            after: now,
            votes: Votes::default(),
            last: None,
        }
    }
}

/// The list that the model drains next.
struct NextList {
    list: Option<ListIndex>,
    /// The kernel found a list empty on which the model has more than a few blocks.
    found_empty: bool,
    /// Blocks left a list on the way.
    took: bool,
}

impl Guided<'_, '_> {
    /// Compares `mm_page_pcpu_drain`: which block the CPU list drains, and to which type.
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
            return self.drain_unlisted(at, pfn, order, mt);
        };
        let mut explained = self.take_untraced(owner, at, pfn, ListEnd::Tail) || arrived;
        let place =
            self.cpus[cpu].drains.iter().position(|d| (d.pid, d.zone, d.owner) == (pid, at, owner));
        let mut known = place.map(|place| self.cpus[cpu].drains.swap_remove(place));
        // A worker's drain of the last tick ended without an event.
        if let Some(over) = known.take_if(|_| new_tick) {
            self.close(over);
        }
        let worker = self.look_ahead.ticks().is_worker(pid);
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        // A free drains its own list first; other drains start with the first list.
        let missed = known.filter(|d| {
            d.want.is_some() && (d.got > 0 || cache.list_of(zone, pfn) == Some(d.list))
        });
        let other = known.filter(|d| d.want.is_some() && missed.is_none());
        let running = known.filter(|d| d.drain.left() > 0);
        let mut running = running.unwrap_or_else(|| match missed {
            Some(missed) => Draining {
                drain: cache.drain(&policy, u32::MAX, missed.list),
                exceeded: true,
                ..missed
            },
            None => Draining::without_free(cache, &policy, worker, [at, owner], pid),
        });
        let has = cache.list_of(zone, pfn);
        let NextList { list, found_empty, took } = self.next_list(&mut running, has);
        explained |= took;
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        let next = list.and_then(|l| cache.last(zone, l));
        let to = cache.drain_type(zone, pfn);
        let taken = cache.impose_take(zone, pfn);
        debug_assert_eq!(cache.list_of(zone, pfn), None, "a drained block stays on its list");
        let shape =
            list.is_some() && has == list && !found_empty && taken.is_ok() && to == Some(mt);
        let exact = shape && next == Some(pfn);
        if to != Some(mt) && policy.pcp_type == PcpType::Reread && mt != Migratetype::Isolate {
            self.tally.imposed(imposed::TYPE, zone.impose_reserve(pfn, mt));
        }
        debug_assert!(taken.is_err() || running.drain.left() > 0, "a drain that ended goes on");
        self.tally.imposed(imposed::CPU_LIST_TAKE, taken);
        self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, Some(mt)));
        running.drain.gave(order);
        running.got += 1 << order;
        running.last = has;
        self.cpus[cpu].drains.push(running);
        self.set_holder(pfn, None);
        if shape && !exact {
            self.note_skipped(owner, at, next, ListEnd::Head);
        }
        // Closed after this block was compared: an explanation may move blocks of the same lists.
        other.into_iter().for_each(|other| self.close(other));
        let agreement = Comparison { exact, shape, explained }.agreement();
        self.tally.compare_frame(kind::DRAIN_FRAME, pfn, agreement, || {
            let model = (or_none(list), or_none(next), or_none(to));
            let model = format!("last of list {} is {}, to {}", model.0, model.1, model.2);
            (format!("{pfn} of list {} to {mt}", or_none(has)), model)
        });
    }

    /// Finds the list that the model drains next. `has` is the list that the kernel drained. Blocks that the kernel
    /// leaves at the head of a list were taken already and are reported later, so they leave the list.
    fn next_list(&mut self, running: &mut Draining, has: Option<ListIndex>) -> NextList {
        let (zone, owner) = (ZoneIndex::new(running.zone), running.owner);
        let mut next = NextList { list: None, found_empty: false, took: false };
        let Some((zone, cache)) = self.allocator.zone_and_cache(zone, CpuId(owner)) else {
            return next;
        };
        loop {
            next.list = running.drain.next_list(cache);
            let passed = next.list.filter(|_| next.list != has);
            let few = passed.filter(|&l| cache.blocks(zone, l).nth(IN_FLIGHT).is_none());
            // Without a probe on the bulk allocator: it took all of them.
            let bulk =
                passed.filter(|_| !self.look_ahead.has_isolation() && next.list == running.last);
            next.found_empty |= few.is_none() && bulk.is_some();
            let Some(pfn) = few.or(bulk).and_then(|l| cache.next(zone, l)) else { return next };
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
            self.lists.holder[pfn.0 as usize] = 0;
            self.cpus[owner].promised.push(Promise { pfn, to: Task::Any, explained: true });
            next.took = true;
            // The block was not drained, so its list is still the one to yield the next.
            running.drain.restart();
        }
    }

    /// Counts a drain of a block that is on no CPU list in the model.
    fn drain_unlisted(&mut self, at: usize, pfn: Pfn, order: Order, mt: Migratetype) {
        self.tally.compare_frame(kind::DRAIN_FRAME, pfn, Agreement::None, || {
            (format!("{pfn} of order {order}"), "is on no CPU list".to_owned())
        });
        self.prepare(at, pfn, order);
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) {
            self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, Some(mt)));
        }
    }

    /// Ends the drains of a task: they should have drained what the model asked for.
    pub(super) fn close_drain(&mut self, cpu: usize, pid: Option<u32>) {
        while let Some(place) =
            self.cpus[cpu].drains.iter().position(|d| pid.is_none_or(|pid| d.pid == pid))
        {
            let draining = self.cpus[cpu].drains.swap_remove(place);
            self.close(draining);
        }
    }

    pub(super) fn close(&mut self, draining: Draining) {
        let Draining { got, owner, zone: at, drain, .. } = draining;
        // Only a free decides how much to drain: other drains empty the lists.
        let Some(want) = draining.want else { return };
        // Most frees: nothing to explain.
        if want == 0 && got == 0 {
            self.learn_limits(&draining, false);
            return self.tally.agree(kind::DRAIN_COUNT);
        }
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        // Blocks are drained whole, so the pages may exceed what the model asked for.
        let over = drain.left() == 0 || cache.count() == 0;
        let exact = want > 0 && over && !draining.exceeded;
        // The kernel tests the mark after it has drained, and only then.
        if got > 0 {
            zone.leave_below_high();
        }
        let (reclaim, below) = (zone.reclaim_active(), zone.below_high());
        if exact && self.lists.limit_seen.is_some_and(|(cpu, zone, _)| (cpu, zone) == (owner, at)) {
            // A drain of exactly this number confirms the limit that was learned last.
            self.lists.limit_seen = None;
        }
        self.seen.not_drained += u64::from(want > 0 && got == 0);
        // What is learned from the kernel's answer was not predicted.
        let explained = !exact && self.explain(&draining);
        self.learn_limits(&draining, explained);
        let shape = exact || (want > 0) == (got > 0);
        let outcome = DrainOutcome { recorded: got > 0, replayed: want > 0, exact, explained };
        self.lists.drains.count(outcome);
        self.tally.compare_drain(outcome);
        let agreement = Comparison { exact: exact || explained, shape, explained }.agreement();
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
}

/// The drains that the kernel or the model made. Most frees drain nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Drains {
    pub(super) both: u64,
    pub(super) another_number: u64,
    pub(super) explained: u64,
    pub(super) only_recorded: u64,
    pub(super) only_replayed: u64,
}

impl Drains {
    pub(super) fn count(&mut self, outcome: DrainOutcome) {
        match (outcome.recorded, outcome.replayed) {
            (true, true) => {
                self.both += 1;
                self.another_number += u64::from(!outcome.exact);
            }
            _ if outcome.exact || outcome.explained => self.explained += 1,
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

/// The input of a list's decision how much to drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuning {
    pub(super) count: u32,
    pub(super) high: u32,
    pub(super) free_count: u32,
    pub(super) alloc_factor: u8,
    pub(super) prev_free_high_order: bool,
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
