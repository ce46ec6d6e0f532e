//! Frames, each with 64 bytes of metadata, as in `ostd`.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::boxed::Box;
use std::sync::OnceLock;

use super::{HasPaddr, PAGE_SIZE, Paddr};

/// What a kernel's frame allocator is.
pub trait GlobalFrameAllocator: Sync {
    /// Allocates a contiguous range of frames.
    fn alloc(&self, layout: Layout) -> Option<Paddr>;
    /// Frees frames, any part of what was allocated at once.
    fn dealloc(&self, addr: Paddr, size: usize);
    /// Adds frames.
    fn add_free_memory(&self, addr: Paddr, size: usize);
}

/// Words of a frame's user, and links.
const META_WORDS: usize = 4;

#[repr(align(64))]
struct Slot {
    used: AtomicBool,
    /// The list that the frame is on, or 0.
    list: AtomicU64,
    next: AtomicU64,
    previous: AtomicU64,
    meta: UnsafeCell<[u64; META_WORDS]>,
}

const _: () = assert!(size_of::<Slot>() == 64);

// SAFETY: `meta` belongs to the only `UniqueFrame` of the frame.
unsafe impl Sync for Slot {}

static SLOTS: OnceLock<Box<[Slot]>> = OnceLock::new();

pub(crate) fn boot(frames: usize) {
    let slot = |_| Slot {
        used: AtomicBool::new(false),
        list: AtomicU64::new(0),
        next: AtomicU64::new(0),
        previous: AtomicU64::new(0),
        meta: UnsafeCell::new([0; META_WORDS]),
    };
    assert!(SLOTS.set((0..frames).map(slot).collect()).is_ok(), "the machine runs already");
}

fn slot(paddr: Paddr) -> &'static Slot {
    &SLOTS.get().expect("a machine that runs")[paddr / PAGE_SIZE]
}

/// A shared frame. Only whether it is in use is known here.
pub struct Frame<M: ?Sized>(Paddr, PhantomData<M>);

impl<M: ?Sized> Frame<M> {
    /// Returns the frame if it is in use.
    pub fn from_in_use(paddr: Paddr) -> Result<Self, meta::GetFrameError> {
        let used = slot(paddr).used.load(Ordering::Relaxed);
        if used { Ok(Self(paddr, PhantomData)) } else { Err(meta::GetFrameError::Unused) }
    }
}

impl<M: ?Sized> HasPaddr for Frame<M> {
    fn paddr(&self) -> Paddr {
        self.0
    }
}

/// A frame of one owner.
#[derive(Debug)]
pub struct UniqueFrame<M>(Paddr, PhantomData<M>);

impl<M> UniqueFrame<M> {
    const FITS: () = assert!(size_of::<M>() <= 8 * META_WORDS && align_of::<M>() <= 8);

    /// Takes a frame that is not in use.
    pub fn from_unused(paddr: Paddr, metadata: M) -> Result<Self, meta::GetFrameError> {
        let () = Self::FITS;
        let slot = slot(paddr);
        if slot.used.swap(true, Ordering::Acquire) {
            return Err(meta::GetFrameError::InUse);
        }
        // SAFETY: the frame is this owner's now, and the value fits.
        unsafe { slot.meta.get().cast::<M>().write(metadata) };
        Ok(Self(paddr, PhantomData))
    }

    /// Returns the metadata.
    pub fn meta(&self) -> &M {
        // SAFETY: `from_unused` wrote it.
        unsafe { &*slot(self.0).meta.get().cast::<M>() }
    }

    /// Returns the metadata.
    pub fn meta_mut(&mut self) -> &mut M {
        // SAFETY: as above, and there is one owner.
        unsafe { &mut *slot(self.0).meta.get().cast::<M>() }
    }

    /// Ends the frame's use.
    pub fn reset_as_unused(self) {
        // SAFETY: as above; the value is not used again.
        unsafe { slot(self.0).meta.get().cast::<M>().drop_in_place() };
        slot(self.0).used.store(false, Ordering::Release);
    }
}

impl<M> HasPaddr for UniqueFrame<M> {
    fn paddr(&self) -> Paddr {
        self.0
    }
}

/// Metadata.
pub mod meta {
    /// What a frame's metadata is.
    pub trait AnyFrameMeta {}

    /// Why there is no frame.
    #[derive(Debug, PartialEq, Eq)]
    pub enum GetFrameError {
        /// It is in use.
        InUse,
        /// It is not in use.
        Unused,
    }
}

/// Says that a type is a frame's metadata.
#[macro_export]
macro_rules! impl_frame_meta_for {
    ($t:ty) => {
        impl $crate::mm::frame::meta::AnyFrameMeta for $t {}
    };
}

pub mod linked_list;
