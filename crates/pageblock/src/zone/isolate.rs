//! Isolation: nothing is allocated from a pageblock while its content is moved away, for a contiguous allocation or
//! to take memory offline.
//!
//! Source: `set_migratetype_isolate`, `unset_migratetype_isolate` (mm/page_isolation.c) and, from
//! 6.10, `move_freepages_block_isolate`.
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
//! let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
//! zone.isolate_block(Pfn(4096), &mut ()).unwrap();
//! // Its free pages cannot be allocated.
//! assert_eq!(zone.free_pages(), (1 << 15) - 512);
//! zone.unisolate_block(Pfn(4096), None, &mut ()).unwrap();
//! assert_eq!(zone.free_pages(), 1 << 15);
//! ```

use crate::base::error::FrameError;
use crate::base::event::Observer;
use crate::base::frame::Pfn;
use crate::base::mobility::Migratetype::{self, Isolate};
use crate::policy::source::PolicySource;
use crate::policy::{Isolation, MergeRule, UntouchedTo};
use crate::table::freelist::End;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;

impl<P: PolicySource> Zone<'_, P> {
    fn isolation_index(&self, pfn: Pfn) -> Result<Index, FrameError> {
        let inside = self.span.contains(pfn).then(|| self.map.index(pfn)).flatten();
        let block = self.pageblock_of(inside.ok_or(FrameError::Foreign(pfn))?);
        let start = self.span.contains(self.map.pfn(block)).then_some(block);
        // Linux starts from any page of a block that begins outside the zone; so does this.
        start.or(inside).ok_or(FrameError::Foreign(pfn))
    }

    /// Isolates the pageblock that contains a frame, and moves its free pages to the isolated lists.
    ///
    /// Up to 6.9 a larger free block moves as a whole if it starts in the pageblock, and stays if it starts before
    /// it; from 6.10 it is split.
    ///
    /// # Errors
    /// [`FrameError::Foreign`] for a frame of another zone, and from 6.10 for a pageblock that extends past this
    /// zone; [`FrameError::Isolated`] if it is isolated already.
    pub fn isolate_block(
        &mut self,
        pfn: Pfn,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let i = self.isolation_index(pfn)?;
        if self.map.block_type(i) == Isolate {
            return Err(FrameError::Isolated(pfn));
        }
        if self.policy.isolation == Isolation::WholeBlocks {
            self.map.set_isolated(i, true);
            self.note_retyped(i);
            self.move_freepages_block(i, Isolate);
        } else if self.movable_range(i).is_none() {
            return Err(FrameError::Foreign(pfn));
        } else {
            self.retype_split(
                i,
                |zone| {
                    zone.map.set_isolated(i, true);
                    zone.note_retyped(i);
                    Isolate
                },
                observer,
            );
        }
        self.note_isolated();
        debug_assert_eq!(self.map.block_type(i), Isolate);
        Ok(())
    }

    pub(crate) fn note_isolated(&mut self) {
        self.isolated_blocks += 1;
        if !self.keeps_isolated_lists() {
            self.exempt_lists();
        }
    }

    /// Ends the isolation of the pageblock that contains a frame, and gives it the type `to`; with `None` the type
    /// that it had before, as in kernels from 6.18 on.
    ///
    /// # Errors
    /// [`FrameError::Foreign`] as in [`isolate_block`](Self::isolate_block);
    /// [`FrameError::NotIsolated`].
    pub fn unisolate_block(
        &mut self,
        pfn: Pfn,
        to: Option<Migratetype>,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let i = self.isolation_index(pfn)?;
        if self.map.block_type(i) != Isolate {
            return Err(FrameError::NotIsolated(pfn));
        }
        let to = to.filter(|&mt| mt != Isolate);
        let set_type = |zone: &mut Self| {
            let before = zone.map.set_isolated(i, false);
            zone.map.set_block_type(i, to.unwrap_or(before));
            zone.note_retyped(i);
            to.unwrap_or(before)
        };
        if let Some((order, list)) = self.mergeable_now(i) {
            self.remove(i, order, list);
            self.map.set(i, FrameState::Tail);
            let mt = set_type(self);
            let end = (self.policy.untouched_to == UntouchedTo::Tail).then_some(End::Tail);
            self.free_one(i, order, mt, end, observer);
        } else if self.policy.isolation == Isolation::Split {
            self.retype_split(i, set_type, observer);
        } else {
            let mt = set_type(self);
            self.move_freepages_block(i, mt);
        }
        debug_assert!(self.isolated_blocks > 0, "no pageblock was counted as isolated");
        self.isolated_blocks -= 1;
        debug_assert_ne!(self.map.block_type(i), Isolate);
        Ok(())
    }

    /// Returns the free block at `i`, if isolation kept it from merging with its buddy.
    fn mergeable_now(&self, i: Index) -> Option<(crate::base::frame::Order, Migratetype)> {
        let FrameState::Free { order, list } = self.map.state(i) else { return None };
        let buddy = i ^ (1 << order);
        let merges = self.policy.merge_rule != MergeRule::Free
            && self.is_whole_block(order)
            // Linux from 6.10 also puts larger blocks back as a whole, with pageblocks still isolated.
            && (order == self.geometry.pageblock_order || self.policy.isolation == Isolation::WholeBlocks)
            && order < self.geometry.max_order
            && self.map.free_list(buddy, order).is_some()
            && self.map.block_type(buddy) != Isolate;
        merges.then_some((order, list))
    }

    /// Sets the type of one pageblock (from 6.10). A free block that extends beyond it is split, and each of its
    /// pageblocks freed to its own type's list.
    pub(crate) fn retype_split(
        &mut self,
        i: Index,
        set_type: impl FnOnce(&mut Self) -> Migratetype,
        observer: &mut impl Observer,
    ) {
        match self.map.free_block_of(i) {
            Some((start, order, list)) if order > self.geometry.pageblock_order => {
                self.remove(start, order, list);
                self.map.set(start, FrameState::Tail);
                set_type(self);
                self.free_in_pieces(start, order, None, observer);
            }
            _ => {
                let from = self.map.block_type(i);
                let to = set_type(self);
                self.move_freepages_from(i, Some(from), to);
            }
        }
    }
}
