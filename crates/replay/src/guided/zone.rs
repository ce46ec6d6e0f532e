//! Blocks that leave the free lists: those that a zone yields, and those that compaction isolates.

use pageblock::FrameState;
use pageblock::alloc_flags::AllocFlags;
use pageblock::fallback::Mode;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{self, Movable};

use super::tally::{Comparison, imposed, kind};
use super::{Guided, words};
use crate::look_ahead::Destination;

/// The flags of a request if its own are not known.
pub(super) const FLAGS: AllocFlags = AllocFlags::KSWAPD;

impl Guided<'_, '_> {
    /// Compares `mm_page_alloc_zone_locked`: which block the zone yields.
    pub(super) fn zone_locked(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        let mut explained = self.arrive(pfn, order);
        self.free_if_cached(at, pfn);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let mode = refill.map_or(Mode::Normal, |r| r.mode);
        let strict = self.allocator.policy().list_type_strict();
        while mode == Mode::Normal
            && let Some((next, _)) = self.allocator.zones()[at].next_of_list(order, mt)
            && next != pfn
            && self.withdraw_just_freed(at, next, pid)
        {
            explained = true;
        }
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
        let own = zone.next_of_list(order, mt).filter(|_| mode == Mode::Normal);
        let actual = zone.free_block_of(pfn);
        let foreign = actual.is_some_and(|(_, _, list)| list != mt);
        self.seen.of_another_type += u64::from(foreign);
        if strict && foreign {
            let flags = refill.map_or(FLAGS, |r| r.flags);
            self.claim_then_take(cpu, at, pfn, order, mt, (mode, flags));
        } else {
            let shape = match (own, actual) {
                (Some((_, order)), Some((_, found, list))) => order == found && list == mt,
                _ => false,
            };
            let exact = shape && own.is_some_and(|(next, _)| next == pfn);
            if shape && !exact {
                zone.rotate_free_list(pfn);
            }
            let kind = if refill.is_some() { kind::REFILL_FRAME } else { kind::ZONE_FRAME };
            let agreement = Comparison { exact, shape, explained }.agreement();
            self.tally.compare_frame(kind, pfn, agreement, || {
                (
                    format!("{pfn} of {}", words::free_block(actual)),
                    format!("next is {}", words::next_block(own)),
                )
            });
        }
        let found = actual.filter(|&(_, _, list)| list == mt).map(|(_, found, _)| found);
        if mode == Mode::Normal && found.is_some() {
            self.empty_lists(at, order, mt, found);
        }
        self.take(at, pfn, order, mt);
        self.received(cpu, at, pfn, order, mt, refill);
    }

    /// Takes a block off the free lists, wherever it is in the model.
    pub(super) fn take(&mut self, at: usize, pfn: Pfn, order: Order, mt: Migratetype) {
        self.start.unplaced.remove(&pfn);
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
            return;
        };
        let movable = mt == Movable;
        if zone.impose_take(pfn, order, movable).is_err() {
            for page in pfn.0..pfn.0 + (1 << order) {
                self.make_allocated(at, Pfn(page), 0);
            }
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) {
                let marked = zone.impose_allocated(pfn, order, movable);
                self.tally.imposed(imposed::ALLOCATED, marked);
            }
        }
    }

    /// Drains a block that is on a CPU list in the model but in the kernel's zone: it went there without an event.
    pub(super) fn free_if_cached(&mut self, at: usize, pfn: Pfn) {
        let Some(owner) = self.holder(pfn) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        if cache.impose_drain(zone, pfn).is_ok() {
            self.seen.left_list_unseen += 1;
            self.set_holder(pfn, None);
        }
    }

    /// Makes a block allocated, whatever state it has in the model.
    pub(super) fn make_allocated(&mut self, at: usize, pfn: Pfn, order: Order) {
        for page in pfn.0..pfn.0 + (1 << order) {
            let page = Pfn(page);
            if let Some(owner) = self.holder(page)
                && let Some((zone, cache)) =
                    self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
            {
                self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, page));
                self.set_holder(page, None);
            }
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
                && zone.free_block_of(page).is_some()
            {
                self.tally.imposed(imposed::ZONE_TAKE, zone.impose_take(page, 0, false));
            }
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
            && zone.state(pfn) != Some(FrameState::Allocated { order, movable: true })
        {
            self.tally.imposed(imposed::ALLOCATED, zone.impose_allocated(pfn, order, false));
        }
    }

    /// Takes a free block for compaction's free scanner. Large blocks make their pageblock movable.
    pub(super) fn isolate(&mut self, pfn: Pfn, order: Order, destination: Destination) {
        let Some(at) = self.zone_of(pfn) else { return };
        self.arrive(pfn, order);
        self.free_if_cached(at, pfn);
        if destination == Destination::Sought
            && let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
        {
            zone.rotate_free_list(pfn);
        }
        self.take(at, pfn, order, Movable);
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
            return;
        };
        if order + 1 >= pageblock_order
            && zone.block_type(pfn).is_some_and(Migratetype::is_mergeable)
        {
            // From 6.10 the rest of the pageblock's free pages move too.
            let typed = if zone.policy().list_type_strict() {
                zone.impose_reserve(pfn, Movable)
            } else {
                zone.impose_block_type(pfn, Movable)
            };
            self.tally.imposed(imposed::TYPE, typed);
        }
    }
}
