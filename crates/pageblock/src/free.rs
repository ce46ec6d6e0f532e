//! Giving blocks back: the fast path of freeing, and draining of CPU lists.
//!
//! Source: `__free_pages` / `free_unref_page_commit` / `drain_pages` (mm/page_alloc.c).

use crate::alloc::Allocator;
use crate::alloc_flags::{AllocFlags, Watermark};
use crate::cpu_cache::{CpuCache, ZoneFlags};
use crate::cpu_tuning::Row;
use crate::event::{Event, Observer};
use crate::frame::{Order, Pfn, pages};
use crate::layout::ZoneKind;
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype::Isolate;
use crate::zone::{FrameError, Zone};

impl Allocator<'_> {
    /// Frees a block, to the CPU's cache where it has a list (`__free_pages`); of a CPU that there
    /// is not, to the zone.
    ///
    /// # Errors
    /// For a frame that no allocated block of this order starts at; nothing changes then.
    #[inline]
    pub fn free(
        &mut self,
        cpu: usize,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let (at, i) = self.find_allocated(pfn, order)?;
        observer.event(Event::PageFree { pfn, order });
        self.commit_free(at, cpu, i, order, observer);
        Ok(())
    }

    /// The zone and index of an allocated block.
    #[inline]
    pub(crate) fn find_allocated(
        &self,
        pfn: Pfn,
        order: Order,
    ) -> Result<(usize, Index), FrameError> {
        // In the tables of zones that interleave with others the others' frames are holes.
        (0..self.zones.len())
            .find_map(|at| Some((at, self.zones[at].map.allocated_at(pfn, order)?)))
            .ok_or_else(|| self.why_not_allocated(pfn))
    }

    #[cold]
    #[inline(never)]
    fn why_not_allocated(&self, pfn: Pfn) -> FrameError {
        let Some((at, i)) = self.locate(pfn) else { return FrameError::Foreign(pfn) };
        match self.zones[at].map.state(i) {
            FrameState::Allocated { order, .. } => FrameError::WrongOrder(pfn, order),
            _ => FrameError::NotAllocated(pfn),
        }
    }

    #[inline]
    fn commit_free(
        &mut self,
        at: usize,
        cpu: usize,
        i: Index,
        order: Order,
        observer: &mut impl Observer,
    ) {
        let cpus = self.cpu_nodes.len();
        let zone = &mut self.zones[at];
        zone.counters.pgfree += pages(order);
        let mt = zone.map.block_type(i);
        let to_zone = mt == Isolate || zone.is_emptying(i, order);
        let cache = self.caches.get_mut(at * cpus + cpu).filter(|_| cpu < cpus && !to_zone);
        let Some((cache, index)) = cache.and_then(|c| c.list_index(order, mt).map(|n| (c, n)))
        else {
            return zone.free_to_buddy(i, order, observer);
        };
        cache.push(&zone.map, i, order, index, mt);
        let flags = zone.cache_flags();
        let row = cache.note_free(&zone.policy, order);
        if !cache.holds_all(row, flags) {
            zone.shrink(cache, row, index, observer);
        }
    }

    /// Gives every page of a CPU's caches back to its zones (`drain_pages`).
    pub fn drain_cpu(&mut self, cpu: usize, observer: &mut impl Observer) {
        let cpus = self.cpus();
        for at in 0..self.zones.len() {
            if cpu < cpus {
                let cache = &mut self.caches[at * cpus + cpu];
                let drain = cache.drain(&self.policy, u32::MAX, 0);
                cache.drain_to(&mut self.zones[at], drain, observer);
            }
        }
    }

    /// Gives up to `pages` pages of a CPU's caches back, from the highest zone down.
    pub fn drain_pages(&mut self, cpu: usize, pages: u32, observer: &mut impl Observer) {
        let cpus = self.cpus();
        let mut left = pages;
        for at in (0..self.zones.len()).rev().filter(|_| cpu < cpus) {
            let cache = &mut self.caches[at * cpus + cpu];
            let before = cache.count;
            let n = left.min(before);
            if n > 0 {
                let drain = cache.drain(&self.policy, n, 0);
                cache.drain_to(&mut self.zones[at], drain, observer);
                left = left.saturating_sub(before - cache.count);
            }
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
        let cpus = self.cpus();
        for at in 0..self.zones.len() {
            if cpu < cpus {
                let cache = &mut self.caches[at * cpus + cpu];
                let n = cache.decay(&self.policy);
                if n > 0 {
                    let drain = cache.drain(&self.policy, n, 0);
                    cache.drain_to(&mut self.zones[at], drain, observer);
                }
            }
        }
    }

    /// Says whether the content of an allocated block can be moved, which claims of its pageblock
    /// take into account. A new block counts as movable if its request was.
    ///
    /// # Errors
    /// [`FrameError::Foreign`]; [`FrameError::NotAllocated`] where no block in use starts.
    pub fn set_movable(&mut self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        let (at, i) = self.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        let map = &self.zones[at].map;
        let FrameState::Allocated { order, .. } = map.state(i) else {
            return Err(FrameError::NotAllocated(pfn));
        };
        map.set(i, FrameState::Allocated { order, movable });
        Ok(())
    }
}

impl Zone<'_> {
    /// Frees a block past the CPU lists (`free_one_page`).
    #[inline(never)]
    fn free_to_buddy(&mut self, i: Index, order: Order, observer: &mut impl Observer) {
        self.counters.lock_acquired += 1;
        self.free_by_block_type(i, order, None, observer);
    }

    /// Whether a block is in a pageblock that packed placement empties, so that it may not be handed
    /// out again from a CPU list.
    #[inline]
    fn is_emptying(&self, i: Index, order: Order) -> bool {
        self.map.is_sparse(i) && !self.is_whole_block(order)
    }

    /// What a cache looks at.
    #[inline]
    fn cache_flags(&self) -> ZoneFlags {
        ZoneFlags { reclaim_active: self.reclaim_active, below_high: self.below_high }
    }

    /// Takes back what a CPU cache holds too much after a block was freed to its list `index`.
    #[inline(never)]
    fn shrink(
        &mut self,
        cache: &mut CpuCache,
        row: Row,
        index: usize,
        observer: &mut impl Observer,
    ) {
        let n = cache.pages_past_high(&self.policy, row, self.cache_flags());
        if n > 0 {
            let drain = cache.drain(&self.policy, n, index);
            cache.drain_to(self, drain, observer);
            self.leave_below_high();
        }
    }

    /// After a drain the zone may be above its high watermark again.
    pub fn leave_below_high(&mut self) {
        if self.below_high {
            let high = self.watermark(Watermark::High);
            self.below_high = !self.watermark_ok(0, high, ZoneKind::Movable, AllocFlags(0));
        }
    }
}
