//! Reserves of whole pageblocks: from 4.4 for high-order requests that may not sleep, before that as the very last
//! fallback.
//!
//! Source: `reserve_highatomic_pageblock`, `unreserve_highatomic_pageblock`,
//! `setup_zone_migrate_reserve`.

use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::{Order, Pfn, pages};
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic, Isolate, Movable, Reserve};
use crate::policy::source::PolicySource;
use crate::policy::{self, Policy, WmarkCheck};
use crate::table::map::{FrameState, Index};
use crate::zone::packing::Prefer;
use crate::zone::{Zone, tuning};

impl<P: PolicySource> Zone<'_, P> {
    /// Returns the largest size of the reserve in pages; 0 if the zone may have none.
    fn highatomic_cap(&self) -> u64 {
        let block = self.geometry.pageblock_pages();
        let percent = self.managed / 100;
        match self.policy.reserve {
            policy::Reserve::MigrateReserve | policy::Reserve::Off => 0,
            policy::Reserve::Highatomic => percent + block,
            _ if percent < block => 0,
            _ => percent.next_multiple_of(block),
        }
    }

    /// Adds the pageblock of a newly allocated block to the reserve, if there is room. Returns whether it did.
    pub(crate) fn reserve_highatomic(&mut self, pfn: Pfn, order: Order) -> bool {
        let Some(i) = self.map.index(pfn) else { return false };
        let mt = self.map.block_type(i);
        let movable_block = match self.policy.reserve {
            policy::Reserve::MigrateReserve | policy::Reserve::Off => false,
            policy::Reserve::Highatomic => !matches!(mt, HighAtomic | Isolate | Cma),
            _ => mt.is_mergeable(),
        };
        if self.reserved_highatomic >= self.highatomic_cap() || !movable_block {
            return false;
        }
        let strict = self.policy.retype == policy::Retype::Together;
        if self.is_whole_block(order) && strict {
            self.set_block_types(i, order, HighAtomic);
            self.reserved_highatomic += 1 << order;
            debug_assert!(
                self.reserved_highatomic <= self.span.len(),
                "more is reserved than there is"
            );
            return true;
        }
        if strict && self.movable_range(i).is_none() {
            return false;
        }
        self.retype_block(i, HighAtomic);
        self.reserved_highatomic += self.geometry.pageblock_pages();
        debug_assert_eq!(
            self.map.block_type(i),
            HighAtomic,
            "the reserve counts another's pageblock"
        );
        true
    }

    /// Returns one reserved pageblock with free pages to requests of a type. Unless `force` is [`Unreserve::All`],
    /// the last pageblock stays. Returns whether one left the reserve.
    pub fn unreserve_highatomic(&mut self, to: Migratetype, force: Unreserve) -> bool {
        let block_pages = self.geometry.pageblock_pages();
        let keeps = force == Unreserve::KeepOne && self.reserved_highatomic <= block_pages;
        if keeps || !to.is_mergeable() {
            return false;
        }
        (0..=self.geometry.max_order).any(|order| self.unreserve_at(order, to))
    }

    /// Takes the pageblock of the first free block of one order out of the reserve. Returns whether pages moved.
    fn unreserve_at(&mut self, order: Order, to: Migratetype) -> bool {
        let found = if self.is_packed() {
            self.packed_candidate(order, order, HighAtomic, Prefer::Emptiest).map(|(i, ..)| i)
        } else {
            self.area.list(order, HighAtomic).head()
        };
        let Some(i) = found else { return false };
        let whole = self.policy.retype == policy::Retype::Together && self.is_whole_block(order);
        // Up to 6.9 pages on the list may be in pageblocks that left the reserve before.
        if self.map.block_type(i) == HighAtomic {
            let block_pages = self.geometry.pageblock_pages();
            let size = if whole { 1 << order } else { block_pages };
            self.reserved_highatomic = self.reserved_highatomic.saturating_sub(size);
        }
        if whole {
            self.move_to_list(i, order, HighAtomic, to);
            self.set_block_types(i, order, to);
            self.settle(i..i + (1 << order));
            debug_assert_eq!(self.map.free_list(i, order), Some(to), "the reserve kept its block");
            return true;
        }
        self.retype_block(i, to) > 0
    }

    /// Sets up the migrate reserve (up to 4.3): the lowest movable pageblocks whose memory was all released, as
    /// many as `min_wmark` requires. Other pageblocks of the reserve become movable again.
    ///
    /// Source: `setup_zone_migrate_reserve`.
    pub(crate) fn setup_migrate_reserve(&mut self) {
        let order = self.geometry.pageblock_order;
        let mut wanted = tuning::migrate_reserve_blocks(self.watermarks.min, order);
        let mut pfn = self.span.start.align_up(order);
        while pfn < self.span.end {
            let Some(i) = self.map.index(pfn) else { return };
            pfn = pfn.plus(pages(order));
            let mt = self.map.block_type(i);
            let cut =
                self.policy.retype == policy::Retype::Together && self.movable_range(i).is_none();
            if cut || (wanted > 0 && self.has_reserved_frame(i)) {
                continue;
            }
            let to = match mt {
                Reserve | Movable if wanted > 0 => {
                    wanted -= 1;
                    Reserve
                }
                Reserve => Movable,
                _ => continue,
            };
            if to == mt {
                continue;
            }
            if self.policy.retype == policy::Retype::Together {
                self.retype_split(i, |zone| zone.with_block_type(i, to), &mut ());
            } else {
                self.set_block_type(i, to);
                self.move_freepages_block(i, to);
            }
        }
    }

    fn with_block_type(&mut self, i: Index, mt: Migratetype) -> Migratetype {
        self.set_block_type(i, mt);
        mt
    }

    /// Returns whether a pageblock has memory that was never released to the allocator (`pageblock_is_reserved`).
    fn has_reserved_frame(&self, block: Index) -> bool {
        let mut frames = block..block + (1 << self.geometry.pageblock_order);
        frames.any(|i| self.map.state(i) == FrameState::Reserved)
    }
}

/// The part of the reserve that may be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreserve {
    /// All but the last pageblock (the first attempts of reclaim).
    KeepOne,
    /// Every pageblock (before an OOM kill).
    All,
}

/// Returns whether an attempt may use the highatomic reserve.
pub(crate) fn reserves_for(policy: &Policy, flags: AllocFlags) -> bool {
    match policy.wmark_check {
        WmarkCheck::HalvePerOrder => false,
        WmarkCheck::ListExists => flags.has(AllocFlags::NON_BLOCK),
        _ => flags.has(AllocFlags::HIGHATOMIC),
    }
}

/// Tells whether an attempt that found nothing else takes a block of the highatomic reserve, of a single page too.
#[must_use]
pub const fn takes_highatomic_last(check: WmarkCheck, flags: AllocFlags) -> bool {
    flags.has_any(match check {
        WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => return false,
        WmarkCheck::FlagsCombine => AllocFlags::OOM,
        WmarkCheck::FreeHighatomic => AllocFlags::OOM.with(AllocFlags::NON_BLOCK),
    })
}
