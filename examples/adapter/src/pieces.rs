//! Any number of pages, and frees of any part of them, for traits that count in pages.

use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order, Pfn, pages};
use pageblock::interrupts::Interrupts;
use pageblock::locks::Locks;
use pageblock::prelude::{Allocator, CpuId, Request};

/// What allocates blocks: a CPU's handle, or the only owner.
pub(crate) trait Blocks {
    /// The largest order.
    fn largest(&self) -> Order;
    /// Allocates a block.
    fn block(&mut self, order: Order) -> Option<Pfn>;
    /// Allocates more than a block holds.
    fn range(&mut self, pages: u64, align: u64) -> Option<Pfn>;
    /// Frees a block, if it is one in use.
    fn free(&mut self, pfn: Pfn, order: Order) -> bool;
    /// Makes blocks of a smaller order of a block, if it is one in use.
    fn split(&mut self, pfn: Pfn, order: Order, to: Order) -> bool;
}

impl<L: Locks, I: Interrupts> Blocks for Cpu<'_, '_, L, I> {
    fn largest(&self) -> Order {
        self.shared().geometry().max_order
    }
    fn block(&mut self, order: Order) -> Option<Pfn> {
        self.alloc(&Request::movable(order), &mut ()).ok()
    }
    fn range(&mut self, pages: u64, align: u64) -> Option<Pfn> {
        let request = Request::movable(0);
        Some(self.alloc_contig(pages, align, &request, &mut (), &mut ()).ok()?.start)
    }
    fn free(&mut self, pfn: Pfn, order: Order) -> bool {
        Cpu::free(self, pfn, order, &mut ()).is_ok()
    }
    fn split(&mut self, pfn: Pfn, order: Order, to: Order) -> bool {
        self.split_allocated(pfn, order, to).is_ok()
    }
}

impl Blocks for Allocator<'_> {
    fn largest(&self) -> Order {
        self.geometry().max_order
    }
    fn block(&mut self, order: Order) -> Option<Pfn> {
        self.alloc(CpuId(0), &Request::movable(order), &mut ()).ok()
    }
    fn range(&mut self, pages: u64, align: u64) -> Option<Pfn> {
        let request = Request::movable(0);
        Some(self.alloc_contig(CpuId(0), pages, align, &request, &mut (), &mut ()).ok()?.start)
    }
    fn free(&mut self, pfn: Pfn, order: Order) -> bool {
        Allocator::free(self, CpuId(0), pfn, order, &mut ()).is_ok()
    }
    fn split(&mut self, pfn: Pfn, order: Order, to: Order) -> bool {
        self.split_allocated(pfn, order, to).is_ok()
    }
}

/// Allocates pages that start at a multiple of `align` pages, a power of two.
pub(crate) fn take(blocks: &mut impl Blocks, count: usize, align: usize) -> Option<Pfn> {
    let order = count.checked_next_power_of_two()?.max(align).trailing_zeros() as Order;
    if order > blocks.largest() {
        return blocks.range(count as u64, align as u64);
    }
    let pfn = blocks.block(order)?;
    keep(blocks, pfn, order, count as u64);
    Some(pfn)
}

/// Frees all but the first pages of a block in use; those become its largest blocks.
fn keep(blocks: &mut impl Blocks, mut pfn: Pfn, mut order: Order, mut count: u64) {
    while count < pages(order) {
        blocks.split(pfn, order, order - 1);
        order -= 1;
        let middle = pfn.plus(pages(order));
        if count > pages(order) {
            (pfn, count) = (middle, count - pages(order));
        } else {
            blocks.free(middle, order);
        }
    }
}

/// Frees pages, which may be a part of what was allocated at once, or several of those. Those that are not in use stay as
/// they are. Returns how many were freed.
pub(crate) fn give(blocks: &mut impl Blocks, range: FrameRange) -> u64 {
    range.blocks(blocks.largest()).map(|(pfn, order)| give_block(blocks, pfn, order)).sum()
}

fn give_block(blocks: &mut impl Blocks, pfn: Pfn, order: Order) -> u64 {
    if blocks.free(pfn, order) {
        return pages(order);
    }
    for above in order + 1..=blocks.largest() {
        // Others of its pages come one by one too, as a rule.
        if blocks.split(Pfn(pfn.0 & !(pages(above) - 1)), above, 0) {
            break;
        }
    }
    let Some(half) = order.checked_sub(1) else {
        return u64::from(blocks.free(pfn, order));
    };
    give_block(blocks, pfn, half) + give_block(blocks, pfn.plus(pages(half)), half)
}
