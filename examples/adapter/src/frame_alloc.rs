//! The crate `frame-alloc`: its `PhysicalAllocator`, in place of `SummaryBuddyAllocator`, also under its `DepotAllocator`
//! and in its `RegionedAllocator`.

extern crate std;

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use frame_alloc::{
    AllocError, AllocatorStats, InitError, PageSize, PhysRange, PhysicalAllocator, RegionInit,
};
use pageblock::alloc;
use pageblock::prelude::{
    Allocator, CpuId, FrameRange, NodeId, Order, Pfn, Policy, Request, Setup, ZoneKind, ZoneSpec,
};
use pageblock::zone::Geometry;

/// Where tables come from.
pub trait Tables {
    /// Returns memory that is given once, or `None`.
    fn take(bytes: usize) -> Option<&'static mut [MaybeUninit<u8>]>;
}

struct Pool {
    allocator: Allocator<'static>,
    /// Frames handed over.
    frames: u64,
}

/// Blocks of orders below `ORDERS`, behind a lock. `frame-alloc` keeps its tables in the frames themselves; these are
/// elsewhere, so all frames can be had.
pub struct Frames<const ORDERS: usize, T> {
    frame: PageSize,
    pool: Mutex<Option<Pool>>,
    tables: PhantomData<fn() -> T>,
}

const CPU: CpuId = CpuId(0);
/// Packed placement has no smaller pageblocks; blocks of up to this order may be larger than what is asked for.
const LEAST: Order = 3;

impl<const ORDERS: usize, T> Frames<ORDERS, T> {
    const LARGEST: Order = (ORDERS - 1) as Order;

    /// Returns an allocator without memory.
    #[must_use]
    pub const fn new(frame: PageSize) -> Self {
        Self { frame, pool: Mutex::new(None), tables: PhantomData }
    }

    fn pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the only zone, once no frame is on the CPU's lists.
    fn look(&self, of: impl FnOnce(&Pool) -> u64) -> usize {
        let mut pool = self.pool();
        let Some(pool) = &mut *pool else { return 0 };
        pool.allocator.drain_all(&mut ());
        of(pool) as usize * self.frame.bytes()
    }

    fn range(&self, base: usize, len: usize) -> Option<FrameRange> {
        let end = base.checked_add(len)?;
        let aligned = self.frame.is_aligned(base) && self.frame.is_aligned(len);
        let frame = |at: usize| (at >> self.frame.log2()) as u64;
        (aligned && len > 0).then(|| FrameRange::new(frame(base), frame(end)))
    }

    /// Checks what frames are asked for; returns their number and the order of the block that holds them.
    fn request(&self, size: PageSize, count: NonZeroUsize) -> Result<(u64, Order), AllocError> {
        let each = size.log2().checked_sub(self.frame.log2());
        let each = each.filter(|&each| each <= Self::LARGEST).ok_or(AllocError::InvalidPageSize)?;
        let frames = count.get().checked_mul(1 << each).ok_or(AllocError::RequestTooLarge)?;
        let order = frames.checked_next_power_of_two().ok_or(AllocError::RequestTooLarge)?;
        let order = order.trailing_zeros() as Order;
        if order > Self::LARGEST {
            Err(AllocError::RequestTooLarge)
        } else {
            Ok((frames as u64, order))
        }
    }
}

// SAFETY: frames outside the usable ranges are never released to the allocator; an error leaves `pool` empty.
unsafe impl<const ORDERS: usize, T: Tables> RegionInit for Frames<ORDERS, T> {
    unsafe fn try_init(
        &self,
        phys_base: usize,
        span_len: usize,
        usable: &[PhysRange],
    ) -> Result<(), InitError> {
        let mut pool = self.pool();
        if pool.is_some() {
            return Err(InitError::AlreadyInitialized);
        }
        if !self.frame.is_aligned(phys_base) {
            return Err(InitError::Misaligned { required: self.frame.bytes() });
        }
        let span = self.range(phys_base, span_len).ok_or(InitError::InvalidSpan)?;
        let mut start = span.start;
        for (index, usable) in usable.iter().enumerate() {
            let range = self.range(usable.base, usable.len);
            let range = range.filter(|range| start <= range.start && range.end <= span.end);
            start = range.ok_or(InitError::InvalidUsable { index })?.end;
        }
        let kind = ZoneKind::Normal;
        let zones = [ZoneSpec { node: NodeId(0), kind, span, present: span.len(), managed: 0 }];
        let geometry = Geometry {
            pageblock_order: Self::LARGEST.max(LEAST),
            max_order: Self::LARGEST.max(LEAST),
            page_shift: self.frame.log2().max(10),
        };
        let setup = Setup { geometry, ..Setup::new(Policy::default(), &zones, &[NodeId(0)]) };
        let bytes = setup.metadata_size().map_err(|_| InitError::InvalidSpan)?;
        let tables = T::take(bytes).ok_or(InitError::MetadataWontFit { required_bytes: bytes })?;
        let allocator = Allocator::new(tables, &setup).map_err(|_| InitError::InvalidSpan)?;
        let pool = pool.insert(Pool { allocator, frames: 0 });
        for usable in usable {
            pool.release(self.range(usable.base, usable.len).expect("it was checked"));
        }
        Ok(())
    }

    unsafe fn add_usable(&self, base: usize, len: usize) {
        let range = self.range(base, len).expect("a range of frames");
        self.pool().as_mut().expect("an initialised allocator").release(range);
    }
}

impl Pool {
    fn release(&mut self, range: FrameRange) {
        self.allocator.release(range).expect("reserved frames of the span");
        self.allocator.retune();
        self.frames += range.len();
    }
}

// SAFETY: a block is given once until it is freed, and starts at a multiple of its size.
unsafe impl<const ORDERS: usize, T> PhysicalAllocator for Frames<ORDERS, T> {
    fn allocate_physical(&self, size: PageSize, count: NonZeroUsize) -> Result<usize, AllocError> {
        let (frames, order) = self.request(size, count)?;
        let mut pool = self.pool();
        let allocator = &mut pool.as_mut().ok_or(AllocError::OutOfMemory)?.allocator;
        let pfn = if frames == 1 << order {
            allocator.alloc(CPU, &Request::movable(order), &mut ()).map_err(
                |error| match error {
                    alloc::AllocError::NoMemory => AllocError::OutOfMemory,
                    _ => AllocError::RequestTooLarge,
                },
            )?
        } else {
            let mut extent = [FrameRange::new(0, 0)];
            let request = Request::movable(0);
            let taken = allocator.alloc_extents(CPU, frames, &request, &mut extent, &mut ());
            taken.map_err(|_| AllocError::OutOfMemory)?;
            extent[0].start
        };
        Ok((pfn.0 as usize) << self.frame.log2())
    }

    unsafe fn deallocate_physical(&self, size: PageSize, count: NonZeroUsize, phys: usize) {
        let (frames, order) = self.request(size, count).expect("what was asked for");
        let mut pool = self.pool();
        let allocator = &mut pool.as_mut().expect("an initialised allocator").allocator;
        let pfn = Pfn((phys >> self.frame.log2()) as u64);
        if frames == 1 << order {
            allocator.free(CPU, pfn, order, &mut ()).expect("a block in use");
        } else {
            let range = FrameRange { start: pfn, end: pfn.plus(frames) };
            allocator.free_contig(CPU, range, &mut ()).expect("frames in use");
        }
    }
}

impl<const ORDERS: usize, T> AllocatorStats for Frames<ORDERS, T> {
    fn total_bytes(&self) -> usize {
        self.look(|pool| pool.frames)
    }

    fn free_bytes(&self) -> usize {
        self.look(|pool| pool.allocator.zones()[0].free_pages())
    }

    fn largest_free_bytes(&self) -> usize {
        self.look(|pool| {
            let zone = &pool.allocator.zones()[0];
            let orders = (0..=Self::LARGEST.max(LEAST)).rev();
            let largest = orders.into_iter().find(|&order| zone.nr_free(order) > 0);
            largest.map_or(0, |order| 1 << order.min(Self::LARGEST))
        })
    }
}
