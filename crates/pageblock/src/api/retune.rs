//! Tuning of zones and CPU caches to the present memory.
//!
//! A zone's numbers change under its lock. The limits of caches are stored in the zone, as only a CPU writes
//! its caches: the owner of all copies them to each cache, a CPU that shares the allocator adopts them when
//! it is notified.
//!
//! Source: `__setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`, `zone_set_pageset_high_and_batch`
//! (mm/page_alloc.c).

use crate::access::local::Owned;
use crate::access::locked::Locked;
use crate::access::retune::{retune_zones, tune_caches};
use crate::api::alloc::Allocator;
use crate::api::sharing::Shared;
use crate::base::ids::ZoneIndex;
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::policy::source::PolicySource;

#[cfg(doc)]
use crate::api::cpu::Cpu;

impl<P: PolicySource> Allocator<'_, P> {
    /// Computes watermarks, reserves and CPU-list sizes from the zones' managed pages and the
    /// policy's knobs (`setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`,
    /// `zone_set_pageset_high_and_batch`). Boosts end.
    ///
    /// Up to 4.3 it also sets up the migrate reserve, which takes only pageblocks that were released
    /// whole: call it when all memory is released, as the kernel does.
    pub fn retune(&mut self) {
        retune_zones(&self.machine, Owned(self.zones));
        self.adopt_limits();
    }

    /// Computes the limits of a zone's CPU caches from its low watermark.
    pub fn retune_caches(&mut self, at: ZoneIndex) {
        if at.index() < self.zones.len() {
            tune_caches(&self.machine, &mut Owned(self.zones), at);
            self.adopt_limits();
        }
    }

    /// Has every cache adopt the limits of its zone.
    pub(crate) fn adopt_limits(&mut self) {
        let zones = &*self.zones;
        self.caches
            .iter_mut()
            .for_each(|caches| caches.adopt(|at| zones[at.index()].cache_tuning()));
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Shared<'_, L, I, P> {
    /// [`Allocator::retune`] while CPUs work: one zone after the other. The caches of a CPU have the
    /// new limits from its next call on ([`Cpu::attend`] at the latest).
    pub fn retune(&self) {
        let _off = Off::<I>::now();
        // The last caller sees what all before it changed.
        let _alone = L::lock(&self.tuning);
        retune_zones(&self.machine, Locked::<L, P>(self.zones));
        self.seats.iter().for_each(|seat| seat.mailbox.notify());
    }
}
