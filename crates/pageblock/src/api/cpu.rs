//! A CPU's handle on a shared allocator.
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
//! # allocator.retune();
//! use pageblock::sharing::Shared;
//!
//! # pageblock::locks! { struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>; }
//! let mut locks = vec![std::mem::MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
//! let shared: Shared<ParkingLot> = allocator.share(&mut locks).unwrap();
//! let mut cpu = shared.cpu(CpuId(0)).unwrap();
//! let pfn = cpu.alloc(&Request::new(0, Gfp::GFP_KERNEL), &mut ()).unwrap();
//! cpu.free(pfn, 0, &mut ()).unwrap();
//! assert!(cpu.cache(ZoneIndex(0)).unwrap().count() > 0);
//! // Another CPU requests a drain, which is done at this CPU's next call.
//! let request = shared.request_drain(CpuId(0)).unwrap();
//! assert!(!shared.is_drained(request));
//! cpu.attend(&mut ());
//! assert!(shared.is_drained(request));
//! assert_eq!(cpu.cache(ZoneIndex(0)).unwrap().count(), 0);
//! ```

use crate::access::local::Local;
use crate::access::locked::Locked;
use crate::api::sharing::Shared;
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::{AllocError, FrameError};
use crate::base::event::Observer;
use crate::base::frame::{Order, Pfn};
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::base::request::Request;
use crate::percpu::cache::CpuCache;
use crate::percpu::caches::CpuCaches;
use crate::percpu::fast_path::PageFree;
use crate::percpu::mailbox::Mailbox;
use crate::policy::source::{Chosen, PolicySource};

#[cfg(doc)]
use crate::api::alloc::Allocator;

/// A CPU's handle, which owns its caches: taken by [`Shared::cpu`], returned by dropping it. It may move from
/// thread to thread, but serves one at a time.
pub struct Cpu<'s, 'm, L: Locks, I: Interrupts = (), P: PolicySource = Chosen> {
    shared: &'s Shared<'m, L, I, P>,
    caches: CpuCaches<'m, P>,
    mailbox: &'s Mailbox,
    cpu: CpuId,
}

/// A free that the fastest path does not handle. It is passed in memory, so that the fastest path saves no
/// registers for two calls.
struct Free<'a, 's, 'm, L: Locks, I: Interrupts, P: PolicySource = Chosen> {
    cpu: &'a mut Cpu<'s, 'm, L, I, P>,
    pfn: Pfn,
    order: Order,
}

impl<L: Locks, I: Interrupts, P: PolicySource> Free<'_, '_, '_, L, I, P> {
    #[inline(never)]
    fn is_done_fast(&mut self, observer: &mut impl Observer) -> bool {
        let Self { cpu, pfn, order } = self;
        !cpu.has_requests() && cpu.caches.free_again(*pfn, *order, observer)
    }

    #[inline(never)]
    fn run_asked(&mut self, observer: &mut impl Observer) -> Result<(), FrameError> {
        let Self { cpu, pfn, order } = self;
        cpu.attend(observer);
        cpu.local().free_asked(*pfn, *order, observer)
    }

    #[inline(never)]
    fn run_in_full(&mut self, observer: &mut impl Observer) -> Result<(), FrameError> {
        let Self { cpu, pfn, order } = self;
        cpu.attend(observer);
        cpu.local().free(*pfn, *order, observer)
    }
}

impl<'s, 'm, L: Locks, I: Interrupts, P: PolicySource> Cpu<'s, 'm, L, I, P> {
    pub(crate) fn new(
        shared: &'s Shared<'m, L, I, P>,
        cpu: CpuId,
        caches: CpuCaches<'m, P>,
    ) -> Self {
        let mailbox = &shared.seats[cpu.index()].mailbox;
        Self { shared, caches, mailbox, cpu }
    }

    /// Returns the CPU's number.
    #[must_use]
    pub fn number(&self) -> CpuId {
        self.cpu
    }

    /// Returns the CPU's cache for a zone; `None` if there is no such zone.
    #[must_use]
    pub fn cache(&self, zone: ZoneIndex) -> Option<&CpuCache<'m, P>> {
        self.caches.zones.get(zone.index()).map(|zone| &zone.cache)
    }

    /// Returns the shared allocator.
    #[must_use]
    pub fn shared(&self) -> &'s Shared<'m, L, I, P> {
        self.shared
    }

    /// Returns the node of the CPU.
    pub(crate) fn node_of(&self) -> NodeId {
        self.caches.node
    }

    #[inline(always)]
    pub(crate) fn local(&mut self) -> Local<'_, 'm, Locked<'_, 'm, L, P>, P> {
        let zones = Locked(self.shared.zones);
        Local { machine: &self.shared.machine, zones, caches: &mut self.caches }
    }

    #[inline(always)]
    fn has_requests(&self) -> bool {
        self.mailbox.posted() != self.caches.seen
    }

    /// Serves the pending requests of other CPUs: drains this CPU's caches and adopts new limits. Every other call
    /// does so first. A CPU that rarely allocates or frees should call this now and then.
    #[inline(always)]
    pub fn attend(&mut self, observer: &mut impl Observer) {
        if self.has_requests() {
            self.serve_requests(observer);
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_requests(&mut self, observer: &mut impl Observer) {
        let _off = Off::<I>::now();
        let received = self.mailbox.receive();
        if let Some(number) = self.mailbox.pending_drain() {
            self.local().drain(observer);
            self.mailbox.complete_drain(number);
        }
        let shared = self.shared;
        self.caches.adopt(|at| shared.locked(at, |zone| zone.cache_tuning()));
        self.caches.seen = received;
    }

    /// Allocates a block by the fast path; see [`Allocator::alloc`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let _off = Off::<I>::now();
        if !self.has_requests() {
            if let Some(pfn) = self.caches.alloc_fast(request, observer) {
                return Ok(pfn);
            }
        }
        self.walk_for(*request, None, observer)
    }

    /// The request is passed by value, so that it stays in registers on the fast path.
    #[inline(never)]
    fn walk_for(
        &mut self,
        request: Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        if flags.is_none()
            && !self.has_requests()
            && self.caches.refuses(&self.shared.machine, &request)
        {
            return Err(AllocError::NoMemory);
        }
        self.attend(observer);
        self.local().take(&request, flags, observer)
    }

    /// Makes one attempt with the given flags; see [`Allocator::alloc_with`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc`].
    pub fn alloc_with(
        &mut self,
        request: &Request,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let _off = Off::<I>::now();
        self.walk_for(*request, Some(flags), observer)
    }

    /// Reports that a request finally failed; see [`Allocator::report_failure`].
    ///
    /// # Errors
    /// For an invalid request.
    pub fn report_failure(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), AllocError> {
        self.local().report_failure(request, observer)
    }

    /// Frees a block, whichever CPU allocated it; see [`Allocator::free`].
    ///
    /// # Errors
    /// For a frame that no allocated block of this order starts at; nothing changes then. See
    /// [`sharing`](crate::sharing) for two frees at the same instant.
    #[inline(always)]
    pub fn free(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let _off = Off::<I>::now();
        if observer.decider().is_some() {
            return Free { cpu: self, pfn, order }.run_asked(observer);
        }
        if order == 0 && !self.has_requests() {
            match self.caches.free_page_fast(pfn, observer) {
                PageFree::Done => return Ok(()),
                PageFree::Other(page) => {
                    let mut free = Free { cpu: self, pfn, order: 0 };
                    if free.cpu.caches.free_other_page(page, observer) {
                        return Ok(());
                    }
                    return free.run_in_full(observer);
                }
                PageFree::No => {}
            }
        }
        let mut free = Free { cpu: self, pfn, order };
        if free.is_done_fast(observer) {
            return Ok(());
        }
        free.run_in_full(observer)
    }

    /// Drains the CPU's caches to the zones (`drain_pages`).
    pub fn drain(&mut self, observer: &mut impl Observer) {
        let _off = Off::<I>::now();
        self.local().drain(observer);
    }

    /// See [`Allocator::drain_pages`].
    pub fn drain_pages(&mut self, pages: u32, observer: &mut impl Observer) {
        let _off = Off::<I>::now();
        self.local().drain_pages(pages, observer);
    }

    /// See [`Allocator::vmstat_tick`].
    pub fn vmstat_tick(&mut self, observer: &mut impl Observer) {
        let _off = Off::<I>::now();
        self.attend(observer);
        self.local().vmstat_tick(observer);
    }

    /// See [`Allocator::set_movable`]; for a block that its caller has in use.
    ///
    /// # Errors
    /// Those of [`Allocator::set_movable`].
    pub fn set_movable(&mut self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        let machine = &self.shared.machine;
        let (at, _) = machine.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        self.shared.locked(at, |_| machine.set_movable(pfn, movable))
    }

    /// See [`Allocator::split_allocated`]; for a block that its caller has in use.
    ///
    /// # Errors
    /// Those of [`Allocator::split_allocated`].
    pub fn split_allocated(
        &mut self,
        pfn: Pfn,
        order: Order,
        into: Order,
    ) -> Result<(), FrameError> {
        let machine = &self.shared.machine;
        let (at, _) = machine.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        self.shared.locked(at, |_| machine.split_allocated(pfn, order, into))
    }

    /// See [`Allocator::reset_fair_batches`].
    ///
    /// # Errors
    /// For an invalid request.
    pub fn reset_fair_batches(&mut self, request: &Request) -> Result<(), AllocError> {
        let _off = Off::<I>::now();
        self.local().reset_fair_batches(request)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Drop for Cpu<'_, '_, L, I, P> {
    fn drop(&mut self) {
        self.attend(&mut ());
        let _off = Off::<I>::now();
        *L::lock(&self.shared.seats[self.cpu.index()].caches) =
            Some(core::mem::take(&mut self.caches));
    }
}
