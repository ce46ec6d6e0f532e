//! Asterinas with the adapter as its frame allocator: a kernel of `ostd`, whose tests run in QEMU.
//!
//! `./run.sh`, or without QEMU `cargo check --target x86_64-unknown-none`.
#![no_std]

extern crate alloc;

#[path = "../../src/asterinas.rs"]
pub mod asterinas;
#[path = "../../src/pieces.rs"]
mod pieces;

use ostd::prelude::*;

/// Tables for 4 GiB.
#[ostd::global_frame_allocator]
static FRAMES: asterinas::Frames<{ 1 << 20 }> = asterinas::Frames::new();

#[ostd::main]
fn main() {
    println!("a kernel, whose frames are Pageblock's");
}

#[cfg(ktest)]
mod tests;
