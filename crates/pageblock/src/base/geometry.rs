//! The sizes that a kernel is built with.

use crate::base::frame::{ORDER_LIMIT, Order, pages};

/// `PAGE_SHIFT` of pages of 4 KiB.
pub(crate) const PAGE_SHIFT: u8 = 12;

/// The page sizes that can be stated: 1 KiB to 1 GiB.
pub(crate) const PAGE_SHIFTS: core::ops::RangeInclusive<u8> = 10..=30;

/// The sizes that a kernel is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The order of a pageblock, 1 to 14; 9 on x86-64 and on arm64 with 4 KiB pages.
    pub pageblock_order: Order,
    /// The largest order of a free block, 1 to 14; 10 by default.
    pub max_order: Order,
    /// The base-2 logarithm of a page's size in bytes (`PAGE_SHIFT`), 10 to 30; 12 by default. What policies
    /// state in kilobytes is converted with it: watermarks, and the batches of CPU lists.
    pub page_shift: u8,
}

impl Default for Geometry {
    fn default() -> Self {
        Self { pageblock_order: 9, max_order: 10, page_shift: PAGE_SHIFT }
    }
}

impl Geometry {
    /// Returns the size of a pageblock in pages.
    #[must_use]
    pub const fn pageblock_pages(self) -> u64 {
        pages(self.pageblock_order)
    }

    /// Returns the size of pages in kilobytes; the largest number for what exceeds it.
    ///
    /// ```
    /// use pageblock::policy::Policy;
    /// use pageblock::zone::Geometry;
    ///
    /// // A minimum watermark of 64 pages, in frames of 2 MiB.
    /// let geometry = Geometry { page_shift: 21, ..Geometry::default() };
    /// let mut policy = Policy::default();
    /// policy.min_free_kbytes = geometry.kbytes(64) as u32;
    /// assert_eq!(policy.min_free_kbytes, 64 * 2048);
    /// ```
    #[must_use]
    pub const fn kbytes(self, pages: u64) -> u64 {
        pages.saturating_mul(1 << (self.page_shift - *PAGE_SHIFTS.start()))
    }

    /// Returns the whole pages in a number of kilobytes.
    #[must_use]
    pub const fn pages(self, kbytes: u64) -> u64 {
        kbytes >> (self.page_shift - *PAGE_SHIFTS.start())
    }

    /// Returns whether all three numbers are in their ranges.
    pub(crate) fn is_possible(self) -> bool {
        let orders = 1..=ORDER_LIMIT;
        orders.contains(&self.pageblock_order)
            && orders.contains(&self.max_order)
            && PAGE_SHIFTS.contains(&self.page_shift)
    }

    /// Returns the larger of the two orders: tables are aligned to it.
    pub(crate) fn table_order(self) -> Order {
        self.pageblock_order.max(self.max_order)
    }
}
