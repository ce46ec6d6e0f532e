//! A page-frame allocator with the mechanisms of Linux's.
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod alloc;
pub mod alloc_flags;
mod buddy;
pub mod bulk;
pub mod capture;
mod chain;
pub mod check;
pub mod contig;
pub mod cpu;
pub mod cpu_cache;
mod cpu_list;
mod cpu_tuning;
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
mod news;
mod packing;
pub mod policy;
pub mod preset;
pub mod proc;
mod quick;
pub mod request;
pub mod request_stats;
pub mod reserve;
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
