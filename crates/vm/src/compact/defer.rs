//! Deferral: after compaction of a zone failed, a growing number of attempts is skipped.
//!
//! Source: `defer_compaction`, `compaction_deferred`, `compaction_defer_reset`,
//! `compaction_restarting` (mm/compaction.c).

use pageblock::frame::Order;

/// The deferral of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deferral {
    /// Attempts since the last failure.
    considered: u32,
    /// The binary logarithm of the attempts to skip.
    shift: u32,
    /// The smallest order that failed.
    order_failed: Order,
}

impl Deferral {
    /// Notes that compaction failed for an order. `most` is the binary logarithm of the most attempts that are skipped
    /// (`compact_defer_max`).
    pub fn defer(&mut self, order: Order, most: u32) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(most);
        self.order_failed = self.order_failed.min(order);
        debug_assert!(self.order_failed <= order, "a failed order is not deferred");
    }

    /// Counts an attempt for an order. Returns whether it is skipped.
    pub fn is_deferred(&mut self, order: Order) -> bool {
        // Smaller orders have not failed.
        if order < self.order_failed {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        debug_assert!(self.considered <= 1 << self.shift);
        self.considered < 1 << self.shift
    }

    /// Notes that a block of an order was allocated after compaction.
    pub fn serve(&mut self, order: Order) {
        (self.considered, self.shift) = (0, 0);
        self.succeed(order);
    }

    /// Notes that compaction succeeded for an order.
    pub fn succeed(&mut self, order: Order) {
        if order >= self.order_failed {
            self.order_failed = order + 1;
            debug_assert!(order < self.order_failed, "an order that succeeded is still deferred");
        }
    }

    /// Returns whether the longest deferral is over, so that old hints are worthless.
    #[must_use]
    pub fn is_restarting(&self, order: Order, most: u32) -> bool {
        order >= self.order_failed && self.shift == most && self.considered >= 1 << most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of docs/linux/compaction.md#deferral.
    #[test]
    fn k_failures_skip_two_to_the_k_minus_one_attempts() {
        let mut deferral = Deferral::default();
        for _ in 0..3 {
            deferral.defer(9, 6);
        }
        assert_eq!((0..20).take_while(|_| deferral.is_deferred(9)).count(), 7);
        assert!(!deferral.is_deferred(9), "it stays at the limit until the next failure");
        deferral.serve(9);
        assert!(!deferral.is_deferred(9));
        for _ in 0..9 {
            deferral.defer(9, 6);
        }
        assert!(!deferral.is_restarting(9, 6));
        assert_eq!((0..100).take_while(|_| deferral.is_deferred(9)).count(), 63);
        assert!(deferral.is_restarting(9, 6));
    }
}
