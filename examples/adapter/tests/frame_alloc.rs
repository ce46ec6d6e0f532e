//! The test suites of the crate `frame-alloc`, on the adapter in place of its `SummaryBuddyAllocator`: what they mean by
//! `frame_alloc` is this file.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

extern crate frame_alloc as original;
extern crate self as frame_alloc;

pub use original::{
    AllocError, AllocatorStats, CpuId, DepotAllocator, InitError, NoCpuId, NoInterruptControl,
    PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit, RegionedAllocator,
};

/// Tables on the heap, which nobody takes back.
pub struct Heap<P>(PhantomData<P>);

impl<P> adapter::frame_alloc::Tables for Heap<P> {
    fn take(bytes: usize) -> Option<&'static mut [MaybeUninit<u8>]> {
        Some(Box::leak(Box::new_uninit_slice(bytes)))
    }
}

/// The adapter, where the suites name `frame-alloc`'s allocator.
pub type SummaryBuddyAllocator<const ORDERS: usize, P> =
    adapter::frame_alloc::Frames<ORDERS, Heap<P>>;

#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
mod suite {
    include!(concat!(env!("OUT_DIR"), "/frame_alloc.rs"));
}
