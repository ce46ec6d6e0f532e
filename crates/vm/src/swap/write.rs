//! Writing anonymous pages to swap.
//!
//! Source: `add_to_swap`, `pageout` (mm/swap_state.c, mm/vmscan.c).

use pageblock::event::Observer;

use crate::page::PageFlags;
use crate::vm::Vm;

/// Pages of the largest write to swap (`max_sectors_kb`, 512 KiB).
// Linux: 1,280 KiB from 4.3 on; reclaim hands over 32 pages at a time.
const MAX_WRITE: usize = 128;

impl<O: Observer> Vm<'_, O> {
    /// Starts to write an anonymous page that is off its list; a huge page is split first. Returns the number of
    /// pages under writeback, which are back on their list.
    pub(crate) fn write_to_swap(&mut self, pfn: u32) -> u64 {
        let order = self.pages[pfn].order();
        if order > 0 {
            self.split_huge(pfn);
        }
        let mut written = 0;
        for page in pfn..pfn + (1 << order) {
            let slot = self.pages[page].swap_slot().or_else(|| self.swap.map.take());
            if let Some(slot) = slot {
                self.pages[page].set_swap_slot(Some(slot));
                self.swap.map.set_owner(slot, self.pages[page].owner, self.pages[page].index);
                self.pages[page].clear(PageFlags::DIRTY);
                self.pages[page].set(PageFlags::WRITEBACK);
                self.pages[page].set(PageFlags::RECLAIM);
                // A program that uses the page before it is freed faults.
                self.pages[page].clear(PageFlags::MAPPED);
                let node = self.node_of(page);
                self.pagecache.count_swap_write(node);
                self.queue_swap_write(page, slot);
                written += 1;
            }
            self.putback(page);
        }
        self.stat.nr_vmscan_write += written;
        self.stat.pswpout += written;
        written
    }

    /// Adds a page to the last write if its slot follows, or else to a new one.
    fn queue_swap_write(&mut self, pfn: u32, slot: u32) {
        let follows =
            |last: &u32| self.pages[*last].swap_slot().is_some_and(|last| last + 1 == slot);
        match self.swap.writes.last_mut() {
            Some(run) if run.len() < MAX_WRITE && run.last().is_some_and(follows) => {
                run.push(pfn);
            }
            _ => self.swap.writes.push(vec![pfn]),
        }
    }

    /// Takes the anonymous pages that reclaim wants written to swap; pages with adjacent slots are one write. Report
    /// each page with [`end_write`](Self::end_write).
    pub fn take_swap_writes(&mut self) -> Vec<Vec<u32>> {
        std::mem::take(&mut self.swap.writes)
    }
}
