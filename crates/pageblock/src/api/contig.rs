//! Contiguous ranges of any size and alignment: pageblocks are isolated, allocated blocks are moved away, and all
//! frames, which are free then, are allocated at once.
//!
//! The allocator does not know the content of blocks, so the caller supplies the means to move them: [`Migrate`].
//! The work itself is in `access/contig.rs`; a CPU that shares the allocator can do it too ([`Cpu::alloc_contig`]).
//!
//! Source: `alloc_contig_range`, `alloc_contig_pages` (mm/page_alloc.c), `has_unmovable_pages`
//! (mm/page_isolation.c).

use crate::policy::source::{Chosen, PolicySource};
pub use crate::zone::contig::{ContigError, Migrate};

use crate::access::contig::RangeWorker;
use crate::access::local::{Access, Owned};
use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::{AllocError, FrameError};
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::interrupts::Interrupts;
use crate::base::locks::Locks;
use crate::base::request::Request;
use crate::percpu::machine::Machine;
use crate::zone::Zone;

impl<'m, P: PolicySource> Allocator<'m, P> {
    /// Allocates all frames of a range, which may start and end anywhere in one zone. Allocated blocks in the range
    /// are moved. Takes time linear in the range. Free it with [`free_contig`](Self::free_contig).
    ///
    /// # Errors
    /// [`ContigError`].
    pub fn alloc_contig_range(
        &mut self,
        cpu: CpuId,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.range_worker(cpu)?.take_range(range, migrate, observer)
    }

    /// Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that the request's
    /// flags and nodemask allow, and returns them. The request's order is ignored. Takes time linear in the zones'
    /// frames, and in `pages` for each range that fails.
    ///
    /// # Errors
    /// [`ContigError::NotFound`], and those for a caller's mistakes.
    ///
    /// ```
    /// # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
    /// # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
    /// # let span = FrameRange::new(0, 1 << 15);
    /// # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    /// # let policy = Policy::parse("linux-6.12").unwrap();
    /// # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
    /// # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    /// # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    /// # allocator.release(span).unwrap();
    /// // 12 MiB that start at a multiple of 4 MiB; nothing needs to be moved.
    /// let request = Request::new(0, Gfp::GFP_KERNEL);
    /// let range = allocator.alloc_contig(CpuId(0), 3072, 1024, &request, &mut (), &mut ())?;
    /// assert_eq!((range.len(), range.start.0 % 1024), (3072, 0));
    /// allocator.free_contig(CpuId(0), range, &mut ())?;
    /// # Ok::<(), pageblock::contig::ContigError>(())
    /// ```
    pub fn alloc_contig(
        &mut self,
        cpu: CpuId,
        pages: u64,
        align: u64,
        request: &Request,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<FrameRange, ContigError> {
        self.range_worker(cpu)?.find_range(pages, align, request, migrate, observer)
    }

    /// Frees a range that [`alloc_contig_range`](Self::alloc_contig_range) or
    /// [`alloc_contig`](Self::alloc_contig) returned, or a part of it that consists of its largest aligned
    /// blocks.
    ///
    /// # Errors
    /// [`ContigError::NotContiguous`] for other frames; nothing is freed then.
    pub fn free_contig(
        &mut self,
        cpu: CpuId,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.range_worker(cpu)?.free_range(range, observer)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// [`Allocator::alloc_contig_range`] while other CPUs work. The zone's lock is held while the range is isolated
    /// and, at the end, allocated, which takes time linear in the range; it is not held while content is moved.
    /// Other CPUs are asked to drain their caches; [`Migrate::wait_for`] waits for them.
    ///
    /// # Errors
    /// [`ContigError`]; [`ContigError::Busy`] once [`Migrate::wait_for`] stops waiting for a CPU. Allocations and
    /// frees of other CPUs in the range meanwhile can make it fail where it would succeed the next time.
    pub fn alloc_contig_range(
        &mut self,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.take_range(range, migrate, observer)
    }

    /// [`Allocator::alloc_contig`] while other CPUs work. The zone's lock is held for the search too.
    ///
    /// # Errors
    /// As [`alloc_contig_range`](Self::alloc_contig_range), and those of [`Allocator::alloc_contig`].
    pub fn alloc_contig(
        &mut self,
        pages: u64,
        align: u64,
        request: &Request,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<FrameRange, ContigError> {
        self.find_range(pages, align, request, migrate, observer)
    }

    /// See [`Allocator::free_contig`].
    ///
    /// # Errors
    /// Those of [`Allocator::free_contig`].
    pub fn free_contig(
        &mut self,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.free_range(range, observer)
    }
}

/// The owner of all zones, which acts for a CPU.
pub(crate) struct Owner<'a, 'm, P: PolicySource = Chosen> {
    allocator: &'a mut Allocator<'m, P>,
    cpu: CpuId,
    node: NodeId,
}

impl<'m, P: PolicySource> Allocator<'m, P> {
    /// Returns the owner of all zones, which acts for a CPU.
    pub(crate) fn range_worker(&mut self, cpu: CpuId) -> Result<Owner<'_, 'm, P>, ContigError> {
        let node = self.node_of_cpu(cpu).ok_or(ContigError::NoSuchCpu(cpu))?;
        Ok(Owner { allocator: self, cpu, node })
    }
}

impl<'m, P: PolicySource> RangeWorker<'m, P> for Owner<'_, 'm, P> {
    fn machine(&self) -> &Machine<'m, P> {
        &self.allocator.machine
    }

    fn with_zone<T>(&mut self, at: ZoneIndex, act: impl FnOnce(&mut Zone<'m, P>) -> T) -> T {
        let Allocator { machine, zones, .. } = &mut *self.allocator;
        Owned(zones).with(machine, at, act)
    }

    fn node(&self) -> NodeId {
        self.node
    }

    fn drain_every_cpu(
        &mut self,
        _: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.allocator.drain_all(observer);
        Ok(())
    }

    fn get(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        match flags {
            None => self.allocator.alloc(self.cpu, request, observer),
            Some(flags) => self.allocator.alloc_with(self.cpu, request, flags, observer),
        }
    }

    fn put(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        self.allocator.free(self.cpu, pfn, order, observer)
    }

    fn split(&mut self, pfn: Pfn, order: Order, into: Order) -> Result<(), FrameError> {
        self.allocator.split_allocated(pfn, order, into)
    }
}

impl<'m, L: Locks, I: Interrupts, P: PolicySource> RangeWorker<'m, P> for Cpu<'_, 'm, L, I, P> {
    fn machine(&self) -> &Machine<'m, P> {
        &self.shared().machine
    }

    fn with_zone<T>(&mut self, at: ZoneIndex, act: impl FnOnce(&mut Zone<'m, P>) -> T) -> T {
        self.shared().locked(at, act)
    }

    fn node(&self) -> NodeId {
        self.node_of()
    }

    fn drain_every_cpu(
        &mut self,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let (shared, own) = (self.shared(), self.number());
        self.drain(observer);
        for cpu in CpuId::up_to(shared.cpus()).filter(|&cpu| cpu != own) {
            let Some(request) = shared.request_drain(cpu) else { continue };
            while !shared.is_drained(request) {
                // Another CPU may be waiting for this one in the same way.
                self.attend(observer);
                if !migrate.wait_for(cpu) {
                    return Err(ContigError::Busy(cpu));
                }
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        match flags {
            None => self.alloc(request, observer),
            Some(flags) => self.alloc_with(request, flags, observer),
        }
    }

    fn put(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        self.free(pfn, order, observer)
    }

    fn split(&mut self, pfn: Pfn, order: Order, into: Order) -> Result<(), FrameError> {
        self.split_allocated(pfn, order, into)
    }
}
