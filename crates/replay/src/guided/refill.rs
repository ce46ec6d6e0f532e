//! Refills of CPU lists: which blocks of the zone belong to one, and how many there should be.

use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::CpuCache;
use pageblock::fallback::Mode;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ListIndex, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::{MIGRATE_PCPTYPES, Migratetype};
use pageblock::replay::ListEnd;

use super::Guided;
use super::alloc::{Promise, Task};
use super::drain::Tuning;
use super::tally::{Comparison, imposed, kind};
use super::zone::FLAGS;
use super::zone_walk::TaskRequest;

/// A refill of a CPU list that is under way.
#[derive(Clone, Copy)]
pub(super) struct Refill {
    pub(super) zone: usize,
    pub(super) order: Order,
    pub(super) mt: Migratetype,
    pub(super) want: u32,
    pub(super) got: u32,
    pub(super) mode: Mode,
    /// Which blocks of other types it may take.
    pub(super) flags: AllocFlags,
    /// The input of the decision how many blocks to take.
    pub(super) before: Tuning,
    /// The task that refills.
    pub(super) pid: u32,
    /// The number of blocks that the model still had on the list.
    pub(super) unseen: u32,
    /// The first block, held back while it may be for a request that bypasses the list.
    pub(super) first: Option<Pfn>,
    /// The zone had nothing left after the last block.
    pub(super) dry: bool,
}

impl Guided<'_, '_> {
    /// Returns the refill to which a block taken now belongs, and starts one if necessary; `None` for a block that
    /// bypasses the CPU lists.
    pub(super) fn refill_for(
        &mut self,
        cpu: usize,
        pid: u32,
        at: usize,
        order: Order,
        mt: Migratetype,
    ) -> Option<Refill> {
        let running = self.cpus[cpu].refill;
        // Blocks beyond the wanted number still belong to the refill of their task, whose count is then wrong.
        // Of the bulk allocator they are another refill.
        if let Some(refill) = running
            && (refill.zone, refill.order, refill.mt) == (at, order, mt)
            && (refill.got < refill.want || (refill.pid == pid && !self.event.for_bulk))
        {
            self.note_taken_unseen(cpu, refill);
            return running;
        }
        self.close_refill(cpu, pid, None);
        let policy = *self.allocator.policy();
        let (zone, cache) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))?;
        let list = cache.list_index(order, mt)?;
        // No request has such a type, so no list is refilled with it.
        if (mt as usize) >= MIGRATE_PCPTYPES {
            return None;
        }
        let unseen = cache.blocks(zone, list).count() as u32;
        let before = Tuning::of(cache);
        let flags = if self.event.for_bulk {
            FLAGS
        } else {
            let highest = self.allocator.zones()[at].kind().max(ZoneKind::Normal);
            self.walk_before_refill(at, TaskRequest { cpu, pid, order, mt, highest })
        };
        let (zone, cache) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))?;
        let below_high = zone.below_high();
        let refill = |cache: &mut CpuCache| cache.refill_count(&policy, order, below_high) > 0;
        self.lists.limits.each([cpu, at], cache, refill);
        let want = cache.refill_count(&policy, order, below_high);
        let mode = Mode::Normal;
        let refill = Refill {
            zone: at,
            order,
            mt,
            want,
            got: 0,
            mode,
            flags,
            before,
            pid,
            unseen,
            first: None,
            dry: false,
        };
        self.cpus[cpu].refill = Some(refill);
        self.cpus[cpu].refill
    }

    /// Takes the blocks that the model still has on a list that is refilled. The list must be empty, so the bulk
    /// allocator or interrupted tasks, whose reports are still to come, took them.
    pub(super) fn note_taken_unseen(&mut self, cpu: usize, refill: Refill) {
        let Refill { zone: at, order, mt, unseen, .. } = refill;
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let list = cache.list_index(order, mt).unwrap_or(ListIndex(0));
        for _ in 0..unseen {
            let Some(pfn) = cache.next(zone, list) else { break };
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
            self.lists.holder[pfn.0 as usize] = 0;
            if self.event.for_bulk {
                self.cpus[cpu].taken_unseen += 1;
            } else {
                self.cpus[cpu].promised.push(Promise { pfn, to: Task::Any, explained: true });
            }
        }
        if let Some(refill) = &mut self.cpus[cpu].refill {
            refill.unseen = 0;
        }
    }

    /// Passes a block that was taken from the zone to the tail of a CPU list, or to its request.
    pub(super) fn received(
        &mut self,
        cpu: usize,
        at: usize,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        refill: Option<Refill>,
    ) {
        if refill.is_none() {
            self.cpus[cpu].in_flight.push(pfn);
            return;
        }
        let Some(refill) = &mut self.cpus[cpu].refill else { return };
        debug_assert_eq!(
            (refill.zone, refill.order, refill.mt),
            (at, order, mt),
            "a refill gets a block of another list"
        );
        refill.got += 1;
        let zone = &self.allocator.zones()[at];
        refill.dry = zone.next_of_list(order, mt).is_none()
            && zone.find_fallback(order, mt, refill.flags, Mode::Normal).found.is_none();
        // A request that bypasses the list gets it, unless another block follows.
        if refill.got == 1 {
            refill.first = Some(pfn);
            return;
        }
        if let Some(first) = refill.first.take() {
            self.append(cpu, at, first, order, mt);
        }
        self.append(cpu, at, pfn, order, mt);
    }

    pub(super) fn append(
        &mut self,
        cpu: usize,
        at: usize,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
    ) {
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Tail);
        if put.is_ok() {
            self.set_holder(pfn, Some(cpu));
        }
        self.tally.imposed(imposed::CPU_LIST_PUT, put);
    }

    /// Ends a refill: it should have brought as many blocks as the model asked for, unless the zone had no more. A
    /// single block that goes to the request at once was no refill: the trylock failed.
    pub(super) fn close_refill(&mut self, cpu: usize, by: u32, next_alloc: Option<Pfn>) {
        let Some(Refill {
            zone: at, order, mt, want, got, before, unseen, first, pid, dry, ..
        }) = self.cpus[cpu].refill.take()
        else {
            return;
        };
        let Some((_, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
        let list = cache.list_index(order, mt).unwrap_or(ListIndex(0));
        let at_once = next_alloc.is_some() && next_alloc == first;
        let past_list = unseen > 0 || (!dry && (at_once || by != pid));
        if got <= 1 && want > 1 && past_list {
            // Without the list's lock the kernel tuned nothing.
            before.restore(cache);
            self.counts.bypassed += 1;
            self.cpus[cpu].in_flight.extend(first);
            return;
        }
        let exact = got == want || (got < want && dry);
        if let Some(first) = first {
            debug_assert_eq!(got, 1, "the first block would lie behind later ones");
            self.append(cpu, at, first, order, mt);
        }
        let compared = Comparison { exact, shape: exact, explained: false };
        self.tally.compare(kind::REFILL_COUNT, compared.agreement(), || {
            (format!("{got} blocks of order {order} {mt}"), format!("{want} blocks; {before:?}"))
        });
        // The task that refilled the list takes its first block before any other task can.
        self.promise(cpu, at, list, Task::Is(pid), false);
    }
}
