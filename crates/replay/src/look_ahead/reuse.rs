//! Finds the pages of files that were used again, which no event reports. Reclaim takes pages of files in the order in which they
//! were added, a batch (`SWAP_CLUSTER_MAX`, 32 pages) at a time; a page that was used again, or that was dirty, is passed over.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use pageblock_recording::{Record, What};

use crate::demand::is_of_file;

/// A page was passed over if reclaim took this many that were added later. In guests of 6.1.192, 6.12.117 and 7.2.13 under
/// `oscillating` 98 % of the pages that reclaim took were overtaken by fewer than 32, and of those that their owners freed 68, 70
/// and 52 % by fewer than 32, 1 % by 256 to 2048, the others by more.
const OVERTAKEN: usize = 1024;

pub(super) struct ReuseFinder {
    /// By frame: the event that added a block of a file here, plus one; 0 where none is.
    added: Vec<u64>,
    reclaimers: BTreeSet<u32>,
    /// The events that added the reclaimed blocks which were added last, at most [`OVERTAKEN`].
    last_taken: BinaryHeap<Reverse<u64>>,
    /// The events that added blocks which were passed over.
    found: Vec<u64>,
}

impl ReuseFinder {
    pub(super) fn new(frames: usize) -> Self {
        Self {
            added: vec![0; frames],
            reclaimers: BTreeSet::new(),
            last_taken: BinaryHeap::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, event: u64, record: &Record) {
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                // Whoever had the frame freed it, reported or not.
                self.leave(pfn.0);
                if is_of_file(*order, *gfp)
                    && let Some(slot) = self.added.get_mut(pfn.0 as usize)
                {
                    *slot = event + 1;
                }
            }
            What::Free { pfn, .. } | What::FreeBatched { pfn } => {
                let added = self.leave(pfn.0);
                if let Some(added) = added.filter(|_| self.reclaimers.contains(&record.pid)) {
                    self.take(added);
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

    /// Notes that reclaim took a block.
    fn take(&mut self, added: u64) {
        self.last_taken.push(Reverse(added));
        if self.last_taken.len() > OVERTAKEN {
            self.last_taken.pop();
        }
    }

    /// Ends the life of the block at a frame. Returns the event that added it.
    fn leave(&mut self, frame: u64) -> Option<u64> {
        let slot = self.added.get_mut(frame as usize)?;
        // Frames of a hole have none; what is not written takes no memory.
        let added = slot.checked_sub(1)?;
        *slot = 0;
        let is_full = self.last_taken.len() == OVERTAKEN;
        if is_full && self.last_taken.peek().is_some_and(|&Reverse(first)| added < first) {
            self.found.push(added);
        }
        Some(added)
    }

    /// Returns the events that added blocks which were used again, in order.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for frame in 0..self.added.len() as u64 {
            self.leave(frame);
        }
        self.found.sort_unstable();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::frame::Pfn;
    use pageblock::mobility::Migratetype;
    use pageblock::request::Gfp;
    use pageblock_recording::Other;

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

    /// Adds pages at frames from 0 on, of which kswapd takes all but frame 3; then `end`.
    fn found(pages: u64, gfp: Gfp, end: &[Record]) -> Vec<u64> {
        let wakes = What::Other(Box::new(Other {
            name: "mm_vmscan_kswapd_wake".into(),
            args: "nid=0 order=0".into(),
        }));
        let mut finder = ReuseFinder::new(1 << 13);
        let all = (0..pages).map(|frame| alloc(frame, gfp)).chain([record(KSWAPD, wakes)]);
        let taken = (0..pages).filter(|&frame| frame != 3).map(|frame| free(KSWAPD, frame));
        for (event, record) in all.chain(taken).chain(end.iter().cloned()).enumerate() {
            finder.event(event as u64, &record);
        }
        finder.finish()
    }

    #[test]
    fn a_page_that_reclaim_passes_over_was_used_again() {
        let file = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::WRITE.0);
        let many = OVERTAKEN as u64 + 4;
        assert_eq!(found(many, file, &[]), [3]);
        // However it ends.
        assert_eq!(found(many, file, &[free(OWNER, 3)]), [3]);
        assert_eq!(found(many, file, &[free(KSWAPD, 3)]), [3]);
        assert_eq!(found(many, file, &[alloc(3, Gfp::GFP_KERNEL)]), [3]);
        // One page fewer was taken, and a page of a mapping is on another list.
        assert_eq!(found(many - 1, file, &[]), [0; 0]);
        assert_eq!(found(many, Gfp::GFP_HIGHUSER_MOVABLE, &[]), [0; 0]);
    }
}
