//! Blocks that reach their list later than they are reported free: their task was interrupted, or waited for a
//! lock.

use pageblock::frame::{Order, Pfn};

use super::Guided;
use super::in_flight::Delayed;

impl Guided<'_, '_> {
    /// Puts the blocks that a task had freed on their lists, now that the task is seen again: they reach a list
    /// before anything else that it does.
    pub(super) fn commit_delayed(&mut self, cpu: usize, pid: u32) {
        while let Some(place) = self.tasks.delayed.iter().position(|delayed| delayed.pid == pid) {
            let Delayed { pfn, order, destination, .. } = self.tasks.delayed.remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
            }
        }
    }

    /// Puts a late block on its list that now leaves a list: it has arrived, although its task was not seen again.
    /// A task that waits for the zone's lock while another drains into the zone frees its page as soon as it gets
    /// the lock. Returns whether there was such a block.
    pub(super) fn arrive(&mut self, pfn: Pfn, order: Order) -> bool {
        let overlaps =
            |d: &Delayed| d.pfn.0 < pfn.0 + (1 << order) && pfn.0 < d.pfn.0 + (1 << d.order);
        let mut any = false;
        while let Some(place) = self.tasks.delayed.iter().position(overlaps) {
            let Delayed { cpu, pid, pfn, order, destination } =
                self.tasks.delayed.swap_remove(place);
            if let Some(at) = self.zone_of(pfn) {
                self.commit(cpu, pid, at, pfn, order, destination);
                any = true;
            }
        }
        // What leaves a list has arrived there.
        self.tasks.just_freed.retain(|just_freed| !overlaps(just_freed));
        any
    }

    /// Drops a late block that is freed again: it arrived, and was taken, without an event.
    pub(super) fn forget_delayed(&mut self, pfn: Pfn) {
        self.tasks.delayed.retain(|delayed| delayed.pfn != pfn);
        self.tasks.just_freed.retain(|just_freed| just_freed.pfn != pfn);
    }

    /// Takes back a block that the model would take now: the kernel takes another, so its task had not put it there
    /// yet, and will do so when it runs again. Returns whether there was one.
    pub(super) fn withdraw_just_freed(&mut self, at: usize, next: Pfn, pid: u32) -> bool {
        let Some((start, ..)) = self.allocator.zones()[at].free_block_of(next) else {
            return false;
        };
        let just_freed = |f: &Delayed| f.pid != pid && f.pfn == start;
        let Some(place) = self.tasks.just_freed.iter().position(just_freed) else { return false };
        let just_freed = self.tasks.just_freed.remove(place);
        self.make_allocated(at, just_freed.pfn, just_freed.order);
        self.tasks.delayed.push(just_freed);
        self.counts.freed_delayed += 1;
        true
    }
}
