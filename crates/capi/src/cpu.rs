//! CPUs: taking one, and allocating and freeing with it.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request as Asked};

use crate::memory::{Allocator, Cpu, Handle};
use crate::status::{Status, answer};

/// The node of a request: that of the CPU.
pub const PB_LOCAL_NODE: i32 = -1;
/// The zone stays above its low watermark, as for ordinary requests.
pub const PB_WATERMARK_LOW: u32 = 0;
/// The zone stays above its min watermark, as for requests that have woken kswapd.
pub const PB_WATERMARK_MIN: u32 = 1;
/// The zone may be used up to its last frame.
pub const PB_WATERMARK_NONE: u32 = 2;

/// A request with all options. Zero means no preference, except for the node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// The order: 2^order pages.
    order: u32,
    /// `PB_GFP_` constants.
    gfp: u32,
    /// The node to start from, or `PB_LOCAL_NODE`.
    node: i32,
    /// A `PB_WATERMARK_` constant: how many pages stay free.
    watermark: u32,
    /// The nodes that may be used, one bit each; 0 means all.
    nodes: u64,
}

pub(crate) fn order(given: u32) -> Result<Order, Status> {
    Order::try_from(given).map_err(|_| Status::OrderTooLarge)
}

/// Makes a request without a preferred node.
#[inline(always)]
pub(crate) fn asked(of_order: u32, gfp: u32) -> Result<Asked, Status> {
    Ok(Asked::new(order(of_order)?, Gfp(gfp)))
}

impl Request {
    fn asked(&self) -> Result<Asked, Status> {
        let mut asked = asked(self.order, self.gfp)?;
        if self.node != PB_LOCAL_NODE {
            asked.node = Some(NodeId(u8::try_from(self.node).map_err(|_| Status::NoSuchNode)?));
        }
        if self.nodes != 0 {
            asked.nodemask = self.nodes;
        }
        Ok(asked)
    }

    /// Returns what an attempt may take; `None` for the default of the fast path.
    fn flags(&self) -> Result<Option<AllocFlags>, Status> {
        let flags = match self.watermark {
            PB_WATERMARK_LOW => return Ok(None),
            PB_WATERMARK_MIN => AllocFlags::WMARK_MIN,
            PB_WATERMARK_NONE => AllocFlags::NO_WATERMARKS,
            _ => return Err(Status::Unknown),
        };
        let movable = Gfp(self.gfp).has(Gfp::MOVABLE);
        let flags = if movable { flags.with(AllocFlags::CMA) } else { flags };
        Ok(Some(flags.with(AllocFlags::CPUSET)))
    }
}

/// Calls `act` with the handle.
#[inline(always)]
pub(crate) fn on(
    cpu: Option<&mut Cpu>,
    act: impl FnOnce(&mut Handle) -> Result<(), Status>,
) -> Status {
    cpu.ok_or(Status::Null).and_then(Cpu::handle).and_then(act).into()
}

/// Takes a CPU, whose caches the caller owns until `pb_cpu_give`. `PB_STATUS_CPU_TAKEN` if it is already taken.
/// A thread takes a CPU and keeps it; there may be any number of CPUs, whatever the machine has.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_take(
    allocator: Option<&'static Allocator>,
    number: usize,
    cpu: Option<&mut MaybeUninit<NonNull<Cpu>>>,
) -> Status {
    answer(|| {
        let (allocator, cpu) = (allocator.ok_or(Status::Null)?, cpu.ok_or(Status::Null)?);
        cpu.write(allocator.take_cpu(number)?);
        Ok(())
    })
}

/// Gives a CPU back; its caches keep their frames for the next owner. The pointer may no longer be used: until
/// the CPU is taken again, functions return `PB_STATUS_CPU_GIVEN` for it.
///
/// # Safety
/// `cpu` is NULL or came from `pb_cpu_take`, its allocator lives, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_cpu_give(cpu: Option<NonNull<Cpu>>) -> Status {
    cpu.ok_or(Status::Null).and_then(Cpu::give).into()
}

/// Allocates 2^order pages; `frame` is the first. `PB_STATUS_NO_MEMORY` if no zone has such a block above its
/// low watermark.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc(
    cpu: Option<&mut Cpu>,
    order: u32,
    gfp: u32,
    frame: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(cpu, |handle| {
        let frame = frame.ok_or(Status::Null)?;
        frame.write(handle.alloc(&asked(order, gfp)?, &mut ())?.0);
        Ok(())
    })
}

/// Allocates like `pb_alloc`, with all options of a request.
#[unsafe(no_mangle)]
pub extern "C" fn pb_alloc_request(
    cpu: Option<&mut Cpu>,
    request: Option<&Request>,
    frame: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(cpu, |handle| {
        let (request, frame) = (request.ok_or(Status::Null)?, frame.ok_or(Status::Null)?);
        let asked = request.asked()?;
        let pfn = match request.flags()? {
            None => handle.alloc(&asked, &mut ()),
            Some(flags) => handle.alloc_with(&asked, flags, &mut ()),
        };
        frame.write(pfn?.0);
        Ok(())
    })
}

/// Frees a block that any CPU allocated. An invalid free (double free, wrong order, foreign frame) is an error
/// that changes nothing, unless two threads free the same block at the same instant: see the module `sharing`
/// of the Rust documentation.
#[unsafe(no_mangle)]
pub extern "C" fn pb_free(cpu: Option<&mut Cpu>, frame: u64, order: u32) -> Status {
    on(cpu, |handle| Ok(handle.free(Pfn(frame), self::order(order)?, &mut ())?))
}

/// Splits a block in use into blocks of order `into`; each is then freed by itself.
#[unsafe(no_mangle)]
pub extern "C" fn pb_split(cpu: Option<&mut Cpu>, frame: u64, order: u32, into: u32) -> Status {
    on(cpu, |handle| {
        Ok(handle.split_allocated(Pfn(frame), self::order(order)?, self::order(into)?)?)
    })
}

/// Sets whether the content of a block in use can be moved. A new block counts as movable if its request was.
#[unsafe(no_mangle)]
pub extern "C" fn pb_set_movable(cpu: Option<&mut Cpu>, frame: u64, movable: bool) -> Status {
    on(cpu, |handle| Ok(handle.set_movable(Pfn(frame), movable)?))
}

/// Shrinks caches that a burst has filled (kernel 6.7 and later); to be called about once a second.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_tick(cpu: Option<&mut Cpu>) -> Status {
    on(cpu, |handle| {
        handle.vmstat_tick(&mut ());
        Ok(())
    })
}
