//! Any number of CPUs at once.
//!
//! [`Allocator::share`] puts each zone behind a lock and makes a [`Cpu`] handle the owner of each CPU's
//! caches. The code that runs is the single owner's.
//!
//! * *A CPU owns its caches.* A [`Cpu`] is taken once ([`Shared::cpu`]) and used as `&mut`; an
//!   allocation or a free that its lists can serve takes no lock. With linked frames (every preset) it has no atomic
//!   read-modify-write. Under packed placement it has one for a block of up to four pages of a pageblock that
//!   another CPU owns.
//! * *A zone's lock is taken for a batch:* to refill or drain a list, and for blocks of orders without
//!   a list. Policies with a fair zone allocator (3.12 to 4.7) take it for each block.
//! * *A block may be freed by any CPU.* It goes to the lists of the CPU that frees it.
//! * *Another CPU's caches* are drained at its next call after a [request](Shared::request_drain),
//!   or at once where its handle is not taken ([`Shared::drain_all`] does both).
//! * *Memory hotplug* works meanwhile: [`Cpu::offline`] empties a range while others work, as
//!   [`Cpu::alloc_contig_range`] does; [`Shared::online`], [`Shared::mark_holes`] and
//!   [`Shared::fill_holes`] hold the zone's lock; see [`hotplug`](crate::hotplug).
//! * *Numbers read without the lock* ([`Shared::free_pages`], and those that watermark checks use)
//!   may lag by what the holder of the zone's lock is moving: at most one batch, or one block, however
//!   many CPUs there are. [`Shared::with_zone`] reads exactly.
//!
//! # Mistakes of callers
//!
//! A free is checked against the frame's state at the start of the call. So a second free that starts
//! after the first has returned, and is ordered after it (the same thread, or synchronised with it),
//! is always an error that changes nothing, whichever CPUs made the two.
//!
//! As the check and the change are not one step, two frees of one frame *at the same instant* can both succeed:
//! both CPUs read the state before either has written it. Then both have the frame on a list, and, where
//! frames have a state byte, may each allocate it. No other frame is affected, as long as neither CPU is delayed between its
//! read of the state and its last write (a few instructions, with interrupts disabled in a kernel) for so
//! long that the other drains the frame to its zone:
//!
//! * A list's first blocks are stored in the CPU's own memory, where no other CPU writes.
//! * Backward links carry the CPU's tag, so that a list which runs into another CPU's is detected
//!   where the two meet, and repaired: the frame is dropped, with blocks that cannot be reached any more, and
//!   [`strays`](crate::cpu_cache::CpuCache::strays) counts it.
//! * A block is checked again when it leaves a list, for a request or (under the zone's lock) for the
//!   zone: if it is on no CPU list any more, it is dropped as well.
//!
//! Under packed placement, but for policies older than 6.12, frames have four bits each. Whether a page is in use is the
//! exclusive or of two bits: the CPU that owns the pageblock changes one by a load and a store, and all others change the
//! other by an atomic operation. Nothing else changes these bits, so a second free that starts after the first is an
//! error, whatever happens to the frames beside it. If two frees of a page at the same instant both succeed, they
//! cancel out: the page is *lost*. It stays in use, both lists drop it, and it is never handed out before it is freed
//! once more. If the owner allocates it again before the second free takes effect, that one frees the new owner's block
//! (below), or the page is lost for good, out of use and on no list. Frames beside it are not affected, with the same
//! exception as above: if the owner is delayed between its load and its store until others have drained the
//! whole pageblock, split it and handed it out again, the seven frames in the same byte may be affected.
//!
//! A double free of a frame that was allocated again in between frees the new owner's block,
//! here as in every allocator.
//!
//! # Example
//!
//! ```
//! use std::mem::MaybeUninit;
//! use pageblock::alloc::Allocator;
//! use pageblock::frame::FrameRange;
//! use pageblock::ids::{CpuId, NodeId};
//! use pageblock::layout::{ZoneKind, ZoneSpec};
//! use pageblock::policy::Policy;
//! use pageblock::request::{Gfp, Request};
//! use pageblock::setup::Setup;
//! use pageblock::sharing::Shared;
//!
//! // Any mutex will do.
//! pageblock::locks! {
//!     struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
//! }
//!
//! let span = FrameRange::new(0, 1 << 14);
//! let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! let setup = Setup::new(Policy::parse("linux-6.12").unwrap(), &zones, &[NodeId(0), NodeId(0)]);
//! let mut tables = vec![MaybeUninit::uninit(); setup.metadata_size()?];
//! let mut allocator = Allocator::new(&mut tables, &setup)?;
//! allocator.release(span)?;
//! allocator.retune();
//!
//! let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
//! let shared: Shared<ParkingLot> = allocator.share(&mut locks)?;
//! std::thread::scope(|scope| {
//!     for n in CpuId::up_to(2) {
//!         let mut cpu = shared.cpu(n).expect("nobody has it");
//!         scope.spawn(move || {
//!             let pfn = cpu.alloc(&Request::new(0, Gfp::GFP_KERNEL), &mut ()).unwrap();
//!             cpu.free(pfn, 0, &mut ()).unwrap();
//!         });
//!     }
//! });
//! let allocator = shared.into_owned()?;
//! assert!(allocator.check().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::policy::source::{Chosen, PolicySource};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::access::local::{Access, Local};
use crate::access::locked::Locked;
use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::api::setup::{Setup, SetupError};
use crate::base::error::NoSuchCpu;
use crate::base::geometry::Geometry;
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::base::sync::Relaxed;
use crate::percpu::cache::CpuCache;
use crate::percpu::caches::CpuCaches;
use crate::percpu::machine::Machine;
use crate::percpu::mailbox::Mailbox;
use crate::policy::Policy;
use crate::table::memory::{Tables, TablesLayout};
use crate::zone::Zone;
use crate::zone::check::Violation;
use crate::zone::stat::ZoneStat;

/// An allocator that CPUs share: its zones behind the locks that `L` makes, its caches owned by CPU handles.
/// Interrupts are turned off by `I`. See the [module](self).
pub struct Shared<'m, L: Locks, I = (), P: PolicySource = Chosen> {
    pub(crate) machine: Machine<'m, P>,
    pub(crate) zones: &'m [L::Mutex<Zone<'m, P>>],
    pub(crate) seats: &'m [Seat<'m, L, P>],
    /// Held while zones are tuned.
    pub(crate) tuning: L::Mutex<()>,
    /// Where the zones and caches of caches come from, and return to.
    home: (&'m mut [Zone<'m, P>], &'m mut [CpuCaches<'m, P>]),
    interrupts: PhantomData<fn() -> I>,
}

/// Where a CPU's caches lie while no one has its handle. One to a pair of cache lines, as other CPUs
/// write to theirs.
#[repr(align(128))]
pub(crate) struct Seat<'m, L: Locks, P: PolicySource> {
    pub(crate) caches: L::Mutex<Option<CpuCaches<'m, P>>>,
    pub(crate) mailbox: Mailbox,
}

/// Why a CPU's handle is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CpuError {
    /// There is no such CPU.
    NoSuchCpu(CpuId),
    /// Its handle is taken.
    Taken(CpuId),
}

impl core::fmt::Display for CpuError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoSuchCpu(cpu) => write!(f, "{}", NoSuchCpu(*cpu)),
            Self::Taken(cpu) => write!(f, "the handle of CPU {cpu} is taken"),
        }
    }
}

impl core::error::Error for CpuError {}

/// A requested drain; see [`Shared::request_drain`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrainRequest {
    /// The CPU.
    pub cpu: CpuId,
    /// The number of the request to that CPU.
    pub number: u32,
}

fn sharing_size<L: Locks, P: PolicySource>(zones: usize, cpus: usize) -> usize {
    let zones = TablesLayout::default().and::<L::Mutex<Zone<'_, P>>>(zones);
    let all = zones.and_then(|tables| tables.and::<Seat<'_, L, P>>(cpus));
    all.map_or(usize::MAX, TablesLayout::size)
}

impl Setup<'_> {
    /// Returns what [`Allocator::sharing_size`] will be.
    #[must_use]
    pub fn sharing_size<L: Locks>(&self) -> usize {
        sharing_size::<L, Chosen>(self.zones.len(), self.cpu_nodes.len())
    }
}

impl<'m, P: PolicySource> Allocator<'m, P> {
    /// Returns the memory that [`share`](Self::share) needs, in bytes; a fixed part of it for each zone and
    /// CPU, nothing for a frame.
    #[must_use]
    pub fn sharing_size<L: Locks>(&self) -> usize {
        sharing_size::<L, P>(self.zones.len(), self.cpus())
    }

    /// Lets CPUs share the allocator, with [locks](mod@crate::locks) in memory that the caller supplies.
    ///
    /// # Errors
    /// [`SetupError::Memory`] where the memory is smaller than [`sharing_size`](Self::sharing_size).
    pub fn share<L: Locks, I: Interrupts>(
        self,
        memory: &'m mut [MaybeUninit<u8>],
    ) -> Result<Shared<'m, L, I, P>, SetupError> {
        let size = self.sharing_size::<L>();
        if memory.len() < size {
            return Err(SetupError::Memory(size));
        }
        let Self { machine, zones, caches } = self;
        let mut tables = Tables::new(memory);
        let locked = tables.take(zones.len(), |at| {
            let away = zones[at].placeholder();
            L::mutex(core::mem::replace(&mut zones[at], away))
        });
        let seats = tables.take(caches.len(), |cpu| {
            let caches = CpuCaches { seen: 0, ..core::mem::take(&mut caches[cpu]) };
            Seat { caches: L::mutex(Some(caches)), mailbox: Mailbox::new() }
        });
        let (Some(locked), Some(seats)) = (locked, seats) else {
            return Err(SetupError::Memory(size));
        };
        for (zone, snapshot) in locked.iter_mut().zip(machine.snapshots) {
            snapshot.refresh(L::get_mut(zone), machine.first_zone_serves());
        }
        let (tuning, home) = (L::mutex(()), (zones, caches));
        Ok(Shared { machine, zones: locked, seats, tuning, home, interrupts: PhantomData })
    }
}

impl<'m, L: Locks, I: Interrupts, P: PolicySource> Shared<'m, L, I, P> {
    /// Returns its policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.machine.policy
    }

    /// Returns its sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.machine.geometry
    }

    /// Returns the number of zones.
    #[must_use]
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.seats.len()
    }

    /// Takes the handle of a CPU, which owns its caches until it is dropped.
    ///
    /// # Errors
    /// [`CpuError`] where there is no such CPU, or its handle is taken.
    pub fn cpu(&self, cpu: CpuId) -> Result<Cpu<'_, 'm, L, I, P>, CpuError> {
        let seat = self.seats.get(cpu.index()).ok_or(CpuError::NoSuchCpu(cpu))?;
        let off = Off::<I>::now();
        let caches = L::lock(&seat.caches).take();
        drop(off);
        caches.map(|caches| Cpu::new(self, cpu, caches)).ok_or(CpuError::Taken(cpu))
    }

    /// Runs `act` on a zone with its lock held; `None` where there is no such zone. Provides access to all
    /// that a [`Zone`] does and to its exact numbers.
    pub fn with_zone<T>(
        &self,
        zone: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> Option<T> {
        (zone.index() < self.zones.len()).then(|| self.locked(zone, act))
    }

    pub(crate) fn locked<T>(&self, at: ZoneIndex, act: impl FnOnce(&mut Zone<'m, P>) -> T) -> T {
        let _off = Off::<I>::now();
        Locked::<L, P>(self.zones).with(&self.machine, at, act)
    }

    /// Reads a CPU's cache for a zone; `None` while its handle is taken, or where there is no such cache.
    pub(crate) fn with_cache<T>(
        &self,
        zone: ZoneIndex,
        cpu: CpuId,
        read: impl FnOnce(&CpuCache<'m, P>) -> T,
    ) -> Option<T> {
        let seat = self.seats.get(cpu.index())?;
        let _off = Off::<I>::now();
        let caches = L::lock(&seat.caches);
        caches.as_ref()?.zones.get(zone.index()).map(|of_zone| read(&of_zone.cache))
    }

    /// Returns the zone's free pages, without its lock; see the [module](self) for how far it may lag. `None`
    /// where there is no such zone.
    #[must_use]
    pub fn free_pages(&self, zone: ZoneIndex) -> Option<u64> {
        self.machine.snapshots.get(zone.index()).map(ZoneStat::free_pages)
    }

    /// Asks a CPU to drain its caches, which it does at its next call or when its
    /// handle is dropped. `None` where there is no such CPU.
    pub fn request_drain(&self, cpu: CpuId) -> Option<DrainRequest> {
        let number = self.seats.get(cpu.index())?.mailbox.request_drain();
        Some(DrainRequest { cpu, number })
    }

    /// Returns whether a CPU has done a requested drain. If its handle has been dropped meanwhile,
    /// this drains its caches.
    pub fn is_drained(&self, request: DrainRequest) -> bool {
        let Some(seat) = self.seats.get(request.cpu.index()) else { return true };
        if seat.mailbox.is_done(request.number) {
            return true;
        }
        // A caller that wants the handle meanwhile waits for this lock.
        let _off = Off::<I>::now();
        if let Some(caches) = &mut *L::lock(&seat.caches) {
            if let Some(number) = seat.mailbox.pending_drain() {
                Local { machine: &self.machine, zones: Locked::<L, P>(self.zones), caches }
                    .drain(&mut ());
                seat.mailbox.complete_drain(number);
            }
        }
        seat.mailbox.is_done(request.number)
    }

    /// Drains all caches whose handles are not taken, and asks the other CPUs to drain theirs
    /// (`drain_all_pages`). Returns the number of the CPUs asked.
    pub fn drain_all(&self) -> usize {
        let requests = CpuId::up_to(self.cpus()).filter_map(|cpu| self.request_drain(cpu));
        requests.filter(|&request| !self.is_drained(request)).count()
    }

    /// See [`Allocator::set_kswapd_running`].
    pub fn set_kswapd_running(&self, node: NodeId, running: bool) {
        if let Some(runs) = self.machine.kswapd_running.get(node.index()) {
            runs.store(running, Relaxed);
        }
        for (at, snapshot) in self.machine.zones() {
            self.with_zone(at, |zone| {
                if snapshot.node == node {
                    zone.set_reclaim_active(running);
                }
            });
        }
    }

    /// Verifies every zone, one after the other, while CPUs work: lists, page map and counters
    /// against each other ([`Zone::check`]). What lies in CPU caches is verified by
    /// [`Cpu::check`] and [`Allocator::check`].
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn check_zones(&self) -> Result<(), Violation> {
        ZoneIndex::up_to(self.zones.len())
            .try_for_each(|at| self.with_zone(at, |z| z.check()).unwrap_or(Ok(())))
    }

    /// Ends the sharing.
    ///
    /// # Errors
    /// [`CpuError::Taken`] where a handle was leaked (`mem::forget`): what is in its caches is lost.
    pub fn into_owned(self) -> Result<Allocator<'m, P>, CpuError> {
        if let Some(cpu) = self.seats.iter().position(|seat| L::lock(&seat.caches).is_none()) {
            return Err(CpuError::Taken(CpuId(cpu)));
        }
        let (zones, caches) = self.home;
        for (home, zone) in zones.iter_mut().zip(self.zones) {
            core::mem::swap(home, &mut L::lock(zone));
        }
        for (home, seat) in caches.iter_mut().zip(self.seats) {
            *home = L::lock(&seat.caches).take().unwrap_or_default();
        }
        self.machine.snapshots.iter().for_each(crate::percpu::snapshot::ZoneSnapshot::invalidate);
        let mut allocator = Allocator { machine: self.machine, zones, caches };
        allocator.adopt_limits();
        Ok(allocator)
    }
}
