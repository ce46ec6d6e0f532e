//! Bulk allocation and bulk frees, for blocks of any order.
//!
//! Source: `alloc_pages_bulk` (mm/page_alloc.c), which in the kernel allocates only order 0.

pub use crate::base::error::BulkError;
use crate::policy::source::PolicySource;

use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::base::error::AllocError;
use crate::base::event::Observer;
use crate::base::frame::{Order, Pfn};
use crate::base::ids::CpuId;
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::base::request::Request;

impl<P: PolicySource> Allocator<'_, P> {
    /// Allocates up to `blocks.len()` blocks into `blocks`, from its start. Returns how many; later entries are
    /// unchanged. The zone's lock is taken once for all blocks that the first zone serves.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc), if not a single block could be allocated.
    ///
    /// ```
    /// # use pageblock::{alloc::Allocator, frame::{FrameRange, Pfn}, ids::*, layout::{ZoneKind, ZoneSpec}};
    /// # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
    /// # let span = FrameRange::new(0, 1 << 15);
    /// # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    /// # let policy = Policy::parse("linux-6.12").unwrap();
    /// # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
    /// # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    /// # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    /// # allocator.release(span).unwrap();
    /// let mut blocks = [Pfn(0); 100];
    /// let request = Request::new(2, Gfp::GFP_KERNEL);
    /// let got = allocator.alloc_bulk(CpuId(0), &request, &mut blocks, &mut ())?;
    /// allocator.free_bulk(CpuId(0), &blocks[..got], 2, &mut ()).unwrap();
    /// # assert_eq!(got, 100);
    /// # Ok::<(), pageblock::alloc::AllocError>(())
    /// ```
    pub fn alloc_bulk(
        &mut self,
        cpu: CpuId,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        self.local_for(cpu, request.order)?.alloc_bulk(request, blocks, observer)
    }

    /// Frees blocks of one order, each as [`free`](Self::free) does.
    ///
    /// # Errors
    /// The first error. The blocks before it are free then.
    pub fn free_bulk(
        &mut self,
        cpu: CpuId,
        blocks: &[Pfn],
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), BulkError> {
        for (freed, &pfn) in blocks.iter().enumerate() {
            self.free(cpu, pfn, order, observer).map_err(|error| BulkError { freed, error })?;
        }
        Ok(())
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// See [`Allocator::alloc_bulk`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_bulk`].
    pub fn alloc_bulk(
        &mut self,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        let _off = Off::<I>::now();
        self.attend(observer);
        self.local().alloc_bulk(request, blocks, observer)
    }

    /// See [`Allocator::free_bulk`].
    ///
    /// # Errors
    /// Those of [`Allocator::free_bulk`].
    pub fn free_bulk(
        &mut self,
        blocks: &[Pfn],
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), BulkError> {
        for (freed, &pfn) in blocks.iter().enumerate() {
            self.free(pfn, order, observer).map_err(|error| BulkError { freed, error })?;
        }
        Ok(())
    }
}
