//! Checks that each block agrees with its pageblock when it enters, leaves or changes a free list. From 6.10 all
//! do: a list of one type holds only pages of pageblocks of that type.
//!
//! Builds with debug assertions check every movement, and panic at the first that disagrees if the policy keeps
//! list and pageblock types equal ([`Policy::list_type_strict`](crate::policy::Policy::list_type_strict)). Other
//! builds check nothing. For a block larger than a pageblock the first pageblock counts, as in the kernel's own
//! warnings (`account_freepages`, `move_to_free_list`); [`Allocator::check`](crate::alloc::Allocator::check) checks
//! all of them.
//!
//! A zone is exempt after an imposed change (`impose_*`) put a block on a list of another type, because the
//! recording decides. A zone is also exempt while it isolates a pageblock and frees larger blocks as a whole, as
//! 6.10 and 6.11 do.

use crate::policy::source::PolicySource;
use core::ops::Range;

use crate::base::mobility::Migratetype;
use crate::table::map::{Index, PageMap};

/// Movements of free blocks since the allocator was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Movements {
    /// All movements: to a list, off a list, from one list to another.
    pub all: u64,
    /// Movements to or from a list whose type is not that of the block's pageblock.
    pub mixed: u64,
}

/// Checks each movement of a zone.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    seen: Movements,
    strict: bool,
    /// Blocks that moved to a list of a type that their pageblock does not have yet.
    unsettled: u64,
}

#[cfg(debug_assertions)]
impl Watch {
    pub(crate) const NEW: Self =
        Self { seen: Movements { all: 0, mixed: 0 }, strict: false, unsettled: 0 };

    pub(crate) fn seen(&self) -> Option<Movements> {
        Some(self.seen)
    }

    /// Sets whether a mixed movement is a defect.
    pub(crate) fn set_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// Notes that a block enters or leaves a list.
    pub(crate) fn one(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        list: Migratetype,
    ) {
        let unsettled = core::mem::take(&mut self.unsettled);
        self.seen.mixed += unsettled;
        assert!(!self.strict || unsettled == 0, "a pageblock did not get the type of its pages");
        self.seen.all += 1;
        self.expect(map, i, list, map.block_type(i) == list);
    }

    /// Notes that a block moves from one list to another. Its pageblock changes its type before or after that.
    pub(crate) fn change(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        [from, to]: [Migratetype; 2],
    ) {
        let mt = map.block_type(i);
        self.seen.all += 1;
        self.unsettled += u64::from(mt == from && mt != to);
        self.expect(map, i, from, mt == from || mt == to);
    }

    /// Notes that pageblocks got the type of the lists that their free pages moved to.
    pub(crate) fn settle(&mut self, map: &PageMap<'_, impl PolicySource>, frames: Range<Index>) {
        self.unsettled = 0;
        for i in frames {
            if let crate::table::map::FrameState::Free { list, .. } = map.state(i) {
                self.expect(map, i, list, map.block_type(i) == list);
            }
        }
    }

    fn expect(
        &mut self,
        map: &PageMap<'_, impl PolicySource>,
        i: Index,
        list: Migratetype,
        agrees: bool,
    ) {
        self.seen.mixed += u64::from(!agrees);
        let (pfn, mt) = (map.pfn(i), map.block_type(i));
        assert!(agrees || !self.strict, "block {pfn} of a {mt} pageblock is on the {list} list");
    }
}

/// Checks nothing.
#[cfg(not(debug_assertions))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch;

#[cfg(not(debug_assertions))]
#[expect(clippy::unused_self, reason = "the same as where there is something to see")]
impl Watch {
    pub(crate) const NEW: Self = Self;

    pub(crate) fn seen(&self) -> Option<Movements> {
        None
    }

    #[inline(always)]
    pub(crate) fn set_strict(&mut self, _: bool) {}

    #[inline(always)]
    pub(crate) fn one(&mut self, _: &PageMap<'_, impl PolicySource>, _: Index, _: Migratetype) {}

    #[inline(always)]
    pub(crate) fn change(
        &mut self,
        _: &PageMap<'_, impl PolicySource>,
        _: Index,
        _: [Migratetype; 2],
    ) {
    }

    #[inline(always)]
    pub(crate) fn settle(&mut self, _: &PageMap<'_, impl PolicySource>, _: Range<Index>) {}
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use crate::base::frame::Pfn;
    use crate::base::geometry::Geometry;
    use crate::base::ids::{CpuId, ZoneIndex};
    use crate::base::mobility::Migratetype::{Movable, Unmovable};
    use crate::base::request::{Gfp, Request};
    use crate::testing::Allocator;
    use crate::testing::with_zone;

    /// Returns a zone of two blocks of order 10.
    fn with_two_blocks<R>(policy: &str, test: impl FnOnce(&mut Allocator<'_>) -> R) -> R {
        with_zone(policy, Geometry::default(), 2048, test)
    }

    /// Changes the type of a pageblock but not the lists of its pages, then takes these.
    fn take_from_another_type(policy: &str) -> Movements {
        with_two_blocks(policy, |allocator| {
            allocator.zones()[0].map().set_block_type(0, Unmovable);
            allocator.zones()[0].map().set_block_type(1024, Unmovable);
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.rmqueue_smallest(9, Movable).unwrap();
            allocator.movements().unwrap()
        })
    }

    #[test]
    fn up_to_6_9_a_mixed_movement_is_counted() {
        // Two blocks come; one goes, and half of it comes back.
        assert_eq!(take_from_another_type("linux-6.9"), Movements { all: 4, mixed: 1 });
    }

    #[test]
    #[should_panic(expected = "of a Unmovable pageblock is on the Movable list")]
    fn from_6_10_a_mixed_movement_fails() {
        take_from_another_type("linux-6.10");
    }

    #[test]
    #[should_panic(expected = "did not get the type of its pages")]
    fn from_6_10_pages_do_not_move_without_their_pageblock() {
        with_two_blocks("linux-6.10", |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.rmqueue_smallest(0, Movable).unwrap();
            zone.move_freepages_block(0, Unmovable);
            zone.rmqueue_smallest(0, Movable);
        });
    }

    /// `__isolate_free_page`: the free pages beside a block of half a pageblock come along.
    #[test]
    fn from_6_10_what_compaction_takes_moves_its_pageblock() {
        with_two_blocks("linux-6.10", |allocator| {
            let kernel = Request::new(0, Gfp::GFP_KERNEL);
            let pfn = allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap().0 & !511;
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            assert_eq!(zone.block_type(Pfn(pfn)), Some(Unmovable));
            assert_eq!(zone.isolate_free_page(Pfn(pfn + 256)), Some(8));
            assert_eq!(zone.block_type(Pfn(pfn)), Some(Movable));
            assert_eq!(zone.nr_free_of(7, Movable), 1);
            allocator.check().unwrap();
        });
    }
}
