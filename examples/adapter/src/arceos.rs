//! ArceOS: its `PageAllocator`, which counts in pages and is used behind a lock of the kernel's.

use core::mem::MaybeUninit;

use ax_allocator::{AllocError, AllocResult, BaseAllocator, PageAllocator};
use pageblock::alloc::Allocator;
use pageblock::contig::ContigError;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::setup::{Setup, SetupError};

use crate::pieces;

const PAGE_SIZE: usize = 4096;

/// The pages of one zone, for one owner.
pub struct Pages<'m> {
    allocator: Allocator<'m>,
    total: usize,
    used: usize,
}

/// A zone without memory still, which can get any of the frames of `span`.
fn setup<'a>(zones: &'a [ZoneSpec; 1], policy: Policy) -> Setup<'a> {
    Setup::new(policy, zones, &[NodeId(0)])
}

const fn zone(span: FrameRange) -> [ZoneSpec; 1] {
    [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, present: span.len(), managed: 0 }]
}

impl<'m> Pages<'m> {
    /// The memory that [`new`](Self::new) needs for tables, in bytes.
    ///
    /// # Errors
    /// Those of [`Setup::metadata_size`].
    pub fn tables_size(span: FrameRange, policy: Policy) -> Result<usize, SetupError> {
        setup(&zone(span), policy).metadata_size()
    }

    /// An allocator that has no page still: `init` and `add_memory` bring them, from anywhere in `span`.
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn new(
        tables: &'m mut [MaybeUninit<u8>],
        span: FrameRange,
        policy: Policy,
    ) -> Result<Self, SetupError> {
        let allocator = Allocator::new(tables, &setup(&zone(span), policy))?;
        Ok(Self { allocator, total: 0, used: 0 })
    }

    /// The allocator behind it.
    #[must_use]
    pub fn allocator(&mut self) -> &mut Allocator<'m> {
        &mut self.allocator
    }
}

impl BaseAllocator for Pages<'_> {
    fn init(&mut self, start: usize, size: usize) {
        self.add_memory(start, size).expect("memory of the allocator's span");
    }

    fn add_memory(&mut self, start: usize, size: usize) -> AllocResult {
        let end = start.checked_add(size).ok_or(AllocError::InvalidParam)?;
        let (first, end) = (start.div_ceil(PAGE_SIZE) as u64, (end / PAGE_SIZE) as u64);
        let range = FrameRange::new(first, end);
        self.allocator.online(range).map_err(|error| match error {
            ContigError::WrongState(..) => AllocError::MemoryOverlap,
            _ => AllocError::InvalidParam,
        })?;
        self.total += range.len() as usize;
        Ok(())
    }
}

impl PageAllocator for Pages<'_> {
    const PAGE_SIZE: usize = PAGE_SIZE;

    fn alloc_pages(&mut self, num_pages: usize, align: usize) -> AllocResult<usize> {
        let align = align_pages(align)?;
        if num_pages == 0 {
            return Err(AllocError::InvalidParam);
        }
        let pfn =
            pieces::take(&mut self.allocator, num_pages, align).ok_or(AllocError::NoMemory)?;
        self.used += num_pages;
        Ok(pfn.0 as usize * PAGE_SIZE)
    }

    /// Any pages; those that are not in use stay as they are, as with ArceOS' own allocator.
    fn dealloc_pages(&mut self, pos: usize, num_pages: usize) {
        if pos.is_multiple_of(PAGE_SIZE) {
            self.used -= pieces::give(&mut self.allocator, range(pos, num_pages)) as usize;
        }
    }

    fn alloc_pages_at(
        &mut self,
        base: usize,
        num_pages: usize,
        align: usize,
    ) -> AllocResult<usize> {
        if !base.is_multiple_of(align_pages(align)? * PAGE_SIZE) {
            return Err(AllocError::InvalidParam);
        }
        let range = range(base, num_pages);
        self.allocator.alloc_contig_range(CpuId(0), range, &mut (), &mut ()).map_err(
            |e| match e {
                ContigError::Empty => AllocError::InvalidParam,
                _ => AllocError::NoMemory,
            },
        )?;
        self.used += num_pages;
        Ok(base)
    }

    fn total_pages(&self) -> usize {
        self.total
    }

    fn used_pages(&self) -> usize {
        self.used
    }

    fn available_pages(&self) -> usize {
        self.total - self.used
    }
}

fn range(start: usize, pages: usize) -> FrameRange {
    let start = (start / PAGE_SIZE) as u64;
    FrameRange::new(start, start.saturating_add(pages as u64))
}

/// An alignment in pages.
fn align_pages(bytes: usize) -> AllocResult<usize> {
    let valid = bytes.is_power_of_two() && bytes >= PAGE_SIZE;
    if valid { Ok(bytes / PAGE_SIZE) } else { Err(AllocError::InvalidParam) }
}
