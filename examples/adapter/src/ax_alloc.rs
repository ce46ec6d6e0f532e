//! ArceOS and StarryOS today: `AllocatorOps` of the crate `ax-alloc`, in place of `buddy-slab-allocator` or of
//! `bitmap-allocator` with TLSF. The pages are Pageblock's; requests for bytes get whole pages here, as a kernel's slabs
//! stay its own.
//!
//! Any pages of a block can be given back, so that a huge page is split as it stands.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use ax_alloc::{AllocError, AllocResult, AllocatorOps, UsageKind, Usages};
use ax_sync::SpinLock;
use pageblock::contig::ContigError;
use pageblock::frame::Pfn;
use pageblock::prelude::{
    Allocator, CpuId, FrameRange, NodeId, Policy, Request, Setup, ZoneKind, ZoneSpec,
};

use crate::pieces;

const PAGE_SIZE: usize = 4096;

struct Pages {
    allocator: Allocator<'static>,
    total: u64,
    used: u64,
}

/// A kernel's pages, behind a lock that keeps interrupts off.
pub struct Kernel {
    /// All addresses that memory can have.
    span: FrameRange,
    /// Where addresses begin that a device of 32 bits does not reach.
    low_end: Pfn,
    pages: SpinLock<Option<Pages>>,
}

const fn page(address: usize) -> u64 {
    (address / PAGE_SIZE) as u64
}

fn range(start: usize, pages: usize) -> AllocResult<FrameRange> {
    let aligned = start.is_multiple_of(PAGE_SIZE) && pages > 0;
    let end = page(start).checked_add(pages as u64).filter(|_| aligned);
    Ok(FrameRange::new(page(start), end.ok_or(AllocError::InvalidParam)?))
}

/// An alignment in pages; `ax-alloc` means one page by 0.
fn align_pages(align: usize) -> AllocResult<usize> {
    let align = align.max(PAGE_SIZE);
    if align.is_power_of_two() { Ok(align / PAGE_SIZE) } else { Err(AllocError::InvalidParam) }
}

impl Kernel {
    /// An allocator without memory, which can get any from address `start` to `end`. A device of 32 bits reaches what is
    /// below `low_end`.
    #[must_use]
    pub const fn new(start: usize, end: usize, low_end: usize) -> Self {
        let span = FrameRange::new(page(start), page(end));
        Self { span, low_end: Pfn(page(low_end)), pages: SpinLock::new(None) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Pages) -> AllocResult<T>) -> AllocResult<T> {
        work(self.pages.lock_irqsave().as_mut().ok_or(AllocError::NotInitialized)?)
    }

    fn zones(&self) -> [ZoneSpec; 1] {
        let (span, kind) = (self.span, ZoneKind::Normal);
        [ZoneSpec { node: NodeId(0), kind, span, present: span.len(), managed: 0 }]
    }

    /// Bytes of tables, which [`init`](AllocatorOps::init) takes from the start of the first memory.
    #[must_use]
    pub fn tables_size(&self) -> usize {
        let zones = self.zones();
        let setup = Setup::new(Policy::default(), &zones, &[NodeId(0)]);
        setup.metadata_size().unwrap_or(usize::MAX)
    }

    fn taken(&self, pages: &mut Pages, pfn: Option<Pfn>, count: usize) -> AllocResult<usize> {
        let pfn = pfn.ok_or(AllocError::NoMemory)?;
        pages.used += count as u64;
        Ok(pfn.0 as usize * PAGE_SIZE)
    }
}

impl Pages {
    fn add(&mut self, range: FrameRange) -> AllocResult {
        self.allocator.online(range).map_err(|error| match error {
            ContigError::WrongState(..) => AllocError::MemoryOverlap,
            _ => AllocError::InvalidParam,
        })?;
        self.total += range.len();
        Ok(())
    }
}

impl AllocatorOps for Kernel {
    fn name(&self) -> &'static str {
        "pageblock"
    }

    /// The caller's memory from `start` on is used from here on, tables first.
    fn init(&self, start: usize, size: usize) -> AllocResult {
        let mut pages = self.pages.lock_irqsave();
        if pages.is_some() {
            return Err(AllocError::AlreadyInitialized);
        }
        let tables = self.tables_size().next_multiple_of(PAGE_SIZE);
        let rest = size.checked_sub(tables).ok_or(AllocError::NoMemory)?;
        let memory = range(start + tables, rest / PAGE_SIZE)?;
        // SAFETY: `ax-alloc` passes memory that is mapped and nobody's.
        let tables =
            unsafe { core::slice::from_raw_parts_mut(start as *mut MaybeUninit<u8>, tables) };
        let zones = self.zones();
        let setup = Setup::new(Policy::default(), &zones, &[NodeId(0)]);
        let allocator = Allocator::new(tables, &setup).map_err(|_| AllocError::InvalidParam)?;
        let mut made = Pages { allocator, total: 0, used: 0 };
        made.add(memory)?;
        *pages = Some(made);
        Ok(())
    }

    fn add_memory(&self, start: usize, size: usize) -> AllocResult {
        self.with(|pages| pages.add(range(start, size / PAGE_SIZE)?))
    }

    fn alloc(&self, layout: Layout) -> AllocResult<NonNull<u8>> {
        let count = layout.size().div_ceil(PAGE_SIZE).max(1);
        let address = self.alloc_pages(count, layout.align(), UsageKind::RustHeap)?;
        NonNull::new(address as *mut u8).ok_or(AllocError::NoMemory)
    }

    fn dealloc(&self, pos: NonNull<u8>, layout: Layout) {
        let count = layout.size().div_ceil(PAGE_SIZE).max(1);
        self.dealloc_pages(pos.as_ptr().addr(), count, UsageKind::RustHeap);
    }

    fn alloc_pages(&self, count: usize, align: usize, _: UsageKind) -> AllocResult<usize> {
        let align = align_pages(align)?;
        if count == 0 {
            return Err(AllocError::InvalidParam);
        }
        self.with(|pages| {
            let pfn = pieces::take(&mut pages.allocator, count, align);
            self.taken(pages, pfn, count)
        })
    }

    /// Up to 4 MiB, in a block of a power of two of pages.
    fn alloc_dma32_pages(&self, count: usize, align: usize, _: UsageKind) -> AllocResult<usize> {
        let size = count.checked_next_power_of_two().ok_or(AllocError::NoMemory)?;
        let order = size.max(align_pages(align)?).trailing_zeros();
        let order = order.try_into().map_err(|_| AllocError::NoMemory)?;
        self.with(|pages| {
            let request = Request::movable(order);
            let (allocator, low_end) = (&mut pages.allocator, self.low_end);
            let pfn = allocator.alloc_below(CpuId(0), low_end, &request, &mut ()).ok();
            if let Some(pfn) = pfn {
                let end = pfn.plus(1 << order);
                let rest = FrameRange { start: pfn.plus(count as u64), end };
                pieces::give(allocator, rest);
            }
            self.taken(pages, pfn, count)
        })
    }

    fn alloc_pages_at(
        &self,
        start: usize,
        count: usize,
        align: usize,
        _: UsageKind,
    ) -> AllocResult<usize> {
        let (range, align) = (range(start, count)?, align_pages(align)?);
        if !start.is_multiple_of(align * PAGE_SIZE) {
            return Err(AllocError::InvalidParam);
        }
        self.with(|pages| {
            let taken = pages.allocator.alloc_contig_range(CpuId(0), range, &mut (), &mut ());
            self.taken(pages, taken.ok().map(|()| range.start), count)
        })
    }

    /// Any pages that are in use, also a part of what was allocated at once.
    fn dealloc_pages(&self, pos: usize, count: usize, _: UsageKind) {
        let Ok(range) = range(pos, count) else { return };
        _ = self.with(|pages| {
            pages.used -= pieces::give(&mut pages.allocator, range);
            Ok(())
        });
    }

    fn used_bytes(&self) -> usize {
        self.used_pages() * PAGE_SIZE
    }

    fn available_bytes(&self) -> usize {
        self.available_pages() * PAGE_SIZE
    }

    fn used_pages(&self) -> usize {
        self.with(|pages| Ok(pages.used as usize)).unwrap_or(0)
    }

    fn available_pages(&self) -> usize {
        self.with(|pages| Ok((pages.total - pages.used) as usize)).unwrap_or(0)
    }

    /// Zeros: `ax-alloc` lets nobody else make its `Usages`.
    fn usages(&self) -> Usages {
        ax_alloc::global_allocator().usages()
    }
}
