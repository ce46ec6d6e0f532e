//! Pageblock where other projects expect a frame allocator of theirs.
//!
//! * [`arceos`]: `PageAllocator` of ArceOS as it was (crate `ax-allocator`).
//! * [`asterinas`]: `GlobalFrameAllocator` of Asterinas (crate `ostd`).
//! * [`ax_alloc`](mod@ax_alloc): `AllocatorOps` of ArceOS and StarryOS today (crate `ax-alloc`).
//! * [`buffers`]: the buffers of a database, as DuckDB's `BlockAllocator` has them.
//! * [`frame_alloc`](mod@frame_alloc): `PhysicalAllocator` of the crate `frame-alloc`.
//! * [`hermit`]: the crate `free-list`, which has Hermit's physical memory.
//! * [`paging`]: `FrameAllocator` and `FrameDeallocator` of the crate `x86_64`, which many small kernels
//!   use.
//! * [`vm_memory`]: memory of virtual machines for rust-vmm's crate of that name.
#![no_std]

pub mod arceos;
pub mod asterinas;
pub mod ax_alloc;
#[cfg(target_os = "linux")]
pub mod buffers;
#[cfg(target_os = "linux")]
pub mod frame_alloc;
pub mod hermit;
pub mod paging;
mod pieces;
#[cfg(target_os = "linux")]
pub mod vm_memory;
