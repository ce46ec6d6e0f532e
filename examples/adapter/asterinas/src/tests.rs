//! Frames and segments of `ostd`, whose drop gives back a page at a time, in a kernel that runs.

use alloc::vec::Vec;

use ostd::mm::{FrameAllocOptions, HasPaddr, PAGE_SIZE, Split};
use ostd::prelude::*;

/// Takes all frames that are left; those are not zeroed. The heap has room for as many addresses before.
fn all(pages: &mut Vec<usize>) -> Vec<ostd::mm::Frame<()>> {
    pages.clear();
    pages.reserve(1 << 18);
    let mut frames = Vec::with_capacity(1 << 18);
    let mut options = FrameAllocOptions::new();
    options.zeroed(false);
    while let Ok(frame) = options.alloc_frame() {
        pages.push(frame.paddr() / PAGE_SIZE);
        frames.push(frame);
    }
    frames
}

#[ktest]
fn all_memory_is_given_once_and_comes_back() {
    let mut pages = Vec::new();
    drop(all(&mut pages));
    let first = pages.len();
    pages.sort_unstable();
    assert!(pages.windows(2).all(|pair| pair[0] < pair[1]), "a frame was given twice");
    drop(all(&mut pages));
    assert_eq!(first, pages.len());
    println!("{} frames", first);
}

#[ktest]
fn memory_is_in_whole_blocks_after_all_came_back() {
    let mut pages = Vec::new();
    drop(all(&mut pages));
    crate::FRAMES.drain();
    let mut options = FrameAllocOptions::new();
    options.zeroed(false);
    let mut blocks = Vec::with_capacity(512);
    while let Ok(segment) = options.alloc_segment(512) {
        blocks.push(segment);
    }
    println!("{} blocks of 2 MiB", blocks.len());
    assert!(blocks.iter().all(|block| block.paddr() % (512 * PAGE_SIZE) == 0));
    // Each CPU's heap and the kernel's start have some frames between.
    assert!(blocks.len() * 512 > pages.len() / 10 * 9);
}

#[ktest]
fn segments_return_in_pieces() {
    let mut options = FrameAllocOptions::new();
    options.zeroed(false);
    for pages in [1, 2, 3, 5, 10, 100, 700] {
        let segment = options.alloc_segment(pages).unwrap();
        let middle = pages / 2 * PAGE_SIZE;
        if middle > 0 {
            let (low, high) = segment.split(middle);
            drop(high);
            drop(low);
        }
    }
    // More than the largest block.
    assert!(options.alloc_segment(3000).is_ok());
}
