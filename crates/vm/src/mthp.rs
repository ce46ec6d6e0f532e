//! Anonymous memory in sizes between a page and a huge page, from 6.8.
//!
//! Source: `alloc_anon_folio` (mm/memory.c), `thp_vma_allowable_orders` (include/linux/huge_mm.h).

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::request::Request;

use crate::config::{Config, ThpEnabled};
use crate::space::SpaceId;
use crate::thp::{HPAGE_PMD_ORDER, gfp_for};
use crate::vm::Vm;

/// The smallest order (`THP_ORDERS_ALL_ANON` has none of 1).
const SMALLEST: Order = 2;
/// Sizes that can be set: orders below this one.
const ORDERS: usize = 16;

/// `hugepages-<size>kB/enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SizeEnabled {
    /// As `transparent_hugepage/enabled` says.
    Inherit,
    /// For every mapping.
    Always,
    /// Where the program asks by `MADV_HUGEPAGE`.
    Madvise,
    /// Nowhere.
    #[default]
    Never,
}

/// The setting of each size below a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    exist: bool,
    enabled: [SizeEnabled; ORDERS],
}

impl Sizes {
    /// A version's defaults: none is used.
    #[must_use]
    pub(crate) const fn of_version(major: u32, minor: u32) -> Self {
        let exist = major > 6 || (major == 6 && minor >= 8);
        Self { exist, enabled: [SizeEnabled::Never; ORDERS] }
    }

    /// The same with one size set. The kernels before 6.8 have no such setting, and ignore it here.
    #[must_use]
    pub fn with(mut self, order: Order, enabled: SizeEnabled) -> Self {
        if let Some(at) = self.enabled.get_mut(usize::from(order)) {
            *at = enabled;
        }
        self
    }

    /// Whether a fault may use a size.
    fn allows(&self, order: Order, thp: ThpEnabled, madvised: bool) -> bool {
        let at = self.enabled.get(usize::from(order)).copied().unwrap_or_default();
        let thp_allows = match thp {
            ThpEnabled::Always => true,
            ThpEnabled::Madvise => madvised,
            ThpEnabled::Never => false,
        };
        self.exist
            && order >= SMALLEST
            && match at {
                SizeEnabled::Inherit => thp_allows,
                SizeEnabled::Always => true,
                SizeEnabled::Madvise => madvised,
                SizeEnabled::Never => false,
            }
    }
}

/// The request of a fault for a block of a size between. Unlike for a huge page, any node will do.
#[must_use]
pub fn request(config: &Config, madvised: bool, node: u8, order: Order) -> Request {
    Request::new(order, gfp_for(config, madvised)).on_node(node)
}

impl<O: Observer> Vm<'_, O> {
    /// The orders that a fault at an index tries, the largest first, each with the first index of its
    /// block: the block is aligned, in the mapping, and nothing is there yet.
    #[must_use]
    pub fn mthp_orders(&self, space: SpaceId, index: u32, madvised: bool) -> Vec<(Order, u32)> {
        let Config { mthp, thp_enabled, .. } = &self.config;
        if !mthp.exist {
            return Vec::new();
        }
        let first = |order: Order| index >> order << order;
        let fits = |&order: &Order| {
            mthp.allows(order, *thp_enabled, madvised) && self.has_room(space, first(order), order)
        };
        (SMALLEST..HPAGE_PMD_ORDER).rev().filter(fits).map(|order| (order, first(order))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_own_setting() {
        let sizes = Sizes::of_version(6, 8)
            .with(4, SizeEnabled::Inherit)
            .with(5, SizeEnabled::Madvise)
            .with(6, SizeEnabled::Always)
            .with(1, SizeEnabled::Always);
        let allowed = |thp, madvised| -> Vec<Order> {
            (0..9).filter(|&order| sizes.allows(order, thp, madvised)).collect()
        };
        assert_eq!(allowed(ThpEnabled::Always, false), [4, 6]);
        assert_eq!(allowed(ThpEnabled::Madvise, true), [4, 5, 6]);
        assert_eq!(allowed(ThpEnabled::Never, true), [5, 6]);
        let old = Sizes::of_version(6, 7).with(6, SizeEnabled::Always);
        assert!(!old.allows(6, ThpEnabled::Always, true));
    }
}
