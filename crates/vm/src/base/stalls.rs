//! Stalls by the order and the zone of the request.
//!
//! `allocstall_<zone>` is in `/proc/vmstat` from 4.8; `*_order_<n>` are counters of the kernel of He's series (2015),
//! which no mainline kernel has.

use pageblock::frame::{ORDER_LIMIT, Order};
use pageblock::layout::ZoneKind;

const ORDERS: usize = ORDER_LIMIT as usize + 1;

/// The counters of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct OfOrder {
    allocstall: u64,
    compact_stall: u64,
    compact_success: u64,
}

/// How often tasks had to reclaim or compact.
#[derive(Clone, Debug)]
pub struct Stalls {
    orders: [OfOrder; ORDERS],
    zones: [u64; ZoneKind::ALL.len()],
}

impl Default for Stalls {
    fn default() -> Self {
        Self { orders: [OfOrder::default(); ORDERS], zones: [0; ZoneKind::ALL.len()] }
    }
}

impl Stalls {
    /// Counts a direct reclaim for a request of this order and highest zone.
    pub(crate) fn note_reclaim(&mut self, order: Order, highest: ZoneKind) {
        self.of(order).allocstall += 1;
        if let Some(at) = ZoneKind::ALL.iter().position(|&kind| kind == highest) {
            self.zones[at] += 1;
        }
    }

    /// Counts a direct compaction for a request of this order.
    pub(crate) fn note_compaction(&mut self, order: Order) {
        self.of(order).compact_stall += 1;
    }

    /// Counts a request of this order that compaction served.
    pub(crate) fn note_compacted(&mut self, order: Order) {
        self.of(order).compact_success += 1;
    }

    fn of(&mut self, order: Order) -> &mut OfOrder {
        &mut self.orders[usize::from(order).min(ORDERS - 1)]
    }

    /// Returns how often tasks had to reclaim for a request of this order.
    #[must_use]
    pub fn allocstall(&self, order: Order) -> u64 {
        self.orders.get(usize::from(order)).map_or(0, |of| of.allocstall)
    }

    /// Iterates over the name and value of every counter, up to the largest order that stalled.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let zones = ZoneKind::ALL.iter().zip(self.zones);
        let zones =
            zones.map(|(kind, n)| (format!("allocstall_{}", kind.name().to_lowercase()), n));
        let last = self.orders.iter().rposition(|of| *of != OfOrder::default());
        let orders = (0..).zip(&self.orders).take(last.map_or(0, |last| last + 1));
        let orders = orders.flat_map(|(order, of)| {
            [
                (format!("allocstall_order_{order}"), of.allocstall),
                (format!("compact_stall_order_{order}"), of.compact_stall),
                (format!("compact_success_order_{order}"), of.compact_success),
            ]
        });
        zones.chain(orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_counted_by_order_and_zone() {
        let mut stalls = Stalls::default();
        stalls.note_reclaim(2, ZoneKind::Dma);
        stalls.note_reclaim(0, ZoneKind::Normal);
        stalls.note_compaction(2);
        stalls.note_compacted(2);
        stalls.note_compaction(2);
        let count = |name: &str| stalls.iter().find(|(n, _)| n == name).map(|(_, count)| count);
        assert_eq!(count("allocstall_order_2"), Some(1));
        assert_eq!(count("allocstall_order_1"), Some(0));
        assert_eq!(count("allocstall_order_3"), None);
        assert_eq!(
            (count("compact_stall_order_2"), count("compact_success_order_2")),
            (Some(2), Some(1))
        );
        assert_eq!((count("allocstall_dma"), count("allocstall_normal")), (Some(1), Some(1)));
    }
}
