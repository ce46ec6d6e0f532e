//! What is in CPUs' caches, given back.

use core::mem::MaybeUninit;

use pageblock::ids::CpuId;
use pageblock::sharing::DrainRequest;

use crate::cpu::on;
use crate::memory::{Allocator, Cpu};
use crate::status::Status;

/// A request to a CPU; its fields are the library's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Drain {
    cpu: usize,
    number: u32,
    generation: u32,
}

/// Gives every frame of a CPU's own caches back to the zones.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_drain(cpu: Option<&mut Cpu>) -> Status {
    on(cpu, |handle| {
        handle.drain(&mut ());
        Ok(())
    })
}

/// Does what other threads asked of a CPU. All functions that allocate or free by it do so too; a CPU
/// that does that rarely calls this now and then.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_attend(cpu: Option<&mut Cpu>) -> Status {
    on(cpu, |handle| {
        handle.attend(&mut ());
        Ok(())
    })
}

/// Asks for all frames of a CPU's caches: those of a CPU that is not taken come back now, of another
/// at its next call, or when it is given back. `pb_is_drained` tells when.
#[unsafe(no_mangle)]
pub extern "C" fn pb_request_drain(
    allocator: Option<&Allocator>,
    cpu: usize,
    drain: Option<&mut MaybeUninit<Drain>>,
) -> Status {
    let act = || {
        let (allocator, drain) = (allocator.ok_or(Status::Null)?, drain.ok_or(Status::Null)?);
        allocator.with_shared(|shared, generation| {
            allocator.expect_drain();
            let request = shared.request_drain(CpuId(cpu)).ok_or(Status::NoSuchCpu)?;
            // Nobody may ask again before all CPUs are given back.
            shared.is_drained(request);
            drain.write(Drain { cpu, number: request.number, generation });
            Ok(())
        })
    };
    act().into()
}

/// Tells whether a request was honoured.
#[unsafe(no_mangle)]
pub extern "C" fn pb_is_drained(
    allocator: Option<&Allocator>,
    drain: Option<&Drain>,
    drained: Option<&mut MaybeUninit<bool>>,
) -> Status {
    let act = || {
        let (allocator, drain) = (allocator.ok_or(Status::Null)?, drain.ok_or(Status::Null)?);
        let drained = drained.ok_or(Status::Null)?;
        allocator.with_shared(|shared, generation| {
            let request = DrainRequest { cpu: CpuId(drain.cpu), number: drain.number };
            // Since then all CPUs were given back, who did what they were asked for.
            let past = drain.generation != generation;
            drained.write(past || shared.is_drained(request));
            Ok(())
        })
    };
    act().into()
}

/// Asks all CPUs, as `pb_request_drain` does one; `waiting` (may be NULL) is how many are taken and
/// have not done it yet.
#[unsafe(no_mangle)]
pub extern "C" fn pb_drain_all(
    allocator: Option<&Allocator>,
    waiting: Option<&mut MaybeUninit<usize>>,
) -> Status {
    let act = || {
        let allocator = allocator.ok_or(Status::Null)?;
        allocator.with_shared(|shared, _| {
            allocator.expect_drain();
            let left = shared.drain_all();
            waiting.map(|waiting| waiting.write(left));
            Ok(())
        })
    };
    act().into()
}
