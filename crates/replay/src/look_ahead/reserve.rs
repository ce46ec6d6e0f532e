//! Finds the allocations that added their pageblock to the highatomic reserve, which raises no event. From 6.10 a
//! page that returns to the zone shows its pageblock's type; the last high-order allocation in that pageblock that
//! could not sleep added it.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype::HighAtomic;
use pageblock::request::Gfp;
use pageblock_recording::{Record, Snapshot, What};

#[derive(Clone, Copy, Default)]
struct Block {
    reserved: bool,
    /// The last allocation that may have reserved the pageblock, plus one.
    by: u64,
}

#[derive(Default)]
pub(super) struct ReserveFinder {
    pageblock_order: Order,
    blocks: Vec<Block>,
    found: BTreeMap<u64, Pfn>,
}

impl ReserveFinder {
    pub(super) fn new(start: &Snapshot, pageblock_order: Order) -> Self {
        let blocks = (start.end_pfn().0 >> pageblock_order) as usize + 1;
        let mut finder =
            Self { pageblock_order, blocks: vec![Block::default(); blocks], ..Self::default() };
        for block in &start.blocks {
            if let Some(slot) = finder.block(block.pfn) {
                slot.reserved = block.mt == Some(HighAtomic);
            }
        }
        finder
    }

    fn block(&mut self, pfn: Pfn) -> Option<&mut Block> {
        self.blocks.get_mut((pfn.0 >> self.pageblock_order) as usize)
    }

    pub(super) fn event(&mut self, event: u64, record: &Record) {
        match record.what {
            What::Alloc { pfn: Some(pfn), order: 1.., gfp, .. }
                if !gfp.has(Gfp::DIRECT_RECLAIM) && !gfp.has(Gfp::NOMEMALLOC) =>
            {
                if let Some(block) = self.block(pfn) {
                    block.by = event + 1;
                }
            }
            What::Drain { pfn, mt, .. } | What::ZoneLocked { pfn, mt, .. } => {
                let Some(block) = self.block(pfn) else { return };
                let is = mt == HighAtomic;
                let was = std::mem::replace(&mut block.reserved, is);
                if let Some(by) = block.by.checked_sub(1).filter(|_| is && !was) {
                    self.found.insert(by, pfn);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(self) -> BTreeMap<u64, Pfn> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::mobility::Migratetype;
    use pageblock_recording::ZoneSnapshot;

    #[test]
    fn the_last_allocation_that_cannot_wait_made_the_reserve() {
        let mut start = Snapshot::default();
        start.zones.push(ZoneSnapshot { spanned: 2048, ..ZoneSnapshot::default() });
        let mut finder = ReserveFinder::new(&start, 9);
        let alloc = |pfn, gfp| What::Alloc {
            pfn: Some(Pfn(pfn)),
            order: 1,
            mt: Migratetype::Reclaimable,
            gfp,
        };
        let drain = |pfn, mt| What::Drain { pfn: Pfn(pfn), order: 0, mt };
        let events = [
            alloc(514, Gfp::GFP_ATOMIC),
            alloc(516, Gfp::GFP_ATOMIC),
            alloc(518, Gfp::GFP_KERNEL),
            alloc(2, Gfp::GFP_ATOMIC),
            drain(600, HighAtomic),
            drain(601, HighAtomic),
            drain(20, Migratetype::Movable),
        ];
        for (event, what) in (0..).zip(events) {
            finder.event(event, &Record { t_us: 0, cpu: 0, pid: 1, what });
        }
        assert_eq!(finder.finish(), BTreeMap::from([(1, Pfn(600))]));
    }
}
