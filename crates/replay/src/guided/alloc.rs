//! Allocations: which block a CPU list yields, and blocks that left a list before their allocation was reported.

use pageblock::FrameState;
use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::frame::Pfn;
use pageblock::ids::{CpuId, ListIndex, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::MIGRATE_PCPTYPES;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::policy::BelowHigh;
use pageblock::replay::ListEnd;
use pageblock::request::Request;
use pageblock_measure::certificate::verification::Agreement;

use super::frees::IN_FLIGHT;
use super::tally::{Comparison, imposed, kind};
use super::zone_walk::TaskRequest;
use super::{Guided, Inferred, words};
use crate::look_ahead::Taken;

/// A block that left a CPU list before the report of its allocation.
#[derive(Clone, Copy)]
pub(super) struct Promise {
    pub(super) pfn: Pfn,
    pub(super) to: Task,
    /// An interruption or the look-ahead explains why it left the list; otherwise the model's own rule does.
    pub(super) explained: bool,
}

/// The task that a block is promised to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// The task that refilled the list.
    Is(u32),
    /// A task that this one interrupted.
    Not(u32),
    Any,
}

impl Guided<'_, '_> {
    /// Compares `mm_page_alloc`: which block the CPU list yields.
    pub(super) fn alloc(&mut self, pfn: Pfn, wanted: TaskRequest) {
        let TaskRequest { cpu, pid, order, mt, .. } = wanted;
        let Some(at) = self.zone_of(pfn) else { return };
        let arrived = self.arrive(pfn, order);
        let owner = self.holder(pfn);
        let Some((_, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
        let list = cache.list_index(order, mt);
        if list.is_some() {
            cache.impose_alloc();
        }
        // It was compared and marked when the zone yielded it.
        if self.was_in_flight(pfn) {
            return;
        }
        // Asked before the lists: a promised block is on none any more.
        if let Some(Promise { to, explained, .. }) = self.was_promised(pfn) {
            let kept = match to {
                Task::Is(task) => task == pid,
                Task::Not(task) => task != pid,
                Task::Any => true,
            };
            let agreement = Comparison { exact: kept, shape: true, explained }.agreement();
            self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, agreement, || {
                (format!("{pfn} for task {pid}"), "was for another task".to_owned())
            });
        } else if let Some(on) = owner.filter(|&on| on == cpu || self.was_on(pid, on)) {
            self.walk_before_alloc(at, wanted);
            self.alloc_from_list(on, pid, at, pfn, list, arrived);
        } else if owner.is_none()
            && self.tasks.last_seen.get(&pid).is_some_and(|seen| seen.compacted)
        {
            // Compaction captured the block, which comes from no list.
            self.make_allocated(at, pfn, order);
        } else {
            let zone = &self.allocator.zones()[at];
            let state = zone.state(pfn);
            self.seen.allocated_in_zone += u64::from(zone.free_block_of(pfn).is_some());
            self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, Agreement::None, || {
                let owner = words::or_none(owner);
                (format!("{pfn}"), format!("{} of CPU {owner}", words::state(state)))
            });
            self.make_allocated(at, pfn, order);
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) {
            let marked = zone.impose_allocated(pfn, order, mt == Movable);
            self.tally.imposed(imposed::ALLOCATED, marked);
        }
    }

    /// Returns whether a task ran on this CPU before. It may migrate between taking a block and reporting it.
    pub(super) fn was_on(&self, pid: u32, cpu: usize) -> bool {
        self.tasks.last_seen.get(&pid).is_some_and(|seen| seen.cpu == cpu)
    }

    /// Compares a block that comes from a list of this CPU. A task may be interrupted between taking a block and
    /// reporting it: then later frees lie before the block, or blocks before it have left the list already.
    pub(super) fn alloc_from_list(
        &mut self,
        cpu: usize,
        pid: u32,
        at: usize,
        pfn: Pfn,
        list: Option<ListIndex>,
        arrived: bool,
    ) {
        // Taken first: they would count as blocks that the kernel skipped.
        let untraced = self.take_untraced(cpu, at, pfn, ListEnd::Head);
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let next = list.and_then(|l| cache.next(zone, l));
        let has = cache.list_of(zone, pfn);
        let pushed = self.cpus[cpu].pushed as usize;
        let deep = pushed + IN_FLIGHT + 1;
        let ahead =
            list.map_or(0, |l| cache.blocks(zone, l).take(deep).take_while(|&p| p != pfn).count());
        let shape = list.is_some() && has == list;
        let exact = shape && ahead < deep;
        self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
        let explained = ahead > 0 || untraced || arrived;
        let agreement = Comparison { exact, shape, explained }.agreement();
        self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, agreement, || {
            let [has, list] = [has, list].map(words::or_none);
            let next = words::or_none(next);
            (format!("{pfn} of list {has}"), format!("next of list {list} is {next}"))
        });
        self.set_holder(pfn, None);
        if !exact && shape {
            self.note_skipped(cpu, at, next, ListEnd::Tail);
        }
        // Frees since do not account for all blocks before it: interrupted tasks have taken as many from the head.
        if exact && ahead > pushed {
            for _ in 0..ahead {
                self.promise(cpu, at, list.unwrap_or_default(), Task::Not(pid), true);
            }
        }
    }

    /// Takes the pages between a block and an end of its CPU list that left the list without an event: they have
    /// left by now. Returns whether there were any.
    pub(super) fn take_untraced(
        &mut self,
        owner: usize,
        at: usize,
        pfn: Pfn,
        end: ListEnd,
    ) -> bool {
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return false;
        };
        let Some(list) = cache.list_of(zone, pfn) else { return false };
        let mut any = false;
        loop {
            let next = match end {
                ListEnd::Head => cache.next(zone, list),
                ListEnd::Tail => cache.last(zone, list),
            };
            let untraced = |&next: &Pfn| {
                next != pfn && self.look_ahead.untraced_listed().block(next, 0, self.event.now)
            };
            let Some(next) = next.filter(untraced) else { return any };
            let mt = zone.block_type(next).unwrap_or(Migratetype::Unmovable);
            let taken = cache.impose_take(zone, next);
            let failed = taken.is_err();
            self.tally.imposed(imposed::CPU_LIST_TAKE, taken);
            // The list would yield the same page again.
            if failed {
                return any;
            }
            any = true;
            self.lists.holder[next.0 as usize] = 0;
            // With the probes the bulk request is a demand of its own.
            if !self.look_ahead.has_isolation() {
                self.event.inferred.push(Inferred::LeftList { pfn: next, cpu: owner, mt });
            }
        }
    }

    /// Notes that the kernel skipped the block at a list's end. The first time, the block that the kernel took had
    /// been taken before, or was elsewhere on the list. The second time, the block at the end is in the wrong
    /// place, and moves to the other end.
    pub(super) fn note_skipped(&mut self, cpu: usize, at: usize, pfn: Option<Pfn>, to: ListEnd) {
        let before = std::mem::replace(&mut self.cpus[cpu].skipped, pfn);
        let Some(pfn) = pfn.filter(|_| before == pfn) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let Some(FrameState::CpuList { order, cached }) = zone.state(pfn) else { return };
        let mt = cache.list_of(zone, pfn).map_or(cached, |list| list_type(list, cached));
        if cache.impose_take(zone, pfn).is_ok() {
            let put = cache.impose_put(zone, pfn, order, mt, to);
            self.tally.imposed(imposed::CPU_LIST_PUT, put);
        }
    }

    /// Marks zones that are below their high watermark, as an allocation does from 6.7 on: the zones that it
    /// passes, and the zone that serves it.
    pub(super) fn note_below_high(&mut self, cpu: usize, request: Request, served: Option<Pfn>) {
        if self.allocator.policy().below_high == BelowHigh::Off {
            return;
        }
        let highest = request.gfp.highest_zone();
        let served = served.and_then(|pfn| self.zone_of(pfn));
        let node = served.map(|at| self.allocator.zones()[at].node());
        for at in (0..self.allocator.zones().len()).rev() {
            let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
            else {
                continue;
            };
            if zone.kind() > highest || node.is_some_and(|node| zone.node() != node) {
                continue;
            }
            // The mark stays: a walk does not test the high watermark of a marked zone again.
            if !zone.below_high() {
                let high = zone.watermark(Watermark::High);
                let ok = zone.watermark_ok(request.order, high, highest, AllocFlags(0));
                zone.impose_below_high(!ok);
            }
            // The walk ended here: the lower zones were not tested.
            if served == Some(at) {
                return;
            }
        }
    }

    /// Takes a block off its list before its allocation is reported.
    pub(super) fn take_before(&mut self, taken: Taken) {
        let Taken { pid, pfn, .. } = taken;
        let (Some(at), Some(cpu)) = (self.zone_of(pfn), self.holder(pfn)) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let list = cache.list_of(zone, pfn);
        // A request takes only the head of a list.
        if list.and_then(|list| cache.next(zone, list)) == Some(pfn)
            && cache.impose_take(zone, pfn).is_ok()
        {
            self.set_holder(pfn, None);
            self.cpus[cpu].promised.push(Promise { pfn, to: Task::Is(pid), explained: true });
        }
    }

    /// Takes the head of a list for a request that is reported later.
    pub(super) fn promise(
        &mut self,
        cpu: usize,
        at: usize,
        list: ListIndex,
        to: Task,
        explained: bool,
    ) {
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        if let Some(pfn) = cache.next(zone, list) {
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
            self.set_holder(pfn, None);
            self.cpus[cpu].promised.push(Promise { pfn, to, explained });
        }
    }

    /// Returns whether a block was on its way from the zone to a request, and ends that. The task may have migrated
    /// to another CPU since.
    pub(super) fn was_in_flight(&mut self, pfn: Pfn) -> bool {
        self.cpus.iter_mut().any(|cpu| {
            let place = cpu.in_flight.iter().position(|&p| p == pfn);
            place.map(|place| cpu.in_flight.swap_remove(place)).is_some()
        })
    }

    /// Returns and removes the promise of a block that came from a CPU list.
    pub(super) fn was_promised(&mut self, pfn: Pfn) -> Option<Promise> {
        self.cpus.iter_mut().find_map(|cpu| {
            let place = cpu.promised.iter().position(|p| p.pfn == pfn)?;
            Some(cpu.promised.swap_remove(place))
        })
    }

    /// Takes the pages that the bulk allocator took: from the head of a list, without events. It leaves a single
    /// page to the ordinary allocator, which reports it.
    pub(super) fn bulk(&mut self, cpu: usize, pid: u32, pages: u32) {
        // Blocks promised to this task, and those that its refill took from the list, are pages of this request.
        let promised = self.cpus[cpu].promised.len();
        self.cpus[cpu].promised.retain(|p| p.to != Task::Is(pid));
        let promised = promised - self.cpus[cpu].promised.len();
        let seen = std::mem::take(&mut self.cpus[cpu].taken_unseen) + promised as u32;
        let pages = pages.saturating_sub(seen);
        if pages + seen <= 1 {
            return;
        }
        let mt = Migratetype::Unmovable;
        // The bulk allocator stays on the node of its preferred zone, for whose requests every zone keeps a
        // reserve.
        let Some(node) = self.allocator.node_of_cpu(CpuId(cpu)) else { return };
        let zones = self.allocator.zones();
        let serves = |&at: &usize| {
            let zone = &zones[at];
            zone.node() == node && zone.kind() <= ZoneKind::Normal && zone.managed() > 0
        };
        let zones: Vec<usize> = (0..zones.len()).rev().filter(serves).collect();
        let Some(&preferred) = zones.first() else { return };
        let highest = self.allocator.zones()[preferred].kind();
        for at in zones {
            let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
            else {
                continue;
            };
            let Some(list) = cache.list_index(0, mt) else { continue };
            let low = zone.watermark(Watermark::Low) + u64::from(pages);
            // The pages of the whole request are added to the mark once (`alloc_pages_bulk`).
            if !zone.watermark_ok(0, low, highest, AllocFlags(0)) {
                continue;
            }
            let mut taken = 0;
            while taken < pages
                && let Some(pfn) = cache.next(zone, list)
            {
                cache.impose_alloc();
                self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
                if let Some(slot) = self.lists.holder.get_mut(pfn.0 as usize) {
                    *slot = 0;
                }
                taken += 1;
            }
            // One zone serves the whole request.
            if taken > 0 {
                return;
            }
        }
    }
}

/// Returns a type whose blocks are on this list; the remembered type if it is one of them.
fn list_type(list: ListIndex, cached: Migratetype) -> Migratetype {
    match Migratetype::ALL.get(list.index() % MIGRATE_PCPTYPES) {
        Some(&mt) if list.index() < 4 * MIGRATE_PCPTYPES => mt,
        _ => cached,
    }
}
