//! Compares the state at the end with the end snapshot.

use std::collections::BTreeMap;

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use pageblock_recording::Snapshot;

use super::Guided;

impl Guided<'_, '_> {
    /// Compares the free blocks of every zone, order and type, and the types of pageblocks, with the end snapshot.
    /// Returns whether all are equal; differences become notes.
    pub fn compare_end(&mut self, end: &Snapshot) -> bool {
        if !end.exact {
            self.compare_orders(end);
            return false;
        }
        let mut recorded: BTreeMap<(usize, Order, Migratetype), u64> = BTreeMap::new();
        let mut places = 0;
        let mut blocks = 0;
        for block in &end.free {
            let (Some(at), Some(mt)) = (self.zone_of(block.pfn), block.mt) else { continue };
            *recorded.entry((at, block.order, mt)).or_default() += 1;
            blocks += 1;
            let model = self.allocator.zones()[at].free_block_of(block.pfn);
            places += u64::from(model == Some((block.pfn, block.order, mt)));
        }
        let mut equal = true;
        let max = self.allocator.geometry().max_order;
        let mut notes = Vec::new();
        for (at, zone) in self.allocator.zones().iter().enumerate() {
            for mt in Migratetype::ALL {
                for order in 0..=max {
                    let model = zone.nr_free_of(order, mt);
                    let kernel = recorded.get(&(at, order, mt)).copied().unwrap_or(0);
                    if model != kernel {
                        equal = false;
                        notes.push(format!(
                            "end: {} order {order} {mt}: {kernel} free blocks recorded, {model} in the model",
                            zone.kind().name()
                        ));
                    }
                }
            }
        }
        let wrong = end
            .blocks
            .iter()
            .filter(|b| {
                b.mt.is_some()
                    && self
                        .zone_of(b.pfn)
                        .is_some_and(|at| self.allocator.zones()[at].block_type(b.pfn) != b.mt)
            })
            .count();
        self.tally.note(format!(
            "end: {places} of {blocks} free blocks have the recorded place, order and type; {wrong} of {} pageblocks another type",
            end.blocks.len()
        ));
        for note in notes {
            self.tally.note(note);
        }
        let equal = equal && wrong == 0;
        self.tally.verification().end_state_equal = Some(equal);
        equal
    }

    /// Notes the free blocks of an end snapshot from `/proc`, which has no types and was not taken at one moment:
    /// the number of free blocks of each order, beside the model's.
    fn compare_orders(&mut self, end: &Snapshot) {
        let max = self.allocator.geometry().max_order;
        let mut recorded = vec![0u64; usize::from(max) + 1];
        for block in &end.free {
            recorded[usize::from(block.order.min(max))] += 1;
        }
        let zones = self.allocator.zones();
        let model: Vec<u64> =
            (0..=max).map(|order| zones.iter().map(|z| z.nr_free(order)).sum()).collect();
        self.tally.note(format!(
            "end: free blocks by order {recorded:?} in /proc, which is not of one moment, {model:?} \
             in the model"
        ));
    }
}
