//! Asterinas' trait, on a host's `ostd`: what the tests of `osdk-frame-allocator` and of `ostd` ask of an allocator, and
//! frames that return in other pieces than they were given in.

use std::alloc::Layout;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use adapter::asterinas::Frames;
use ostd::host;
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{HasPaddr, PAGE_SIZE, Paddr, UniqueFrame};

const PAGES: usize = 16 * 1024;
static FRAMES: Frames<{ 1 << 16 }> = Frames::new();

/// 64 MiB with a hole, for one test at a time; each finds and leaves all of it free.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static BOOT: Once = Once::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    BOOT.call_once(|| {
        host::boot(PAGES * PAGE_SIZE, 4);
        FRAMES.add_free_memory(16 * PAGE_SIZE, 140 * PAGE_SIZE);
        FRAMES.add_free_memory(256 * PAGE_SIZE, (PAGES - 256) * PAGE_SIZE);
    });
    guard
}

fn layout(pages: usize, align: usize) -> Layout {
    Layout::from_size_align(pages * PAGE_SIZE, align * PAGE_SIZE).unwrap()
}

fn all_pages() -> Vec<Paddr> {
    std::iter::from_fn(|| FRAMES.alloc(layout(1, 1))).collect()
}

#[test]
fn blocks_of_each_layout_are_aligned_and_unused() {
    let _alone = alone();
    let sizes = [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 4), (8, 8), (16, 16)];
    for (pages, align) in sizes.into_iter().chain([(3, 64), (700, 1), (5000, 1), (1, 1024)]) {
        let start = FRAMES.alloc(layout(pages, align)).unwrap();
        assert_eq!(start % (align * PAGE_SIZE), 0, "{pages} pages at {align}");
        for page in 0..pages {
            let frame = UniqueFrame::from_unused(start + page * PAGE_SIZE, ()).unwrap();
            assert_eq!(frame.paddr(), start + page * PAGE_SIZE);
            frame.reset_as_unused();
        }
        // As that suite returns it.
        FRAMES.add_free_memory(start, pages * PAGE_SIZE);
    }
}

#[test]
fn single_pages_and_segments_take_turns() {
    let _alone = alone();
    let mut kept = Vec::new();
    for _ in 0..10 {
        for i in 0..10 {
            let page = FRAMES.alloc(layout(1, 1)).unwrap();
            if i % 3 == 0 {
                kept.push(page);
            } else {
                FRAMES.dealloc(page, PAGE_SIZE);
            }
        }
        let segment = FRAMES.alloc(layout(10, 1)).unwrap();
        FRAMES.dealloc(segment, 10 * PAGE_SIZE);
        FRAMES.dealloc(kept.pop().unwrap(), PAGE_SIZE);
    }
    kept.into_iter().for_each(|page| FRAMES.dealloc(page, PAGE_SIZE));
}

#[test]
fn all_memory_is_given_once_and_comes_back() {
    let _alone = alone();
    for _ in 0..2 {
        let pages = all_pages();
        let distinct: HashSet<_> = pages.iter().map(|page| page / PAGE_SIZE).collect();
        assert_eq!((pages.len(), distinct.len()), (140 + PAGES - 256, 140 + PAGES - 256));
        assert!(
            distinct.iter().all(|page| (16..156).contains(page) || (256..PAGES).contains(page))
        );
        pages.into_iter().rev().for_each(|page| FRAMES.dealloc(page, PAGE_SIZE));
    }
}

#[test]
fn a_segment_returns_in_any_pieces() {
    let _alone = alone();
    for pieces in [&[10usize][..], &[1; 10], &[3, 1, 6], &[7, 3]] {
        let start = FRAMES.alloc(layout(10, 1)).unwrap();
        let mut at = start;
        for pages in pieces {
            FRAMES.dealloc(at, pages * PAGE_SIZE);
            at += pages * PAGE_SIZE;
        }
    }
    let block = FRAMES.alloc(layout(512, 512)).unwrap();
    FRAMES.dealloc(block + 100 * PAGE_SIZE, 57 * PAGE_SIZE);
    FRAMES.dealloc(block, 100 * PAGE_SIZE);
    FRAMES.dealloc(block + 157 * PAGE_SIZE, 355 * PAGE_SIZE);
    let pages = all_pages();
    assert_eq!(pages.len(), 140 + PAGES - 256);
    pages.into_iter().for_each(|page| FRAMES.dealloc(page, PAGE_SIZE));
    FRAMES.drain();
    let huge: Vec<_> = std::iter::from_fn(|| FRAMES.alloc(layout(512, 512))).collect();
    assert_eq!(huge.len(), (PAGES - 512) / 512);
    huge.into_iter().for_each(|block| FRAMES.dealloc(block, 512 * PAGE_SIZE));
}

#[test]
fn a_second_free_changes_nothing() {
    let _alone = alone();
    let page = FRAMES.alloc(layout(1, 1)).unwrap();
    FRAMES.dealloc(page, PAGE_SIZE);
    FRAMES.dealloc(page, PAGE_SIZE);
    FRAMES.dealloc(200 * PAGE_SIZE, PAGE_SIZE);
    let pages = all_pages();
    assert_eq!(pages.len(), 140 + PAGES - 256);
    pages.into_iter().for_each(|page| FRAMES.dealloc(page, PAGE_SIZE));
}

#[test]
fn each_cpu_has_a_handle() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for cpu in 1..4 {
            scope.spawn(move || {
                host::be_cpu(cpu);
                for round in 0..2000 {
                    let pages = 1 + (round * cpu) % 5;
                    let start = FRAMES.alloc(layout(pages, 1)).unwrap();
                    let frames: Vec<_> = (0..pages)
                        .map(|n| UniqueFrame::from_unused(start + n * PAGE_SIZE, cpu).unwrap())
                        .collect();
                    for frame in frames {
                        let paddr = frame.paddr();
                        frame.reset_as_unused();
                        FRAMES.dealloc(paddr, PAGE_SIZE);
                    }
                }
                FRAMES.drain();
            });
        }
    });
}
