//! Allocating and freeing many blocks at once.

use core::mem::MaybeUninit;

use crate::cpu::{asked, on};
use crate::memory::{self, Cpu};
use crate::status::Status;

/// Allocates up to `count` blocks of 2^order pages into `frames`; `got` is their number. Fails only if not even
/// one could be allocated. The remaining entries are 0.
///
/// # Safety
/// `frames` has room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_alloc_bulk(
    cpu: Option<&mut Cpu>,
    order: u32,
    gfp: u32,
    frames: *mut u64,
    count: usize,
    got: Option<&mut MaybeUninit<usize>>,
) -> Status {
    on(cpu, |handle| {
        let got = got.ok_or(Status::Null)?;
        let frames = memory::frames_mut(frames, count)?;
        got.write(handle.alloc_bulk(&asked(order, gfp)?, frames, &mut ())?);
        Ok(())
    })
}

/// Frees `count` blocks of one order. Stops at the first error: `freed` (may be NULL) blocks are free then, the
/// others are unchanged.
///
/// # Safety
/// `frames` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_free_bulk(
    cpu: Option<&mut Cpu>,
    frames: *const u64,
    count: usize,
    order: u32,
    freed: Option<&mut MaybeUninit<usize>>,
) -> Status {
    on(cpu, |handle| {
        let frames = memory::frames(frames, count)?;
        let result = handle.free_bulk(frames, crate::cpu::order(order)?, &mut ());
        freed.map(|freed| freed.write(result.map_or_else(|error| error.freed, |()| count)));
        Ok(result.map_err(|error| error.error)?)
    })
}
