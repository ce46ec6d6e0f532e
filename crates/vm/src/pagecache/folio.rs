//! Large folios: pages of a file in one block, which is used, written and reclaimed whole.
//!
//! Source: `page_cache_ra_order` (mm/readahead.c), `__filemap_get_folio` (mm/filemap.c), `mapping_max_folio_order`
//! (include/linux/pagemap.h).

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock_kernel::rules::pagecache::{CacheFolios, PageCache, RaOrder};

use super::space::{Slot, SpaceId};
use crate::config::Filesystem;
use crate::vm::Vm;

/// The largest order of a folio of a file (`MAX_PAGECACHE_ORDER`). ext4's own limit, 11 with blocks of 4 KiB, is above it.
const MAX_PAGECACHE_ORDER: Order = 9;
/// What each window of a stream adds to the order.
const STEP: Order = 2;

/// Returns the largest order of a folio of a file.
fn largest(rules: &PageCache, filesystem: Filesystem) -> Order {
    let large = match rules.cache_folios {
        CacheFolios::Pages => false,
        CacheFolios::Xfs => filesystem == Filesystem::Xfs,
        CacheFolios::Ext4 => true,
    };
    if large { MAX_PAGECACHE_ORDER } else { 0 }
}

/// Returns the order of the next folio at an index, of at most the wanted order, which ends at or before `end`.
fn fitting(rules: &PageCache, wanted: Order, index: u32, end: u32) -> Order {
    debug_assert!(index < end, "no page at {index} before {end}");
    let aligned = index.trailing_zeros() as Order;
    let order = wanted.min(aligned).min((end - index).ilog2() as Order);
    if order == 1 && !rules.order_1_folios { 0 } else { order }
}

/// Returns the order that a window of `pages` wants: `last` is that of the folio at which it is read, or of its stream;
/// `None` in the first window.
fn of_window(rules: &PageCache, last: Option<Order>, pages: u32) -> Order {
    let order = match (rules.ra_order, last) {
        (RaOrder::OfFolio, last) => last.unwrap_or(0) + STEP,
        (RaOrder::OfStream, last) => last.map_or(0, |order| order + STEP),
    };
    order.min(pages.ilog2() as Order)
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the first page of the folio that has an index of a file or mapping, if it is in memory.
    #[must_use]
    pub fn folio_at(&self, space: SpaceId, index: u32) -> Option<u32> {
        match self.pagecache.spaces.slot(space, index) {
            Slot::Page(pfn) => Some(self.huge_head(pfn)),
            _ => None,
        }
    }

    /// Returns the pages of a folio from an index on.
    #[must_use]
    pub fn pages_from(&self, folio: u32, index: u32) -> u32 {
        let page = &self.pages[folio];
        debug_assert!(page.index <= index, "the folio at {folio} begins after {index}");
        page.index + (1 << page.order()) - index
    }

    /// Returns the order of the folio that a write of pages up to `end` puts at an index.
    #[must_use]
    pub fn write_order(&self, index: u32, end: u32) -> Order {
        let rules = &self.kernel.pagecache;
        let most = if rules.write_folios { largest(rules, self.config.filesystem) } else { 0 };
        fitting(rules, most, index, end)
    }

    /// Returns the order that a window of `pages` wants for its folios; see [`read_order`](Self::read_order). `last` is the
    /// order that the stream's last window wanted, and that of its first folio; `None` if the window begins a stream.
    #[must_use]
    pub fn window_order(&self, last: Option<(Order, Order)>, pages: u32) -> Order {
        let rules = &self.kernel.pagecache;
        let last = last.map(|(wanted, first)| match rules.ra_order {
            RaOrder::OfFolio => first,
            RaOrder::OfStream => wanted,
        });
        of_window(rules, last, pages).min(largest(rules, self.config.filesystem))
    }

    /// Returns the order of the folio that is read ahead at an index, in a window that ends at `end`.
    #[must_use]
    pub fn read_order(&self, wanted: Order, index: u32, end: u32) -> Order {
        fitting(&self.kernel.pagecache, wanted, index, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::Named;

    fn rules(kernel: &str) -> PageCache {
        Named::parse(kernel).unwrap().kernel.pagecache
    }

    #[test]
    fn file_systems_got_them_one_after_the_other() {
        let largest =
            |kernel| [Filesystem::Xfs, Filesystem::Ext4].map(|of| largest(&rules(kernel), of));
        assert_eq!(largest("linux-5.17"), [0, 0]);
        assert_eq!(largest("linux-5.19"), [9, 0]);
        assert_eq!(largest("linux-6.15"), [9, 0]);
        assert_eq!(largest("linux-6.17"), [9, 9]);
    }

    /// `page_cache_ra_order` of 6.12 and of 7.2, for windows of 32 pages.
    #[test]
    fn windows_want_two_orders_more() {
        let orders = |kernel| {
            let (rules, mut last) = (rules(kernel), None);
            [(); 5].map(|()| {
                let order = of_window(&rules, last, 32);
                last = Some(order);
                order
            })
        };
        assert_eq!(orders("linux-6.12"), [2, 4, 5, 5, 5]);
        assert_eq!(orders("linux-7.2"), [0, 2, 4, 5, 5]);
        assert_eq!(of_window(&rules("linux-6.12"), None, 3), 1);
    }

    #[test]
    fn folios_are_aligned_and_end_with_the_window() {
        let tiles = |kernel, wanted, begin, end| {
            let (rules, mut index, mut orders) = (rules(kernel), begin, Vec::new());
            while index < end {
                orders.push(fitting(&rules, wanted, index, end));
                index += 1 << orders[orders.len() - 1];
            }
            orders
        };
        assert_eq!(tiles("linux-7.2", 5, 4, 23), [2, 3, 2, 1, 0]);
        // 8897277acfef (6.9).
        assert_eq!(tiles("linux-6.8", 5, 4, 23), [2, 3, 2, 0, 0, 0]);
        assert_eq!(tiles("linux-7.2", 9, 0, 256), [8]);
    }
}
