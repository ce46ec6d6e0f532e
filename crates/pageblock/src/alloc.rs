//! The allocator: zones, CPU caches, and the fast path through them.
//!
//! Source: `__alloc_pages` / `get_page_from_freelist` / `rmqueue` / `__free_pages`
//! (mm/page_alloc.c). What follows when the fast path finds nothing is in
//! [`slowpath`](crate::slowpath), as steps for the caller.

use crate::alloc_flags::{AllocFlags, Watermark};
use crate::cpu_cache::{CpuCache, ZoneFlags};
use crate::event::{Event, NodeReclaim, Observer};
use crate::fallback::Mode;
use crate::frame::{Order, Pfn, pages};
use crate::layout::ZoneKind;
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype::{self, HighAtomic, Isolate, Movable};
use crate::policy::{
    BelowHigh, Fair, Nofragment, PcpOrders, Policy, Reserve, SkipActiveNode, WmarkCheck,
};
use crate::request::{Gfp, Request};
use crate::zone::{FrameError, Geometry, Zone};

/// Why a request could not be tried, or was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The order is larger than the largest.
    OrderTooLarge(Order),
    /// Both mobility bits are set.
    ConflictingMobility(Gfp),
    /// There is no such CPU.
    NoSuchCpu(usize),
    /// There is no such node.
    NoSuchNode(u8),
    /// No zone can serve it now; see [`slowpath`](crate::slowpath) for what to try next.
    NoMemory,
}

impl core::fmt::Display for AllocError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OrderTooLarge(order) => write!(f, "order {order} is larger than the largest"),
            Self::ConflictingMobility(gfp) => {
                write!(f, "{gfp} is both movable and reclaimable")
            }
            Self::NoSuchCpu(cpu) => write!(f, "there is no CPU {cpu}"),
            Self::NoSuchNode(node) => write!(f, "there is no node {node}"),
            Self::NoMemory => f.write_str("no zone can serve the request now"),
        }
    }
}

impl core::error::Error for AllocError {}

/// The allocator of a machine. Made by [`Allocator::new`](crate::setup).
pub struct Allocator<'m> {
    pub(crate) policy: Policy,
    pub(crate) geometry: Geometry,
    pub(crate) zones: &'m mut [Zone<'m>],
    /// One a CPU and zone, zone by zone.
    pub(crate) caches: &'m mut [CpuCache],
    pub(crate) cpu_nodes: &'m [u8],
    /// The zones of each node's list, in the order in which they are tried.
    pub(crate) zonelists: &'m [u16],
    pub(crate) kswapd_running: u64,
    pub(crate) nodes: u64,
}

/// The zone and frame that an attempt looks for.
#[derive(Clone, Copy)]
struct Attempt {
    cpu: usize,
    order: Order,
    mt: Migratetype,
    gfp: Gfp,
    highest: ZoneKind,
    node: u8,
    nodemask: u64,
}

impl<'m> Allocator<'m> {
    /// Its policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Its zones, node by node, lowest first.
    #[must_use]
    pub fn zones(&self) -> &[Zone<'m>] {
        self.zones
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpu_nodes.len()
    }

    /// A CPU's cache for a zone, by the zone's place in [`zones`](Self::zones).
    #[must_use]
    pub fn cache(&self, zone: usize, cpu: usize) -> Option<&CpuCache> {
        let known = zone < self.zones.len() && cpu < self.cpus();
        known.then(|| &self.caches[zone * self.cpus() + cpu])
    }

    /// A zone, its caches' CPU `cpu`, and the policy, for callers that take its steps one by one.
    pub fn zone_and_cache(
        &mut self,
        zone: usize,
        cpu: usize,
    ) -> Option<(&mut Zone<'m>, &mut CpuCache)> {
        let cpus = self.cpus();
        let known = zone < self.zones.len() && cpu < cpus;
        known.then(|| (&mut self.zones[zone], &mut self.caches[zone * cpus + cpu]))
    }

    /// Tells the fast path whether a node's kswapd runs (6.18 and later pass over such nodes first),
    /// and the CPU lists that reclaim is active there. A node that there is not is passed over.
    pub fn set_kswapd_running(&mut self, node: u8, running: bool) {
        let bit = 1u64.checked_shl(node.into()).unwrap_or(0);
        self.kswapd_running =
            if running { self.kswapd_running | bit } else { self.kswapd_running & !bit };
        for zone in self.zones.iter_mut().filter(|z| z.node == node) {
            zone.reclaim_active = running;
        }
    }

    /// The place in [`zones`](Self::zones) of the zone that holds a frame.
    #[inline]
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|z| {
            z.span.contains(pfn)
                && z.map.index(pfn).is_some_and(|i| z.map.state(i) != FrameState::Hole)
        })
    }

    fn attempt(&self, cpu: usize, request: &Request) -> Result<Attempt, AllocError> {
        if request.order > self.geometry.max_order {
            return Err(AllocError::OrderTooLarge(request.order));
        }
        let Some(&own) = self.cpu_nodes.get(cpu) else { return Err(AllocError::NoSuchCpu(cpu)) };
        let node = request.node.unwrap_or(own);
        if node >= 64 || self.nodes & 1 << node == 0 {
            return Err(AllocError::NoSuchNode(node));
        }
        let gfp = request.gfp;
        let mt = gfp.migratetype().ok_or(AllocError::ConflictingMobility(gfp))?;
        let mobility_off = self.zones.first().is_some_and(|z| z.mobility_off);
        let mt = if mobility_off { Migratetype::Unmovable } else { mt };
        let nodemask =
            if gfp.has(Gfp::THISNODE) { request.nodemask & 1 << node } else { request.nodemask };
        let highest = gfp.highest_zone();
        Ok(Attempt { cpu, order: request.order, mt, gfp, highest, node, nodemask })
    }

    /// Allocates a block by the fast path (`__alloc_pages` without its slow path).
    ///
    /// # Errors
    /// [`AllocError::NoMemory`] where no zone has a block above the low watermark: run
    /// [`slowpath`](crate::slowpath), or report the failure with [`report_failure`](Self::report_failure).
    /// All other variants are mistakes of the caller.
    #[inline]
    pub fn alloc(
        &mut self,
        cpu: usize,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let attempt = self.attempt(cpu, request)?;
        let flags = self.fast_flags(&attempt);
        self.try_alloc(attempt, flags, observer)
    }

    /// Makes one attempt with the given flags, as the slow path asks for it.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_with(
        &mut self,
        cpu: usize,
        request: &Request,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let attempt = self.attempt(cpu, request)?;
        self.try_alloc(attempt, flags, observer)
    }

    fn try_alloc(
        &mut self,
        attempt: Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let pfn =
            self.get_page_from_freelist(attempt, flags, observer).ok_or(AllocError::NoMemory)?;
        observer.event(Event::PageAlloc {
            pfn: Some(pfn),
            order: attempt.order,
            migratetype: attempt.mt,
            gfp: attempt.gfp,
        });
        Ok(pfn)
    }

    /// Reports that a request finally failed, as the kernel's tracepoint does.
    ///
    /// # Errors
    /// For a request that is no request.
    pub fn report_failure(
        &mut self,
        cpu: usize,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), AllocError> {
        let Attempt { order, mt, gfp, .. } = self.attempt(cpu, request)?;
        observer.event(Event::PageAlloc { pfn: None, order, migratetype: mt, gfp });
        Ok(())
    }

    /// The flags of the fast path (`prepare_alloc_pages`, `alloc_flags_nofragment`).
    #[inline]
    fn fast_flags(&self, attempt: &Attempt) -> AllocFlags {
        let mut flags = AllocFlags::WMARK_LOW.with(AllocFlags::CPUSET);
        if attempt.gfp.has(Gfp::KSWAPD_RECLAIM) {
            flags = flags.with(AllocFlags::KSWAPD);
        }
        if attempt.mt == Movable {
            flags = flags.with(AllocFlags::CMA);
        }
        if self.policy.fair == Fair::V316 || self.policy.fair == Fair::V44 {
            flags = flags.with(AllocFlags::FAIR);
        }
        if self.policy.reserve == Reserve::Highatomic73
            && attempt.order > 0
            && !attempt.gfp.has(Gfp::DIRECT_RECLAIM)
            && attempt.gfp.has(Gfp::HIGH)
            && !attempt.gfp.has(Gfp::NOMEMALLOC)
        {
            flags = flags.with(AllocFlags::HIGHATOMIC);
        }
        match self.policy.nofragment {
            Nofragment::Off => flags,
            Nofragment::DefragMode => flags.with(AllocFlags::NOFRAGMENT),
            Nofragment::On | Nofragment::SubBlock if self.can_spread(attempt) => {
                flags.with(AllocFlags::NOFRAGMENT)
            }
            Nofragment::On | Nofragment::SubBlock => flags,
        }
    }

    /// NOFRAGMENT needs a lower local zone to spill to, or that no other node be asked.
    fn can_spread(&self, attempt: &Attempt) -> bool {
        let Some(preferred) = self.preferred_zone(attempt) else { return false };
        let node = self.zones[preferred].node;
        let dma32 = || self.zones.iter().any(|z| z.node == node && z.kind == ZoneKind::Dma32);
        self.zones[preferred].kind == ZoneKind::Normal && (self.nodes.count_ones() == 1 || dma32())
    }

    fn zonelist(&self, node: u8) -> impl Iterator<Item = usize> + use<'m> {
        let zones = self.zones.len();
        let before = (self.nodes & ((1 << node) - 1)).count_ones() as usize;
        let lists = self.zonelists;
        lists[before * zones..(before + 1) * zones].iter().map(|&z| usize::from(z))
    }

    fn eligible(&self, zone: usize, attempt: &Attempt) -> bool {
        let zone = &self.zones[zone];
        zone.kind <= attempt.highest && attempt.nodemask & 1 << zone.node != 0 && zone.managed > 0
    }

    fn preferred_zone(&self, attempt: &Attempt) -> Option<usize> {
        self.zonelist(attempt.node).find(|&z| self.eligible(z, attempt))
    }

    /// Walks the zonelist until a zone serves the request (`get_page_from_freelist`).
    fn get_page_from_freelist(
        &mut self,
        attempt: Attempt,
        mut flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let preferred = self.preferred_zone(&attempt)?;
        let preferred_node = self.zones[preferred].node;
        let mut skip_active =
            self.policy.skip_active_node == SkipActiveNode::On && self.nodes.count_ones() > 1;
        let mut skipped_active = false;
        loop {
            let mut skipped_fair = false;
            let mut restart = false;
            for at in self.zonelist(attempt.node) {
                if !self.eligible(at, &attempt) {
                    continue;
                }
                let (node, local) = (self.zones[at].node, self.zones[at].node == preferred_node);
                match self.fair_test(at, local, flags, attempt.gfp) {
                    FairTest::Use => {}
                    FairTest::Skip => {
                        skipped_fair = true;
                        continue;
                    }
                    FairTest::Stop => break,
                }
                if attempt.gfp.has(Gfp::WRITE)
                    && flags.selected_watermark() == Watermark::Low
                    && !observer.node_dirty_ok(node)
                {
                    continue;
                }
                if flags.has(AllocFlags::NOFRAGMENT)
                    && self.policy.nofragment != Nofragment::DefragMode
                    && self.nodes.count_ones() > 1
                    && at != preferred
                    && !local
                {
                    flags = flags.without(AllocFlags::NOFRAGMENT);
                    restart = true;
                    break;
                }
                if skip_active && self.kswapd_running & 1 << node != 0 {
                    skipped_active = true;
                    continue;
                }
                if !self.has_watermark(at, &attempt, flags, observer) {
                    continue;
                }
                if let Some(pfn) = self.rmqueue(at, &attempt, flags, observer) {
                    return Some(pfn);
                }
            }
            if restart {
                continue;
            }
            if skip_active && skipped_active {
                skip_active = false;
            } else if self.fair_pass_again(flags, skipped_fair, preferred) {
                flags = flags.without(AllocFlags::FAIR);
            } else if flags.has(AllocFlags::NOFRAGMENT)
                && self.policy.nofragment != Nofragment::DefragMode
            {
                flags = flags.without(AllocFlags::NOFRAGMENT);
            } else {
                return None;
            }
        }
    }

    /// Whether the zone may serve, by the flag for zones under their high watermark and the
    /// watermark of the attempt.
    fn has_watermark(
        &mut self,
        at: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> bool {
        let Attempt { order, highest, .. } = *attempt;
        let zone = &mut self.zones[at];
        if self.policy.below_high == BelowHigh::On && !zone.below_high {
            if zone.watermark_fast(order, Watermark::High, highest, flags, attempt.gfp) {
                return true;
            }
            zone.below_high = true;
        }
        let Some(mark) = flags.watermark() else { return true };
        if zone.watermark_fast(order, mark, highest, flags, attempt.gfp) {
            return true;
        }
        if self.policy.zone_reclaim_mode == 0 {
            return false;
        }
        match observer.node_reclaim(zone.node, order) {
            NodeReclaim::NoScan | NodeReclaim::Full => false,
            NodeReclaim::Some => zone.watermark_ok(order, zone.watermark(mark), highest, flags),
        }
    }

    /// Takes a block from a zone, through the CPU's cache where it has a list (`rmqueue`).
    #[inline]
    fn rmqueue(
        &mut self,
        at: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Attempt { cpu, order, mt, gfp, .. } = *attempt;
        let cpus = self.cpu_nodes.len();
        let (zone, cache) = (&mut self.zones[at], &mut self.caches[at * cpus + cpu]);
        let list = cache.list_index(order, mt);
        let cached = list.and_then(|index| {
            cache.note_alloc();
            Self::rmqueue_cached(zone, cache, index, attempt, flags, observer)
        });
        let taken =
            if cached.is_some() || (list.is_some() && !zone.policy.zone_after_empty_cpu_list()) {
                cached
            } else {
                zone.rmqueue_buddy(order, mt, flags, observer)
            };
        if zone.boosted && flags.has(AllocFlags::KSWAPD) {
            zone.boosted = false;
            observer.wake_kswapd(zone.node, zone.kind, 0);
        }
        let i = taken?;
        zone.map.set(i, FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) });
        zone.counters.pgalloc += pages(order);
        zone.alloc_batch -= 1 << order;
        zone.fair_depleted |= zone.alloc_batch <= 0;
        let pfn = zone.map.pfn(i);
        if order > 0 && zone.adds_to_reserve(flags, cached.is_some()) {
            zone.reserve_highatomic(pfn, order);
        }
        Some(pfn)
    }

    #[inline]
    fn rmqueue_cached(
        zone: &mut Zone<'m>,
        cache: &mut CpuCache,
        index: usize,
        attempt: &Attempt,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        let Attempt { order, mt, .. } = *attempt;
        if let Some(i) = cache.pop(&zone.map, index) {
            return Some(i);
        }
        let to_reserve = order > 0 && flags.has(AllocFlags::HIGHATOMIC);
        if to_reserve && zone.policy.reserve >= Reserve::Highatomic72 {
            return None;
        }
        let n = cache.refill_count(&zone.policy, order, zone.below_high);
        cache.refill(zone, order, mt, n, flags, observer);
        cache.pop(&zone.map, index)
    }

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
        let at = self.zone_of(pfn).ok_or(FrameError::Foreign(pfn))?;
        let map = &self.zones[at].map;
        let i = map.index(pfn).ok_or(FrameError::Foreign(pfn))?;
        if order <= crate::frame::ORDER_LIMIT && map.is_allocated(i, order) {
            return Ok((at, i));
        }
        Err(match map.state(i) {
            FrameState::Allocated { order, .. } => FrameError::WrongOrder(pfn, order),
            _ => FrameError::NotAllocated(pfn),
        })
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
        let cache = self.caches.get_mut(at * cpus + cpu).filter(|_| cpu < cpus && mt != Isolate);
        let Some((cache, index)) = cache.and_then(|c| c.list_index(order, mt).map(|n| (c, n)))
        else {
            zone.counters.lock_acquired += 1;
            zone.free_by_block_type(i, order, None, observer);
            return;
        };
        cache.push(&zone.map, i, order, index, mt);
        let flags = ZoneFlags { reclaim_active: zone.reclaim_active, below_high: zone.below_high };
        let n = cache.pages_to_drain(&zone.policy, order, flags);
        if n > 0 {
            let drain = cache.drain(&zone.policy, n, index);
            cache.drain_to(zone, drain, observer);
            zone.leave_below_high();
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
}

/// What the fair pass says of a zone.
enum FairTest {
    Use,
    Skip,
    Stop,
}

impl Allocator<'_> {
    /// The fair zone allocator, by version (seed 3; facts 2.7).
    fn fair_test(&mut self, at: usize, local: bool, flags: AllocFlags, gfp: Gfp) -> FairTest {
        let low = flags.watermark() == Some(Watermark::Low);
        let zone = &mut self.zones[at];
        let spent = zone.alloc_batch <= 0;
        match self.policy.fair {
            Fair::Off => FairTest::Use,
            Fair::V312 if low && spent => FairTest::Skip,
            Fair::V312 if low && self.policy.zone_reclaim_mode != 0 && !local => FairTest::Skip,
            Fair::V313 if low && local && spent && !gfp.has(Gfp::THISNODE) => FairTest::Skip,
            Fair::V312 | Fair::V313 => FairTest::Use,
            Fair::V316 | Fair::V44 if !flags.has(AllocFlags::FAIR) => FairTest::Use,
            Fair::V316 | Fair::V44 if !local => FairTest::Stop,
            Fair::V316 if spent => FairTest::Skip,
            Fair::V44 if zone.fair_depleted => FairTest::Skip,
            Fair::V316 | Fair::V44 => FairTest::Use,
        }
    }

    /// Whether a fair pass that found nothing is followed by one without fairness; starts a new
    /// round of batches then. 4.4 does so only if a zone was passed over for its batch.
    fn fair_pass_again(&mut self, flags: AllocFlags, skipped: bool, preferred: usize) -> bool {
        if !flags.has(AllocFlags::FAIR) {
            return false;
        }
        let always = self.policy.fair == Fair::V316;
        if skipped || always {
            let Zone { node, kind, .. } = self.zones[preferred];
            self.zones
                .iter_mut()
                .filter(|z| z.node == node && z.kind <= kind)
                .for_each(Zone::reset_fair_batch);
        }
        skipped || always || self.nodes.count_ones() > 1
    }

    /// Starts a new round of fair batches for the zones that a request considered, as 3.12 and 3.13
    /// do on entry to the slow path, together with waking kswapd (`prepare_slowpath`). Later
    /// versions do it by themselves, and nothing happens here.
    ///
    /// # Errors
    /// For a request that is no request.
    pub fn reset_fair_batches(&mut self, cpu: usize, request: &Request) -> Result<(), AllocError> {
        let attempt = self.attempt(cpu, request)?;
        let local_only = match self.policy.fair {
            Fair::V312 => self.policy.zone_reclaim_mode != 0,
            Fair::V313 => true,
            Fair::Off | Fair::V316 | Fair::V44 => return Ok(()),
        };
        let Some(preferred) = self.preferred_zone(&attempt) else { return Ok(()) };
        let node = self.zones[preferred].node;
        for at in self.zonelist(attempt.node) {
            if self.eligible(at, &attempt) && (!local_only || self.zones[at].node == node) {
                self.zones[at].reset_fair_batch();
            }
        }
        Ok(())
    }

    /// Says whether the content of an allocated block can be moved, which claims of its pageblock
    /// take into account. A new block counts as movable if its request was.
    ///
    /// # Errors
    /// [`FrameError::Foreign`]; [`FrameError::NotAllocated`] where no block in use starts.
    pub fn set_movable(&mut self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        let at = self.zone_of(pfn).ok_or(FrameError::Foreign(pfn))?;
        let map = &self.zones[at].map;
        let i = map.index(pfn).ok_or(FrameError::Foreign(pfn))?;
        let FrameState::Allocated { order, .. } = map.state(i) else {
            return Err(FrameError::NotAllocated(pfn));
        };
        map.set(i, FrameState::Allocated { order, movable });
        Ok(())
    }
}

impl Zone<'_> {
    /// Starts a round of the fair batch: the distance of the high and the low watermark.
    pub(crate) fn reset_fair_batch(&mut self) {
        self.alloc_batch = self.watermarks.high as i64 - self.watermarks.low as i64;
        self.fair_depleted = false;
    }

    /// Tells whether CPU caches have a list for an order (`pcp_allowed_order`).
    #[inline]
    pub(crate) fn has_cpu_list(&self, order: Order) -> bool {
        order == 0
            || (self.policy.pcp_orders == PcpOrders::CostlyAndThp
                && (order <= crate::cpu_cache::COSTLY_ORDER
                    || order == self.geometry.pageblock_order))
    }

    /// Takes a block past the CPU lists (`rmqueue_buddy`).
    pub(crate) fn rmqueue_buddy(
        &mut self,
        order: Order,
        mt: Migratetype,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        self.counters.lock_acquired += 1;
        let highatomic = self.policy.reserve != Reserve::MigrateReserve;
        if order > 0
            && highatomic
            && self.reserves_for(flags)
            && let Some((i, _)) = self.rmqueue_from(order, HighAtomic, mt, observer)
        {
            return Some(i);
        }
        let mut mode = Mode::Normal;
        if let Some((i, _)) = self.rmqueue(order, mt, flags, &mut mode, observer) {
            return Some(i);
        }
        let last = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists44 => return None,
            WmarkCheck::ListExists63 => AllocFlags::OOM,
            WmarkCheck::ListExists612 => AllocFlags::OOM.with(AllocFlags::NON_BLOCK),
        };
        if !flags.has_any(last) {
            return None;
        }
        self.rmqueue_from(order, HighAtomic, mt, observer).map(|(i, _)| i)
    }

    /// Whether a block that an attempt got makes its pageblock part of the reserve.
    fn adds_to_reserve(&self, flags: AllocFlags, from_cpu_list: bool) -> bool {
        let applies = match self.policy.reserve {
            Reserve::MigrateReserve => false,
            Reserve::Highatomic44 | Reserve::Highatomic67 => true,
            Reserve::Highatomic72 => !from_cpu_list,
            Reserve::Highatomic73 => !from_cpu_list && flags.selected_watermark() == Watermark::Min,
        };
        applies && self.reserves_for(flags)
    }

    /// Whether an attempt may use the reserve of high-order blocks.
    pub(crate) fn reserves_for(&self, flags: AllocFlags) -> bool {
        match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => false,
            WmarkCheck::ListExists44 => flags.has(AllocFlags::NON_BLOCK),
            _ => flags.has(AllocFlags::HIGHATOMIC),
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
