//! Adding and removing memory: by an exclusive owner (`pb_release`, `pb_offline`: `PB_STATUS_BUSY` while a CPU
//! is taken), or concurrently with working CPUs.

use pageblock::FrameState;
use pageblock::alloc::Allocator as Whole;
use pageblock::contig::ContigError;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::CpuId;

use crate::contig::{Migrate, MigrateCallbacks};
use crate::cpu::on;
use crate::memory::{self, Allocator, Cpu, Shared};
use crate::status::{Status, answer};

/// The frames from `start` up to, not including, `end`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    /// The first frame.
    start: u64,
    /// The frame after the last.
    end: u64,
}

impl From<FrameRange> for Range {
    fn from(range: FrameRange) -> Self {
        Self { start: range.start.0, end: range.end.0 }
    }
}

impl Range {
    #[cfg(test)]
    pub(crate) fn of(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    fn frames(self) -> FrameRange {
        FrameRange::new(self.start, self.end)
    }
}

/// Checks that all frames of a range are reserved.
fn all_reserved(whole: &Whole<'_>, range: FrameRange) -> Result<(), Status> {
    let mut at = range.start;
    while at < range.end {
        let zone = whole
            .zone_of(at)
            .and_then(|at| whole.zones().get(at.index()))
            .ok_or(Status::Foreign)?;
        let end = range.end.min(zone.span().end);
        for pfn in at.0..end.0 {
            match zone.state(Pfn(pfn)) {
                Some(FrameState::Reserved) => {}
                None | Some(FrameState::Hole) => return Err(Status::Foreign),
                _ => return Err(Status::WrongState),
            }
        }
        at = end;
    }
    if range.is_empty() { Err(Status::Empty) } else { Ok(()) }
}

fn release(whole: &mut Whole<'_>, ranges: &[Range]) -> Result<(), Status> {
    for (at, range) in ranges.iter().enumerate() {
        all_reserved(whole, range.frames())?;
        let meets = |other: &Range| other.start < range.end && range.start < other.end;
        if ranges[..at].iter().any(meets) {
            return Err(Status::WrongState);
        }
    }
    for range in ranges {
        whole.release(range.frames())?;
    }
    whole.retune();
    Ok(())
}

/// Releases reserved memory to the allocator, and tunes watermarks and caches for it. At the start release all
/// memory in one call, from low to high, as a kernel does at boot; later calls add memory.
/// `PB_STATUS_WRONG_STATE` for frames that are not reserved.
///
/// # Safety
/// `ranges` points to `count` ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_release(
    allocator: Option<&Allocator>,
    ranges: *const Range,
    count: usize,
) -> Status {
    answer(|| {
        let ranges = memory::many(ranges, count)?;
        allocator.ok_or(Status::Null)?.with_whole(|whole| release(whole, ranges))
    })
}

/// Assigns whole pageblocks of reserved memory to a contiguous memory area (CMA), before they are released: only
/// movable blocks are put there, so that `pb_cpu_alloc_contig_range` can empty it. Release them apart from other memory.
#[unsafe(no_mangle)]
pub extern "C" fn pb_reserve_cma(allocator: Option<&Allocator>, start: u64, end: u64) -> Status {
    answer(|| {
        let range = FrameRange::new(start, end);
        if range.is_empty() {
            return Err(Status::Empty);
        }
        allocator.ok_or(Status::Null)?.with_whole(|whole| Ok(whole.reserve_cma(range)?))
    })
}

/// Takes memory of one zone from the allocator, so that it is reserved. The range consists of whole pageblocks,
/// except at the ends of the zone. Blocks in use are moved by `migrate` (may be NULL) to memory that CPU `cpu`
/// allocates, which must not be taken.
#[unsafe(no_mangle)]
pub extern "C" fn pb_offline(
    allocator: Option<&Allocator>,
    cpu: usize,
    start: u64,
    end: u64,
    migrate: Option<&Migrate>,
) -> Status {
    answer(|| {
        allocator.ok_or(Status::Null)?.with_whole(|whole| {
            let range = FrameRange::new(start, end);
            Ok(whole.offline(CpuId(cpu), range, &mut MigrateCallbacks(migrate), &mut ())?)
        })
    })
}

/// Takes memory away like `pb_offline`, by a CPU, while others work. Frames in their caches are requested from
/// them (`wait_for` of `migrate`), as in `pb_cpu_alloc_contig`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_offline(
    cpu: Option<&mut Cpu>,
    start: u64,
    end: u64,
    migrate: Option<&Migrate>,
) -> Status {
    on(cpu, |handle| {
        Ok(handle.offline(FrameRange::new(start, end), &mut MigrateCallbacks(migrate), &mut ())?)
    })
}

/// Works concurrently with CPUs that are taken.
fn on_range(
    allocator: Option<&Allocator>,
    (start, end): (u64, u64),
    act: impl FnOnce(&Shared, FrameRange) -> Result<(), ContigError>,
) -> Status {
    let range = FrameRange::new(start, end);
    let allocator = allocator.ok_or(Status::Null);
    allocator.and_then(|it| it.with_shared(|shared, _| Ok(act(shared, range)?))).into()
}

/// Releases reserved memory of one zone to the allocator, whether CPUs are taken or not; `PB_STATUS_BUSY` only
/// during an exclusive call. CPUs use the new limits of their caches from their next call on.
#[unsafe(no_mangle)]
pub extern "C" fn pb_online(allocator: Option<&Allocator>, start: u64, end: u64) -> Status {
    on_range(allocator, (start, end), Shared::online)
}

/// Marks reserved frames of one zone as holes, which are not (or no longer) memory. Otherwise like `pb_online`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_mark_holes(allocator: Option<&Allocator>, start: u64, end: u64) -> Status {
    on_range(allocator, (start, end), Shared::mark_holes)
}

/// Marks holes of one zone as memory, which is reserved at first. Otherwise like `pb_online`.
#[unsafe(no_mangle)]
pub extern "C" fn pb_fill_holes(allocator: Option<&Allocator>, start: u64, end: u64) -> Status {
    on_range(allocator, (start, end), Shared::fill_holes)
}
