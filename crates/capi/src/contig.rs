//! Contiguous ranges of any size: by an exclusive owner (`PB_STATUS_BUSY` while a CPU is taken), or by a CPU
//! concurrently with others.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pageblock::contig::Migrate as Moves;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::request::{Gfp, Request};

use crate::cpu::on;
use crate::extent::Range;
use crate::memory::{self, Allocator, Cpu};
use crate::status::{Status, answer};

/// How the contents of blocks in use are moved. In exclusive calls, the functions may not call functions of the
/// same allocator, which return `PB_STATUS_BUSY` meanwhile. In calls by a CPU, they may not use that CPU, and
/// `is_movable` may not use the allocator at all, as a zone's lock is held.
#[repr(C)]
pub struct Migrate {
    /// Returns whether the content of a block can be moved.
    is_movable: Option<extern "C" fn(context: *mut c_void, block: u64, order: u32) -> bool>,
    /// Moves the content of a block to another, and redirects all users of the first to the second; the
    /// allocator then frees the first. If it returns false, the allocator frees the second.
    migrate: Option<extern "C" fn(context: *mut c_void, from: u64, to: u64, order: u32) -> bool>,
    /// The first argument of all functions.
    context: *mut c_void,
    /// Called repeatedly by `pb_cpu_alloc_contig`, `pb_cpu_alloc_contig_range` and `pb_cpu_offline` while a CPU
    /// that is taken has not yet returned its frames (which it does at its next call). If it returns false, or
    /// is NULL, the wait ends with `PB_STATUS_BUSY`.
    wait_for: Option<extern "C" fn(context: *mut c_void, cpu: usize) -> bool>,
}

/// The caller's functions; nothing is moved if one is missing.
pub(crate) struct MigrateCallbacks<'a>(pub(crate) Option<&'a Migrate>);

impl Moves for MigrateCallbacks<'_> {
    fn is_movable(&mut self, block: Pfn, order: Order) -> bool {
        self.0.is_some_and(|given| match (given.is_movable, given.migrate) {
            (Some(is_movable), Some(_)) => is_movable(given.context, block.0, order.into()),
            _ => false,
        })
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool {
        self.0.is_some_and(|given| match given.migrate {
            Some(migrate) => migrate(given.context, from.0, to.0, order.into()),
            None => false,
        })
    }

    fn wait_for(&mut self, cpu: CpuId) -> bool {
        self.0.is_some_and(|given| match given.wait_for {
            Some(wait_for) => wait_for(given.context, cpu.index()),
            None => false,
        })
    }
}

/// Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that the flags
/// allow, for a CPU that is not taken (whose node is preferred). With `migrate` (may be NULL) blocks in use are
/// moved out of the way. On failure, moved blocks stay moved.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_contig(
    allocator: Option<&Allocator>,
    cpu: usize,
    pages: u64,
    align: u64,
    gfp: u32,
    migrate: Option<&Migrate>,
    start: Option<&mut MaybeUninit<u64>>,
) -> Status {
    answer(|| {
        let (allocator, start) = (allocator.ok_or(Status::Null)?, start.ok_or(Status::Null)?);
        allocator.with_whole(|whole| {
            let request = Request::new(0, Gfp(gfp));
            let moves = &mut MigrateCallbacks(migrate);
            let range = whole.alloc_contig(CpuId(cpu), pages, align, &request, moves, &mut ())?;
            start.write(range.start.0);
            Ok(())
        })
    })
}

/// Allocates the frames from `start` up to, not including, `end`, which must be in one zone. Otherwise like
/// `pb_alloc_contig`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_contig_range(
    allocator: Option<&Allocator>,
    cpu: usize,
    start: u64,
    end: u64,
    migrate: Option<&Migrate>,
) -> Status {
    answer(|| {
        allocator.ok_or(Status::Null)?.with_whole(|whole| {
            let range = FrameRange::new(start, end);
            Ok(whole.alloc_contig_range(
                CpuId(cpu),
                range,
                &mut MigrateCallbacks(migrate),
                &mut (),
            )?)
        })
    })
}

/// Frees such a range, to the caches of a CPU that is not taken and to the zone.
#[unsafe(no_mangle)]
pub extern "C" fn pb_free_contig(
    allocator: Option<&Allocator>,
    cpu: usize,
    start: u64,
    end: u64,
) -> Status {
    answer(|| {
        allocator.ok_or(Status::Null)?.with_whole(|whole| {
            Ok(whole.free_contig(CpuId(cpu), FrameRange::new(start, end), &mut ())?)
        })
    })
}

/// Allocates like `pb_alloc_contig`, by a CPU, while others work. Frames in their caches are requested from
/// them (`wait_for` of `migrate`). A block may not be freed while it is being moved; if it was freed before,
/// `migrate` returns false. Concurrent activity of others can make it fail where a retry would succeed.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_alloc_contig(
    cpu: Option<&mut Cpu>,
    pages: u64,
    align: u64,
    gfp: u32,
    migrate: Option<&Migrate>,
    start: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(cpu, |handle| {
        let start = start.ok_or(Status::Null)?;
        let request = Request::new(0, Gfp(gfp));
        let moves = &mut MigrateCallbacks(migrate);
        let range = handle.alloc_contig(pages, align, &request, moves, &mut ())?;
        start.write(range.start.0);
        Ok(())
    })
}

/// Allocates the frames from `start` up to, not including, `end`, which must be in one zone. Otherwise like
/// `pb_cpu_alloc_contig`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_alloc_contig_range(
    cpu: Option<&mut Cpu>,
    start: u64,
    end: u64,
    migrate: Option<&Migrate>,
) -> Status {
    on(cpu, |handle| {
        let range = FrameRange::new(start, end);
        Ok(handle.alloc_contig_range(range, &mut MigrateCallbacks(migrate), &mut ())?)
    })
}

/// Frees a range that one of the functions above returned, to the CPU's caches and to the zone.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_free_contig(cpu: Option<&mut Cpu>, start: u64, end: u64) -> Status {
    on(cpu, |handle| Ok(handle.free_contig(FrameRange::new(start, end), &mut ())?))
}

/// Allocates `pages` pages by a CPU: one range where some block holds them all, or else blocks, the largest first.
/// `ranges` has room for `room` of them; the first 256 are used at most. `count` says how many were written. Free each
/// with `pb_cpu_free_contig`.
/// `PB_STATUS_NOT_FOUND` if so many are not free, `PB_STATUS_SPACE` if they are in more ranges than there is room for;
/// nothing is allocated then.
///
/// # Safety
/// `ranges` points to `room` ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_alloc_extents(
    cpu: Option<&mut Cpu>,
    pages: u64,
    gfp: u32,
    ranges: *mut Range,
    room: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> Status {
    on(cpu, |handle| {
        let count = count.ok_or(Status::Null)?;
        let places = memory::many_mut(ranges, room)?;
        let mut extents = [FrameRange::new(0, 0); EXTENTS];
        let room = room.min(EXTENTS);
        let request = Request::new(0, Gfp(gfp));
        let n = handle.alloc_extents(pages, &request, &mut extents[..room], &mut ())?;
        for (place, extent) in places.iter_mut().zip(&extents[..n]) {
            place.write(Range::from(*extent));
        }
        count.write(n);
        Ok(())
    })
}

/// The most ranges that one call gives.
const EXTENTS: usize = 256;
