//! `AllocatorOps` of ArceOS and StarryOS on Pageblock.

mod host;

use std::alloc::Layout;

use adapter::ax_alloc::Kernel;
use ax_alloc::{AllocError, AllocatorOps, UsageKind};

const PAGE: usize = 4096;
const HUGE: usize = 512 * PAGE;
const KIND: UsageKind = UsageKind::VirtMem;

/// 16 MiB, then 4 MiB behind a hole of 4 MiB; devices reach the first 4 MiB.
fn with_kernel(test: impl FnOnce(&Kernel, usize)) {
    let memory = vec![0u8; 12 * HUGE];
    let start = (memory.as_ptr().addr()).next_multiple_of(HUGE);
    let kernel = Kernel::new(start, start + 12 * HUGE, start + 2 * HUGE);
    let none = kernel.alloc_pages(1, PAGE, KIND);
    assert_eq!(none, Err(AllocError::NotInitialized));
    kernel.init(start, 8 * HUGE).unwrap();
    assert_eq!(kernel.init(start, 8 * HUGE), Err(AllocError::AlreadyInitialized));
    let first = kernel.available_pages();
    assert_eq!(first, 8 * 512 - kernel.tables_size().div_ceil(PAGE));
    kernel.add_memory(start + 10 * HUGE, HUGE).unwrap();
    assert_eq!(kernel.add_memory(start + 10 * HUGE, PAGE), Err(AllocError::MemoryOverlap));
    assert_eq!(kernel.add_memory(start + 20 * HUGE, PAGE), Err(AllocError::InvalidParam));
    assert_eq!(kernel.available_pages(), first + 512);
    test(&kernel, start);
    assert_eq!((kernel.used_pages(), kernel.available_pages()), (0, first + 512), "all came back");
    let all = kernel.available_pages();
    let got: Vec<_> = (0..all).map(|_| kernel.alloc_pages(1, PAGE, KIND).unwrap()).collect();
    assert_eq!(kernel.alloc_pages(1, PAGE, KIND), Err(AllocError::NoMemory));
    got.into_iter().for_each(|page| kernel.dealloc_pages(page, 1, KIND));
}

#[test]
fn any_number_of_pages_and_bytes() {
    with_kernel(|kernel, _| {
        let counts = [1, 2, 3, 5, 7, 8, 31, 100, 255, 257, 1500];
        let got = counts.map(|count| (kernel.alloc_pages(count, 0, KIND).unwrap(), count));
        assert_eq!(kernel.used_pages(), counts.iter().sum::<usize>(), "nothing is rounded up");
        for (start, count) in got {
            kernel.dealloc_pages(start, count, KIND);
        }
        let layout = Layout::from_size_align(3 * PAGE + 1, 8 * PAGE).unwrap();
        let bytes = kernel.alloc(layout).unwrap();
        assert_eq!((bytes.as_ptr().addr() % (8 * PAGE), kernel.used_bytes()), (0, 4 * PAGE));
        kernel.dealloc(bytes, layout);
        assert_eq!(kernel.alloc_pages(0, PAGE, KIND), Err(AllocError::InvalidParam));
        assert_eq!(kernel.alloc_pages(1, 3 * PAGE, KIND), Err(AllocError::InvalidParam));
    });
}

#[test]
fn a_huge_page_is_split_as_it_stands() {
    with_kernel(|kernel, _| {
        let huge = kernel.alloc_pages(512, HUGE, KIND).unwrap();
        assert_eq!(huge % HUGE, 0);
        kernel.dealloc_pages(huge + 17 * PAGE, 1, KIND);
        assert_eq!(kernel.used_pages(), 511);
        assert_eq!(kernel.alloc_pages_at(huge + 17 * PAGE, 1, PAGE, KIND), Ok(huge + 17 * PAGE));
        kernel.dealloc_pages(huge + 256 * PAGE, 256, KIND);
        assert_eq!(kernel.used_pages(), 256);
        kernel.dealloc_pages(huge, 256, KIND);
        // It is whole again.
        assert_eq!(kernel.alloc_pages_at(huge, 512, HUGE, KIND), Ok(huge));
        kernel.dealloc_pages(huge, 512, KIND);
    });
}

#[test]
fn devices_of_32_bits_get_low_pages() {
    with_kernel(|kernel, start| {
        for (count, align) in [(1, PAGE), (5, PAGE), (3, 64 * PAGE), (256, PAGE)] {
            let low = kernel.alloc_dma32_pages(count, align, UsageKind::Dma).unwrap();
            assert!(low % align == 0 && low + count * PAGE <= start + 2 * HUGE, "{count} pages");
            assert_eq!(kernel.used_pages(), count, "nothing is rounded up");
            kernel.dealloc_pages(low, count, UsageKind::Dma);
        }
        let none = kernel.alloc_dma32_pages(2048, PAGE, UsageKind::Dma);
        assert_eq!(none, Err(AllocError::NoMemory));
    });
}

#[test]
fn what_is_not_in_use_stays_as_it_is() {
    with_kernel(|kernel, start| {
        let pages = kernel.alloc_pages(4, PAGE, KIND).unwrap();
        kernel.dealloc_pages(pages, 4, KIND);
        kernel.dealloc_pages(pages, 4, KIND);
        kernel.dealloc_pages(pages + 1, 1, KIND);
        kernel.dealloc_pages(start + 9 * HUGE, 512, KIND);
        let hole = kernel.alloc_pages_at(start + 9 * HUGE, 1, PAGE, KIND);
        assert_eq!(hole, Err(AllocError::NoMemory));
    });
}
