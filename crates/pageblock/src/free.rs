//! Giving blocks back: the fast path of freeing, and draining of CPU lists.
//!
//! Source: `__free_pages` / `free_unref_page_commit` / `drain_pages` (mm/page_alloc.c).

use crate::alloc::Allocator;
use crate::alloc_flags::{AllocFlags, Watermark};
use crate::cpu_cache::ZoneFlags;
use crate::event::{Event, Observer};
use crate::frame::{Order, Pfn};
use crate::layout::ZoneKind;
use crate::levels::Levels;
use crate::local::{Local, Owned, Zones};
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype;
use crate::row::CpuZone;
use crate::zone::{FrameError, Zone};

impl Allocator<'_> {
    /// Frees a block, to the CPU's cache where it has a list (`__free_pages`); of a CPU that there
    /// is not, to the zone.
    ///
    /// # Errors
    /// For a frame that no allocated block of this order starts at; nothing changes then.
    #[inline(always)]
    pub fn free(
        &mut self,
        cpu: usize,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        if self.rows.get_mut(cpu).is_some_and(|row| row.put_warm(pfn, order, observer)) {
            return Ok(());
        }
        self.free_in_full(cpu, pfn, order, observer)
    }

    #[inline(never)]
    fn free_in_full(
        &mut self,
        cpu: usize,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        if let Some(mut local) = self.local(cpu) {
            return local.free(pfn, order, observer);
        }
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        observer.event(Event::PageFree { pfn, order });
        Owned(self.zones).with(&self.machine, at, |zone| {
            zone.counters.count_free(order);
            zone.free_one_page(i, order, observer);
        });
        Ok(())
    }

    /// Gives every page of a CPU's caches back to its zones (`drain_pages`).
    pub fn drain_cpu(&mut self, cpu: usize, observer: &mut impl Observer) {
        if let Some(mut local) = self.local(cpu) {
            local.drain(observer);
        }
    }

    /// Gives up to `pages` pages of a CPU's caches back, from the highest zone down.
    pub fn drain_pages(&mut self, cpu: usize, pages: u32, observer: &mut impl Observer) {
        if let Some(mut local) = self.local(cpu) {
            local.drain_pages(pages, observer);
        }
    }

    /// Gives every page of a CPU's cache of one zone back (`drain_pages_zone`).
    pub fn drain_zone(&mut self, cpu: usize, zone: usize, observer: &mut impl Observer) {
        if let Some(mut local) = self.local(cpu)
            && zone < local.row.zones.len()
        {
            local.drain_zone(zone, observer);
        }
    }

    /// Gives every page of every CPU's caches back (`drain_all_pages`).
    pub fn drain_all(&mut self, observer: &mut impl Observer) {
        for cpu in 0..self.cpus() {
            self.drain_cpu(cpu, observer);
        }
    }

    /// One vmstat tick of a CPU: its caches' limits decay (6.7 and later).
    pub fn vmstat_tick(&mut self, cpu: usize, observer: &mut impl Observer) {
        if let Some(mut local) = self.local(cpu) {
            local.vmstat_tick(observer);
        }
    }

    /// Says whether the content of an allocated block can be moved, which claims of its pageblock
    /// take into account. A new block counts as movable if its request was.
    ///
    /// # Errors
    /// [`FrameError::Foreign`]; [`FrameError::NotAllocated`] where no block in use starts.
    pub fn set_movable(&mut self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        self.machine.set_movable(pfn, movable)
    }
}

impl crate::machine::Machine<'_> {
    /// See [`Allocator::set_movable`].
    pub(crate) fn set_movable(&self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        let (at, i) = self.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        let map = &self.fronts[at].map;
        let FrameState::Allocated { order, .. } = map.state(i) else {
            return Err(FrameError::NotAllocated(pfn));
        };
        map.set(i, FrameState::Allocated { order, movable });
        Ok(())
    }
}

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// See [`Allocator::free`].
    pub(crate) fn free(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        if self.cache(at).calm_count(order).is_some()
            && self.row.make_room_and_put(at, pfn, order, observer)
        {
            return Ok(());
        }
        observer.event(Event::PageFree { pfn, order });
        let cache = self.cache(at);
        cache.count_free(order);
        let CpuZone { front, cache, .. } = &mut self.row.zones[at];
        let mt = front.map.cpu_list_type(i, order);
        match mt.and_then(|mt| Some((cache.list_index(order, mt)?, mt))) {
            Some((list, mt)) => {
                self.zones.renew_short(self.machine, at);
                self.free_to_list(at, i, order, (list, mt), observer);
            }
            None => self.with_pages(at, |zone, _| zone.free_one_page(i, order, observer)),
        }
        Ok(())
    }

    /// Frees a block to a list, and gives back what the cache holds too much then
    /// (`free_unref_page_commit`).
    fn free_to_list(
        &mut self,
        at: usize,
        i: Index,
        order: Order,
        (list, mt): (usize, Migratetype),
        observer: &mut impl Observer,
    ) {
        let policy = &self.machine.policy;
        let flags = self.cache_flags(at);
        let CpuZone { front, cache, .. } = &mut self.row.zones[at];
        let n = cache.pages_to_drain_with(policy, order, flags);
        if n > 0 && cache.count == 0 {
            // What comes to the list goes to the zone at once.
            self.with_pages(at, |zone, cache| {
                cache.pass_on(zone, i, order, mt, observer);
                zone.leave_below_high();
            });
            return;
        }
        cache.push(&front.map, i, order, list, mt);
        if n > 0 {
            let drain = cache.drain(policy, n, list);
            self.with_pages(at, |zone, cache| {
                cache.drain_to(zone, drain, observer);
                zone.leave_below_high();
            });
        }
    }

    /// What a cache looks at.
    fn cache_flags(&self, at: usize) -> ZoneFlags {
        let levels = self.levels(at);
        ZoneFlags { reclaim_active: levels.reclaim_active(), below_high: levels.below_high() }
    }

    /// Gives `n` pages of one cache back.
    fn give_back(&mut self, at: usize, n: u32, observer: &mut impl Observer) {
        let policy = &self.machine.policy;
        self.with_pages(at, |zone, cache| {
            let drain = cache.drain(policy, n, 0);
            cache.drain_to(zone, drain, observer);
        });
    }

    /// See [`Allocator::drain_cpu`].
    pub(crate) fn drain(&mut self, observer: &mut impl Observer) {
        for at in 0..self.row.zones.len() {
            self.drain_zone(at, observer);
        }
    }

    /// See [`Allocator::drain_zone`].
    fn drain_zone(&mut self, at: usize, observer: &mut impl Observer) {
        let mut before = u32::MAX;
        while (1..before).contains(&self.cache(at).count) {
            before = self.cache(at).count;
            let policy = &self.machine.policy;
            self.with_pages(at, |zone, cache| {
                let drain = cache.drain_round(policy);
                cache.drain_to(zone, drain, observer);
            });
        }
    }

    /// See [`Allocator::drain_pages`].
    pub(crate) fn drain_pages(&mut self, pages: u32, observer: &mut impl Observer) {
        let mut left = pages;
        for at in (0..self.row.zones.len()).rev() {
            let before = self.cache(at).count;
            let n = left.min(before);
            if n > 0 {
                self.give_back(at, n, observer);
                left = left.saturating_sub(before - self.cache(at).count);
            }
        }
    }

    /// See [`Allocator::vmstat_tick`].
    pub(crate) fn vmstat_tick(&mut self, observer: &mut impl Observer) {
        for at in 0..self.row.zones.len() {
            let n = self.row.zones[at].settled().decay(&self.machine.policy);
            if n > 0 {
                self.give_back(at, n, observer);
            }
        }
    }
}

impl Zone<'_> {
    /// Frees a block past the CPU lists (`free_one_page`).
    fn free_one_page(&mut self, i: Index, order: Order, observer: &mut impl Observer) {
        self.counters.lock_acquired += 1;
        self.free_by_block_type(i, order, None, observer);
    }

    /// After a drain the zone may be above its high watermark again.
    pub fn leave_below_high(&mut self) {
        if self.below_high {
            let high = self.watermark(Watermark::High);
            self.below_high = !self.watermark_ok(0, high, ZoneKind::Movable, AllocFlags(0));
        }
    }
}
