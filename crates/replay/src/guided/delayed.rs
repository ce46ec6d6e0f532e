//! Blocks that reach their list later than they are reported free: their task was interrupted, or waited
//! for a lock.

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::replay::ListEnd;

use super::Draining;
use super::tally::imposed;
use super::{Delayed, Guided};

impl Guided<'_, '_> {
    /// A task is seen again: what it had freed reaches a list before anything else it does.
    pub(super) fn commit_delayed(&mut self, cpu: usize, pid: u32) {
        while let Some(place) = self.delayed.iter().position(|delayed| delayed.pid == pid) {
            let Delayed { pfn, order, destination, .. } = self.delayed.remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
            }
        }
    }

    /// A block leaves a list: what of it was still to come has come by now, though its task has not been
    /// seen again. A task that waits for the lock of the zone while another drains into it puts its
    /// page there as the lock is free. Tells whether there was such a block.
    pub(super) fn arrive(&mut self, pfn: Pfn, order: Order) -> bool {
        let overlaps = |d: &Delayed| {
            d.pfn.0 < pfn.0 + (1 << order) && pfn.0 < d.pfn.0 + (1 << d.order)
        };
        let mut any = false;
        while let Some(place) = self.delayed.iter().position(overlaps) {
            let Delayed { cpu, pid, pfn, order, destination } = self.delayed.swap_remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
                any = true;
            }
        }
        self.fresh.retain(|fresh| !overlaps(fresh));
        any
    }

    /// A block is freed anew: what was still to come of it came, and was taken, unseen.
    pub(super) fn forget_delayed(&mut self, pfn: Pfn) {
        self.delayed.retain(|delayed| delayed.pfn != pfn);
        self.fresh.retain(|fresh| fresh.pfn != pfn);
    }

    /// A block that the model would take now is one that its task had not put back yet, as the
    /// kernel takes another: it comes when the task is seen again. Tells whether there was one.
    pub(super) fn withdraw_fresh(&mut self, at: usize, next: Pfn, pid: u32) -> bool {
        let Some((start, ..)) = self.allocator.zones()[at].free_block_of(next) else {
            return false;
        };
        let fresh = |f: &Delayed| f.pid != pid && f.pfn == start;
        let Some(place) = self.fresh.iter().position(fresh) else { return false };
        let fresh = self.fresh.remove(place);
        self.make_allocated(at, fresh.pfn, fresh.order);
        self.delayed.push(fresh);
        self.freed_delayed += 1;
        true
    }

    /// A block that is thought to reach the list late has reached it already, if that explains why
    /// pages were given back.
    pub(super) fn put_delayed(&mut self, draining: &Draining, reclaim_active: bool) -> bool {
        let delayed = self.delayed.iter().filter(|delayed| {
            delayed.is_for(draining.owner) && self.zone_of(delayed.pfn) == Some(draining.zone)
        });
        let pages: i32 = delayed.map(|delayed| 1 << delayed.order).sum();
        if pages == 0 || !self.would_drain(draining, reclaim_active, -pages) {
            return false;
        }
        let (owner, zone) = (draining.owner, draining.zone);
        while let Some(place) = self
            .delayed
            .iter()
            .position(|delayed| delayed.is_for(owner) && self.zone_of(delayed.pfn) == Some(zone))
        {
            let Delayed { pfn, order, .. } = self.delayed.remove(place);
            if let Some((zone, cache)) = self.allocator.zone_and_cache(draining.zone, owner) {
                let mt = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
                let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Head);
                self.tally.imposed(imposed::CPU_LIST_PUT, put);
                self.set_holder(pfn, Some(owner));
            }
        }
        true
    }
}
