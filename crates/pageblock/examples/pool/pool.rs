//! Buffers in a mapped file, allocated by threads.

use std::mem::MaybeUninit;

use pageblock::alloc::{AllocError, Allocator};
use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::{Setup, SetupError};
use pageblock::sharing::{CpuError, Shared};
use pageblock::zone::FrameError;

use crate::memory::Memory;

pub(crate) const PAGE_SIZE: usize = 4096;

pageblock::locks! {
    /// Locks that let threads sleep.
    pub(crate) struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

/// Makes an allocator of all frames of a pool, whose tables `memory` becomes.
pub(crate) fn allocator(
    frames: u64,
    threads: usize,
    memory: &mut Vec<MaybeUninit<u8>>,
) -> Result<Allocator<'_>, Box<dyn std::error::Error>> {
    let span = FrameRange::new(0, frames);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let cpu_nodes = vec![NodeId(0); threads];
    let setup = Setup::new(Policy::parse("linux-6.12,placement=packed")?, &zones, &cpu_nodes);
    memory.resize_with(setup.metadata_size()?, MaybeUninit::uninit);
    let mut allocator = Allocator::new(memory, &setup)?;
    allocator.release(span)?;
    allocator.retune();
    Ok(allocator)
}

/// A pool: frame n of the allocator is page n of the memory.
pub(crate) struct Pool<'m> {
    memory: Memory,
    frames: Shared<'m, ParkingLot>,
}

/// One thread's part of the pool.
pub(crate) struct Seat<'p, 'm> {
    pool: &'p Pool<'m>,
    cpu: Cpu<'p, 'm, ParkingLot, ()>,
}

/// A buffer of a power-of-two number of pages, for whoever has it. Give it back to a [`Seat`]: dropping it
/// leaks it.
pub(crate) struct Buffer<'p>(&'p mut [u8]);

impl<'m> Pool<'m> {
    /// A pool in `memory`, whose frames `allocator` has, with its locks in `locks`.
    pub(crate) fn new(
        memory: Memory,
        allocator: Allocator<'m>,
        locks: &'m mut [MaybeUninit<u8>],
    ) -> Result<Self, SetupError> {
        Ok(Self { memory, frames: allocator.share(locks)? })
    }

    /// The part of a thread, which it has alone.
    pub(crate) fn seat(&self, thread: usize) -> Result<Seat<'_, 'm>, CpuError> {
        Ok(Seat { pool: self, cpu: self.frames.cpu(CpuId(thread))? })
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Where a buffer lies in the file.
    pub(crate) fn offset(&self, buffer: &Buffer<'_>) -> u64 {
        // Of a buffer elsewhere this is more than the pool has.
        buffer.as_ptr().addr().wrapping_sub(self.memory.start().addr().get()) as u64
    }

    /// Ends the sharing.
    pub(crate) fn into_allocator(self) -> Result<Allocator<'m>, CpuError> {
        self.frames.into_owned()
    }
}

impl<'p, 'm> Seat<'p, 'm> {
    /// The pool.
    pub(crate) fn pool(&self) -> &'p Pool<'m> {
        self.pool
    }

    /// Takes a buffer.
    pub(crate) fn take(&mut self, order: Order) -> Result<Buffer<'p>, AllocError> {
        let pfn = self.cpu.alloc(&Request::new(order, Gfp::GFP_USER), &mut ())?;
        let len = PAGE_SIZE << order;
        // SAFETY: the block lies in the memory, which lives as long as the pool, and is nobody else's until
        // its only buffer is given back. A memfd's bytes are initialised.
        let bytes = unsafe {
            let start = self.pool.memory.start().add(pfn.0 as usize * PAGE_SIZE);
            std::slice::from_raw_parts_mut(start.as_ptr(), len)
        };
        Ok(Buffer(bytes))
    }

    /// Gives a buffer back that any thread took. One of another pool is an error.
    pub(crate) fn give_back(&mut self, buffer: Buffer<'p>) -> Result<(), FrameError> {
        let order = (buffer.len() / PAGE_SIZE).trailing_zeros() as Order;
        let pfn = Pfn(self.pool.offset(&buffer) / PAGE_SIZE as u64);
        self.cpu.free(pfn, order, &mut ())
    }
}

impl std::ops::Deref for Buffer<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl std::ops::DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}
