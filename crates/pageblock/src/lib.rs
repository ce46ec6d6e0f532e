//! A page-frame allocator with the mechanisms of Linux's.
//!
//! # Sharing
//!
//! An [`Allocator`](alloc::Allocator) has one owner, who acts for every CPU; a laboratory or a
//! single-threaded pool needs no more. [`Allocator::share`](alloc::Allocator::share) makes it a
//! [`Shared`](sharing::Shared) one: zones behind locks of the embedder's ([`lock_api::RawMutex`]), and
//! for each CPU a handle that owns its caches ([`Cpu`](cpu::Cpu)). It is the same code, whose
//! decisions are the same; [`into_owned`](sharing::Shared::into_owned) leads back. What is guaranteed
//! then, mistakes of callers included, is said in [`sharing`].
#![no_std]
#![deny(unsafe_code)]
#![deny(missing_docs)]

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod alloc;
pub mod alloc_flags;
mod buddy;
pub mod bulk;
pub mod capture;
mod chain;
pub mod check;
pub mod compaction;
pub mod contig;
pub mod cpu;
pub mod cpu_cache;
mod cpu_list;
mod cpu_tuning;
mod empty;
pub mod event;
pub mod exact;
pub mod fallback;
pub mod follow;
pub mod frame;
mod free;
mod freelist;
pub mod hotplug;
pub mod interrupts;
pub mod isolate;
pub mod layout;
mod levels;
mod local;
mod machine;
mod map;
pub mod memory;
pub mod mobility;
pub mod movement;
mod news;
#[cfg(test)]
mod one_zone;
mod packing;
pub mod policy;
pub mod preset;
pub mod proc;
mod quick;
mod reach;
pub mod request;
pub mod request_stats;
pub mod reserve;
mod retune;
mod row;
pub mod setup;
pub mod sharing;
pub mod slowpath;
mod sync;
pub mod tuning;
mod walk;
pub mod watermark;
pub mod zone;
pub mod zonelist;

pub use map::{BYTES_PER_FRAME, FrameState};
