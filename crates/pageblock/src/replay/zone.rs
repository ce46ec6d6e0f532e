//! Imposed changes of a zone: blocks, pageblocks, fallbacks.

use crate::base::alloc_flags::AllocFlags;
use crate::base::error::FrameError;
use crate::base::event::Observer;
use crate::base::frame::{Order, Pfn};
use crate::base::mobility::Migratetype::{self, Movable};
use crate::policy::ClaimRule;
use crate::policy::source::PolicySource;
use crate::table::freelist::End;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;
use crate::zone::fallback::{Fallback, Outcome};

impl<P: PolicySource> Zone<'_, P> {
    pub(super) fn block_index(&self, pfn: Pfn, order: Order) -> Result<Index, FrameError> {
        if order > self.geometry().max_order {
            return Err(FrameError::OrderTooLarge(order));
        }
        if !pfn.is_aligned(order) {
            return Err(FrameError::Misaligned(pfn, order));
        }
        let i = self.map().index(pfn).ok_or(FrameError::Foreign(pfn))?;
        self.map().index(pfn.plus((1 << order) - 1)).ok_or(FrameError::Foreign(pfn))?;
        Ok(i)
    }

    /// Makes tails of the frames of a block that is reserved, in use, or part of a larger block in use.
    fn clear_unlisted(&self, i: Index, order: Order) -> Result<(), FrameError> {
        for at in i..i + (1 << order) {
            match self.map().state(at) {
                FrameState::Free { .. } | FrameState::CpuList { .. } | FrameState::Hole => {
                    return Err(FrameError::NotAllocated(self.map().pfn(at)));
                }
                _ => {}
            }
        }
        if self.map().free_block_of(i).is_some() {
            return Err(FrameError::NotAllocated(self.map().pfn(i)));
        }
        for at in i..i + (1 << order) {
            self.map().set(at, FrameState::Tail);
        }
        Ok(())
    }

    /// Imposes that a block, reserved or in use so far, is allocated, whatever blocks it was part of.
    ///
    /// # Errors
    /// Where some of its frames are on a list, or no memory of the zone.
    pub fn impose_allocated(
        &mut self,
        pfn: Pfn,
        order: Order,
        movable: bool,
    ) -> Result<(), FrameError> {
        let i = self.block_index(pfn, order)?;
        self.clear_unlisted(i, order)?;
        self.map().set(i, FrameState::Allocated { order, movable });
        Ok(())
    }

    /// Puts a block that is reserved or in use at the tail of a free list, without merging.
    ///
    /// # Errors
    /// As [`impose_allocated`](Self::impose_allocated).
    pub fn impose_free_block(
        &mut self,
        pfn: Pfn,
        order: Order,
        list: Migratetype,
    ) -> Result<(), FrameError> {
        let i = self.block_index(pfn, order)?;
        self.clear_unlisted(i, order)?;
        self.follow_list_type(i, list);
        self.insert(i, order, list, End::Tail);
        Ok(())
    }

    /// Exempts the zone from the strict check where a block is imposed on a list of another type.
    fn follow_list_type(&mut self, i: Index, list: Migratetype) {
        if self.map().block_type(i) != list {
            self.exempt_lists();
        }
    }

    /// Imposes the type of a pageblock; its free pages stay on their lists.
    ///
    /// # Errors
    /// [`FrameError::Foreign`].
    pub fn impose_block_type(&mut self, pfn: Pfn, mt: Migratetype) -> Result<(), FrameError> {
        let i = self.map().index(pfn).ok_or(FrameError::Foreign(pfn))?;
        let start = self.pageblock_of(i);
        for at in start..start + (1 << self.geometry().pageblock_order) {
            if let FrameState::Free { list, .. } = self.map().state(at) {
                if list != mt {
                    self.exempt_lists();
                }
            }
        }
        if mt != Migratetype::Isolate {
            self.set_block_type(i, mt);
        } else if self.map().block_type(i) != mt {
            self.map().set_isolated(i, true);
            self.note_retyped(i);
            self.note_isolated();
        }
        Ok(())
    }

    /// Imposes that a pageblock enters the highatomic reserve, or leaves it: its free pages go to the lists of its
    /// new type.
    ///
    /// # Errors
    /// [`FrameError::Foreign`].
    pub fn impose_reserve(&mut self, pfn: Pfn, mt: Migratetype) -> Result<(), FrameError> {
        let i = self.map().index(pfn).ok_or(FrameError::Foreign(pfn))?;
        let was = self.map().block_type(i);
        self.retype_block(i, mt);
        let pages = self.geometry().pageblock_pages();
        match (was == Migratetype::HighAtomic, mt == Migratetype::HighAtomic) {
            (false, true) => self.impose_reserved_highatomic(self.reserved_highatomic() + pages),
            (true, false) => {
                self.impose_reserved_highatomic(self.reserved_highatomic().saturating_sub(pages));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the free block that holds a frame: its start, order and list type.
    #[must_use]
    pub fn free_block_of(&self, pfn: Pfn) -> Option<(Pfn, Order, Migratetype)> {
        let (start, order, list) = self.map().free_block_of(self.map().index(pfn)?)?;
        Some((self.map().pfn(start), order, list))
    }

    /// Returns the last free page of the pageblock that holds a frame.
    #[must_use]
    pub fn last_free_page_of(&self, pfn: Pfn) -> Option<Pfn> {
        let i = self.map().index(pfn)?;
        let start = self.pageblock_of(i);
        let end = start + (1 << self.geometry().pageblock_order);
        if let Some((block, order, _)) = self.map().free_block_of(start) {
            if block + (1 << order) >= end {
                return Some(self.map().pfn(end - 1));
            }
        }
        let mut at = start;
        let mut last = None;
        while at < end {
            at += match self.map().state(at) {
                FrameState::Free { order, .. } => {
                    last = Some(at + (1 << order) - 1);
                    1 << order
                }
                FrameState::Allocated { order, .. } | FrameState::CpuList { order, .. } => {
                    1 << order
                }
                FrameState::Hole | FrameState::Reserved | FrameState::Tail => 1,
            };
        }
        last.map(|last| self.map().pfn(last.min(end - 1)))
    }

    /// Returns the block that a request would take from its own list: its start, and the order before the split.
    #[must_use]
    pub fn next_of_list(&self, order: Order, list: Migratetype) -> Option<(Pfn, Order)> {
        if order > self.geometry().max_order {
            return None;
        }
        let (i, found) = self.smallest(order, list)?;
        Some((self.map().pfn(i), found))
    }

    /// Takes a given block out of the free block that holds it; the rest of that block is split and
    /// stays on its list. The block is allocated then.
    ///
    /// # Errors
    /// [`FrameError::NotFree`] where it is not part of one free block.
    pub fn impose_take(
        &mut self,
        pfn: Pfn,
        order: Order,
        movable: bool,
    ) -> Result<Migratetype, FrameError> {
        let i = self.block_index(pfn, order)?;
        let (mut start, mut from, list) = self
            .map()
            .free_block_of(i)
            .filter(|&(_, found, _)| found >= order)
            .ok_or(FrameError::NotFree(pfn))?;
        self.remove(start, from, list);
        self.map().set(start, FrameState::Tail);
        while from > order {
            from -= 1;
            let upper = start + (1 << from);
            let (keep, rest) = if i >= upper { (upper, start) } else { (start, upper) };
            self.insert(rest, from, list, crate::table::freelist::End::Head);
            start = keep;
        }
        self.map().set(i, FrameState::Allocated { order, movable });
        Ok(list)
    }

    /// Frees an allocated block to the zone, past the CPU lists.
    ///
    /// # Errors
    /// [`FrameError::NotAllocated`].
    pub fn impose_free(
        &mut self,
        pfn: Pfn,
        order: Order,
        list: Option<Migratetype>,
    ) -> Result<(), FrameError> {
        let i = self.block_index(pfn, order)?;
        if !self.map().is_allocated(i, order) {
            return Err(FrameError::NotAllocated(pfn));
        }
        match list {
            Some(list) => {
                self.follow_list_type(i, list);
                self.free_one(i, order, list, None, &mut ());
            }
            None => self.free_by_block_type(i, order, None, &mut ()),
        }
        Ok(())
    }

    /// Returns the fallback in which this free block serves a request of another type, with the outcome for its
    /// pageblock.
    #[must_use]
    pub fn outcome_of(
        &self,
        pfn: Pfn,
        order: Order,
        from: Migratetype,
        start: Migratetype,
    ) -> Option<Fallback> {
        let i = self.map().index(pfn)?;
        (self.map().free_list(i, order) == Some(from))
            .then(|| self.outcome((i, order, from), start))
    }

    /// Boosts the watermarks as a search for a request of a type does that failed to claim this many pageblocks
    /// ([`FallbackSearch::failed_claims`](crate::fallback::FallbackSearch::failed_claims)).
    pub fn impose_failed_claims(&mut self, start: Migratetype, claims: u32) {
        for _ in 0..claims {
            self.boost_watermark(start, crate::base::alloc_flags::AllocFlags::KSWAPD, &mut ());
        }
    }

    /// Serves a request by any fallback that could have been chosen, as a recorded kernel did. The
    /// block is allocated then.
    ///
    /// # Errors
    /// [`FrameError::NotFree`] where no such block is free, or its
    /// order is not one that the outcome is for.
    pub fn impose_fallback(
        &mut self,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        observer: &mut impl Observer,
    ) -> Result<Pfn, crate::zone::FrameError> {
        let not_free = crate::zone::FrameError::NotFree(fallback.pfn);
        let whole = fallback.outcome == Outcome::ClaimWhole;
        if whole && !self.is_whole_block(fallback.order) {
            return Err(not_free);
        }
        let (i, _) =
            self.take_fallback(order, start, fallback, AllocFlags(0), observer).ok_or(not_free)?;
        self.map().set(i, FrameState::Allocated { order, movable: start == Movable });
        Ok(self.map().pfn(i))
    }

    /// Claims a pageblock as a fallback does, without taking a page (up to 6.9 the request is served
    /// from the list afterwards; from 6.10 this is the first half of a claim).
    ///
    /// # Errors
    /// [`FrameError::NotFree`] where no such block is free.
    pub fn impose_claim(
        &mut self,
        start: Migratetype,
        fallback: Fallback,
    ) -> Result<(), FrameError> {
        let i = self.block_index(fallback.pfn, fallback.order)?;
        if self.map().free_list(i, fallback.order) != Some(fallback.from) {
            return Err(FrameError::NotFree(fallback.pfn));
        }
        let kswapd = crate::base::alloc_flags::AllocFlags::KSWAPD;
        let strict = self.policy().claim_rule == ClaimRule::TypesAgree;
        if fallback.outcome == Outcome::Single && strict {
            return Ok(());
        }
        self.refile(i, start, fallback, kswapd, &mut ());
        Ok(())
    }
}
