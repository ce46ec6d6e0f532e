//! The fair zone allocator (3.12 to 4.7): the number of pages that a zone serves per round.

use crate::base::frame::Order;
use crate::policy::source::PolicySource;
use crate::zone::Zone;

impl<P: PolicySource> Zone<'_, P> {
    /// Starts a round of the fair batch, whose size is the distance between the high and the low watermark.
    pub(crate) fn reset_fair_batch(&mut self) {
        self.alloc_batch = self.watermarks.high as i64 - self.watermarks.low as i64;
        self.fair_depleted = false;
    }

    /// Subtracts a block from the fair batch.
    pub(crate) fn spend_fair_batch(&mut self, order: Order) {
        self.alloc_batch -= 1 << order;
        self.fair_depleted |= self.alloc_batch <= 0;
    }
}
