//! Empties a range of frames: pageblocks are isolated, CPUs drain their caches, and allocated blocks are moved
//! away. The worker is the owner of all zones, or a CPU that shares them.
//!
//! Nothing is allocated from isolated pageblocks, and blocks freed there go to the zone. So once every CPU has
//! drained its caches, frames of the range can only become free. A free that read the pageblock's type before the
//! isolation puts the block on a CPU list; it is drained with the rest, because a CPU drains between two calls. A
//! block that a CPU allocates from its lists before it drains is moved like any other.
//!
//! Source: `__alloc_contig_migrate_range`, `start_isolate_page_range` (mm/page_alloc.c,
//! mm/page_isolation.c).

use crate::base::alloc_flags::AllocFlags;
use crate::base::error::{AllocError, FrameError};
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::{NodeId, ZoneIndex};
use crate::base::request::{Gfp, Request};
use crate::percpu::machine::Machine;
use crate::policy::source::PolicySource;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;
use crate::zone::contig::{ContigError, Migrate};

/// The number of scans of a range, because other CPUs free blocks of it meanwhile.
const ROUNDS: u32 = 16;

/// Returns which of `zones` zones contains a range. `span` returns the frames of a zone.
pub(crate) fn zone_of_range(
    zones: usize,
    range: FrameRange,
    mut span: impl FnMut(ZoneIndex) -> FrameRange,
) -> Result<ZoneIndex, ContigError> {
    if range.is_empty() {
        return Err(ContigError::Empty);
    }
    let at = ZoneIndex::up_to(zones).find(|&at| span(at).contains(range.start));
    let at = at.ok_or(ContigError::Foreign(range.start))?;
    let end = span(at).end;
    if range.end > end { Err(ContigError::SpansZones(end)) } else { Ok(at) }
}

/// Returns the start and end of a range in the tables of its zone.
pub(crate) fn ends_in_zone(
    machine: &Machine<'_, impl PolicySource>,
    at: ZoneIndex,
    range: FrameRange,
) -> Result<(Index, Index), ContigError> {
    let start = machine.snapshots[at.index()].map.index(range.start);
    let start = start.ok_or(ContigError::Foreign(range.start))?;
    Ok((start, start + range.len() as Index))
}

/// A CPU that empties ranges: it locks zones, allocates and frees, and makes every CPU drain its caches. Each of
/// these is a critical section of its own ([`Access`](crate::access::local::Access) is within one); in between, a
/// CPU that shares the zones can be interrupted and serves its mailbox. An owner of all zones drains every cache
/// itself; a CPU that shares them posts a request.
pub(crate) trait RangeWorker<'m, P: PolicySource> {
    fn machine(&self) -> &Machine<'m, P>;

    /// Runs `act` on a zone while holding its lock.
    fn with_zone<T>(&mut self, at: ZoneIndex, act: impl FnOnce(&mut Zone<'m, P>) -> T) -> T;

    fn node(&self) -> NodeId;

    /// Splits an allocated block.
    fn split(&mut self, pfn: Pfn, order: Order, into: Order) -> Result<(), FrameError>;

    /// Makes every CPU drain its caches.
    fn drain_every_cpu(
        &mut self,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError>;

    fn get(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError>;

    fn put(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError>;

    /// Returns the zone of a range, and the range's start and end in the zone's tables.
    fn locate_range(
        &mut self,
        range: FrameRange,
    ) -> Result<(ZoneIndex, Index, Index), ContigError> {
        let zones = self.machine().snapshots.len();
        let at = zone_of_range(zones, range, |at| self.with_zone(at, |zone| zone.span()))?;
        let (start, end) = ends_in_zone(self.machine(), at, range)?;
        Ok((at, start, end))
    }

    /// See `Allocator::alloc_contig_range`.
    fn take_range(
        &mut self,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        self.empty_range(range, migrate, observer, |zone, start, end| {
            zone.carve(start, end);
            zone.mark_in_use(start, end);
        })
    }

    /// See `Allocator::alloc_contig`.
    fn find_range(
        &mut self,
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
        let attempt = self.machine().attempt(self.node(), &request);
        let attempt = attempt.map_err(ContigError::Request)?;
        for at in self.machine().zonelist(&attempt) {
            let snapshot = &self.machine().snapshots[at.index()];
            if snapshot.kind > attempt.highest || !attempt.may_use(snapshot.node) {
                continue;
            }
            let mut from = self.with_zone(at, |zone| zone.span().start);
            while let Some(range) =
                self.with_zone(at, |zone| zone.candidate(from, pages, align, migrate))
            {
                match self.take_range(range, migrate, observer) {
                    Ok(()) => return Ok(range),
                    // A CPU that does not drain will not drain for the next range either.
                    Err(busy @ ContigError::Busy(_)) => return Err(busy),
                    // Memory to move blocks to will be short for the next range of this zone too.
                    Err(ContigError::NoTarget(_)) => break,
                    Err(_) => from = range.start.plus(1),
                }
            }
        }
        Err(ContigError::NotFound)
    }

    /// See `Allocator::free_contig`.
    fn free_range(
        &mut self,
        range: FrameRange,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let max_order = self.machine().geometry.max_order;
        // All blocks are checked before the first is freed, so that an error frees nothing.
        for (pfn, order) in range.blocks(max_order) {
            self.machine().find_allocated(pfn, order).map_err(ContigError::NotContiguous)?;
        }
        for (pfn, order) in range.blocks(max_order) {
            self.put(pfn, order, observer).map_err(ContigError::NotContiguous)?;
        }
        Ok(())
    }

    /// Isolates a range of one zone, moves its allocated blocks away, and runs `take` on the frames, all of them
    /// free.
    fn empty_range(
        &mut self,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
        take: impl FnOnce(&mut Zone<'_, P>, Index, Index),
    ) -> Result<(), ContigError> {
        let (at, start, end) = self.locate_range(range)?;
        let window = self.with_zone(at, |zone| {
            zone.check_movable(start, end, migrate)?;
            let window = zone.window(start, end);
            zone.isolate_window(window, range, observer)?;
            Ok(window)
        })?;
        let emptied = self.move_until_empty(at, range, start, end, migrate, observer);
        self.with_zone(at, |zone| {
            // Free frames of isolated pageblocks stay free.
            if emptied.is_ok() {
                debug_assert!(
                    zone.is_free(start, end),
                    "a frame of an isolated pageblock was allocated"
                );
                zone.count_lock();
                take(zone, start, end);
            }
            zone.unisolate_window(window, observer);
        });
        emptied
    }

    fn move_until_empty(
        &mut self,
        at: ZoneIndex,
        range: FrameRange,
        start: Index,
        end: Index,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        for _ in 0..ROUNDS {
            // A block that was on a CPU list when the pageblock was isolated may have been allocated since.
            self.drain_every_cpu(migrate, observer)?;
            self.move_away(at, start, end, migrate, observer)?;
            if self.with_zone(at, |zone| zone.is_free(start, end)) {
                return Ok(());
            }
        }
        Err(ContigError::Contended(range))
    }

    /// Moves every allocated block out of isolated frames.
    fn move_away(
        &mut self,
        at: ZoneIndex,
        start: Index,
        end: Index,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let mut i = start;
        while i < end {
            let (from, first, state) = self.with_zone(at, |zone| {
                let (first, state) = zone.map().block_at(i);
                (zone.map().pfn(first), first, state)
            });
            let Some(order) = state.order() else { return Err(ContigError::Reserved(from)) };
            if let FrameState::Allocated { .. } = state {
                let to = self.target(order, observer).ok_or(ContigError::NoTarget(from))?;
                let moved = migrate.migrate(from, to, order);
                let unused = if moved { from } else { to };
                self.put(unused, order, observer).map_err(ContigError::NotContiguous)?;
                // A block that its user freed meanwhile need not be moved.
                let in_use = |zone: &mut Zone<'_, P>| zone.map().is_allocated(first, order);
                if !moved && self.with_zone(at, in_use) {
                    return Err(ContigError::NotMoved(from));
                }
            }
            i = first + (1 << order);
        }
        Ok(())
    }

    /// Allocates a block as the target of a move.
    fn target(&mut self, order: Order, observer: &mut impl Observer) -> Option<Pfn> {
        let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE.without(Gfp::KSWAPD_RECLAIM));
        let min = AllocFlags::WMARK_MIN.with(AllocFlags::CMA);
        let fast = self.get(&request, None, observer);
        fast.or_else(|_| self.get(&request, Some(min), observer)).ok()
    }
}
