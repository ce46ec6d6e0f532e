//! Memory hotplug in a zone: its frames and its size.

use crate::base::frame::FrameRange;
use crate::policy::source::PolicySource;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;
use crate::zone::contig::ContigError;

impl<P: PolicySource> Zone<'_, P> {
    /// Adds to the number of [managed](Self::managed) pages, which does not fall below 0
    /// (`adjust_managed_page_count`). [`Allocator::retune`](crate::alloc::Allocator::retune) tunes the zone to the
    /// new number.
    pub fn adjust_managed(&mut self, pages: i64) {
        self.managed = self.managed.saturating_add_signed(pages);
    }

    pub(crate) fn online(&mut self, start: Index, end: Index) -> Result<(), ContigError> {
        self.all_in_state(start, end, FrameState::Reserved)?;
        let range = FrameRange { start: self.map.pfn(start), end: self.map.pfn(end) };
        self.release(range).map_err(ContigError::NotContiguous)
    }

    fn set_returned(&mut self, start: Index, end: Index) {
        self.map.set_returned(start, end);
        self.any_returned = true;
    }

    /// Takes frames, all of them free, from the allocator, and reserves them.
    pub(crate) fn offline(&mut self, start: Index, end: Index) {
        debug_assert!(self.is_free(start, end), "frames are taken that are not free");
        self.carve(start, end);
        self.set_returned(start, end);
        self.managed = self.managed.saturating_sub(u64::from(end - start));
        debug_assert_eq!(self.all_in_state(start, end, FrameState::Reserved), Ok(()));
    }

    pub(crate) fn mark_holes(&mut self, start: Index, end: Index) -> Result<(), ContigError> {
        self.all_in_state(start, end, FrameState::Reserved)?;
        let unknown = (start..end).filter(|&i| !self.map.is_returned(i)).count() as u64;
        let left_out = unknown.min(self.unmarked_holes);
        let range = FrameRange { start: self.map.pfn(start), end: self.map.pfn(end) };
        self.map.fill(range, FrameState::Hole);
        self.unmarked_holes -= left_out;
        self.present = self.present.saturating_sub(u64::from(end - start) - left_out);
        // A hole will never be released.
        let lost = self.managed.saturating_sub(self.present).min(self.unreleased);
        self.unreleased -= lost;
        self.managed -= lost;
        Ok(())
    }

    pub(crate) fn fill_holes(&mut self, start: Index, end: Index) -> Result<(), ContigError> {
        self.all_in_state(start, end, FrameState::Hole)?;
        self.set_returned(start, end);
        self.present += u64::from(end - start);
        Ok(())
    }

    fn all_in_state(&self, start: Index, end: Index, state: FrameState) -> Result<(), ContigError> {
        match (start..end).find(|&i| self.map.state(i) != state) {
            None => Ok(()),
            Some(i) => Err(ContigError::WrongState(self.map.pfn(i), self.map.block_at(i).1)),
        }
    }
}
