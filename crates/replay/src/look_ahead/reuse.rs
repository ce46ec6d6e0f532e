//! Finds the pages of files that were used again, which no event reports. Reclaim takes pages of files in the order in which they
//! were added, a batch (`SWAP_CLUSTER_MAX`, 32 pages) at a time; a page that was used again, or that was dirty, is passed over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pageblock::frame::{FrameRange, Pfn};
use pageblock_recording::{Record, Snapshot, What};

use crate::demand::is_of_file;

/// A page was passed over if reclaim took this many that were added later. In guests of 6.1.192, 6.12.117 and 7.2.13 under
/// `oscillating` 98 % of the pages that reclaim took were overtaken by fewer than 32, and of those that their owners freed 68, 70
/// and 52 % by fewer than 32, 1 % by 256 to 2048, the others by more.
const OVERTAKEN: usize = 1024;

pub(super) struct ReuseFinder {
    /// By frame: the event that added a block of a file here, plus one; 0 where none is.
    added: Vec<u64>,
    reclaimers: BTreeSet<u32>,
    /// The zones' frames and nodes: each node has lists of its own (from 4.8).
    zones: Vec<(FrameRange, u16)>,
    /// By node: the events that added the reclaimed blocks which were added last, at most [`OVERTAKEN`].
    last_taken: BTreeMap<u16, BinaryHeap<Reverse<u64>>>,
    /// The events that added blocks which were passed over.
    found: Vec<u64>,
}

impl ReuseFinder {
    pub(super) fn new(start: &Snapshot) -> Self {
        Self {
            added: vec![0; start.end_pfn().0 as usize],
            reclaimers: BTreeSet::new(),
            zones: start.zones.iter().map(|zone| (zone.span(), zone.node)).collect(),
            last_taken: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, event: u64, record: &Record) {
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                // Whoever had the frame freed it, reported or not.
                self.leave(*pfn);
                if is_of_file(*order, *gfp)
                    && let Some(slot) = self.added.get_mut(pfn.0 as usize)
                {
                    *slot = event + 1;
                }
            }
            What::Free { pfn, .. } | What::FreeBatched { pfn } => {
                let added = self.leave(*pfn);
                if let Some(added) = added.filter(|_| self.reclaimers.contains(&record.pid)) {
                    self.take(*pfn, added);
                }
            }
            What::Other(other) => match &*other.name {
                "mm_vmscan_kswapd_wake" | "mm_vmscan_direct_reclaim_begin" => {
                    self.reclaimers.insert(record.pid);
                }
                "mm_vmscan_direct_reclaim_end" => {
                    self.reclaimers.remove(&record.pid);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn node_of(&self, pfn: Pfn) -> u16 {
        let holds = |zone: &&(FrameRange, u16)| (zone.0.start..zone.0.end).contains(&pfn);
        self.zones.iter().find(holds).map_or(0, |zone| zone.1)
    }

    /// Notes that reclaim took the block at a frame.
    fn take(&mut self, pfn: Pfn, added: u64) {
        let taken = self.last_taken.entry(self.node_of(pfn)).or_default();
        taken.push(Reverse(added));
        if taken.len() > OVERTAKEN {
            taken.pop();
        }
    }

    /// Ends the life of the block at a frame. Returns the event that added it.
    fn leave(&mut self, pfn: Pfn) -> Option<u64> {
        let slot = self.added.get_mut(pfn.0 as usize)?;
        // Frames of a hole have none; what is not written takes no memory.
        let added = slot.checked_sub(1)?;
        *slot = 0;
        let taken = self.last_taken.get(&self.node_of(pfn)).filter(|of| of.len() == OVERTAKEN);
        if taken.and_then(BinaryHeap::peek).is_some_and(|&Reverse(first)| added < first) {
            self.found.push(added);
        }
        Some(added)
    }

    /// Returns the events that added blocks which were used again, in order.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for frame in 0..self.added.len() as u64 {
            self.leave(Pfn(frame));
        }
        self.found.sort_unstable();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::mobility::Migratetype;
    use pageblock::request::Gfp;
    use pageblock_recording::{Other, ZoneSnapshot};

    const KSWAPD: u32 = 9;
    const OWNER: u32 = 5;

    fn record(pid: u32, what: What) -> Record {
        Record { t_us: 0, cpu: 0, pid, what }
    }

    fn alloc(frame: u64, gfp: Gfp) -> Record {
        let mt = Migratetype::Movable;
        record(OWNER, What::Alloc { pfn: Some(Pfn(frame)), order: 0, mt, gfp })
    }

    fn free(pid: u32, frame: u64) -> Record {
        record(pid, What::Free { pfn: Pfn(frame), order: 0 })
    }

    /// Adds pages at frames from `first` on; kswapd takes all but frame 3; `end` follows. Node 1 begins at frame 4096.
    fn found(first: u64, pages: u64, gfp: Gfp, end: &[Record]) -> Vec<u64> {
        let zone = |node: u16| ZoneSnapshot {
            node,
            start_pfn: Pfn(4096 * u64::from(node)),
            spanned: 4096,
            ..ZoneSnapshot::default()
        };
        let start = Snapshot { zones: vec![zone(0), zone(1)], ..Snapshot::default() };
        let wakes = What::Other(Box::new(Other {
            name: "mm_vmscan_kswapd_wake".into(),
            args: "nid=0 order=0".into(),
        }));
        let mut finder = ReuseFinder::new(&start);
        let frames = || (0..4).chain(first.max(4)..first.max(4) + pages - 4);
        let all = frames().map(|frame| alloc(frame, gfp)).chain([record(KSWAPD, wakes)]);
        let taken = frames().filter(|&frame| frame != 3).map(|frame| free(KSWAPD, frame));
        for (event, record) in all.chain(taken).chain(end.iter().cloned()).enumerate() {
            finder.event(event as u64, &record);
        }
        finder.finish()
    }

    #[test]
    fn a_page_that_reclaim_passes_over_was_used_again() {
        let file = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::WRITE.0);
        let many = OVERTAKEN as u64 + 4;
        assert_eq!(found(0, many, file, &[]), [3]);
        // However it ends.
        assert_eq!(found(0, many, file, &[free(OWNER, 3)]), [3]);
        assert_eq!(found(0, many, file, &[free(KSWAPD, 3)]), [3]);
        assert_eq!(found(0, many, file, &[alloc(3, Gfp::GFP_KERNEL)]), [3]);
        // One page fewer was taken, and a page of a mapping is on another list.
        assert_eq!(found(0, many - 1, file, &[]), [0; 0]);
        assert_eq!(found(0, many, Gfp::GFP_HIGHUSER_MOVABLE, &[]), [0; 0]);
        // Those that were taken are on another node's list.
        assert_eq!(found(4096, many, file, &[]), [0; 0]);
    }
}
