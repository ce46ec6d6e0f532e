//! The allocator: zones and CPU caches, and the entry to the fast path.
//!
//! Source: `__alloc_pages` / `prepare_alloc_pages` (mm/page_alloc.c). What follows when the fast path
//! finds nothing is in [`slowpath`](crate::slowpath), as steps for the caller.

use crate::alloc_flags::AllocFlags;
use crate::cpu_cache::CpuCache;
use crate::event::{Event, Observer};
use crate::frame::{Order, Pfn};
use crate::layout::{MAX_NR_ZONES, MAX_NUMNODES, ZoneKind};
use crate::map::Index;
use crate::mobility::Migratetype::{self, Movable};
use crate::policy::{Fair, Policy, Reserve, SkipActiveNode};
use crate::request::{Gfp, Request};
use crate::zone::{Geometry, Zone};

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
    /// One bit a node.
    pub(crate) kswapd_running: u64,
    /// The first zone of each node's list that requests of each highest zone may use; [`NO_ZONE`]
    /// where there is none.
    pub(crate) first_zones: [[u16; MAX_NR_ZONES]; MAX_NUMNODES],
    /// Nothing but its watermark makes a walk pass over its first zone; see [`quick`](crate::quick).
    pub(crate) first_zone_serves: bool,
    /// The place of each node's list among the zonelists; [`NO_NODE`] where there is no such node.
    pub(crate) node_places: [u8; MAX_NUMNODES],
    pub(crate) nr_nodes: u8,
    /// Too little memory to group by mobility: every request is unmovable.
    pub(crate) mobility_off: bool,
}

/// There is no such node.
pub(crate) const NO_NODE: u8 = u8::MAX;

/// There is no such zone.
pub(crate) const NO_ZONE: u16 = u16::MAX;

/// What an attempt looks for.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) cpu: usize,
    pub(crate) order: Order,
    pub(crate) mt: Migratetype,
    pub(crate) gfp: Gfp,
    pub(crate) highest: ZoneKind,
    /// The first zone that may serve it, if it is in the node mask and has memory.
    pub(crate) first: u16,
    /// Which zonelist.
    place: u8,
    nodemask: u64,
}

impl Attempt {
    /// Tells whether a node is in the mask.
    #[inline]
    pub(crate) fn may_use(&self, node: u8) -> bool {
        self.nodemask & 1 << node != 0
    }

    /// The flags of the fast path (`prepare_alloc_pages`) where it prefers a zone.
    pub(crate) fn fast_flags(&self, preferred: &Zone<'_>) -> AllocFlags {
        preferred.fast_flags.with(self.own_flags(&preferred.policy))
    }

    /// Those of its flags that the request decides.
    #[inline(always)]
    pub(crate) fn own_flags(&self, policy: &Policy) -> AllocFlags {
        let mut flags = AllocFlags(0);
        if self.gfp.has(Gfp::KSWAPD_RECLAIM) {
            flags = flags.with(AllocFlags::KSWAPD);
        }
        if self.mt == Movable {
            flags = flags.with(AllocFlags::CMA);
        }
        if self.order > 0
            && policy.reserve == Reserve::Highatomic73
            && !self.gfp.has(Gfp::DIRECT_RECLAIM)
            && self.gfp.has(Gfp::HIGH)
            && !self.gfp.has(Gfp::NOMEMALLOC)
        {
            flags = flags.with(AllocFlags::HIGHATOMIC);
        }
        flags
    }
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

    /// The node of a CPU.
    #[must_use]
    pub fn node_of_cpu(&self, cpu: usize) -> Option<u8> {
        self.cpu_nodes.get(cpu).copied()
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
        self.first_zone_serves = self.first_zone_serves();
    }

    /// Tells whether nothing but its watermark makes a walk pass over its first zone: no fair batch,
    /// and no kswapd to keep out of the way of.
    pub(crate) fn first_zone_serves(&self) -> bool {
        self.policy.fair == Fair::Off && (!self.skips_active() || self.kswapd_running == 0)
    }

    /// Tells whether walks first pass over nodes whose kswapd runs.
    pub(crate) fn skips_active(&self) -> bool {
        self.policy.skip_active_node == SkipActiveNode::On && self.nr_nodes > 1
    }

    /// The place in [`zones`](Self::zones) of the zone that holds a frame.
    #[inline]
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.locate(pfn).map(|(at, _)| at)
    }

    /// The zone that holds a frame, and the frame's index there. In the tables of zones that
    /// interleave with others the others' frames are holes.
    #[inline]
    pub(crate) fn locate(&self, pfn: Pfn) -> Option<(usize, Index)> {
        self.zones.iter().enumerate().find_map(|(at, zone)| {
            let i = zone.map.index(pfn)?;
            (!zone.map.is_hole(i)).then_some((at, i))
        })
    }

    #[inline(always)]
    pub(crate) fn attempt(&self, cpu: usize, request: &Request) -> Result<Attempt, AllocError> {
        if request.order > self.geometry.max_order {
            return Err(AllocError::OrderTooLarge(request.order));
        }
        let Some(&own) = self.cpu_nodes.get(cpu) else { return Err(AllocError::NoSuchCpu(cpu)) };
        let node = request.node.unwrap_or(own);
        let place = self.node_places.get(usize::from(node)).copied().unwrap_or(NO_NODE);
        if place == NO_NODE {
            return Err(AllocError::NoSuchNode(node));
        }
        let gfp = request.gfp;
        let mt = gfp.migratetype().ok_or(AllocError::ConflictingMobility(gfp))?;
        let mt = if self.mobility_off { Migratetype::Unmovable } else { mt };
        let nodemask =
            if gfp.has(Gfp::THISNODE) { request.nodemask & 1 << node } else { request.nodemask };
        let highest = gfp.highest_zone();
        let first = self.first_zones[usize::from(node)][highest as usize];
        Ok(Attempt { cpu, order: request.order, mt, gfp, highest, first, place, nodemask })
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
        match self.take_warm(&attempt, observer) {
            Some(pfn) => Ok(pfn),
            None => self.walk_for(cpu, *request, None, observer),
        }
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
        self.walk_for(cpu, *request, Some(flags), observer)
    }

    /// Walks the zonelist, with the flags of the fast path if none are given. The request comes by
    /// value, so that the short way needs no place in memory for it.
    #[inline(never)]
    fn walk_for(
        &mut self,
        cpu: usize,
        request: Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let attempt = self.attempt(cpu, &request)?;
        let preferred = self.preferred_zone(&attempt).ok_or(AllocError::NoMemory)?;
        let flags = flags.unwrap_or_else(|| attempt.fast_flags(&self.zones[preferred]));
        self.get_page_from_freelist(&attempt, preferred, flags, observer)
            .ok_or(AllocError::NoMemory)
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

    #[inline]
    pub(crate) fn zonelist(&self, attempt: &Attempt) -> impl Iterator<Item = usize> + use<'m> {
        let zones = self.zones.len();
        let lists = self.zonelists;
        lists[usize::from(attempt.place) * zones..][..zones].iter().map(|&z| usize::from(z))
    }

    #[inline]
    pub(crate) fn eligible(&self, zone: usize, attempt: &Attempt) -> bool {
        let zone = &self.zones[zone];
        zone.kind <= attempt.highest && attempt.may_use(zone.node) && zone.managed > 0
    }

    #[inline]
    pub(crate) fn preferred_zone(&self, attempt: &Attempt) -> Option<usize> {
        self.zonelist(attempt).find(|&z| self.eligible(z, attempt))
    }
}
