//! The crate `x86_64`: page tables get their frames from a CPU's handle.

use pageblock::cpu::Cpu;
use pageblock::frame::{Order, Pfn};
use pageblock::interrupts::Interrupts;
use pageblock::locks::Locks;
use pageblock::request::{Gfp, Request};
use x86_64::PhysAddr;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};

const FRAME_SIZE: u64 = Size4KiB::SIZE;

/// A CPU, as page tables see it. Pages of 1 GiB are more than a block can have; for those there is
/// `Allocator::alloc_contig`.
pub struct CpuFrames<'c, 's, 'm, L: Locks, I: Interrupts> {
    cpu: &'c mut Cpu<'s, 'm, L, I>,
    /// What the frames are for.
    gfp: Gfp,
}

/// Sizes that a block can have.
pub trait BlockSize: PageSize {
    /// The order of a page in frames.
    const ORDER: Order = (Self::SIZE / FRAME_SIZE).trailing_zeros() as Order;
}

impl BlockSize for Size4KiB {}
impl BlockSize for Size2MiB {}

const _: () = assert!(Size1GiB::SIZE / FRAME_SIZE > 1 << pageblock::frame::ORDER_LIMIT);

impl<'c, 's, 'm, L: Locks, I: Interrupts> CpuFrames<'c, 's, 'm, L, I> {
    /// Allocates by a CPU's handle, for what `gfp` says.
    pub fn new(cpu: &'c mut Cpu<'s, 'm, L, I>, gfp: Gfp) -> Self {
        Self { cpu, gfp }
    }
}

// SAFETY: a block is given once until it is freed, and starts at a multiple of its size.
unsafe impl<S: BlockSize, L: Locks, I: Interrupts> FrameAllocator<S>
    for CpuFrames<'_, '_, '_, L, I>
{
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        let pfn = self.cpu.alloc(&Request::new(S::ORDER, self.gfp), &mut ()).ok()?;
        PhysFrame::from_start_address(PhysAddr::new(pfn.0 * FRAME_SIZE)).ok()
    }
}

impl<S: BlockSize, L: Locks, I: Interrupts> FrameDeallocator<S> for CpuFrames<'_, '_, '_, L, I> {
    /// # Panics
    /// For a frame that is not in use: the trait knows no error.
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        let pfn = Pfn(frame.start_address().as_u64() / FRAME_SIZE);
        self.cpu.free(pfn, S::ORDER, &mut ()).expect("a frame in use");
    }
}
