//! Hands memory to a zone at boot, and counts it.

use crate::base::error::FrameError;
use crate::base::frame::{FrameRange, Pfn};
use crate::base::mobility::Migratetype;
use crate::policy::UntouchedTo;
use crate::policy::source::PolicySource;
use crate::table::freelist::End;
use crate::table::map::FrameState;
use crate::zone::Zone;

impl<P: PolicySource> Zone<'_, P> {
    /// Returns an error unless every frame of a range is memory that was not released.
    pub(crate) fn check_reserved(&self, range: FrameRange) -> Result<(), FrameError> {
        let wrong = (range.start.0..range.end.0).map(Pfn).find_map(|pfn| match self.state(pfn) {
            Some(FrameState::Reserved) => None,
            Some(FrameState::Hole) | None => Some(FrameError::Foreign(pfn)),
            Some(_) => Some(FrameError::NotReserved(pfn)),
        });
        wrong.map_or(Ok(()), Err)
    }

    /// Makes the pageblock of a reserved frame part of CMA.
    pub(crate) fn set_cma(&mut self, pfn: Pfn) {
        if let Some(i) = self.map.index(pfn) {
            self.set_block_type(i, Migratetype::Cma);
        }
    }

    /// Returns the number of pages on all free lists.
    fn listed_pages(&self) -> u64 {
        self.free_by_type.iter().sum()
    }

    /// Hands frames that were never used to the allocator, as the kernel does at boot (`__free_pages_core`): in
    /// ascending order, in the largest aligned blocks. Frames that the setup did not count are added to
    /// [`managed`](Self::managed) and [`present`](Self::present).
    ///
    /// # Errors
    /// [`FrameError::Foreign`] for a frame that is not in the zone or is not reserved memory. Nothing is released
    /// then.
    pub fn release(&mut self, range: FrameRange) -> Result<(), FrameError> {
        if !self.map.all_reserved(range) {
            let reserved = |&pfn: &u64| self.state(Pfn(pfn)) == Some(FrameState::Reserved);
            let wrong = (range.start.0..range.end.0).find(|pfn| !reserved(pfn));
            return Err(FrameError::Foreign(wrong.map_or(range.start, Pfn)));
        }
        let end = match self.policy.untouched_to {
            UntouchedTo::Tail => Some(End::Tail),
            UntouchedTo::Head => None,
        };
        let before = self.listed_pages();
        let returned = self.returned_in(range);
        for (pfn, order) in range.blocks(self.geometry.max_order) {
            let Some(i) = self.map.index(pfn) else { return Err(FrameError::Foreign(pfn)) };
            let list = self.map.block_type(i);
            self.map.set_block(i, order, FrameState::CpuList { order, cached: list });
        }
        for (pfn, order) in range.blocks(self.geometry.max_order) {
            let Some(i) = self.map.index(pfn) else { return Err(FrameError::Foreign(pfn)) };
            self.free_by_block_type(i, order, end, &mut ());
        }
        debug_assert_eq!(self.listed_pages(), before + range.len(), "released pages are lost");
        self.count_released(range.len(), returned);
        Ok(())
    }

    /// Counts the frames of a range that the allocator had before, or that are filled holes.
    fn returned_in(&self, range: FrameRange) -> u64 {
        if !self.any_returned {
            return 0;
        }
        let returned =
            |&pfn: &u64| self.map.index(Pfn(pfn)).is_some_and(|i| self.map.is_returned(i));
        (range.start.0..range.end.0).filter(returned).count() as u64
    }

    /// Counts released pages. `returned` of them are not among those that the setup counted.
    fn count_released(&mut self, pages: u64, returned: u64) {
        let counted = (pages - returned).min(self.unreleased);
        self.unreleased -= counted;
        self.managed += pages - counted;
        // A released frame was not a hole.
        let released = self.managed.saturating_sub(self.unreleased);
        let more = released.saturating_sub(self.present).min(self.unmarked_holes);
        self.unmarked_holes -= more;
        self.present += more;
    }
}
