//! Hermit's lists of pages, on Pageblock.

use std::mem::MaybeUninit;

use adapter::hermit::PageList;
use free_list::{PageLayout, PageRange};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

fn range(start: usize, end: usize) -> PageRange {
    PageRange::new(start, end).unwrap()
}

fn layout(pages: usize, align: usize) -> PageLayout {
    PageLayout::from_size_align(pages * PAGE, align * PAGE).unwrap()
}

/// A machine of 32 MiB; its second MiB is a hole.
fn with_list(test: impl FnOnce(&mut PageList<'_>)) {
    let span = range(0, 32 * MIB);
    let mut tables = vec![MaybeUninit::uninit(); PageList::tables_size(span).unwrap()];
    let mut list = PageList::new(&mut tables, span).unwrap();
    assert!(list.allocate(layout(1, 1)).is_err());
    list.deallocate(range(PAGE, MIB)).unwrap();
    list.deallocate(range(2 * MIB, 32 * MIB)).unwrap();
    let all = 31 * MIB - PAGE;
    assert_eq!(list.free_space(), all);
    test(&mut list);
    assert_eq!(list.free_space(), all);
    let pages: Vec<_> = std::iter::from_fn(|| list.allocate(layout(1, 1)).ok()).collect();
    assert_eq!((pages.len(), list.free_space()), (all / PAGE, 0));
    pages.into_iter().for_each(|page| list.deallocate(page).unwrap());
}

#[test]
fn ranges_of_each_size_come_back_in_any_pieces() {
    with_list(|list| {
        for (pages, align) in [(1, 1), (3, 1), (10, 1), (512, 512), (3, 64), (5000, 1)] {
            let got = list.allocate(layout(pages, align)).unwrap();
            assert_eq!((got.len().get(), got.start() % (align * PAGE)), (pages * PAGE, 0));
            let middle = got.start() + pages / 2 * PAGE;
            if middle > got.start() {
                list.deallocate(range(got.start(), middle)).unwrap();
            }
            list.deallocate(range(middle, got.end())).unwrap();
        }
    });
}

#[test]
fn pages_at_a_place_and_below_an_address() {
    with_list(|list| {
        list.allocate_at(range(5 * MIB, 6 * MIB)).unwrap();
        assert!(list.allocate_at(range(5 * MIB, 5 * MIB + PAGE)).is_err());
        assert!(list.allocate_at(range(MIB, MIB + PAGE)).is_err());
        let low = list.allocate_below(layout(5, 1), MIB).unwrap();
        assert!(low.end() <= MIB);
        list.deallocate(low).unwrap();
        list.deallocate(range(5 * MIB, 6 * MIB)).unwrap();
        assert!(list.deallocate(range(5 * MIB, 6 * MIB)).is_err());
    });
}
