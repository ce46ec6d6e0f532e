//! The allocators under test, behind a common trait.

use std::mem::MaybeUninit;

use buddy_system_allocator::FrameAllocator;
use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;

pageblock::locks! {
    /// The locks of zones.
    pub struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

/// An allocator of page frames, as used by the patterns.
pub trait Subject {
    /// Its name in the results.
    const NAME: &'static str;

    /// Whether its memory is limited, so that a request can fail.
    const FAILS: bool = true;

    /// Makes an allocator of this many frames, all free.
    fn new(frames: u64) -> Self;

    /// Allocates a block; returns its first frame.
    fn alloc(&mut self, order: Order) -> Option<u64>;

    /// Frees a block.
    fn free(&mut self, frame: u64, order: Order);

    /// Allocates a block, even from the reserves.
    fn alloc_last(&mut self, order: Order) -> Option<u64> {
        self.alloc(order)
    }

    /// Drains a thread's caches, as kernels do before they declare memory exhausted.
    fn drain(&mut self) {}
}

/// An allocator that threads can use concurrently.
pub trait SharedSubject: Subject + Send {
    /// Makes a handle for each thread on one allocator of this many frames.
    fn handles(frames: u64, threads: usize) -> Vec<Self>
    where
        Self: Sized;
}

/// This project's allocator: one zone, one CPU, the policy of Linux 6.12, with all its lists,
/// watermarks and counters.
pub struct Pageblock {
    allocator: Allocator<'static>,
    /// Bytes of tables.
    pub metadata: usize,
}

/// The calls of an allocator that is another one under another policy.
macro_rules! calls_of_inner {
    () => {
        #[inline]
        fn alloc(&mut self, order: Order) -> Option<u64> {
            self.0.alloc(order)
        }

        #[inline]
        fn free(&mut self, frame: u64, order: Order) {
            self.0.free(frame, order);
        }

        fn alloc_last(&mut self, order: Order) -> Option<u64> {
            self.0.alloc_last(order)
        }

        fn drain(&mut self) {
            self.0.drain();
        }
    };
}

/// The same allocator with packed placement.
pub struct PageblockPacked(Pageblock);

/// The same with per-CPU lists as small as policies allow: every block goes through the zone's free lists.
pub struct PageblockZone(Pageblock);

impl Pageblock {
    /// Makes one zone under a policy.
    ///
    /// # Panics
    /// For an unknown policy.
    #[must_use]
    pub fn with_policy(frames: u64, policy: &str) -> Self {
        let (allocator, metadata) = with_cpus(frames, policy, 1);
        Self { allocator, metadata }
    }

    /// Returns how often the zone's lock would have been taken.
    #[must_use]
    pub fn locks(&self) -> u64 {
        self.allocator.zones()[0].counters().lock_acquired
    }

    /// Verifies the whole state.
    ///
    /// # Panics
    /// If it is wrong.
    pub fn check(&self) {
        self.allocator.check().expect("the state is sound");
    }
}

impl Subject for Pageblock {
    const NAME: &'static str = "pageblock";

    fn new(frames: u64) -> Self {
        Self::with_policy(frames, "linux-6.12")
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
        Some(self.allocator.alloc(CpuId(0), &request, &mut ()).ok()?.0)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.allocator.free(CpuId(0), Pfn(frame), order, &mut ()).expect("it was allocated");
    }

    fn alloc_last(&mut self, order: Order) -> Option<u64> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
        let last = AllocFlags::NO_WATERMARKS;
        self.alloc(order)
            .or_else(|| Some(self.allocator.alloc_with(CpuId(0), &request, last, &mut ()).ok()?.0))
    }

    fn drain(&mut self) {
        self.allocator.drain_all(&mut ());
    }
}

impl PageblockPacked {
    /// Verifies the whole state.
    ///
    /// # Panics
    /// If it is wrong.
    pub fn check(&self) {
        self.0.check();
    }
}

impl Subject for PageblockPacked {
    const NAME: &'static str = "pageblock-packed";

    fn new(frames: u64) -> Self {
        Self(Pageblock::with_policy(frames, "linux-6.12,placement=packed"))
    }

    calls_of_inner!();
}

impl Subject for PageblockZone {
    const NAME: &'static str = "pageblock-small-lists";

    fn new(frames: u64) -> Self {
        // The smallest lists that the sysctl allows: eight pages per CPU and batch.
        Self(Pageblock::with_policy(frames, "linux-6.6,percpu_pagelist_high_fraction=1000000"))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        self.0.alloc(order)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.0.free(frame, order);
    }
}

/// The same allocator shared, its zone behind a lock: a CPU's handle.
pub struct PageblockCpu(Cpu<'static, 'static, ParkingLot, ()>);

impl PageblockCpu {
    /// Makes the handles of several CPUs that share one zone.
    ///
    /// # Panics
    /// Never, unless this crate is wrong.
    #[must_use]
    pub fn cpus(frames: u64, cpus: usize) -> Vec<Self> {
        Self::with_policy(frames, "linux-6.12", cpus)
    }

    /// Does the same under a policy.
    ///
    /// # Panics
    /// For an unknown policy.
    #[must_use]
    pub fn with_policy(frames: u64, policy: &str, cpus: usize) -> Vec<Self> {
        let (allocator, _) = with_cpus(frames, policy, cpus);
        let locks = memory(allocator.sharing_size::<ParkingLot>());
        let shared = allocator.share(locks);
        let shared = Box::leak(Box::new(shared.expect("the memory suffices")));
        (0..cpus).map(|cpu| Self(shared.cpu(CpuId(cpu)).expect("the handle is free"))).collect()
    }

    /// Returns the handle itself.
    #[must_use]
    pub fn into_cpu(self) -> Cpu<'static, 'static, ParkingLot, ()> {
        self.0
    }

    /// Returns the handle.
    #[must_use]
    pub fn cpu(&self) -> &Cpu<'static, 'static, ParkingLot, ()> {
        &self.0
    }

    /// Verifies the zones and this CPU's caches.
    ///
    /// # Panics
    /// If they are wrong.
    pub fn check(&self) {
        self.0.shared().check_zones().expect("the state is sound");
        self.0.check().expect("the state is sound");
    }
}

impl Subject for PageblockCpu {
    const NAME: &'static str = "pageblock-shared";

    fn new(frames: u64) -> Self {
        Self::cpus(frames, 1).remove(0)
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
        Some(self.0.alloc(&request, &mut ()).ok()?.0)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.0.free(Pfn(frame), order, &mut ()).expect("it was allocated");
    }

    fn alloc_last(&mut self, order: Order) -> Option<u64> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
        let last = AllocFlags::NO_WATERMARKS;
        self.alloc(order).or_else(|| Some(self.0.alloc_with(&request, last, &mut ()).ok()?.0))
    }

    fn drain(&mut self) {
        self.0.drain(&mut ());
    }
}

impl SharedSubject for PageblockCpu {
    fn handles(frames: u64, threads: usize) -> Vec<Self> {
        Self::cpus(frames, threads)
    }
}

/// A CPU's handle with packed placement.
pub struct PageblockPackedCpu(PageblockCpu);

impl PageblockPackedCpu {
    /// Returns the handle.
    #[must_use]
    pub fn cpu(&self) -> &Cpu<'static, 'static, ParkingLot, ()> {
        self.0.cpu()
    }

    /// Verifies the zones and this CPU's caches.
    ///
    /// # Panics
    /// If they are wrong.
    pub fn check(&self) {
        self.0.check();
    }
}

impl Subject for PageblockPackedCpu {
    const NAME: &'static str = "pageblock-packed-shared";

    fn new(frames: u64) -> Self {
        Self::handles(frames, 1).remove(0)
    }

    calls_of_inner!();
}

impl SharedSubject for PageblockPackedCpu {
    fn handles(frames: u64, threads: usize) -> Vec<Self> {
        let cpus = PageblockCpu::with_policy(frames, "linux-6.12,placement=packed", threads);
        cpus.into_iter().map(Self).collect()
    }
}

/// Leaks memory: a benchmark is short-lived, and allocators borrow their tables.
fn memory(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice())
}

/// Calls `act` with the setup of one zone under a policy.
fn with_setup<T>(frames: u64, policy: &str, cpus: usize, act: impl FnOnce(&Setup<'_>) -> T) -> T {
    let (span, kind) = (FrameRange::new(0, frames), ZoneKind::Normal);
    let zones = [ZoneSpec::full(NodeId(0), kind, span)];
    act(&Setup::new(
        Policy::parse(policy).expect("the policy exists"),
        &zones,
        &vec![NodeId(0); cpus],
    ))
}

/// Returns the bytes of the tables of one zone under a policy.
///
/// # Panics
/// For an unknown policy.
#[must_use]
pub fn metadata(frames: u64, policy: &str, cpus: usize) -> usize {
    with_setup(frames, policy, cpus, |setup| setup.metadata_size().expect("the setup is sound"))
}

/// Makes one zone under a policy; also returns the bytes of its tables.
fn with_cpus(frames: u64, policy: &str, cpus: usize) -> (Allocator<'static>, usize) {
    with_setup(frames, policy, cpus, |setup| {
        let metadata = setup.metadata_size().expect("the setup is sound");
        let mut allocator = Allocator::new(memory(metadata), setup).expect("the setup is sound");
        allocator.release(FrameRange::new(0, frames)).expect("all frames are reserved");
        (allocator, metadata)
    })
}

/// `buddy_system_allocator::FrameAllocator`: a buddy allocator with ordered sets of free frames and no further
/// mechanism.
pub struct BuddySystem(FrameAllocator<11>);

impl Subject for BuddySystem {
    const NAME: &'static str = "buddy_system_allocator";

    fn new(frames: u64) -> Self {
        let mut allocator = FrameAllocator::new();
        allocator.add_frame(0, frames as usize);
        Self(allocator)
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        Some(self.0.alloc(1 << order)? as u64)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.0.dealloc(frame as usize, 1 << order);
    }
}
