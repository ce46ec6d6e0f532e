//! Page frames and power-of-two blocks of them.

use core::fmt;

/// A page-frame number: the physical address divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(pub u64);

/// The base-2 logarithm of a block's size in pages.
pub type Order = u8;

/// The largest order that any configuration may use (2^14 pages, 64 MiB of 4 KiB pages).
pub const ORDER_LIMIT: Order = 14;

/// The number of orders of a default kernel: 0 to 10.
pub const NR_PAGE_ORDERS: usize = 11;

/// Returns the size of a block in pages.
#[must_use]
pub const fn pages(order: Order) -> u64 {
    1 << order
}

impl Pfn {
    /// Returns whether a block of this order may start here.
    #[must_use]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (pages(order) - 1) == 0
    }

    /// Returns the start of the block of this order that holds the frame.
    #[must_use]
    pub const fn align_down(self, order: Order) -> Self {
        Self(self.0 & !(pages(order) - 1))
    }

    /// Returns the first block boundary of this order at or after the frame.
    #[must_use]
    pub const fn align_up(self, order: Order) -> Self {
        Self((self.0 + pages(order) - 1) & !(pages(order) - 1))
    }

    /// Returns the other half of the block that is twice as large.
    #[must_use]
    pub const fn buddy(self, order: Order) -> Self {
        Self(self.0 ^ pages(order))
    }

    /// Returns the frame `n` pages further.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn {}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A range of frames; `end` is exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FrameRange {
    /// The first frame.
    pub start: Pfn,
    /// The frame after the last.
    pub end: Pfn,
}

impl FrameRange {
    /// Returns the range from `start` up to, not including, `end` (frame numbers).
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start: Pfn(start), end: Pfn(end) }
    }

    /// Returns the size in pages; 0 where the end is not after the start.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Returns whether no frame is in the range.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether the frame is in the range.
    #[must_use]
    pub const fn contains(self, pfn: Pfn) -> bool {
        self.start.0 <= pfn.0 && pfn.0 < self.end.0
    }

    /// Iterates over the maximal aligned blocks of at most `max_order` that make up the range.
    pub fn blocks(self, max_order: Order) -> impl Iterator<Item = (Pfn, Order)> {
        let mut at = self.start.0;
        core::iter::from_fn(move || {
            if at >= self.end.0 {
                return None;
            }
            let align = if at == 0 { u32::from(max_order) } else { at.trailing_zeros() };
            let fit = (self.end.0 - at).ilog2();
            let order = align.min(fit).min(u32::from(max_order)) as Order;
            let pfn = Pfn(at);
            at += pages(order);
            Some((pfn, order))
        })
    }
}

/// The largest order that the kernel considers cheap (`PAGE_ALLOC_COSTLY_ORDER`): requests above it do not
/// retry for long, and kill nothing.
pub const COSTLY_ORDER: Order = 3;
