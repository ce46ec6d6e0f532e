//! Anonymous memory in sizes between a page and a huge page (mTHP), from 6.8.
//!
//! Source: `alloc_anon_folio` (mm/memory.c), `thp_vma_allowable_orders` (include/linux/huge_mm.h).

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::ids::NodeId;
use pageblock::request::Request;
use pageblock_kernel::rules::huge::{Huge, SizeEnabled, ThpEnabled};

use super::thp::{Advice, HPAGE_PMD_ORDER, gfp_for};
use crate::pagecache::space::SpaceId;
use crate::vm::Vm;

/// The smallest order (`THP_ORDERS_ALL_ANON` excludes order 1).
const SMALLEST: Order = 2;

/// Returns whether a fault may use a size.
fn allows(huge: &Huge, order: Order, advice: Advice) -> bool {
    let thp_allows = match huge.thp_enabled {
        ThpEnabled::Always => true,
        ThpEnabled::Madvise => advice == Advice::HugePages,
        ThpEnabled::Never => false,
    };
    huge.mthp
        && order >= SMALLEST
        && match huge.size_enabled(order) {
            SizeEnabled::Inherit => thp_allows,
            SizeEnabled::Always => true,
            SizeEnabled::Madvise => advice == Advice::HugePages,
            SizeEnabled::Never => false,
        }
}

/// Returns whether a fault may use any size.
#[must_use]
pub fn is_enabled(huge: &Huge, advice: Advice) -> bool {
    (SMALLEST..HPAGE_PMD_ORDER).any(|order| allows(huge, order, advice))
}

/// Returns the request of a fault for such a block. Unlike a huge page, it may come from any node.
#[must_use]
pub fn request(huge: &Huge, advice: Advice, node: u8, order: Order) -> Request {
    Request::new(order, gfp_for(huge, advice)).on_node(NodeId(node))
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the orders that a fault at an index tries, largest first, each with the first index of its block: the
    /// block is aligned, inside the mapping, and empty.
    #[must_use]
    pub fn mthp_orders(&self, space: SpaceId, index: u32, advice: Advice) -> Vec<(Order, u32)> {
        let huge = &self.kernel.huge;
        let first = |order: Order| index >> order << order;
        let fits = |&order: &Order| {
            allows(huge, order, advice) && self.has_room(space, first(order), order)
        };
        (SMALLEST..HPAGE_PMD_ORDER).rev().filter(fits).map(|order| (order, first(order))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::Named;

    #[test]
    fn each_size_has_its_own_setting() {
        let sizes = |base: &str, thp: &str| {
            let sizes = "hugepages_64kb=inherit,hugepages_128kb=madvise,hugepages_256kb=always";
            Named::parse(&format!("{base},{sizes},thp_enabled={thp}")).unwrap().kernel.huge
        };
        let allowed = |thp, advice| -> Vec<Order> {
            (0..9).filter(|&order| allows(&sizes("linux-6.8", thp), order, advice)).collect()
        };
        assert_eq!(allowed("always", Advice::None), [4, 6]);
        assert_eq!(allowed("madvise", Advice::HugePages), [4, 5, 6]);
        assert_eq!(allowed("never", Advice::HugePages), [5, 6]);
        assert!(!allows(&sizes("linux-6.7", "always"), 6, Advice::HugePages));
    }
}
