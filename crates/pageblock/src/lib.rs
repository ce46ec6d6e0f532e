//! A page-frame allocator with the mechanisms of Linux's.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod alloc;
pub mod alloc_flags;
mod buddy;
pub mod capture;
pub mod check;
pub mod compaction;
pub mod cpu_cache;
mod cpu_tuning;
pub mod event;
pub mod fallback;
pub mod follow;
pub mod frame;
mod free;
mod freelist;
pub mod isolate;
pub mod layout;
mod map;
pub mod memory;
pub mod mobility;
pub mod policy;
pub mod preset;
pub mod proc;
mod quick;
pub mod request;
pub mod reserve;
pub mod setup;
pub mod slowpath;
pub mod tuning;
mod walk;
pub mod watermark;
pub mod zone;
pub mod zonelist;

pub use map::{BYTES_PER_FRAME, FrameState};
