//! The allocators under test, behind one face.

use std::mem::MaybeUninit;

use buddy_system_allocator::FrameAllocator;
use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

/// An allocator of page frames, as the patterns use it.
pub trait Subject {
    /// Its name in the results.
    const NAME: &'static str;

    /// An allocator of so many frames, all free.
    fn new(frames: u64) -> Self;

    /// Takes a block; gives its first frame.
    fn alloc(&mut self, order: Order) -> Option<u64>;

    /// Gives a block back.
    fn free(&mut self, frame: u64, order: Order);
}

/// This project's allocator: one zone, one CPU, the policy of Linux 6.12, with all its lists,
/// watermarks and counters.
pub struct Pageblock {
    allocator: Allocator<'static>,
    /// Bytes of tables.
    pub metadata: usize,
}

/// The same with the CPU lists turned off, as far as policies can: every block goes through the
/// zone's free lists.
pub struct PageblockZone(Pageblock);

impl Pageblock {
    /// One zone under a policy.
    ///
    /// # Panics
    /// For a policy that does not exist.
    #[must_use]
    pub fn with_policy(frames: u64, policy: &str) -> Self {
        let span = FrameRange::new(0, frames);
        let setup = Setup {
            policy: Policy::parse(policy).expect("the policy exists"),
            geometry: Geometry::default(),
            zones: &[ZoneSpec {
                node: 0,
                kind: ZoneKind::Normal,
                span,
                present: frames,
                managed: frames,
            }],
            cpu_nodes: &[0],
            distances: &[],
        };
        let metadata = setup.metadata_size().expect("the setup is sound");
        // Leaked: a benchmark ends soon, and the allocator borrows its tables.
        let memory = Box::leak(vec![MaybeUninit::uninit(); metadata].into_boxed_slice());
        let mut allocator = Allocator::new(memory, &setup).expect("the setup is sound");
        allocator.release(span).expect("all frames are reserved");
        Self { allocator, metadata }
    }

    /// Verifies the whole state.
    ///
    /// # Panics
    /// Where it is wrong.
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
        Some(self.allocator.alloc(0, &request, &mut ()).ok()?.0)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.allocator.free(0, Pfn(frame), order, &mut ()).expect("it was allocated");
    }
}

impl Subject for PageblockZone {
    const NAME: &'static str = "pageblock, small CPU lists";

    fn new(frames: u64) -> Self {
        // The smallest lists that the knob gives: eight pages a CPU and batch.
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

/// `buddy_system_allocator::FrameAllocator`: a buddy allocator with ordered sets of free frames and
/// no further mechanism.
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
