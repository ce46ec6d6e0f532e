//! One CPU in one critical section: its caches, and its access to zones.
//!
//! The operations of a CPU are written once, here and in the files that extend [`Local`] (`alloc`, `walk`, `free`).
//! [`Allocator`](crate::alloc::Allocator) runs them on zones that it owns, [`Cpu`](crate::cpu::Cpu) on zones behind
//! locks; [`Access`] is the difference. Operations that take several critical sections, between which a CPU can be
//! interrupted, are in [`contig`](crate::access::contig).

use crate::base::alloc_flags::{AllocFlags, Watermark};
use crate::base::frame::Order;
use crate::base::ids::ZoneIndex;
use crate::base::layout::ZoneKind;
use crate::base::request::Gfp;
use crate::percpu::cache::CpuCache;
use crate::percpu::caches::CpuCaches;
use crate::percpu::machine::Machine;
use crate::policy::source::{Chosen, PolicySource};
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;
use crate::zone::watermark::watermark_fast;

/// A watermark check.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub(crate) order: Order,
    pub(crate) mark: Watermark,
    pub(crate) highest: ZoneKind,
    pub(crate) flags: AllocFlags,
    pub(crate) gfp: Gfp,
}

impl Check {
    pub(crate) fn holds(self, zone: &impl ZoneStat) -> bool {
        watermark_fast(zone, self.order, self.mark, self.highest, self.flags, self.gfp)
    }
}

/// A CPU's access to zones: it owns all of them, or takes the lock of each.
pub(crate) trait Access<'m, P: PolicySource> {
    /// Runs `act` on a zone while holding its lock.
    fn with<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T;

    /// [`with`](Self::with) for an `act` that only moves pages of the zone: it changes free lists, their counters,
    /// and what follows from those (boost, `below_high`).
    fn with_pages<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T;

    /// Returns the numbers of a zone that can be read without its lock.
    fn stat<'a>(&'a self, machine: &'a Machine<'m, P>, at: ZoneIndex) -> &'a impl ZoneStat;

    /// Computes the mask of orders that the zone serves at once, if it is out of date.
    fn refresh_mask(&mut self, machine: &Machine<'m, P>, at: ZoneIndex);
}

/// Zones with one owner, which needs no lock.
pub(crate) struct Owned<'a, 'm, P: PolicySource = Chosen>(pub(crate) &'a mut [Zone<'m, P>]);

impl<'m, P: PolicySource> Access<'m, P> for Owned<'_, 'm, P> {
    #[inline(always)]
    fn with<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T {
        let zone = &mut self.0[at.index()];
        let done = act(zone);
        machine.snapshots[at.index()].refresh_mask(zone, machine.first_zone_serves());
        done
    }

    #[inline(always)]
    fn with_pages<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T {
        let zone = &mut self.0[at.index()];
        let done = act(zone);
        machine.snapshots[at.index()].refresh_mask_after_moves(zone, machine);
        done
    }

    #[inline(always)]
    fn stat<'a>(&'a self, _: &'a Machine<'m, P>, at: ZoneIndex) -> &'a impl ZoneStat {
        &self.0[at.index()]
    }

    #[inline(always)]
    fn refresh_mask(&mut self, machine: &Machine<'m, P>, at: ZoneIndex) {
        let snapshot = &machine.snapshots[at.index()];
        if !snapshot.is_current() {
            snapshot.refresh_mask(&mut self.0[at.index()], machine.first_zone_serves());
        }
    }
}

/// One CPU in a critical section.
pub(crate) struct Local<'a, 'm, Z, P: PolicySource = Chosen> {
    pub(crate) machine: &'a Machine<'m, P>,
    pub(crate) zones: Z,
    pub(crate) caches: &'a mut CpuCaches<'m, P>,
}

impl<'a, 'm, Z: Access<'m, P>, P: PolicySource> Local<'a, 'm, Z, P> {
    /// Runs `act` on a zone and this CPU's cache for it, while holding the zone's lock.
    #[inline(always)]
    pub(crate) fn with<T>(
        &mut self,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>, &mut CpuCache<'m, P>) -> T,
    ) -> T {
        let cache = self.caches.zones[at.index()].flushed();
        self.zones.with(self.machine, at, |zone| act(zone, cache))
    }

    /// [`with`](Self::with) for an `act` that only moves pages; see [`Access::with_pages`].
    #[inline(always)]
    pub(crate) fn with_pages<T>(
        &mut self,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>, &mut CpuCache<'m, P>) -> T,
    ) -> T {
        let cache = self.caches.zones[at.index()].flushed();
        self.zones.with_pages(self.machine, at, |zone| act(zone, cache))
    }

    #[inline(always)]
    pub(crate) fn cache(&mut self, at: ZoneIndex) -> &mut CpuCache<'m, P> {
        self.caches.zones[at.index()].flushed()
    }

    #[inline(always)]
    pub(crate) fn stat(&self, at: ZoneIndex) -> &impl ZoneStat {
        self.zones.stat(self.machine, at)
    }
}
