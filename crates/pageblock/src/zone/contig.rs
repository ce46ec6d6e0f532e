//! Contiguous ranges in a zone: obstacles to taking a range, and the pageblocks that are isolated for it.
//!
//! Source: `has_unmovable_pages`, `start_isolate_page_range` (mm/page_isolation.c).

use crate::policy::Isolation;
use crate::policy::source::PolicySource;
use core::fmt;

use crate::base::error::{AllocError, FrameError, NoSuchCpu};
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::CpuId;
use crate::base::mobility::Migratetype::Isolate;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;

/// Moves the content of allocated blocks.
///
/// If CPUs share the allocator, the caller ensures that no block is freed while [`migrate`](Self::migrate) moves
/// it. For a block that was freed before, `migrate` returns `false`.
pub trait Migrate {
    /// Returns whether the content of an allocated block can be moved. It is asked for each block in the way, also those
    /// of unmovable requests, and nothing else decides: answer from your own records. A shared zone's lock may be held.
    fn is_movable(&mut self, block: Pfn, order: Order) -> bool;

    /// Moves the content of a block to another of the same order, and redirects all users of the first to the
    /// second. Returns whether it did: then nobody uses `from` any more, and the allocator frees it. Otherwise the
    /// allocator frees `to`.
    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool;

    /// Called repeatedly while a CPU has not yet drained its caches as requested. `false`, the default, stops
    /// waiting.
    fn wait_for(&mut self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

/// Moves nothing, so only ranges that are already free can be allocated.
impl Migrate for () {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        false
    }

    fn migrate(&mut self, _: Pfn, _: Pfn, _: Order) -> bool {
        false
    }
}

/// The reason why a range could not be allocated. None of its frames is allocated; blocks moved so far stay moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ContigError {
    /// The range or the requested number of pages is empty.
    Empty,
    /// The alignment is not a power of two.
    Alignment(u64),
    /// No such CPU exists.
    NoSuchCpu(CpuId),
    /// The frame is in no zone.
    Foreign(Pfn),
    /// The range starts in one zone and extends to this frame, which is outside that zone.
    SpansZones(Pfn),
    /// The frame was never handed to the allocator, or was taken offline.
    Reserved(Pfn),
    /// The frame's pageblock is already isolated by someone else.
    Isolated(Pfn),
    /// The zone ends within the frame's pageblock (from 6.10 also: begins within it), so the pageblock cannot be
    /// isolated.
    CutPageblock(Pfn),
    /// The content of the block cannot be moved.
    Unmovable(Pfn),
    /// There is no memory to move the block to.
    NoTarget(Pfn),
    /// The content of the block was reported as movable, but could not be moved.
    NotMoved(Pfn),
    /// The block was not allocated as part of a contiguous range.
    NotContiguous(FrameError),
    /// The range does not consist of whole pageblocks, and does not extend to the ends of its zone.
    Misaligned(FrameRange),
    /// The frame is not in the required state (reserved, or a hole).
    WrongState(Pfn, FrameState),
    /// No range of this size and alignment can be allocated.
    NotFound,
    /// The request cannot be served as it is.
    Request(AllocError),
    /// The pages are in more ranges than there is room for; the room.
    Extents(usize),
    /// The CPU has not drained its caches.
    Busy(CpuId),
    /// Other CPUs kept allocating and freeing blocks in the range.
    Contended(FrameRange),
}

impl fmt::Display for ContigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no page is asked for"),
            Self::Alignment(n) => write!(f, "the alignment {n} is no power of two"),
            Self::NoSuchCpu(cpu) => write!(f, "{}", NoSuchCpu(*cpu)),
            Self::Request(error) => error.fmt(f),
            Self::Extents(n) => write!(f, "the free pages are in more than {n} ranges"),
            Self::Foreign(pfn) => write!(f, "frame {pfn} is in no zone"),
            Self::SpansZones(pfn) => write!(f, "frame {pfn} is not in the zone of the first"),
            Self::Reserved(pfn) => write!(f, "frame {pfn} is reserved"),
            Self::Isolated(pfn) => write!(f, "the pageblock of frame {pfn} is isolated already"),
            Self::CutPageblock(pfn) => {
                write!(f, "the pageblock of frame {pfn} is not all in its zone")
            }
            Self::Unmovable(pfn) => write!(f, "the block at frame {pfn} cannot be moved"),
            Self::NoTarget(pfn) => write!(f, "no memory to move the block at frame {pfn} to"),
            Self::NotMoved(pfn) => write!(f, "the block at frame {pfn} was not moved"),
            Self::NotContiguous(error) => error.fmt(f),
            Self::Misaligned(range) => {
                write!(f, "{} to {} are no whole pageblocks", range.start, range.end)
            }
            Self::WrongState(pfn, state) => write!(f, "frame {pfn} is {state:?}"),
            Self::NotFound => f.write_str("no such range can be allocated"),
            Self::Busy(cpu) => write!(f, "CPU {cpu} has not given back its pages"),
            Self::Contended(range) => {
                write!(f, "blocks from {} to {} change all the time", range.start, range.end)
            }
        }
    }
}

impl core::error::Error for ContigError {}

impl<P: PolicySource> Zone<'_, P> {
    /// Returns the pageblocks to isolate for a range. Up to 6.9 they include those into which a free block with
    /// frames of the range may extend.
    pub(crate) fn window(&self, start: Index, end: Index) -> FrameRange {
        let order = match self.policy.isolation {
            Isolation::Split => self.geometry.pageblock_order,
            Isolation::WholeBlocks => self.geometry.table_order(),
        };
        let span = FrameRange {
            start: self.span.start.align_down(self.geometry.pageblock_order),
            end: self.span.end.align_up(self.geometry.pageblock_order),
        };
        FrameRange {
            start: self.map.pfn(start).align_down(order).max(span.start),
            end: self.map.pfn(end - 1).plus(1).align_up(order).min(span.end),
        }
    }

    /// Returns what prevents the allocation of a range with this frame, if anything (`has_unmovable_pages`), and
    /// the frame after its block.
    fn obstacle(&self, i: Index, migrate: &mut impl Migrate) -> (Option<ContigError>, Index) {
        let (first, state) = self.map.block_at(i);
        let next = first + (1 << state.order().unwrap_or(0));
        let (pfn, block) = (self.map.pfn(i), self.map.pfn(first));
        let error = match state {
            _ if self.map.block_type(i) == Isolate => Some(ContigError::Isolated(pfn)),
            FrameState::Reserved => Some(ContigError::Reserved(pfn)),
            FrameState::Hole | FrameState::Tail => Some(ContigError::Foreign(pfn)),
            FrameState::Allocated { order, .. } if !migrate.is_movable(block, order) => {
                Some(ContigError::Unmovable(block))
            }
            _ => None,
        };
        (error, next)
    }

    pub(crate) fn check_movable(
        &self,
        start: Index,
        end: Index,
        migrate: &mut impl Migrate,
    ) -> Result<(), ContigError> {
        let mut i = start;
        while i < end {
            let (error, next) = self.obstacle(i, migrate);
            error.map_or(Ok(()), Err)?;
            i = next;
        }
        Ok(())
    }

    /// Returns the first aligned range, from a frame on, without a known obstacle.
    pub(crate) fn candidate(
        &self,
        from: Pfn,
        pages: u64,
        align: u64,
        migrate: &mut impl Migrate,
    ) -> Option<FrameRange> {
        let aligned = |pfn: Pfn| pfn.0.checked_next_multiple_of(align).map(Pfn);
        let mut start = aligned(from)?;
        let mut at = start;
        loop {
            let end = Pfn(start.0.checked_add(pages)?);
            if end > self.span.end {
                return None;
            }
            if at >= end {
                return Some(FrameRange { start, end });
            }
            let (error, next) = self.obstacle(self.map.index(at)?, migrate);
            at = self.map.pfn(next);
            if error.is_some() {
                start = aligned(at)?;
                at = start;
            }
        }
    }

    /// Marks frames that are on no list as allocated, in the largest aligned blocks.
    pub(crate) fn mark_in_use(&self, start: Index, end: Index) {
        let range = FrameRange { start: self.map.pfn(start), end: self.map.pfn(end - 1).plus(1) };
        for (pfn, order) in range.blocks(self.geometry.max_order) {
            if let Some(i) = self.map.index(pfn) {
                self.map.set_block(i, order, FrameState::Allocated { order, movable: false });
            }
        }
    }
}

impl<P: PolicySource> Zone<'_, P> {
    /// Isolates the pageblocks of a window. Pageblocks that cannot be isolated are left out, unless the range needs
    /// them.
    pub(crate) fn isolate_window(
        &mut self,
        window: FrameRange,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let order = self.geometry.pageblock_order;
        let mut error = None;
        let mut done = window.start;
        for block in (window.start.0..window.end.0).step_by(1 << order).map(Pfn) {
            let inside = block.max(self.span.start);
            let needed = inside < range.end && range.start < block.plus(1 << order);
            // Linux up to 6.9 isolates a pageblock that extends past the zone, and loses what is freed there
            // meanwhile, because nothing moves out of it.
            let movable = self.map.index(inside).and_then(|i| self.movable_range(i)).is_some();
            error = match movable.then(|| self.isolate_block(inside, observer)) {
                Some(Ok(())) => None,
                Some(Err(FrameError::Isolated(pfn))) => Some(ContigError::Isolated(pfn)),
                Some(Err(_)) | None if needed => Some(ContigError::CutPageblock(inside)),
                Some(Err(_)) | None => None,
            };
            if error.is_some() {
                break;
            }
            done = block.plus(1 << order);
        }
        let Some(error) = error else { return Ok(()) };
        self.unisolate_window(FrameRange { start: window.start, end: done }, observer);
        Err(error)
    }

    pub(crate) fn unisolate_window(&mut self, window: FrameRange, observer: &mut impl Observer) {
        let order = self.geometry.pageblock_order;
        for block in (window.start.0..window.end.0).step_by(1 << order).map(Pfn) {
            // Fails for a pageblock that could not be isolated, where there is nothing to undo.
            let _ = self.unisolate_block(block.max(self.span.start), None, observer);
        }
    }

    /// Returns whether every frame is in a free block.
    pub(crate) fn is_free(&self, start: Index, end: Index) -> bool {
        let mut i = start;
        while i < end {
            let (first, FrameState::Free { order, .. }) = self.map.block_at(i) else {
                return false;
            };
            i = first + (1 << order);
        }
        true
    }
}
