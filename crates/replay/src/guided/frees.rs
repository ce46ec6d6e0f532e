//! Blocks that are freed to a CPU list or to the zone, or move from one to the other.

use pageblock::FrameState;
use pageblock::cpu_cache::{CpuCache, ZoneFlags};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::replay::ListEnd;

use super::drain::{Draining, Tuning};
use super::in_flight::Delayed;
use super::tally::imposed;
use super::{Guided, Inferred};
use crate::look_ahead::Destination;

/// The number of tasks that may have taken a block from a list and not yet reported it.
pub(super) const IN_FLIGHT: usize = 2;

impl Guided<'_, '_> {
    /// Follows `mm_page_free`: the block reaches a list now, with its batch, or not at all.
    pub(super) fn free(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        order: Order,
        destination: Destination,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        // A block that is freed again cannot still be on its way.
        self.forget_delayed(pfn);
        self.prepare(at, pfn, order);
        self.tally.placed(pfn);
        // Without a probe on isolation, compaction keeps a page that it frees only if it had isolated it.
        let kept = self.look_ahead.has_isolation() || self.keeps(pid, pfn, destination);
        match destination {
            Destination::Kept if !kept => {
                self.event.inferred.push(Inferred::Freed);
                self.commit(cpu, pid, at, pfn, order, Destination::Listed);
            }
            Destination::Batched | Destination::Kept | Destination::Part => {}
            Destination::Joined(joined) => {
                let head = pfn.align_down(joined);
                self.make_allocated(at, head, joined);
                self.commit(cpu, pid, at, head, joined, Destination::Listed);
            }
            Destination::Delayed => self.tasks.delayed.push(Delayed {
                cpu,
                pid,
                pfn,
                order,
                destination: Destination::Listed,
            }),
            Destination::Listed | Destination::Direct => {
                self.commit(cpu, pid, at, pfn, order, destination);
            }
        }
    }

    /// Frees a page of a batch that bypasses its CPU list.
    pub(super) fn bypass_list(&mut self, cpu: usize, pid: u32, pfn: Pfn, order: Order) {
        if let Some(at) = self.zone_of(pfn) {
            self.prepare(at, pfn, order);
            self.commit(cpu, pid, at, pfn, order, Destination::Direct);
            self.counts.bypassed += 1;
        }
    }

    /// Follows `mm_page_free_batched`.
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

    /// Makes the block an allocated one of this order. It may have been allocated before the recording, as part of
    /// a larger block, or without an event.
    pub(super) fn prepare(&mut self, at: usize, pfn: Pfn, order: Order) {
        let state = self.allocator.zones()[at].state(pfn);
        if !matches!(state, Some(FrameState::Allocated { order: has, .. }) if has == order) {
            self.split_around(at, pfn, order);
            self.make_allocated(at, pfn, order);
        }
    }

    /// Splits the larger allocated block that contains a freed one.
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
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let mt = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
        let list = cache.list_index(order, mt).filter(|_| mt != Migratetype::Isolate);
        // The zone gets it at once; its task may have been interrupted before it put it there.
        let Some(list) = list.filter(|_| destination != Destination::Direct) else {
            self.tally.imposed(imposed::ZONE_FREE, zone.impose_free(pfn, order, None));
            self.tasks.just_freed.push(Delayed {
                cpu,
                pid,
                pfn,
                order,
                destination: Destination::Direct,
            });
            return;
        };
        let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Head);
        if put.is_err() {
            return self.tally.imposed(imposed::CPU_LIST_PUT, put);
        }
        debug_assert_eq!(cache.list_of(zone, pfn), Some(list), "the block is on another list");
        let flags =
            ZoneFlags { reclaim_active: zone.reclaim_active(), below_high: zone.below_high() };
        let drains = |cache: &mut CpuCache| cache.pages_to_drain(&policy, order, flags) > 0;
        let votes = self.lists.limits.each([cpu, at], cache, drains);
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
            votes,
            last: None,
        });
    }

    /// Completes a capture: the block became whole when this page returned to the zone, and was taken at once.
    pub(super) fn complete_capture(&mut self, pid: u32, pfn: Pfn) {
        let completes = |c: &Delayed| c.pid == pid && pfn.align_down(c.order) == c.pfn;
        if let Some(place) = self.tasks.captured.iter().position(completes) {
            let Delayed { pfn, order, .. } = self.tasks.captured.remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.make_allocated(at, pfn, order);
            }
        }
    }
}
