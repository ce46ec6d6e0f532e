//! Frees to a CPU list or to the zone, and drains.
//!
//! Source: `__free_pages` / `free_unref_page_commit` / `drain_pages` (mm/page_alloc.c).

use crate::access::local::{Access, Local};
use crate::base::decide::{End, Kept};
use crate::base::error::FrameError;
use crate::base::event::{Event, Observer};
use crate::base::frame::{Order, Pfn};
use crate::base::ids::{CpuId, ListIndex, ZoneIndex};
use crate::base::mobility::Migratetype;
use crate::percpu::cache::ZoneFlags;
use crate::percpu::caches::CpuZone;
use crate::policy::source::PolicySource;
use crate::table::map::Index;
use crate::zone::stat::ZoneStat;

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// See `Allocator::free`.
    #[inline(always)]
    pub(crate) fn free(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        // Before the fast path: a pageblock that is being emptied never gets its pages back through a list.
        if self.caches.zones[at.index()].cache.collects() && self.leave(at, i, order, observer) {
            return Ok(());
        }
        if self.cache(at).count_if_kept(order).is_some()
            && self.caches.free_by_its_type((at, i), pfn, order, observer)
        {
            return Ok(());
        }
        observer.event(Event::PageFree { pfn, order });
        let cache = self.cache(at);
        cache.count_free(order);
        let CpuZone { map, cache, .. } = &mut self.caches.zones[at.index()];
        let mt = map.cpu_list_type(i, order);
        match mt.and_then(|mt| Some((cache.list_index(order, mt)?, mt))) {
            Some((list, mt)) => {
                // The drain below reads the zone's flags through the mask.
                self.zones.refresh_mask(self.machine, at);
                self.free_to_list(at, i, order, (list, mt), observer);
            }
            None => self.with_pages(at, |zone, _| zone.free_one_page(i, order, observer)),
        }
        Ok(())
    }

    /// Returns the CPU to whose lists a block is freed: this one, unless a policy of one's own names another.
    pub(crate) fn owner_asked(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<CpuId, FrameError> {
        let cpu = self.caches.cpu();
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        let CpuZone { map, cache, .. } = &mut self.caches.zones[at.index()];
        let mt = map.cpu_list_type(i, order);
        let Some(mt) = mt.filter(|&mt| cache.list_index(order, mt).is_some()) else {
            return Ok(cpu);
        };
        Ok(match observer.decider() {
            Some(mut decider) => self.with_pages(at, |zone, _| {
                let asks = !zone.is_packed();
                if asks { zone.asked_owner((i, order, mt), cpu, &mut decider) } else { cpu }
            }),
            None => cpu,
        })
    }

    /// [`free`](Self::free), which asks a policy of one's own where a block goes that has a list.
    #[inline(never)]
    pub(crate) fn free_asked(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        let CpuZone { map, cache, .. } = &mut self.caches.zones[at.index()];
        let mt = map.cpu_list_type(i, order);
        let list = mt.and_then(|mt| Some((cache.list_index(order, mt)?, mt)));
        let kept = match (list, observer.decider()) {
            (Some((list, mt)), Some(mut decider)) if !cache.collects() => {
                let block = (i, order, mt);
                let kept = self.with_pages(at, |zone, _| zone.asked_keep(block, &mut decider));
                (kept != Kept::Head).then_some((kept, list, mt))
            }
            _ => None,
        };
        // The policy has no say, or leaves the block at the head: then the fast paths may serve.
        let Some((kept, list, mt)) = kept else { return self.free(pfn, order, observer) };
        observer.event(Event::PageFree { pfn, order });
        self.cache(at).count_free(order);
        if kept == Kept::Tail {
            self.zones.refresh_mask(self.machine, at);
            self.free_to_list_end(at, i, order, (list, mt), End::Tail, observer);
        } else {
            self.with_pages(at, |zone, cache| {
                cache.pass_on(zone, i, order, mt, observer);
                zone.leave_below_high();
            });
        }
        Ok(())
    }

    /// Collects a block that is freed into a pageblock that is being emptied, and gives the collected blocks back
    /// to the zone once they are a batch. Returns whether it did.
    #[inline(never)]
    fn leave(
        &mut self,
        at: ZoneIndex,
        i: Index,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        let CpuZone { map, cache, .. } = &mut self.caches.zones[at.index()];
        let Some(mt) = map.emptying_type(i) else { return false };
        // Blocks without a list, and those for which there is no room, go to the zone one by one.
        if cache.list_index(order, mt).is_none() || !cache.leave(map, i, order, mt) {
            return false;
        }
        cache.count_free(order);
        observer.event(Event::PageFree { pfn: map.pfn(i), order });
        self.give_leaving_if_full(at, observer);
        true
    }

    /// Gives the collected blocks back to the zone, if they are a batch.
    fn give_leaving_if_full(&mut self, at: ZoneIndex, observer: &mut impl Observer) {
        if self.cache(at).leaving_is_full() {
            self.with_pages(at, |zone, cache| {
                zone.count_lock();
                cache.give_leaving(zone, observer);
                zone.leave_below_high();
            });
        }
    }

    /// Frees a block to the head of a list.
    #[inline(always)]
    fn free_to_list(
        &mut self,
        at: ZoneIndex,
        i: Index,
        order: Order,
        list: (ListIndex, Migratetype),
        observer: &mut impl Observer,
    ) {
        self.free_to_list_end(at, i, order, list, End::Head, observer);
    }

    /// Frees a block to an end of a list, and drains excess pages of the cache (`free_unref_page_commit`).
    #[inline(always)]
    fn free_to_list_end(
        &mut self,
        at: ZoneIndex,
        i: Index,
        order: Order,
        (list, mt): (ListIndex, Migratetype),
        end: End,
        observer: &mut impl Observer,
    ) {
        let policy = &self.machine.policy;
        let flags = self.cache_flags(at);
        let CpuZone { map, cache, .. } = &mut self.caches.zones[at.index()];
        let mut n = cache.pages_to_drain_with(policy, order, flags);
        if let Some(mut decider) = observer.decider() {
            n = cache.asked_drain(order, n, &mut decider);
        }
        // With empty lists the block itself would be the first to be drained.
        let passes = n > 0 && cache.listed() == 0;
        if passes && cache.collects_alone(order) && cache.leave(map, i, order, mt) {
            return self.give_leaving_if_full(at, observer);
        }
        if passes || !cache.push(map, i, order, (list, mt), end) {
            // The block would be drained at once, or there is no room for it.
            self.with_pages(at, |zone, cache| {
                cache.pass_on(zone, i, order, mt, observer);
                zone.leave_below_high();
            });
            return;
        }
        if n > 0 {
            let drain = cache.drain(policy, n, list);
            self.with_pages(at, |zone, cache| {
                cache.drain_to(zone, drain, observer);
                zone.leave_below_high();
            });
        }
    }

    /// Returns the flags of the zone on which the size of a drain depends.
    fn cache_flags(&self, at: ZoneIndex) -> ZoneFlags {
        let stat = self.stat(at);
        ZoneFlags { reclaim_active: stat.reclaim_active(), below_high: stat.below_high() }
    }

    /// Drains `n` pages of one cache.
    fn drain_some(&mut self, at: ZoneIndex, n: u32, observer: &mut impl Observer) {
        let policy = &self.machine.policy;
        self.with_pages(at, |zone, cache| {
            let drain = cache.drain(policy, n, ListIndex(0));
            cache.drain_to(zone, drain, observer);
        });
    }

    /// See `Allocator::drain_cpu`.
    pub(crate) fn drain(&mut self, observer: &mut impl Observer) {
        for at in ZoneIndex::up_to(self.caches.zones.len()) {
            self.drain_zone(at, observer);
        }
    }

    /// See `Allocator::drain_zone`.
    pub(crate) fn drain_zone(&mut self, at: ZoneIndex, observer: &mut impl Observer) {
        let mut before = u32::MAX;
        // In rounds, so that the lock is released in between; ends if a round drains nothing.
        while (1..before).contains(&self.cache(at).count()) {
            before = self.cache(at).count();
            let policy = &self.machine.policy;
            self.with_pages(at, |zone, cache| {
                let drain = cache.drain_round(policy);
                cache.drain_to(zone, drain, observer);
            });
        }
    }

    /// See `Allocator::drain_pages`.
    pub(crate) fn drain_pages(&mut self, pages: u32, observer: &mut impl Observer) {
        let mut left = pages;
        for at in ZoneIndex::up_to(self.caches.zones.len()).rev() {
            let before = self.cache(at).count();
            let n = left.min(before);
            if n > 0 {
                self.drain_some(at, n, observer);
                left = left.saturating_sub(before - self.cache(at).count());
            }
        }
    }

    /// See `Allocator::vmstat_tick`.
    pub(crate) fn vmstat_tick(&mut self, observer: &mut impl Observer) {
        for at in ZoneIndex::up_to(self.caches.zones.len()) {
            let cache = self.caches.zones[at.index()].flushed();
            let n = cache.decay(&self.machine.policy);
            if n > 0 || cache.has_leaving() {
                self.drain_some(at, n, observer);
            }
        }
    }
}
