//! Imposed numbers of a zone: those of a recorded kernel or of a test's machine.

use crate::base::layout::MAX_NR_ZONES;
use crate::policy::source::PolicySource;
use crate::zone::Zone;
use crate::zone::tuning::Watermarks;

impl<P: PolicySource> Zone<'_, P> {
    /// Imposes watermarks, in pages and without the boost.
    pub fn impose_watermarks(&mut self, watermarks: Watermarks) {
        self.watermarks = watermarks;
    }

    /// Imposes the boost of the watermarks, in pages.
    pub fn impose_boost(&mut self, pages: u64) {
        self.boost = pages;
    }

    /// Imposes the pages that are kept from requests, by the highest zone that a request may use.
    pub fn impose_lowmem_reserve(&mut self, reserve: [u64; MAX_NR_ZONES]) {
        self.lowmem_reserve = reserve;
    }

    /// Imposes the pages left in this round of the fair zone allocator.
    pub fn impose_alloc_batch(&mut self, pages: i64) {
        self.alloc_batch = pages;
    }

    /// Imposes whether the zone is marked as below its high watermark.
    pub fn impose_below_high(&mut self, below: bool) {
        self.below_high = below;
    }

    /// Imposes the size of the highatomic reserve in pages. Its pageblocks have their type already.
    pub fn impose_reserved_highatomic(&mut self, pages: u64) {
        self.reserved_highatomic = pages;
    }
}
