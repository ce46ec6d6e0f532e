//! Blocks at a given place: at one frame, or anywhere in a range of frames, such as below the limit of
//! a device's addresses.
//!
//! The kernel has zones for such limits, and nothing for a single frame (its nearest relatives are
//! `take_page_off_buddy` and `alloc_contig_range`).
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::{FrameRange, Pfn}, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zone = ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present: 1 << 15, managed: 1 << 15 };
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let geometry = Geometry::default();
//! # let setup = Setup { policy, geometry, zones: &[zone], cpu_nodes: &[0], distances: &[] };
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! let request = Request::new(2, Gfp::GFP_KERNEL);
//! allocator.alloc_at(0, Pfn(4096), &request, &mut ())?;
//! // In use now.
//! assert!(allocator.alloc_at(0, Pfn(4096), &request, &mut ()).is_err());
//! allocator.free(0, Pfn(4096), 2, &mut ()).unwrap();
//! # Ok::<(), pageblock::exact::ExactError>(())
//! ```

use lock_api::RawMutex;

use crate::alloc::{AllocError, Allocator};
use crate::alloc_flags::Watermark;
use crate::cpu::Cpu;
use crate::event::Observer;
use crate::frame::{FrameRange, ORDER_LIMIT, Order, Pfn};
use crate::interrupts::{Interrupts, Off};
use crate::local::{Local, Zones};
use crate::map::{FrameState, Index, PageMap};
use crate::mobility::Migratetype::Isolate;
use crate::policy::ClaimRule;
use crate::request::Request;
use crate::zone::{End, FrameError, Zone};

/// Why a block at a given place could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExactError {
    /// The request is none, or all memory that it may use in the range is in use or kept for others.
    Request(AllocError),
    /// The frame cannot be had: it is foreign, misaligned, in use, or on a CPU list, from which
    /// [`Allocator::drain_all`] gets it.
    Frame(FrameError),
    /// The request may not use the zone or node that holds the frame.
    ZoneNotAllowed(Pfn),
    /// The range is empty.
    EmptyRange(FrameRange),
}

impl core::fmt::Display for ExactError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::ZoneNotAllowed(pfn) => {
                write!(f, "the request may not use the zone of frame {pfn}")
            }
            Self::EmptyRange(range) => {
                write!(f, "no frame is in the range {} to {}", range.start, range.end)
            }
        }
    }
}

impl core::error::Error for ExactError {}

impl From<AllocError> for ExactError {
    fn from(error: AllocError) -> Self {
        Self::Request(error)
    }
}

impl From<FrameError> for ExactError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl Allocator<'_> {
    /// Allocates the block that starts at a frame, if all of it is free and the zone stays above its
    /// low watermark. Free it with [`free`](Self::free).
    ///
    /// # Errors
    /// [`ExactError`]; nothing changes then.
    pub fn alloc_at(
        &mut self,
        cpu: usize,
        pfn: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), ExactError> {
        self.local_for(cpu, request.order)?.alloc_at(pfn, request, observer)
    }

    /// Allocates a block that lies in a range of frames, the lowest that the request may use, if its
    /// zone stays above its low watermark. Takes time linear in the blocks of the range before it.
    ///
    /// # Errors
    /// [`ExactError::Request`] with [`AllocError::NoMemory`] where there is no such block;
    /// [`ExactError::EmptyRange`].
    pub fn alloc_within(
        &mut self,
        cpu: usize,
        range: FrameRange,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        self.local_for(cpu, request.order)?.alloc_within(range, request, observer)
    }

    /// Allocates a block all of whose frames are below a limit; see
    /// [`alloc_within`](Self::alloc_within).
    ///
    /// # Errors
    /// As [`alloc_within`](Self::alloc_within).
    pub fn alloc_below(
        &mut self,
        cpu: usize,
        limit: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        let range = FrameRange { start: Pfn(0), end: limit };
        self.alloc_within(cpu, range, request, observer)
    }
}

impl<R: RawMutex, I: Interrupts> Cpu<'_, '_, R, I> {
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
}

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// See [`Allocator::alloc_at`].
    pub(crate) fn alloc_at(
        &mut self,
        pfn: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), ExactError> {
        let attempt = self.machine.attempt(self.row.node, request)?;
        if !pfn.is_aligned(attempt.order) {
            return Err(FrameError::Misaligned(pfn, attempt.order).into());
        }
        let (at, i) = self.machine.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        if !self.eligible(at, &attempt) {
            return Err(ExactError::ZoneNotAllowed(pfn));
        }
        let flags = self.fast_flags(at, &attempt);
        self.with(at, |zone, _| {
            zone.all_free(i, i + (1 << attempt.order))?;
            let mark = zone.watermark(Watermark::Low);
            if !zone.watermark_ok(attempt.order, mark, attempt.highest, flags) {
                return Err(ExactError::Request(AllocError::NoMemory));
            }
            zone.counters.lock_acquired += 1;
            zone.carve(i, i + (1 << attempt.order));
            Ok(())
        })?;
        self.hand_out(at, i, &attempt, observer);
        Ok(())
    }

    /// See [`Allocator::alloc_within`].
    pub(crate) fn alloc_within(
        &mut self,
        range: FrameRange,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        if range.is_empty() {
            return Err(ExactError::EmptyRange(range));
        }
        let attempt = self.machine.attempt(self.row.node, request)?;
        for at in self.machine.zonelist(&attempt) {
            if !self.eligible(at, &attempt) {
                continue;
            }
            let flags = self.fast_flags(at, &attempt);
            let found = self.with(at, |zone, _| {
                let mark = zone.watermark(Watermark::Low);
                if !zone.watermark_ok(attempt.order, mark, attempt.highest, flags) {
                    return None;
                }
                let i = zone.lowest_free(range, attempt.order)?;
                zone.counters.lock_acquired += 1;
                zone.carve(i, i + (1 << attempt.order));
                Some(i)
            });
            if let Some(i) = found {
                return Ok(self.hand_out(at, i, &attempt, observer));
            }
        }
        Err(AllocError::NoMemory.into())
    }
}

impl PageMap<'_> {
    /// The block that holds a frame, free or not: its first frame and state. What is in no block
    /// stands for itself.
    pub(crate) fn block_at(&self, i: Index) -> (Index, FrameState) {
        let holds = |at_least: Order| {
            let start = i & !((1 << at_least) - 1);
            let state = self.state(start);
            let order = state.order()?;
            (order >= at_least).then_some((start, state))
        };
        (0..=ORDER_LIMIT).find_map(holds).unwrap_or((i, self.state(i)))
    }
}

impl FrameState {
    /// The order of a block's first frame.
    #[must_use]
    pub const fn order(self) -> Option<Order> {
        match self {
            Self::Free { order, .. }
            | Self::CpuList { order, .. }
            | Self::Allocated { order, .. } => Some(order),
            Self::Hole | Self::Reserved | Self::Tail => None,
        }
    }
}

impl Zone<'_> {
    /// Tells whether all frames from `start` to `end` are on free lists.
    pub(crate) fn all_free(&self, start: Index, end: Index) -> Result<(), FrameError> {
        let mut at = start;
        while at < end {
            if at >= self.map.frames() {
                return Err(FrameError::Foreign(self.map.pfn(at)));
            }
            let (first, state) = self.map.block_at(at);
            match state {
                FrameState::Free { order, .. } => at = first + (1 << order),
                FrameState::CpuList { .. } => return Err(FrameError::OnCpuList(self.map.pfn(at))),
                FrameState::Reserved => return Err(FrameError::Reserved(self.map.pfn(at))),
                FrameState::Hole => return Err(FrameError::Foreign(self.map.pfn(at))),
                FrameState::Allocated { .. } | FrameState::Tail => {
                    return Err(FrameError::NotFree(self.map.pfn(at)));
                }
            }
        }
        Ok(())
    }

    /// Takes the frames from `start` to `end` off the free lists, which are all free. What the blocks
    /// that hold them have outside goes back to the same lists, but to its own pageblocks' where a block
    /// was isolated for one of them.
    pub(crate) fn carve(&mut self, start: Index, end: Index) {
        let mut at = start;
        while at < end {
            let Some((first, order, list)) = self.map.free_block_of(at) else { return };
            let past = first + (1 << order);
            self.remove(first, order, list);
            self.map.set(first, FrameState::Tail);
            let sides = [(first, start.max(first)), (end.min(past), past)];
            // Up to 6.9 every pageblock that the block reaches is isolated with it.
            let apart = list == Isolate && self.policy.claim_rule == ClaimRule::V610;
            let largest = if apart { order.min(self.geometry.pageblock_order) } else { order };
            for (from, to) in sides {
                let rest = FrameRange::new(from.into(), to.into());
                for (piece, order) in rest.blocks(largest) {
                    let i = piece.0 as Index;
                    let list = if apart { self.map.block_type(i) } else { list };
                    self.insert(i, order, list, End::Head);
                }
            }
            at = past;
        }
    }

    /// The lowest block of an order in a range that is free and not isolated.
    fn lowest_free(&self, range: FrameRange, order: Order) -> Option<Index> {
        let start = range.start.max(self.span.start).align_up(order);
        let end = range.end.min(self.span.end);
        let size = 1 << order;
        let mut at = self.map.index(start)?;
        while self.map.pfn(at).plus(size) <= end {
            let (first, state) = self.map.block_at(at);
            match state {
                FrameState::Free { order: found, list } => {
                    if found >= order && list != Isolate {
                        return Some(at);
                    }
                    at = first + (1 << found);
                }
                _ => at = first + (1 << state.order().unwrap_or(0)),
            }
            at = at.checked_next_multiple_of(size as Index)?;
        }
        None
    }
}
