//! Allocating blocks at given frames.

use core::mem::MaybeUninit;

use pageblock::frame::{FrameRange, Pfn};

use crate::cpu::{asked, on};
use crate::memory::Cpu;
use crate::status::Status;

/// Allocates the block that starts at a frame, if all of it is free and the zone stays above its low watermark.
/// A frame in a CPU's cache does not count as free: drain it first.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_at(cpu: Option<&mut Cpu>, frame: u64, order: u32, gfp: u32) -> Status {
    on(cpu, |handle| Ok(handle.alloc_at(Pfn(frame), &asked(order, gfp)?, &mut ())?))
}

/// Allocates the lowest free block within the frames from `start` up to, not including, `end`. Takes time
/// linear in the blocks before it.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_within(
    cpu: Option<&mut Cpu>,
    start: u64,
    end: u64,
    order: u32,
    gfp: u32,
    frame: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(cpu, |handle| {
        let frame = frame.ok_or(Status::Null)?;
        let range = FrameRange::new(start, end);
        frame.write(handle.alloc_within(range, &asked(order, gfp)?, &mut ())?.0);
        Ok(())
    })
}

/// Allocates the lowest free block whose frames are all below `limit`, for a device that reaches no more.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_below(
    cpu: Option<&mut Cpu>,
    limit: u64,
    order: u32,
    gfp: u32,
    frame: Option<&mut MaybeUninit<u64>>,
) -> Status {
    pb_alloc_within(cpu, 0, limit, order, gfp, frame)
}
