//! Hermit: its physical memory, in place of the crate `free-list`, with that crate's types: any ranges of pages, at a place
//! too. `allocate_with`, whose closure picks from free ranges, has no counterpart.

use core::mem::MaybeUninit;

use free_list::{PAGE_SIZE, PageLayout, PageRange};
use pageblock::frame::{FrameRange, Pfn};
use pageblock::policy::Policy;
use pageblock::prelude::{Allocator, CpuId, NodeId, Request, Setup, ZoneKind, ZoneSpec};
use pageblock::setup::SetupError;

use crate::pieces;

/// The pages are not free, or not in use. (`free-list`'s own error cannot be made elsewhere.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotFree;

/// Free pages of one owner.
pub struct PageList<'m> {
    allocator: Allocator<'m>,
    free: u64,
}

const fn zone(span: FrameRange) -> [ZoneSpec; 1] {
    let kind = ZoneKind::Normal;
    [ZoneSpec { node: NodeId(0), kind, span, present: span.len(), managed: 0 }]
}

const fn frames(range: PageRange) -> FrameRange {
    FrameRange::new((range.start() / PAGE_SIZE) as u64, (range.end() / PAGE_SIZE) as u64)
}

impl<'m> PageList<'m> {
    /// Bytes of tables for all addresses that memory can have.
    ///
    /// # Errors
    /// Those of [`Setup::metadata_size`].
    pub fn tables_size(span: PageRange) -> Result<usize, SetupError> {
        Setup::new(Policy::default(), &zone(frames(span)), &[NodeId(0)]).metadata_size()
    }

    /// A list without pages, which [`deallocate`](Self::deallocate) brings.
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn new(tables: &'m mut [MaybeUninit<u8>], span: PageRange) -> Result<Self, SetupError> {
        let zones = zone(frames(span));
        let setup = Setup::new(Policy::default(), &zones, &[NodeId(0)]);
        Ok(Self { allocator: Allocator::new(tables, &setup)?, free: 0 })
    }

    /// Frees pages, or brings new ones.
    ///
    /// # Errors
    /// [`NotFree`] if some of them are free already; those in use are freed.
    pub fn deallocate(&mut self, range: PageRange) -> Result<(), NotFree> {
        let range = frames(range);
        let freed = pieces::give(&mut self.allocator, range);
        let freed = match freed {
            0 if self.allocator.online(range).is_ok() => range.len(),
            _ => freed,
        };
        self.free += freed;
        if freed == range.len() { Ok(()) } else { Err(NotFree) }
    }

    /// Allocates pages.
    ///
    /// # Errors
    /// [`NotFree`] if there are not so many in a row.
    pub fn allocate(&mut self, layout: PageLayout) -> Result<PageRange, NotFree> {
        let count = layout.size() / PAGE_SIZE;
        let pfn = pieces::take(&mut self.allocator, count, layout.align() / PAGE_SIZE);
        self.taken(pfn, count)
    }

    /// Allocates these pages.
    ///
    /// # Errors
    /// [`NotFree`] if one of them is not free.
    pub fn allocate_at(&mut self, range: PageRange) -> Result<(), NotFree> {
        let range = frames(range);
        let taken = self.allocator.alloc_contig_range(CpuId(0), range, &mut (), &mut ());
        self.taken(taken.ok().map(|()| range.start), range.len() as usize).map(drop)
    }

    /// Allocates pages below an address, as a device needs them: a block of a power of two.
    ///
    /// # Errors
    /// [`NotFree`] if there are not so many in a row.
    pub fn allocate_below(&mut self, layout: PageLayout, end: usize) -> Result<PageRange, NotFree> {
        let count = layout.size() / PAGE_SIZE;
        let size = count.next_power_of_two().max(layout.align() / PAGE_SIZE);
        let order = size.trailing_zeros().try_into().map_err(|_| NotFree)?;
        let (request, limit) = (Request::movable(order), Pfn((end / PAGE_SIZE) as u64));
        let pfn = self.allocator.alloc_below(CpuId(0), limit, &request, &mut ()).ok();
        if let Some(pfn) = pfn {
            let rest = FrameRange { start: pfn.plus(count as u64), end: pfn.plus(size as u64) };
            pieces::give(&mut self.allocator, rest);
        }
        self.taken(pfn, count)
    }

    fn taken(&mut self, pfn: Option<Pfn>, count: usize) -> Result<PageRange, NotFree> {
        let pfn = pfn.ok_or(NotFree)?;
        self.free -= count as u64;
        let start = pfn.0 as usize * PAGE_SIZE;
        PageRange::from_start_len(start, count * PAGE_SIZE).map_err(|_| NotFree)
    }

    /// Returns the bytes that are free.
    #[must_use]
    pub const fn free_space(&self) -> usize {
        self.free as usize * PAGE_SIZE
    }
}
