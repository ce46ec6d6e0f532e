//! The allocator: zones and CPU caches, and the entry to the fast path.
//!
//! Source: `__alloc_pages` / `prepare_alloc_pages` (mm/page_alloc.c). What follows when the fast path
//! finds nothing is in [`slowpath`](crate::slowpath), as steps for the caller.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! let request = Request::new(3, Gfp::GFP_KERNEL);
//! let pfn = allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
//! assert!(pfn.is_aligned(3));
//! allocator.free(CpuId(0), pfn, 3, &mut ()).unwrap();
//! // Freed twice: an error, and nothing changes.
//! assert!(allocator.free(CpuId(0), pfn, 3, &mut ()).is_err());
//! ```

use crate::access::local::{Local, Owned};
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::FrameError;
pub use crate::base::error::{AllocError, NoSuchCpu};
use crate::base::event::Observer;
use crate::base::frame::{Order, Pfn};
use crate::base::geometry::Geometry;
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::request::Request;
use crate::base::sync::Relaxed;
use crate::percpu::cache::CpuCache;
use crate::percpu::caches::CpuCaches;
use crate::percpu::machine::Machine;
use crate::policy::Policy;
use crate::policy::source::{Chosen, PolicySource};
use crate::table::movement::Movements;
use crate::zone::{Zone, ZoneCounters};

/// The allocator of a machine with one owner, which acts for every CPU. Created by
/// [`Allocator::new`](crate::setup). [`share`](Self::share) lets CPUs work at the same time.
pub struct Allocator<'m, P: PolicySource = Chosen> {
    pub(crate) machine: Machine<'m, P>,
    pub(crate) zones: &'m mut [Zone<'m, P>],
    /// The caches of each CPU, one per zone.
    pub(crate) caches: &'m mut [CpuCaches<'m, P>],
}

impl<'m, P: PolicySource> Allocator<'m, P> {
    /// Returns its policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.machine.policy
    }

    /// Returns its pageblock order and largest order.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.machine.geometry
    }

    /// Returns the [movements](Zone::movements) of all zones.
    #[must_use]
    pub fn movements(&self) -> Option<Movements> {
        self.zones.iter().map(Zone::movements).try_fold(Movements::default(), |sum, of_zone| {
            let Movements { all, mixed } = of_zone?;
            Some(Movements { all: sum.all + all, mixed: sum.mixed + mixed })
        })
    }

    /// Returns its zones, node by node, lowest first.
    #[must_use]
    pub fn zones(&self) -> &[Zone<'m, P>] {
        self.zones
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.caches.len()
    }

    /// Returns the node of a CPU.
    #[must_use]
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.caches.get(cpu.index()).map(|caches| caches.node)
    }

    /// Returns a CPU's cache for a zone.
    #[must_use]
    pub fn cache(&self, zone: ZoneIndex, cpu: CpuId) -> Option<&CpuCache<'m, P>> {
        Some(&self.caches.get(cpu.index())?.zones.get(zone.index())?.cache)
    }

    /// Returns a zone and the CPU's cache for it, for callers that run single steps of the allocator.
    pub fn zone_and_cache(
        &mut self,
        zone: ZoneIndex,
        cpu: CpuId,
    ) -> Option<(&mut Zone<'m, P>, &mut CpuCache<'m, P>)> {
        let cache = self.caches.get_mut(cpu.index())?.zones.get_mut(zone.index())?.flushed();
        // The caller may change the inputs of the snapshot and of the keep rule.
        self.machine.snapshots[zone.index()].invalidate();
        cache.forget_keep_rule();
        Some((&mut self.zones[zone.index()], cache))
    }

    /// Returns the flags of the first attempt of every request that prefers this zone; each request adds its own
    /// (`alloc_flags_nofragment`).
    #[must_use]
    pub fn first_flags(&self, zone: ZoneIndex) -> Option<AllocFlags> {
        self.machine.snapshots.get(zone.index()).map(|snapshot| snapshot.fast_flags)
    }

    /// Returns the counters of a zone, including those of all CPUs; `None` if there is no such zone.
    #[must_use]
    pub fn counters(&self, zone: ZoneIndex) -> Option<ZoneCounters> {
        let own = *self.zones.get(zone.index())?.counters();
        let caches = CpuId::up_to(self.cpus()).filter_map(|cpu| self.cache(zone, cpu));
        Some(caches.fold(own, |sum, cache| sum.and(&cache.counters())))
    }

    /// Sets whether a node's kswapd runs: walks of 6.18 and later skip such nodes at first, and CPU lists drain
    /// more. Unknown nodes are ignored.
    pub fn set_kswapd_running(&mut self, node: NodeId, running: bool) {
        if let Some(runs) = self.machine.kswapd_running.get(node.index()) {
            runs.store(running, Relaxed);
        }
        for (zone, snapshot) in self.zones.iter_mut().zip(self.machine.snapshots) {
            if zone.node() == node {
                zone.set_reclaim_active(running);
            }
            snapshot.invalidate();
        }
    }

    /// Returns the zone that holds a frame.
    #[inline]
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<ZoneIndex> {
        self.machine.locate(pfn).map(|(at, _)| at)
    }

    /// Returns a CPU's critical section; `None` if there is no such CPU.
    #[inline(always)]
    pub(crate) fn local(&mut self, cpu: CpuId) -> Option<Local<'_, 'm, Owned<'_, 'm, P>, P>> {
        let caches = self.caches.get_mut(cpu.index())?;
        Some(Local { machine: &self.machine, zones: Owned(self.zones), caches })
    }

    /// Returns a CPU's critical section for a request.
    pub(crate) fn local_for(
        &mut self,
        cpu: CpuId,
        order: Order,
    ) -> Result<Local<'_, 'm, Owned<'_, 'm, P>, P>, AllocError> {
        let max_order = self.machine.geometry.max_order;
        let error = AllocError::NoSuchCpu(cpu);
        let error = if order > max_order { AllocError::OrderTooLarge(order) } else { error };
        self.local(cpu).ok_or(error)
    }

    /// Allocates a block by the fast path (`__alloc_pages` without its slow path).
    ///
    /// # Errors
    /// [`AllocError::NoMemory`] where no zone has a block above the low watermark: run
    /// [`slowpath`](crate::slowpath), or report the failure with [`report_failure`](Self::report_failure).
    /// The other variants are mistakes of the caller.
    #[inline(always)]
    pub fn alloc(
        &mut self,
        cpu: CpuId,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        match self
            .caches
            .get_mut(cpu.index())
            .and_then(|caches| caches.alloc_fast(request, observer))
        {
            Some(pfn) => Ok(pfn),
            None => self.walk_for(cpu, *request, None, observer),
        }
    }

    /// The request is passed by value, so that it stays in registers on the fast path.
    #[inline(never)]
    fn walk_for(
        &mut self,
        cpu: CpuId,
        request: Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let refused = flags.is_none()
            && self
                .caches
                .get(cpu.index())
                .is_some_and(|caches| caches.refuses(&self.machine, &request));
        // In builds with assertions the walk must agree.
        if refused && !cfg!(debug_assertions) {
            return Err(AllocError::NoMemory);
        }
        let taken = self.local_for(cpu, request.order)?.take(&request, flags, observer);
        debug_assert!(!refused || taken == Err(AllocError::NoMemory), "{request:?} was refused");
        taken
    }

    /// Makes one attempt with the given flags, as the slow path asks for it.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_with(
        &mut self,
        cpu: CpuId,
        request: &Request,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        self.walk_for(cpu, *request, Some(flags), observer)
    }

    /// Reports that a request finally failed, as the kernel's tracepoint does.
    ///
    /// # Errors
    /// For an invalid request.
    pub fn report_failure(
        &mut self,
        cpu: CpuId,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), AllocError> {
        self.local_for(cpu, request.order)?.report_failure(request, observer)
    }

    /// See [`Local::reset_fair_batches`].
    pub(crate) fn new_fair_round(
        &mut self,
        cpu: CpuId,
        request: &Request,
    ) -> Result<(), AllocError> {
        self.local_for(cpu, request.order)?.reset_fair_batches(request)
    }
}

impl<P: PolicySource> Allocator<'_, P> {
    /// Returns the zones that a request may use, in the order in which it tries them.
    ///
    /// # Errors
    /// For an invalid request.
    pub fn zones_for(
        &self,
        cpu: CpuId,
        request: &Request,
    ) -> Result<impl Iterator<Item = ZoneIndex>, AllocError> {
        let own = self.node_of_cpu(cpu).ok_or(AllocError::NoSuchCpu(cpu))?;
        let attempt = self.machine.attempt(own, request)?;
        Ok(self.machine.zonelist(&attempt).filter(move |&at| {
            let zone = &self.zones[at.index()];
            zone.kind() <= attempt.highest && attempt.may_use(zone.node()) && zone.managed() > 0
        }))
    }
}

impl<P: PolicySource> Allocator<'_, P> {
    /// Starts a new round of fair batches for the zones that a request considered, as 3.12 and 3.13
    /// do on entry to the slow path, together with waking kswapd (`prepare_slowpath`). Later
    /// versions do it in the walk, and nothing happens here.
    ///
    /// # Errors
    /// For an invalid request.
    pub fn reset_fair_batches(&mut self, cpu: CpuId, request: &Request) -> Result<(), AllocError> {
        self.new_fair_round(cpu, request)
    }
}

impl<P: PolicySource> Allocator<'_, P> {
    /// Splits an allocated block into allocated blocks of a smaller order (`split_page`).
    ///
    /// # Errors
    /// Those of [`free`](Self::free); [`FrameError::OrderTooLarge`] where the new order is larger.
    pub fn split_allocated(
        &mut self,
        pfn: Pfn,
        order: Order,
        into: Order,
    ) -> Result<(), FrameError> {
        self.machine.split_allocated(pfn, order, into)
    }
}
