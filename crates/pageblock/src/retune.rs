//! Zones and CPU caches tuned for the memory that there is.
//!
//! A zone's numbers change under its lock. The limits of caches are left with the zone, as a cache is its
//! CPU's: the owner of all gives them to each cache, a CPU that shares the allocator fetches them when it
//! is told.
//!
//! Source: `__setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`, `zone_set_pageset_high_and_batch`
//! (mm/page_alloc.c).

use lock_api::RawMutex;

use crate::alloc::Allocator;
use crate::cpu_cache::CacheLimits;
use crate::interrupts::{Interrupts, Off};
use crate::layout::{MAX_NR_ZONES, ZoneKind};
use crate::mobility::MIGRATE_PCPTYPES;
use crate::policy::Reserve;
use crate::reach::Reach;
use crate::row::{CpuZone, Row};
use crate::sharing::Shared;
use crate::sync::Relaxed;
use crate::tuning;
use crate::zone::Zone;

#[cfg(doc)]
use crate::cpu::Cpu;

/// The limits of a zone's CPU caches, and how often they were set.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheTuning {
    limits: CacheLimits,
    times: u32,
}

/// What the zones share.
struct Share {
    lowmem_pages: u64,
    min_free_kbytes: u64,
    mobility_off: bool,
}

impl Share {
    fn of<'m>(reach: &impl Reach<'m>) -> Self {
        let machine = reach.machine();
        let (policy, order) = (&machine.policy, machine.geometry.pageblock_order);
        let zones = || machine.fronts.iter().enumerate().map(|(at, f)| (f.kind, reach.managed(at)));
        let total: u64 = zones().map(|(_, managed)| managed).sum();
        // At boot the watermarks are still zero, so every managed page counts.
        let low = || zones().filter(|&(kind, _)| kind <= ZoneKind::Normal).map(|(_, n)| n);
        let buffer: u64 = low().sum();
        let populated = low().filter(|&managed| managed > 0).count() as u64;
        let raised = tuning::khugepaged_min_free_kbytes(populated, order, buffer);
        let lowmem_kbytes = tuning::KBYTES_PER_PAGE * buffer;
        Self {
            lowmem_pages: tuning::lowmem_pages(policy, zones()),
            min_free_kbytes: tuning::min_free_kbytes(policy, lowmem_kbytes, Some(raised)),
            mobility_off: total
                < machine.geometry.pageblock_pages() * (MIGRATE_PCPTYPES as u64 + 1),
        }
    }
}

/// Tunes every zone; the caches are still to be told.
fn retune_zones<'m>(reach: &mut impl Reach<'m>) {
    let share = Share::of(reach);
    reach.machine().mobility_off.store(share.mobility_off, Relaxed);
    for at in 0..reach.machine().fronts.len() {
        let (node, kind) = (reach.machine().fronts[at].node, reach.machine().fronts[at].kind);
        let mut managed = [0; MAX_NR_ZONES];
        for (other, front) in reach.machine().fronts.iter().enumerate() {
            if front.node == node {
                managed[front.kind as usize] = reach.managed(other);
            }
        }
        let reserve = tuning::lowmem_reserve(tuning::LOWMEM_RESERVE_RATIO, managed);
        reach.with_zone(at, |zone| zone.retune(&share, reserve[kind as usize]));
        tune_caches(reach, at);
    }
}

/// Computes the limits of a zone's caches.
fn tune_caches<'m>(reach: &mut impl Reach<'m>, at: usize) {
    let node = reach.machine().fronts[at].node;
    let cpus = match reach.cpu_nodes().filter(|&other| other == node).count() {
        0 => reach.cpu_nodes().count(),
        local => local,
    };
    reach.with_zone(at, |zone| zone.tune_caches(cpus as u64));
}

impl Zone<'_> {
    fn retune(&mut self, share: &Share, reserve: [u64; MAX_NR_ZONES]) {
        let &Share { lowmem_pages, min_free_kbytes, mobility_off } = share;
        self.mobility_off = mobility_off;
        self.watermarks = tuning::watermarks(
            &self.policy,
            self.kind,
            self.managed,
            lowmem_pages,
            min_free_kbytes,
        );
        self.boost = 0;
        self.lowmem_reserve = reserve;
        self.reset_fair_batch();
        if self.policy.reserve == Reserve::MigrateReserve {
            self.setup_migrate_reserve();
        }
    }

    fn tune_caches(&mut self, cpus: u64) {
        let low = self.watermarks.low + self.boost;
        let sizes = tuning::pcp_sizes(&self.policy, self.managed, low, cpus);
        let pages = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.cache_tuning.limits = CacheLimits {
            batch: pages(sizes.batch),
            high_min: pages(sizes.high_min),
            high_max: pages(sizes.high_max),
        };
        self.cache_tuning.times = self.cache_tuning.times.wrapping_add(1);
    }
}

impl CpuZone<'_> {
    /// Gives the cache its limits, if they were set since.
    fn adopt(&mut self, tuning: CacheTuning) {
        if self.tuned != tuning.times {
            self.tuned = tuning.times;
            self.settled().set_limits(tuning.limits);
        }
    }
}

impl Row<'_> {
    /// Gives every cache its limits; `tuning` knows them by zone.
    pub(crate) fn adopt(&mut self, mut tuning: impl FnMut(usize) -> CacheTuning) {
        self.zones.iter_mut().enumerate().for_each(|(at, zone)| zone.adopt(tuning(at)));
    }
}

impl Allocator<'_> {
    /// Computes watermarks, reserves and CPU-list sizes from the zones' managed pages and the
    /// policy's knobs (`setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve`,
    /// `zone_set_pageset_high_and_batch`). Boosts end.
    ///
    /// Up to 4.3 it also sets up the migrate reserve, which takes only pageblocks that were released
    /// whole: call it when all memory is released, as the kernel does.
    pub fn retune(&mut self) {
        retune_zones(self);
        self.tell_caches();
    }

    /// Computes the limits of a zone's CPU caches from its low watermark. `at` is the zone's place
    /// in [`zones`](Self::zones).
    pub fn retune_caches(&mut self, at: usize) {
        if at < self.zones.len() {
            tune_caches(self, at);
            self.tell_caches();
        }
    }

    /// Caches get the limits that were computed while they could not.
    pub(crate) fn tell_caches(&mut self) {
        let zones = &*self.zones;
        self.rows.iter_mut().for_each(|row| row.adopt(|at| zones[at].cache_tuning));
    }
}

impl<R: RawMutex, I: Interrupts> Shared<'_, R, I> {
    /// [`Allocator::retune`] while CPUs work: one zone after the other. The caches of a CPU have the
    /// new limits from its next call on ([`Cpu::attend`] at the latest).
    pub fn retune(&self) {
        let _off = Off::<I>::now();
        // Who comes last has seen what all before have changed.
        let _alone = self.tuning.lock();
        retune_zones(&mut &*self);
        self.seats.iter().for_each(|seat| seat.news.tell());
    }
}
