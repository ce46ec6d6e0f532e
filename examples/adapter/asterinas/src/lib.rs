//! The adapter where it belongs: a kernel that links this crate has it as its frame allocator.
//!
//! `cargo +nightly check --target x86_64-unknown-none`
#![no_std]

#[path = "../../src/asterinas.rs"]
pub mod asterinas;
#[path = "../../src/pieces.rs"]
mod pieces;

/// Tables for 16 GiB.
#[ostd::global_frame_allocator]
static FRAMES: asterinas::Frames<{ 4 << 20 }> = asterinas::Frames::new();
