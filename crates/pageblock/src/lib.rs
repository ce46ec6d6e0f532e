//! A page-frame allocator with the mechanisms of Linux's.
//!
//! # Sharing
//!
//! An [`Allocator`](alloc::Allocator) has one owner, who acts for every CPU; a laboratory or a
//! single-threaded pool needs no more. [`Allocator::share`](alloc::Allocator::share) makes it a
//! [`Shared`](sharing::Shared) one: zones behind locks of the embedder's ([`Locks`](locks::Locks)), and
//! for each CPU a handle that owns its caches ([`Cpu`](cpu::Cpu)). The code and its
//! decisions are the same; [`into_owned`](sharing::Shared::into_owned) leads back. [`sharing`] states what is guaranteed
//! then, mistakes of callers included.
//!
//! # Features
//!
//! `replay` enables imposed state, for laboratories that rebuild a known state or follow a
//! recorded kernel. It bypasses policy; embedders leave it off. `std` adds the locks of `std`
//! (`locks::Std`). `rmw` is for this crate's tests, and needs `std`.
#![no_std]
#![deny(unsafe_code)]
#![deny(missing_docs)]

#[cfg(any(test, loom, shuttle, feature = "rmw", feature = "std"))]
extern crate std;

/// The example of the readme is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod access;
mod api;
mod base;
mod percpu;
pub mod policy;
#[cfg(feature = "replay")]
pub mod replay;
pub mod slowpath;
mod table;
#[cfg(test)]
mod testing;
pub mod zone;

pub use api::{
    alloc, bulk, check, contig, cpu, exact, extents, hotplug, proc, request_stats, setup, sharing,
};
/// What most programs need: `use pageblock::prelude::*`.
pub mod prelude {
    pub use crate::alloc::Allocator;
    pub use crate::cpu::Cpu;
    pub use crate::frame::{FrameRange, Order, Pfn};
    pub use crate::ids::{CpuId, NodeId, ZoneIndex};
    pub use crate::layout::{ZoneKind, ZoneSpec};
    pub use crate::locks::Locks;
    pub use crate::policy::Policy;
    pub use crate::request::{Gfp, Request};
    pub use crate::setup::{OneZone, Setup};
    pub use crate::sharing::Shared;
}

#[cfg(feature = "rmw")]
pub use base::sync::counted as rmw;
pub use base::{
    alloc_flags, decide, event, frame, ids, interrupts, layout, locks, mobility, request, zonelist,
};
pub use percpu::cache as cpu_cache;
pub use policy::preset;
pub use table::map::{BYTES_PER_FRAME, FrameState};
pub use table::usage::BlockUsage;
pub use table::{memory, movement};
pub use zone::{capture, compaction, fallback, isolate, reserve, tuning, watermark};
