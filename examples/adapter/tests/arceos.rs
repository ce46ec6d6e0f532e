//! ArceOS' trait on Pageblock.

use std::mem::MaybeUninit;

use adapter::arceos::Pages;
use ax_allocator::{AllocError, BaseAllocator, PageAllocator};
use pageblock::frame::FrameRange;
use pageblock::policy::Policy;

const PAGE: usize = 4096;
const START: usize = 0x8000_0000;
const SPAN: usize = 8192;

/// 16 MiB, then 4 MiB behind a hole.
fn with_pages(test: impl FnOnce(&mut Pages<'_>)) {
    let policy = Policy::parse("linux-6.12").unwrap();
    let first = (START / PAGE) as u64;
    let span = FrameRange::new(first, first + SPAN as u64);
    let mut tables = vec![MaybeUninit::uninit(); Pages::tables_size(span, policy).unwrap()];
    let mut pages = Pages::new(&mut tables, span, policy).unwrap();
    pages.init(START, 4096 * PAGE);
    pages.add_memory(START + 6000 * PAGE, 1024 * PAGE).unwrap();
    test(&mut pages);
    assert_eq!((pages.used_pages(), pages.available_pages()), (0, 5120), "all is given back");
    let allocator = pages.allocator();
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    assert_eq!(allocator.zones()[0].free_pages(), 5120);
}

fn is(error: Result<usize, AllocError>, expected: &str) -> bool {
    format!("{:?}", error.unwrap_err()) == expected
}

#[test]
fn any_number_of_pages_is_allocated_and_given_back() {
    with_pages(|pages| {
        let mut taken = [false; SPAN];
        let counts = [1, 2, 3, 5, 7, 8, 31, 100, 255, 257, 1000];
        let got = counts.map(|count| (pages.alloc_pages(count, PAGE).unwrap(), count));
        for (pos, count) in got {
            for page in &mut taken[(pos - START) / PAGE..][..count] {
                assert!(!std::mem::replace(page, true), "a page was given twice");
            }
        }
        assert_eq!(pages.used_pages(), counts.iter().sum::<usize>());
        // What was too much of a block is free: nothing but the pages in use is missing.
        pages.allocator().drain_all(&mut ());
        let free = pages.allocator().zones()[0].free_pages();
        assert_eq!(free as usize, pages.available_pages());
        pages.allocator().check().unwrap();
        for (pos, count) in got {
            pages.dealloc_pages(pos, count);
        }
    });
}

#[test]
fn alignment_may_exceed_the_size() {
    with_pages(|pages| {
        let got = [64 * PAGE, 512 * PAGE, PAGE].map(|align| {
            let pos = pages.alloc_pages(3, align).unwrap();
            assert_eq!(pos % align, 0);
            pos
        });
        for pos in got {
            pages.dealloc_pages(pos, 3);
        }
    });
}

#[test]
fn more_than_a_block_is_contiguous_too() {
    with_pages(|pages| {
        let pos = pages.alloc_pages(2500, PAGE).unwrap();
        assert_eq!(pages.used_pages(), 2500);
        assert!(is(pages.alloc_pages(2500, PAGE), "NoMemory"));
        pages.dealloc_pages(pos, 2500);
    });
}

#[test]
fn pages_at_a_place() {
    with_pages(|pages| {
        let base = START + 777 * PAGE;
        assert_eq!(pages.alloc_pages_at(base, 100, PAGE).unwrap(), base);
        assert!(is(pages.alloc_pages_at(base + PAGE, 1, PAGE), "NoMemory"));
        assert!(is(pages.alloc_pages_at(base, 1, 2 * PAGE), "InvalidParam"));
        // In the hole.
        assert!(is(pages.alloc_pages_at(START + 5000 * PAGE, 1, PAGE), "NoMemory"));
        pages.dealloc_pages(base, 100);
    });
}

#[test]
fn mistakes_change_nothing() {
    with_pages(|pages| {
        assert!(is(pages.alloc_pages(0, PAGE), "InvalidParam"));
        assert!(is(pages.alloc_pages(1, PAGE / 2), "InvalidParam"));
        assert!(matches!(pages.add_memory(START, PAGE), Err(AllocError::MemoryOverlap)));
        assert!(matches!(pages.add_memory(0, PAGE), Err(AllocError::InvalidParam)));
        let pos = pages.alloc_pages(4, PAGE).unwrap();
        pages.dealloc_pages(pos, 4);
        pages.dealloc_pages(pos, 4);
        pages.dealloc_pages(pos + 1, 1);
    });
}
