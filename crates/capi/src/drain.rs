//! Draining CPUs' caches.

use core::mem::MaybeUninit;

use pageblock::ids::CpuId;
use pageblock::sharing::DrainRequest;

use crate::cpu::on;
use crate::memory::{Allocator, Cpu};
use crate::status::{Status, answer};

/// A drain request to a CPU; its fields are private to the library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Drain {
    cpu: usize,
    number: u32,
    generation: u32,
}

/// Drains a CPU's own caches to the zones.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_drain(cpu: Option<&mut Cpu>) -> Status {
    on(cpu, |handle| {
        handle.drain(&mut ());
        Ok(())
    })
}

/// Handles other threads' requests to a CPU. Every function that allocates or frees with the CPU does so too; a
/// CPU that rarely calls them should call this now and then.
#[unsafe(no_mangle)]
pub extern "C" fn pb_cpu_attend(cpu: Option<&mut Cpu>) -> Status {
    on(cpu, |handle| {
        handle.attend(&mut ());
        Ok(())
    })
}

/// Requests that a CPU's caches are drained: those of a CPU that is not taken at once, those of another CPU at
/// its next call, or when it is given back. `pb_is_drained` reports completion.
#[unsafe(no_mangle)]
pub extern "C" fn pb_request_drain(
    allocator: Option<&Allocator>,
    cpu: usize,
    drain: Option<&mut MaybeUninit<Drain>>,
) -> Status {
    answer(|| {
        let (allocator, drain) = (allocator.ok_or(Status::Null)?, drain.ok_or(Status::Null)?);
        allocator.with_shared(|shared, generation| {
            allocator.expect_drain();
            let request = shared.request_drain(CpuId(cpu)).ok_or(Status::NoSuchCpu)?;
            // Nobody may ask again before all CPUs are given back.
            shared.is_drained(request);
            drain.write(Drain { cpu, number: request.number, generation });
            Ok(())
        })
    })
}

/// Returns whether a request is completed.
#[unsafe(no_mangle)]
pub extern "C" fn pb_is_drained(
    allocator: Option<&Allocator>,
    drain: Option<&Drain>,
    drained: Option<&mut MaybeUninit<bool>>,
) -> Status {
    answer(|| {
        let (allocator, drain) = (allocator.ok_or(Status::Null)?, drain.ok_or(Status::Null)?);
        let drained = drained.ok_or(Status::Null)?;
        allocator.with_shared(|shared, generation| {
            let request = DrainRequest { cpu: CpuId(drain.cpu), number: drain.number };
            // Since then all CPUs were given back, who did what they were asked for.
            let past = drain.generation != generation;
            drained.write(past || shared.is_drained(request));
            Ok(())
        })
    })
}

/// Requests of all CPUs what `pb_request_drain` requests of one; `waiting` (may be NULL) is the number of taken
/// CPUs that have not completed it.
#[unsafe(no_mangle)]
pub extern "C" fn pb_drain_all(
    allocator: Option<&Allocator>,
    waiting: Option<&mut MaybeUninit<usize>>,
) -> Status {
    answer(|| {
        let allocator = allocator.ok_or(Status::Null)?;
        allocator.with_shared(|shared, _| {
            allocator.expect_drain();
            let left = shared.drain_all();
            waiting.map(|waiting| waiting.write(left));
            Ok(())
        })
    })
}
