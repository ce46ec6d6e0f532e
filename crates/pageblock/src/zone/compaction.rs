//! The allocator's part in compaction: hints, free pages as migration targets, and whether to stop.
//!
//! The scanners themselves are outside, because they need to know the content of pages.
//!
//! Source: `__isolate_free_page` (mm/page_alloc.c); `compact_finished`
//! (mm/compaction.c).
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! use pageblock::frame::Pfn;
//!
//! // A free block as a migration target: neither watermarks nor CPU lists matter.
//! let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
//! let order = zone.isolate_free_page(Pfn(4096)).unwrap();
//! assert_eq!(order, 10);
//! allocator.split_allocated(Pfn(4096), order, 0).unwrap();
//! for pfn in 4096..4096 + (1 << order) {
//!     allocator.free(CpuId(0), Pfn(pfn), 0, &mut ()).unwrap();
//! }
//! ```

use crate::base::frame::{Order, Pfn, pages};
use crate::base::mobility::Migratetype::{self, Movable};
use crate::policy::Retype;
use crate::policy::source::PolicySource;
use crate::table::map::FrameState;
use crate::zone::Zone;

impl<P: PolicySource> Zone<'_, P> {
    /// Returns the skip hint of the pageblock that contains a frame (`get_pageblock_skip`); `false` for a frame of
    /// another zone.
    #[must_use]
    pub fn skip(&self, pfn: Pfn) -> bool {
        self.map.index(pfn).is_some_and(|i| self.map.skip(i))
    }

    /// Returns the start of the last pageblock without a skip hint, from that of `low` to that of `high`, both frames
    /// of the zone; `None` if all have hints.
    #[must_use]
    pub fn last_without_hint(&self, low: Pfn, high: Pfn) -> Option<Pfn> {
        let block = self.map.last_without_hint(self.map.index(low)?, self.map.index(high)?)?;
        Some(self.map.pfn(block << self.geometry.pageblock_order))
    }

    /// Takes the free block that starts at a frame off its list, regardless of watermarks, and returns its order;
    /// `None` if no free block starts there. The block is then allocated, with movable content. If it is half a
    /// pageblock or more, its pageblocks become movable (`__isolate_free_page`).
    pub fn isolate_free_page(&mut self, pfn: Pfn) -> Option<Order> {
        let i = self.map.index(pfn)?;
        let FrameState::Free { order, list } = self.map.state(i) else { return None };
        self.remove(i, order, list);
        self.map.set(i, FrameState::Allocated { order, movable: true });
        if order + 1 >= self.geometry.pageblock_order {
            for block in 0..pages(order.saturating_sub(self.geometry.pageblock_order)) {
                let at = i + ((block as u32) << self.geometry.pageblock_order);
                if self.map.block_type(at).is_mergeable() {
                    self.make_movable(at);
                }
            }
        }
        Some(order)
    }

    /// Makes the free block that contains a frame the head of its list, and moves the blocks before it behind the
    /// tail (`move_freelist_tail`). Does nothing if no free block contains the frame, and under packed placement
    /// for blocks smaller than a pageblock, which are on no list.
    pub fn rotate_free_list(&mut self, pfn: Pfn) {
        if let Some((i, order, list)) = self.map.index(pfn).and_then(|i| self.map.free_block_of(i))
        {
            if !self.is_packed() {
                self.area.rotate_to(&self.map, i, order, list);
            } else if self.is_whole_block(order) {
                self.area.rotate_to(self.packing.links(), i, order, list);
            }
        }
    }

    /// Makes a pageblock movable. Its free pages move too if `retype` is `together`.
    fn make_movable(&mut self, i: crate::table::map::Index) {
        if self.policy.retype == Retype::Apart {
            self.set_block_type(i, Movable);
        } else if self.movable_range(i).is_some() {
            self.retype_block(i, Movable);
        }
    }

    /// Returns whether a request could claim a whole pageblock of another type through a block of exactly this
    /// order (`find_suitable_fallback` with `only_stealable`).
    #[must_use]
    pub fn has_claimable_fallback(&self, order: Order, start: Migratetype) -> bool {
        order <= self.geometry.max_order && self.can_claim_at(order, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::geometry::Geometry;
    use crate::base::ids::{CpuId, ZoneIndex};
    use crate::base::request::Gfp;
    use crate::base::request::Request;
    use crate::testing::with_zone;

    #[test]
    fn the_last_pageblock_without_a_hint_is_the_one_that_a_walk_finds() {
        with_zone("linux-6.12", Geometry::default(), 8 << 9, |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            for hints in 0..=u8::MAX {
                for block in 0..8 {
                    zone.set_skip(Pfn(block << 9), hints >> block & 1 != 0).unwrap();
                }
                for (low, high) in (0..8).flat_map(|low| (low..8).map(move |high| (low, high))) {
                    let walk = (low..=high).rev().map(|block| Pfn(block << 9));
                    let found = zone.last_without_hint(Pfn(low << 9), Pfn((high << 9) + 7));
                    assert_eq!(found, walk.clone().find(|&pfn| !zone.skip(pfn)), "{hints:b}");
                }
            }
            assert_eq!(zone.last_without_hint(Pfn(0), Pfn(8 << 9)), None);
        });
    }

    #[test]
    fn an_isolated_block_is_split_and_freed_page_by_page() {
        with_zone("linux-4.20", Geometry::default(), 4096, |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let free = zone.free_pages();
            assert_eq!(zone.isolate_free_page(Pfn(1)), None);
            assert_eq!(zone.isolate_free_page(Pfn(1024)), Some(10));
            assert_eq!(zone.free_pages(), free - 1024);
            allocator.split_allocated(Pfn(1024), 10, 0).unwrap();
            assert!(allocator.split_allocated(Pfn(1024), 10, 0).is_err());
            allocator.check().unwrap();
            for pfn in 1024..2048 {
                allocator.free(CpuId(0), Pfn(pfn), 0, &mut ()).unwrap();
            }
            allocator.drain_all(&mut ());
            assert_eq!(allocator.zones()[0].free_pages(), free);
            allocator.check().unwrap();
        });
    }

    #[test]
    fn a_kernel_request_claims_by_any_order_a_movable_one_by_large_ones() {
        with_zone("linux-4.20", Geometry::default(), 4096, |allocator| {
            let request = Request::new(0, Gfp::GFP_KERNEL);
            allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
            let zone = &allocator.zones()[0];
            assert!(zone.has_claimable_fallback(10, Migratetype::Unmovable));
            assert!(zone.has_claimable_fallback(5, Migratetype::Movable));
            assert!(!zone.has_claimable_fallback(3, Migratetype::Movable));
            assert!(!zone.has_claimable_fallback(11, Migratetype::Unmovable));
            assert_eq!(allocator.zones_for(CpuId(0), &request).unwrap().count(), 1);
        });
    }
}
