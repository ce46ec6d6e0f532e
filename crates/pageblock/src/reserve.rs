//! The reserve of whole blocks for high-order requests that may not wait (4.4 and later).
//!
//! Source: `reserve_highatomic_pageblock` and `unreserve_highatomic_pageblock`. The migrate reserve
//! of earlier kernels is a block type that [`fallback`](crate::fallback) uses last.

use crate::frame::{Order, Pfn};
use crate::mobility::Migratetype::{self, Cma, HighAtomic, Isolate};
use crate::policy::Reserve;
use crate::zone::Zone;

impl Zone<'_> {
    /// The largest reserve in pages; 0 where the zone may have none.
    fn highatomic_cap(&self) -> u64 {
        let block = self.geometry.pageblock_pages();
        let percent = self.managed / 100;
        match self.policy.reserve {
            Reserve::MigrateReserve => 0,
            Reserve::Highatomic44 => percent + block,
            _ if percent < block => 0,
            _ => percent.next_multiple_of(block),
        }
    }

    /// Adds the pageblock of a block just allocated to the reserve, if there is room. Tells whether
    /// it did.
    pub(crate) fn reserve_highatomic(&mut self, pfn: Pfn, order: Order) -> bool {
        let Some(i) = self.map.index(pfn) else { return false };
        let mt = self.map.block_type(i);
        let movable_block = match self.policy.reserve {
            Reserve::MigrateReserve => false,
            Reserve::Highatomic44 => !matches!(mt, HighAtomic | Isolate | Cma),
            _ => mt.is_mergeable(),
        };
        if self.reserved_highatomic >= self.highatomic_cap() || !movable_block {
            return false;
        }
        let strict = self.policy.list_type_strict();
        if self.is_whole_block(order) && strict {
            self.set_block_types(i, order, HighAtomic);
            self.reserved_highatomic += 1 << order;
            return true;
        }
        let block = self.pageblock_of(i);
        if strict && self.straddles(block) {
            return false;
        }
        self.move_freepages_block(block, HighAtomic);
        self.map.set_block_type(block, HighAtomic);
        self.reserved_highatomic += self.geometry.pageblock_pages();
        true
    }

    /// Gives one reserved pageblock back to requests of a type. Unless `force` is
    /// [`Unreserve::All`], the last block stays. Tells whether a block was given back.
    pub fn unreserve_highatomic(&mut self, to: Migratetype, force: Unreserve) -> bool {
        let block_pages = self.geometry.pageblock_pages();
        if force == Unreserve::KeepOne && self.reserved_highatomic <= block_pages {
            return false;
        }
        let Some(order) = self.area.smallest(0, HighAtomic) else { return false };
        let Some(i) = self.area.list(order, HighAtomic).head() else { return false };
        if self.map.block_type(i) != HighAtomic {
            return false;
        }
        let given = block_pages.max(1 << order).min(self.reserved_highatomic);
        self.reserved_highatomic -= given;
        if self.is_whole_block(order) {
            self.move_to_list(i, order, HighAtomic, to);
            self.set_block_types(i, order, to);
        } else {
            let block = self.pageblock_of(i);
            self.move_freepages_block(block, to);
            self.map.set_block_type(block, to);
        }
        true
    }
}

/// How much of the reserve may be given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreserve {
    /// All but the last block (the first attempts of reclaim).
    KeepOne,
    /// Every block (before an OOM kill).
    All,
}
