//! The sizes that a kernel is built with.

use crate::base::frame::{Order, pages};

/// The sizes that a kernel is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The order of a pageblock; 9 on x86-64 and on arm64 with 4 KiB pages.
    pub pageblock_order: Order,
    /// The largest order of a free block; 10 by default.
    pub max_order: Order,
}

impl Default for Geometry {
    fn default() -> Self {
        Self { pageblock_order: 9, max_order: 10 }
    }
}

impl Geometry {
    /// Returns the size of a pageblock in pages.
    #[must_use]
    pub const fn pageblock_pages(self) -> u64 {
        pages(self.pageblock_order)
    }

    /// Returns the larger of the two: tables are aligned to it.
    pub(crate) fn table_order(self) -> Order {
        self.pageblock_order.max(self.max_order)
    }
}
