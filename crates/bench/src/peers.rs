//! Other allocators. Bitmaps and free sets hand out frame numbers; those that hand out real memory get it from
//! the system, which maps it on first use. No pattern touches the allocated memory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;

use bitmap_allocator::{BitAlloc, BitAlloc1M, BitAlloc16M};
use frame_alloc::{
    CpuId, DepotAllocator, PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};
use pageblock::frame::Order;
use parking_lot::Mutex;

use crate::subject::{BuddySystem, SharedSubject, Subject};

const PAGE: u64 = 4096;

/// `bitmap-allocator`: first fit by address in a tree of bitmaps.
pub enum Bitmap {
    /// Up to 4 GiB.
    Small(Box<BitAlloc1M>),
    /// Up to 64 GiB.
    Large(Box<BitAlloc16M>),
}

impl Subject for Bitmap {
    const NAME: &'static str = "bitmap-allocator";

    fn new(frames: u64) -> Self {
        let frames = 0..frames as usize;
        if frames.end <= BitAlloc1M::CAP {
            let mut bits = Box::new(BitAlloc1M::DEFAULT);
            bits.insert(frames);
            Self::Small(bits)
        } else {
            let mut bits = Box::new(BitAlloc16M::DEFAULT);
            bits.insert(frames);
            Self::Large(bits)
        }
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        let found = match (self, order) {
            (Self::Small(bits), 0) => bits.alloc(),
            (Self::Large(bits), 0) => bits.alloc(),
            (Self::Small(bits), _) => bits.alloc_contiguous(None, 1 << order, order.into()),
            (Self::Large(bits), _) => bits.alloc_contiguous(None, 1 << order, order.into()),
        };
        Some(found? as u64)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        let frame = frame as usize;
        let freed = match (self, order) {
            (Self::Small(bits), 0) => bits.dealloc(frame),
            (Self::Large(bits), 0) => bits.dealloc(frame),
            (Self::Small(bits), _) => bits.dealloc_contiguous(frame, 1 << order),
            (Self::Large(bits), _) => bits.dealloc_contiguous(frame, 1 << order),
        };
        assert!(freed, "it was allocated");
    }
}

/// An allocator behind one lock.
pub struct Locked<S>(Arc<Mutex<S>>);

impl<S: Subject> Subject for Locked<S> {
    const NAME: &'static str = S::NAME;

    fn new(frames: u64) -> Self {
        Self(Arc::new(Mutex::new(S::new(frames))))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        self.0.lock().alloc(order)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.0.lock().free(frame, order);
    }
}

macro_rules! shared_by_lock {
    ($($subject:ty),*) => {
        $(impl SharedSubject for Locked<$subject> {
            fn handles(frames: u64, threads: usize) -> Vec<Self> {
                let one = Self::new(frames);
                (0..threads).map(|_| Self(Arc::clone(&one.0))).collect()
            }
        })*
    };
}

shared_by_lock!(BuddySystem, Bitmap);

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Sets which CPU of `frame-alloc` this thread is.
pub fn set_cpu(cpu: usize) {
    THREAD.set(cpu);
}

/// The CPU of the current thread.
pub struct ThreadCpu;

impl CpuId for ThreadCpu {
    fn current_cpu() -> usize {
        THREAD.get()
    }
}

/// The pool's memory, from the system, at its own address.
pub struct PoolMemory;

// SAFETY: the pool is one live allocation, never freed, whose provenance was exposed.
unsafe impl Provenance for PoolMemory {
    unsafe fn create(phys: usize) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(phys)).expect("the pool is not at address 0")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.addr().get()
    }
}

const FRAME: PageSize = PageSize::from_log2(12);

type Depot = DepotAllocator<SummaryBuddyAllocator<11, PoolMemory>, ThreadCpu, 4>;

/// `frame-alloc`: lock-free bitmaps, with a cache of single frames for each CPU. The bitmaps are in the pool
/// and take a small part of it.
pub struct FrameAlloc(Arc<Depot>);

impl Subject for FrameAlloc {
    const NAME: &'static str = "frame-alloc";

    fn new(frames: u64) -> Self {
        let (len, align) = ((frames * PAGE) as usize, (PAGE << 10) as usize);
        let layout = Layout::from_size_align(len, align).expect("the size is sound");
        // SAFETY: the layout is not empty. The pool is leaked: a benchmark ends soon.
        let pool = unsafe { std::alloc::System.alloc(layout) };
        assert!(!pool.is_null(), "the system has no memory for a pool");
        let base = pool.expose_provenance();
        let depot = Depot::new(FRAME, SummaryBuddyAllocator::new(FRAME));
        // SAFETY: the pool is ours, aligned to the largest block, and no one else knows it.
        unsafe { depot.init(base, len, &[PhysRange { base, len }]) };
        Self(Arc::new(depot))
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        let count = NonZeroUsize::MIN.checked_mul(NonZeroUsize::new(1 << order)?)?;
        Some(self.0.allocate_physical(FRAME, count).ok()? as u64)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        let count = NonZeroUsize::new(1 << order).expect("an order is small");
        // SAFETY: the block came from `alloc` with this order, and no pattern frees one twice.
        unsafe { self.0.deallocate_physical(FRAME, count, frame as usize) };
    }
}

impl SharedSubject for FrameAlloc {
    fn handles(frames: u64, threads: usize) -> Vec<Self> {
        let one = Self::new(frames);
        (0..threads).map(|_| Self(Arc::clone(&one.0))).collect()
    }
}

/// An allocator of bytes, called for blocks of pages aligned to their size. It takes memory from the system and
/// may give it back, which counts as its time.
pub trait Bytes: GlobalAlloc + Default + Send {
    /// Its name in the results.
    const NAME: &'static str;
}

/// The allocator of the C library.
#[derive(Default)]
pub struct CLibrary;

// SAFETY: all is left to the standard library's allocator.
unsafe impl GlobalAlloc for CLibrary {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises.
        unsafe { std::alloc::System.dealloc(pointer, layout) }
    }
}

impl Bytes for CLibrary {
    const NAME: &'static str = "system";
}

/// mimalloc.
#[derive(Default)]
pub struct Mi;

// SAFETY: all is left to mimalloc.
unsafe impl GlobalAlloc for Mi {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises.
        unsafe { mimalloc::MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises.
        unsafe { mimalloc::MiMalloc.dealloc(pointer, layout) }
    }
}

impl Bytes for Mi {
    const NAME: &'static str = "mimalloc";
}

/// Blocks of pages from an allocator of bytes.
pub struct Malloc<A>(A);

/// The allocator of the C library.
pub type System = Malloc<CLibrary>;

/// mimalloc.
pub type MiMalloc = Malloc<Mi>;

fn layout(order: Order) -> Layout {
    let bytes = (PAGE << order) as usize;
    Layout::from_size_align(bytes, bytes).expect("an order is small")
}

impl<A: Bytes> Subject for Malloc<A> {
    const NAME: &'static str = A::NAME;
    const FAILS: bool = false;

    fn new(_: u64) -> Self {
        Self(A::default())
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        // SAFETY: the layout is not empty.
        let block = unsafe { self.0.alloc(layout(order)) };
        (!block.is_null()).then(|| block.expose_provenance() as u64)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        // SAFETY: the block came from `alloc` with this order, and no pattern frees one twice.
        unsafe { self.0.dealloc(with_exposed_provenance_mut(frame as usize), layout(order)) };
    }
}

impl<A: Bytes> SharedSubject for Malloc<A> {
    fn handles(frames: u64, threads: usize) -> Vec<Self> {
        (0..threads).map(|_| Self::new(frames)).collect()
    }
}
