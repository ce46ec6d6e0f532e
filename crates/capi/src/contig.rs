//! Contiguous ranges of any size. All functions here give `PB_STATUS_BUSY` while a CPU is taken.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pageblock::contig::Migrate as Moves;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::request::{Gfp, Request};

use crate::memory::Allocator;
use crate::status::Status;

/// How the contents of blocks in use are moved. The functions may not call those of the same
/// allocator, which say `PB_STATUS_BUSY` meanwhile.
#[repr(C)]
pub struct Migrate {
    /// Tells whether the content of a block can be moved.
    is_movable: Option<extern "C" fn(context: *mut c_void, block: u64, order: u32) -> bool>,
    /// Moves the content of a block to another, and lets everyone who used the first use the second;
    /// the first is freed then, by the allocator. Where it gives false, the second is.
    migrate: Option<extern "C" fn(context: *mut c_void, from: u64, to: u64, order: u32) -> bool>,
    /// What both are given.
    context: *mut c_void,
}

/// The caller's functions; nothing is moved where one is missing.
pub(crate) struct Given<'a>(pub(crate) Option<&'a Migrate>);

impl Moves for Given<'_> {
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
}

/// Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that the
/// flags allow, for a CPU that is not taken (whose node comes first). With `migrate` (may be NULL) what
/// is in the way is moved. Where it fails, what was moved stays moved.
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
    let act = || {
        let (allocator, start) = (allocator.ok_or(Status::Null)?, start.ok_or(Status::Null)?);
        allocator.with_whole(|whole| {
            let request = Request::new(0, Gfp(gfp));
            let moves = &mut Given(migrate);
            let range = whole.alloc_contig(cpu, pages, align, &request, moves, &mut ())?;
            start.write(range.start.0);
            Ok(())
        })
    };
    act().into()
}

/// Allocates the frames from `start` up to, not including, `end`, which lie in one zone. Otherwise as
/// `pb_alloc_contig`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_contig_range(
    allocator: Option<&Allocator>,
    cpu: usize,
    start: u64,
    end: u64,
    migrate: Option<&Migrate>,
) -> Status {
    let act = || {
        allocator.ok_or(Status::Null)?.with_whole(|whole| {
            let range = FrameRange::new(start, end);
            Ok(whole.alloc_contig_range(cpu, range, &mut Given(migrate), &mut ())?)
        })
    };
    act().into()
}

/// Frees such a range, to the caches of a CPU that is not taken and to the zone.
#[unsafe(no_mangle)]
pub extern "C" fn pb_free_contig(
    allocator: Option<&Allocator>,
    cpu: usize,
    start: u64,
    end: u64,
) -> Status {
    let act = || {
        allocator
            .ok_or(Status::Null)?
            .with_whole(|whole| Ok(whole.free_contig(cpu, FrameRange::new(start, end), &mut ())?))
    };
    act().into()
}
