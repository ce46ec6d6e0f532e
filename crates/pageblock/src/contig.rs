//! Contiguous ranges of any size and alignment: pageblocks are isolated, what is in use is moved
//! away, and all that is free then is taken at once.
//!
//! The allocator does not know contents, so the caller brings the means to move them: [`Migrate`].
//! This is work of a single owner: CPUs that share an allocator give it back first
//! ([`Shared::into_owned`](crate::sharing::Shared::into_owned)).
//!
//! Source: `alloc_contig_range`, `alloc_contig_pages` (mm/page_alloc.c), `has_unmovable_pages`
//! (mm/page_isolation.c).

use core::fmt;

use crate::alloc::Allocator;
use crate::alloc_flags::AllocFlags;
use crate::event::Observer;
use crate::frame::{FrameRange, Order, Pfn};
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype::Isolate;
use crate::policy::ClaimRule;
use crate::request::{Gfp, Request};
use crate::zone::{FrameError, Zone};

/// How the contents of allocated blocks are moved.
pub trait Migrate {
    /// Tells whether the content of an allocated block can be moved.
    fn is_movable(&mut self, block: Pfn, order: Order) -> bool;

    /// Moves the content of a block to another of the same order, and lets everyone who used the
    /// first use the second. Tells whether it did; nobody uses `from` then, and the allocator frees
    /// it. Otherwise `to` is freed.
    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool;
}

/// Moves nothing: only what is free already can be had.
impl Migrate for () {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        false
    }

    fn migrate(&mut self, _: Pfn, _: Pfn, _: Order) -> bool {
        false
    }
}

/// Why a range could not be had. No frame is taken then; what was moved already stays moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ContigError {
    /// The range, or the number of pages asked for, is empty.
    Empty,
    /// The alignment is no power of two.
    Alignment(u64),
    /// There is no such CPU.
    NoSuchCpu(usize),
    /// The frame is in no zone.
    Foreign(Pfn),
    /// The range starts in one zone and reaches the frame, which is not in it.
    SpansZones(Pfn),
    /// The frame was never handed to the allocator, or was taken from it.
    Reserved(Pfn),
    /// The pageblock of the frame is isolated already: someone else works there.
    Isolated(Pfn),
    /// The zone ends in the pageblock of the frame (from 6.10 also: begins there), so that it cannot be
    /// isolated.
    CutPageblock(Pfn),
    /// The content of the block cannot be moved.
    Unmovable(Pfn),
    /// There is no memory to move the block to.
    NoTarget(Pfn),
    /// The content of the block was said to be movable, but could not be moved.
    NotMoved(Pfn),
    /// The block is not one that was got as part of such a range.
    NotContiguous(FrameError),
    /// The range does not consist of whole pageblocks, nor reaches the ends of its zone.
    Misaligned(FrameRange),
    /// The frame is not reserved, or is no hole.
    WrongState(Pfn, FrameState),
    /// No range of this size and alignment can be had.
    NotFound,
}

impl fmt::Display for ContigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no page is asked for"),
            Self::Alignment(n) => write!(f, "the alignment {n} is no power of two"),
            Self::NoSuchCpu(cpu) => write!(f, "there is no CPU {cpu}"),
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
            Self::NotFound => f.write_str("no such range can be had"),
        }
    }
}

impl core::error::Error for ContigError {}

impl<'m> Allocator<'m> {
    /// Allocates all frames of a range, which may start and end anywhere in one zone; what is in use
    /// there is moved. Takes time linear in the range. Free it with
    /// [`free_contig`](Self::free_contig).
    ///
    /// # Errors
    /// [`ContigError`].
    pub fn alloc_contig_range(
        &mut self,
        cpu: usize,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let take = |zone: &mut Zone<'_>, start, end| {
            zone.carve(start, end);
            zone.mark_in_use(start, end);
        };
        self.empty_range(cpu, range, migrate, observer, take).map(|_| ())
    }

    /// Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that
    /// the request's flags and node mask allow; gives them. The request's order is not used. Takes
    /// time linear in the zones' frames, and in `pages` for each range that is tried in vain.
    ///
    /// # Errors
    /// [`ContigError::NotFound`], and those for a caller's mistakes.
    ///
    /// ```
    /// # use pageblock::{alloc::Allocator, frame::FrameRange, layout::{ZoneKind, ZoneSpec}};
    /// # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
    /// # let span = FrameRange::new(0, 1 << 15);
    /// # let zone = ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present: 1 << 15, managed: 1 << 15 };
    /// # let policy = Policy::parse("linux-6.12").unwrap();
    /// # let geometry = Geometry::default();
    /// # let setup = Setup { policy, geometry, zones: &[zone], cpu_nodes: &[0], distances: &[] };
    /// # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    /// # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    /// # allocator.release(span).unwrap();
    /// // 12 MiB that start at a multiple of 4 MiB; nothing needs to be moved.
    /// let request = Request::new(0, Gfp::GFP_KERNEL);
    /// let range = allocator.alloc_contig(0, 3072, 1024, &request, &mut (), &mut ())?;
    /// assert_eq!((range.len(), range.start.0 % 1024), (3072, 0));
    /// allocator.free_contig(0, range, &mut ())?;
    /// # Ok::<(), pageblock::contig::ContigError>(())
    /// ```
    pub fn alloc_contig(
        &mut self,
        cpu: usize,
        pages: u64,
        align: u64,
        request: &Request,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<FrameRange, ContigError> {
        if pages == 0 {
            return Err(ContigError::Empty);
        }
        if !align.is_power_of_two() {
            return Err(ContigError::Alignment(align));
        }
        let request = Request { order: 0, ..*request };
        let node = self.rows.get(cpu).ok_or(ContigError::NoSuchCpu(cpu))?.node;
        let attempt = self.machine.attempt(node, &request).map_err(|_| ContigError::NotFound)?;
        for at in self.machine.zonelist(&attempt) {
            let Zone { kind, node, managed, .. } = self.zones[at];
            if kind > attempt.highest || !attempt.may_use(node) || managed == 0 {
                continue;
            }
            let mut from = self.zones[at].span.start;
            while let Some(range) = self.zones[at].candidate(from, pages, align, migrate) {
                match self.alloc_contig_range(cpu, range, migrate, observer) {
                    Ok(()) => return Ok(range),
                    Err(ContigError::NoTarget(_)) => break,
                    Err(_) => from = range.start.plus(1),
                }
            }
        }
        Err(ContigError::NotFound)
    }

    /// Frees a range that [`alloc_contig_range`](Self::alloc_contig_range) or
    /// [`alloc_contig`](Self::alloc_contig) gave, or part of one that is cut at the limits of its
    /// largest aligned blocks.
    ///
    /// # Errors
    /// [`ContigError::NotContiguous`] for frames that are no such range; nothing is freed then.
    pub fn free_contig(
        &mut self,
        cpu: usize,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let max_order = self.machine.geometry.max_order;
        for (pfn, order) in range.blocks(max_order) {
            self.machine.find_allocated(pfn, order).map_err(ContigError::NotContiguous)?;
        }
        for (pfn, order) in range.blocks(max_order) {
            self.free(cpu, pfn, order, observer).map_err(ContigError::NotContiguous)?;
        }
        Ok(())
    }

    /// Isolates a range of one zone, moves what is in use there, and lets `take` have the frames, all
    /// of them free; gives the zone's place.
    pub(crate) fn empty_range(
        &mut self,
        cpu: usize,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
        take: impl FnOnce(&mut Zone<'_>, Index, Index),
    ) -> Result<usize, ContigError> {
        if cpu >= self.cpus() {
            return Err(ContigError::NoSuchCpu(cpu));
        }
        let (at, start, end) = self.in_one_zone(range)?;
        self.zones[at].check_movable(start, end, migrate)?;
        let window = self.zones[at].window(start, end);
        self.isolate(at, window, range, observer)?;
        self.drain_all(observer);
        let emptied = self.move_away(cpu, at, start, end, migrate, observer);
        let zone = self.zone_at(at);
        if emptied.is_ok() {
            zone.counters.lock_acquired += 1;
            take(zone, start, end);
        }
        self.unisolate(at, window, observer);
        emptied.map(|()| at)
    }

    /// The zone of a range, and its ends there.
    pub(crate) fn in_one_zone(
        &self,
        range: FrameRange,
    ) -> Result<(usize, Index, Index), ContigError> {
        if range.is_empty() {
            return Err(ContigError::Empty);
        }
        let holds = |pfn| self.zones.iter().position(|zone| zone.span.contains(pfn));
        let at = holds(range.start).ok_or(ContigError::Foreign(range.start))?;
        let zone = &self.zones[at];
        if range.end > zone.span.end {
            return Err(ContigError::SpansZones(zone.span.end));
        }
        let start = zone.map.index(range.start).ok_or(ContigError::Foreign(range.start))?;
        Ok((at, start, start + range.len() as Index))
    }

    /// A zone to work on.
    pub(crate) fn zone_at(&mut self, at: usize) -> &mut Zone<'m> {
        self.machine.fronts[at].forget();
        &mut self.zones[at]
    }

    /// Isolates the pageblocks of a window. Those that cannot be isolated are left out, unless the
    /// range needs them.
    fn isolate(
        &mut self,
        at: usize,
        window: FrameRange,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let order = self.machine.geometry.pageblock_order;
        let zone = self.zone_at(at);
        let mut error = None;
        let mut done = window.start;
        for block in (window.start.0..window.end.0).step_by(1 << order).map(Pfn) {
            let inside = block.max(zone.span.start);
            let needed = inside < range.end && range.start < block.plus(1 << order);
            // Linux: up to 6.9 isolates a pageblock that the zone's end cuts, and loses what is freed
            // there meanwhile, as nothing moves out of it.
            let movable = zone.map.index(inside).and_then(|i| zone.movable_range(i)).is_some();
            error = match movable.then(|| zone.isolate_block(inside, observer)) {
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
        match error {
            None => Ok(()),
            Some(error) => {
                self.unisolate(at, FrameRange { start: window.start, end: done }, observer);
                Err(error)
            }
        }
    }

    fn unisolate(&mut self, at: usize, window: FrameRange, observer: &mut impl Observer) {
        let order = self.machine.geometry.pageblock_order;
        let zone = self.zone_at(at);
        for block in (window.start.0..window.end.0).step_by(1 << order).map(Pfn) {
            // One that could not be isolated is none to end the isolation of.
            let _ = zone.unisolate_block(block.max(zone.span.start), None, observer);
        }
    }

    /// Moves every block in use out of isolated frames.
    fn move_away(
        &mut self,
        cpu: usize,
        at: usize,
        start: Index,
        end: Index,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let mut i = start;
        while i < end {
            let map = &self.machine.fronts[at].map;
            let (first, state) = map.block_at(i);
            let from = map.pfn(first);
            let Some(order) = state.order() else { return Err(ContigError::Reserved(from)) };
            if let FrameState::Allocated { .. } = state {
                let to = self.target(cpu, order, observer).ok_or(ContigError::NoTarget(from))?;
                let moved = migrate.migrate(from, to, order);
                let unused = if moved { from } else { to };
                self.free(cpu, unused, order, observer).map_err(ContigError::NotContiguous)?;
                if !moved {
                    return Err(ContigError::NotMoved(from));
                }
            }
            i = first + (1 << order);
        }
        Ok(())
    }

    /// A block to move another to.
    fn target(&mut self, cpu: usize, order: Order, observer: &mut impl Observer) -> Option<Pfn> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE.without(Gfp::KSWAPD_RECLAIM));
        let min = AllocFlags::WMARK_MIN.with(AllocFlags::CMA);
        let fast = self.alloc(cpu, &request, observer);
        fast.or_else(|_| self.alloc_with(cpu, &request, min, observer)).ok()
    }
}

impl Zone<'_> {
    /// The pageblocks to isolate for a range: up to 6.9 with those that a free block can reach which
    /// has frames of the range.
    fn window(&self, start: Index, end: Index) -> FrameRange {
        let order = match self.policy.claim_rule {
            ClaimRule::V610 => self.geometry.pageblock_order,
            _ => self.geometry.table_order(),
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

    /// What of a frame keeps its range from being had (`has_unmovable_pages`), and the frame after it.
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

    fn check_movable(
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

    /// The first aligned range from a frame on that nothing is known to keep from being had.
    fn candidate(
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

    /// Marks frames that are on no list as blocks in use, the largest that are aligned.
    pub(crate) fn mark_in_use(&self, start: Index, end: Index) {
        for i in start..end {
            self.map.set(i, FrameState::Tail);
        }
        let range = FrameRange { start: self.map.pfn(start), end: self.map.pfn(end - 1).plus(1) };
        for (pfn, order) in range.blocks(self.geometry.max_order) {
            if let Some(i) = self.map.index(pfn) {
                self.map.set(i, FrameState::Allocated { order, movable: false });
            }
        }
    }
}
