//! Allocation at a given place: at one frame, or anywhere in a range of frames, such as below a device's address
//! limit.
//!
//! For such limits the kernel has zones; for a single frame it has nothing (the nearest are `take_page_off_buddy`
//! and `alloc_contig_range`).
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::{FrameRange, Pfn}, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! let request = Request::new(2, Gfp::GFP_KERNEL);
//! allocator.alloc_at(CpuId(0), Pfn(4096), &request, &mut ())?;
//! // In use now.
//! // Already allocated.
//! allocator.free(CpuId(0), Pfn(4096), 2, &mut ()).unwrap();
//! # Ok::<(), pageblock::exact::ExactError>(())
//! ```

pub use crate::base::error::ExactError;
use crate::policy::source::PolicySource;

use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Pfn};
use crate::base::ids::CpuId;
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::base::request::Request;

impl<P: PolicySource> Allocator<'_, P> {
    /// Allocates the block that starts at a frame, if all of it is free and the zone stays above its low watermark.
    /// Free it with [`free`](Self::free).
    ///
    /// # Errors
    /// [`ExactError`]; nothing changes then.
    pub fn alloc_at(
        &mut self,
        cpu: CpuId,
        pfn: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), ExactError> {
        self.local_for(cpu, request.order)?.alloc_at(pfn, request, observer)
    }

    /// Allocates the lowest block in a range of frames that the request may use, if its zone stays above its low
    /// watermark. Takes time linear in the blocks of the range before it.
    ///
    /// # Errors
    /// [`ExactError::Request`] with [`AllocError::NoMemory`](crate::alloc::AllocError::NoMemory) where there is no such block;
    /// [`ExactError::EmptyRange`].
    pub fn alloc_within(
        &mut self,
        cpu: CpuId,
        range: FrameRange,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        self.local_for(cpu, request.order)?.alloc_within(range, request, observer)
    }

    /// Allocates a block whose frames are all below a limit; see [`alloc_within`](Self::alloc_within).
    ///
    /// # Errors
    /// As [`alloc_within`](Self::alloc_within).
    pub fn alloc_below(
        &mut self,
        cpu: CpuId,
        limit: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        let range = FrameRange { start: Pfn(0), end: limit };
        self.alloc_within(cpu, range, request, observer)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// See [`Allocator::alloc_at`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_at`].
    pub fn alloc_at(
        &mut self,
        pfn: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), ExactError> {
        let _off = Off::<I>::now();
        self.attend(observer);
        self.local().alloc_at(pfn, request, observer)
    }

    /// See [`Allocator::alloc_within`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_within`].
    pub fn alloc_within(
        &mut self,
        range: FrameRange,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        let _off = Off::<I>::now();
        self.attend(observer);
        self.local().alloc_within(range, request, observer)
    }

    /// See [`Allocator::alloc_below`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_below`].
    pub fn alloc_below(
        &mut self,
        limit: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        self.alloc_within(FrameRange { start: Pfn(0), end: limit }, request, observer)
    }
}
