//! Buffers of a database's pool, in place of a queue of equal blocks as DuckDB's `BlockAllocator` has: 256 KiB to 2 MiB
//! out of one private mapping, whose huge pages return to the system as wholes, when the last buffer in one is
//! given back.
//!
//! Blocks are taken from the fullest huge page on, so that others become empty; a queue of blocks leaves some in each.

extern crate std;

use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec;
use std::vec::Vec;

use pageblock::alloc::AllocError;
use pageblock::event::{Event, Observer};
use pageblock::locks::Std;
use pageblock::prelude::{Cpu, CpuId, FrameRange, OneZone, Order, Pfn, Request, Shared};
use pageblock::setup::SetupError;
use pageblock::sharing::CpuError;
use pageblock::zone::{FrameError, Geometry};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The base-2 logarithm of the bytes of the smallest buffer: 256 KiB.
pub const FRAME_SHIFT: u8 = 18;
/// The order of a huge page of 2 MiB, which is the largest buffer.
pub const HUGE: Order = 3;

const fn bytes(frames: u64) -> usize {
    (frames as usize) << FRAME_SHIFT
}

/// Returns the setup of a pool: frames of 256 KiB, pageblocks of 2 MiB.
#[must_use]
pub fn zone(size: usize, threads: usize) -> OneZone {
    let span = FrameRange::new(0, (size >> FRAME_SHIFT) as u64);
    let geometry = Geometry { pageblock_order: HUGE, max_order: HUGE, page_shift: FRAME_SHIFT };
    OneZone { geometry, ..OneZone::new(span).cpus(threads) }
}

/// A private mapping that starts at a multiple of 2 MiB.
struct Mapping {
    map: NonNull<u8>,
    len: usize,
    start: NonNull<u8>,
}

// SAFETY: a mapping belongs to the process, and the methods give out nothing but addresses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(size: usize) -> io::Result<Self> {
        let huge = bytes(1 << HUGE);
        let len = size.checked_add(huge).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let map = unsafe { mmap_anonymous(null_mut(), len, access, flags)? }.cast::<u8>();
        let start = map.wrapping_add(map.align_offset(huge));
        // SAFETY: the range is in the mapping. Without huge pages the pool works in small ones.
        let _ = unsafe { madvise(start.cast(), size, Advice::LinuxHugepage) };
        let (map, start) = (NonNull::new(map), NonNull::new(start));
        let missing = || io::Error::from(io::ErrorKind::OutOfMemory);
        Ok(Self { map: map.ok_or_else(missing)?, len, start: start.ok_or_else(missing)? })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody borrows any more. It can only fail for an invalid range.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.len) };
    }
}

/// The tables of a pool, which its owner keeps.
pub type Tables = Vec<MaybeUninit<u8>>;

/// A pool of buffers, which threads share by [`Seat`]s.
pub struct Pool<'m> {
    memory: Mapping,
    frames: Shared<'m, Std>,
    given: AtomicU64,
    refused: AtomicU64,
}

/// Gives pageblocks that became wholly free to the system, while the zone's lock is held.
struct GiveBack<'p, 'm>(&'p Pool<'m>);

impl Observer for GiveBack<'_, '_> {
    fn event(&mut self, _: Event) {}

    fn emptied(&mut self, pageblocks: FrameRange) {
        let pool = self.0;
        let (start, len) = (pool.address(pageblocks.start), bytes(pageblocks.len()));
        // SAFETY: the range is in the mapping, and no buffer is in it while the lock is held.
        let done = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        let counter = if done.is_ok() { &pool.given } else { &pool.refused };
        counter.fetch_add(pageblocks.len() >> HUGE, Ordering::Relaxed);
    }
}

/// Why there is no pool.
#[derive(Debug)]
pub enum Error {
    /// The size or the number of threads.
    Setup(SetupError),
    /// The system does not map so much.
    System(io::Error),
}

impl From<SetupError> for Error {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl<'m> Pool<'m> {
    /// Reserves `size` bytes of addresses; none is resident. `tables` and `locks` get the allocator's memory.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(
        size: usize,
        threads: usize,
        tables: &'m mut Tables,
        locks: &'m mut Tables,
    ) -> Result<Self, Error> {
        let zone = zone(size, threads);
        *tables = vec![MaybeUninit::uninit(); zone.metadata_size()?];
        let allocator = zone.build(tables)?;
        *locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<Std>()];
        let frames = allocator.share(locks)?;
        let memory = Mapping::new(size).map_err(Error::System)?;
        Ok(Self { memory, frames, given: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// The part of a thread.
    ///
    /// # Errors
    /// [`CpuError`] for a thread that has it already.
    pub fn seat(&self, thread: usize) -> Result<Seat<'_, 'm>, CpuError> {
        Ok(Seat { pool: self, cpu: self.frames.cpu(CpuId(thread))? })
    }

    /// Returns how many huge pages went back to the system, and how many it did not take.
    #[must_use]
    pub fn given_back(&self) -> (u64, u64) {
        (self.given.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    fn address(&self, pfn: Pfn) -> NonNull<u8> {
        // SAFETY: the allocator has no frames but those of the mapping.
        unsafe { self.memory.start.add(bytes(pfn.0)) }
    }
}

/// One thread's part of a pool.
pub struct Seat<'p, 'm> {
    pool: &'p Pool<'m>,
    cpu: Cpu<'p, 'm, Std, ()>,
}

impl<'p> Seat<'p, '_> {
    /// Takes a buffer of 256 KiB times 2 to the power of `order`. Its content is what the last one in its place left, or
    /// zeros.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn take(&mut self, order: Order) -> Result<Buffer<'p>, AllocError> {
        let pfn = self.cpu.alloc(&Request::movable(order), &mut GiveBack(self.pool))?;
        let start = self.pool.address(pfn);
        // SAFETY: the block lies in the mapping, which the pool outlives, and is nobody else's until its only buffer is
        // given back.
        Ok(Buffer(unsafe { NonNull::slice_from_raw_parts(start, bytes(1 << order)).as_mut() }))
    }

    /// Gives back a buffer that any thread took.
    ///
    /// # Errors
    /// [`FrameError`] for one of another pool.
    pub fn give_back(&mut self, buffer: Buffer<'p>) -> Result<(), FrameError> {
        let order = (buffer.len() >> FRAME_SHIFT).trailing_zeros() as Order;
        // Of a buffer elsewhere this is more than the pool has.
        let offset = buffer.as_ptr().addr().wrapping_sub(self.pool.memory.start.addr().get());
        let pfn = Pfn((offset >> FRAME_SHIFT) as u64);
        self.cpu.free(pfn, order, &mut GiveBack(self.pool))
    }

    /// Gives back what this thread keeps for its next requests.
    pub fn drain(&mut self) {
        self.cpu.drain(&mut GiveBack(self.pool));
    }
}

/// A buffer, for whoever has it. Give it back to a [`Seat`]: dropping it leaks it.
#[derive(Debug)]
pub struct Buffer<'p>(&'p mut [u8]);

impl Deref for Buffer<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}
