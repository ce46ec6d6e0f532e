//! Finds the moment at which the kernel's counters were read, between the two markers of a snapshot from `/proc`:
//! the moment when the free pages by the events equal those that the snapshot names.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock_recording::{Snapshot, What};

use crate::look_ahead::CpuListOrders;

/// The changes of the counters by events.
#[derive(Clone, Copy)]
struct Change {
    event: u64,
    cpu: u16,
    zone: u16,
    /// Free pages of the zone.
    free: i64,
    /// Pages on the CPU's lists.
    listed: i64,
}

/// The changes of the counters from the first event on.
pub(super) struct Counters {
    orders: CpuListOrders,
    changes: Vec<Change>,
    /// By CPU: the block that it took past its lists.
    direct: BTreeMap<u16, Pfn>,
}

impl Counters {
    pub(super) fn new(orders: CpuListOrders) -> Self {
        Self { orders, changes: Vec::new(), direct: BTreeMap::new() }
    }

    /// Returns whether CPUs have lists of an order.
    pub(super) fn lists(&self, order: Order) -> bool {
        self.orders.has(order)
    }

    pub(super) fn push(&mut self, event: u64, cpu: u16, what: &What, snapshot: &Snapshot) {
        let (pfn, order, free, listed) = match *what {
            What::ZoneLocked { pfn, order, refill, .. } => {
                if !refill {
                    self.direct.insert(cpu, pfn);
                }
                (pfn, order, -1, i64::from(refill))
            }
            What::Extfrag(x) if !x.change_ownership => (x.pfn, x.alloc_order, -1, 1),
            What::Alloc { pfn: Some(pfn), order, .. } => {
                let direct = self.direct.remove(&cpu) == Some(pfn);
                (pfn, order, 0, if direct { 0 } else { -1 })
            }
            What::Free { pfn, order } if self.orders.has(order) => (pfn, order, 0, 1),
            What::Free { pfn, order } => (pfn, order, 1, 0),
            What::Drain { pfn, order, .. } => (pfn, order, 1, -1),
            _ => return,
        };
        let listed = if self.orders.has(order) { listed } else { 0 };
        if let Some(zone) = snapshot.zone_of(pfn) {
            let pages = |sign: i64, order: Order| sign << order;
            let (free, listed) = (pages(free, order), pages(listed, order));
            self.changes.push(Change { event, cpu, zone: zone as u16, free, listed });
        }
    }

    /// Returns the first event after the counters were read, and by how much each CPU's lists had grown by then, by
    /// zone. `free` are the free pages of each zone before the first event; `since` is the first marker.
    pub(super) fn listed_when_read(
        &self,
        snapshot: &Snapshot,
        mut free: Vec<u64>,
        since: u64,
    ) -> (u64, BTreeMap<(u16, u16), i64>) {
        let wrong = |free: &[u64]| -> u64 {
            let zones = snapshot.zones.iter().zip(free);
            zones.map(|(zone, &free)| zone.nr_free_pages.abs_diff(free)).sum()
        };
        let mut listed: BTreeMap<(u16, u16), i64> = BTreeMap::new();
        let (mut best, mut found) = (u64::MAX, (since, BTreeMap::new()));
        for change in &self.changes {
            if change.event > since && wrong(&free) < best {
                best = wrong(&free);
                found = (change.event, listed.clone());
            }
            if let Some(free) = free.get_mut(usize::from(change.zone)) {
                *free = free.saturating_add_signed(change.free);
            }
            *listed.entry((change.cpu, change.zone)).or_default() += change.listed;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_recording::ZoneSnapshot;

    #[test]
    fn the_counters_were_read_when_the_free_pages_agree() {
        let zone = ZoneSnapshot { spanned: 64, nr_free_pages: 14, ..ZoneSnapshot::default() };
        let snapshot = Snapshot { zones: vec![zone], ..Snapshot::default() };
        let mut counters = Counters::new(CpuListOrders { up_to: 3, and: None });
        for event in 0..4 {
            let pfn = Pfn(2 * event);
            let what = What::ZoneLocked {
                pfn,
                order: 0,
                mt: pageblock::mobility::Migratetype::Movable,
                refill: true,
            };
            counters.push(event, 1, &what, &snapshot);
        }
        let found = counters.listed_when_read(&snapshot, vec![16], 0);
        assert_eq!(found, (2, BTreeMap::from([((1, 0), 2)])));
    }
}
