//! Blocks that reach their list later than they are reported free: their task was interrupted, or waited
//! for a lock.

use pageblock::frame::{Order, Pfn};

use super::Guided;
use super::in_flight::Delayed;

impl Guided<'_, '_> {
    /// Puts on their lists what a task had freed that is seen again: it reaches a list before anything
    /// else it does.
    pub(super) fn commit_delayed(&mut self, cpu: usize, pid: u32) {
        while let Some(place) = self.delayed.iter().position(|delayed| delayed.pid == pid) {
            let Delayed { pfn, order, destination, .. } = self.delayed.remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
            }
        }
    }

    /// Puts on its list what was still to come of a block that leaves a list: it has come by now, though
    /// its task has not been seen again. A task that waits for the lock of the zone while another drains
    /// into it puts its page there as the lock is free. Tells whether there was such a block.
    pub(super) fn arrive(&mut self, pfn: Pfn, order: Order) -> bool {
        let overlaps =
            |d: &Delayed| d.pfn.0 < pfn.0 + (1 << order) && pfn.0 < d.pfn.0 + (1 << d.order);
        let mut any = false;
        while let Some(place) = self.delayed.iter().position(overlaps) {
            let Delayed { cpu, pid, pfn, order, destination } = self.delayed.swap_remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
                any = true;
            }
        }
        self.just_freed.retain(|just_freed| !overlaps(just_freed));
        any
    }

    /// Forgets what was still to come of a block that is freed again: it came, and was taken, without an
    /// event.
    pub(super) fn forget_delayed(&mut self, pfn: Pfn) {
        self.delayed.retain(|delayed| delayed.pfn != pfn);
        self.just_freed.retain(|just_freed| just_freed.pfn != pfn);
    }

    /// Takes back a block that the model would take now: its task had not put it there yet, as the
    /// kernel takes another: it comes when the task is seen again. Tells whether there was one.
    pub(super) fn withdraw_just_freed(&mut self, at: usize, next: Pfn, pid: u32) -> bool {
        let Some((start, ..)) = self.allocator.zones()[at].free_block_of(next) else {
            return false;
        };
        let just_freed = |f: &Delayed| f.pid != pid && f.pfn == start;
        let Some(place) = self.just_freed.iter().position(just_freed) else { return false };
        let just_freed = self.just_freed.remove(place);
        self.make_allocated(at, just_freed.pfn, just_freed.order);
        self.delayed.push(just_freed);
        self.freed_delayed += 1;
        true
    }
}
