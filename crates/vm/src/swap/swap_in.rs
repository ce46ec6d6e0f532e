//! Reading pages back from swap, with their neighbours there; and what a program's use of a page of
//! its memory does to it.
//!
//! Source: `swapin_readahead` (mm/swap_state.c), `do_swap_page`, `do_wp_page` (mm/memory.c), as of 3.10.

use pageblock::event::Observer;
use pageblock::frame::Pfn;

use crate::page::space::{Slot, SpaceId};
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::At;
use crate::vm::Vm;

/// Pages that are read together: 2 to the power of `vm.page-cluster`.
const CLUSTER: u32 = 1 << 3;

impl<O: Observer> Vm<'_, O> {
    /// The pages in swap that are read with the one at an index, which is the first: those of its
    /// aligned group of places. Empty where the page is not in swap.
    #[must_use]
    pub fn swap_cluster(&self, space: SpaceId, index: u32) -> Vec<(SpaceId, u32)> {
        let Slot::Swap(place) = self.spaces.slot(space, index) else { return Vec::new() };
        let first = place / CLUSTER * CLUSTER;
        let group = (first..first + CLUSTER).filter(|&other| other != place);
        let others = group.filter_map(|other| {
            let (space, index) = self.swap.owner(other)?;
            // The mapping may have gone, and its number been given to another.
            let is_there = index < self.spaces.get(space).len()
                && self.spaces.slot(space, index) == Slot::Swap(other);
            is_there.then_some((space, index))
        });
        std::iter::once((space, index)).chain(others).collect()
    }

    /// Adds a page that was just allocated and is read from swap; frees it where another task was
    /// faster. Its place in swap stays its own: as long as it is not written to, it need not be
    /// written there again.
    pub fn add_swapped(&mut self, cpu: usize, space: SpaceId, index: u32, pfn: Pfn) {
        let number = pfn.0 as u32;
        let Slot::Swap(place) = self.spaces.slot(space, index) else {
            self.free_block(cpu, number, 0);
            return;
        };
        self.pages[number].give(Owner::Anon, 0, space, index);
        self.pages[number].swap = place + 1;
        self.spaces.set(space, index, Slot::Page(number));
        self.note_young(number);
        self.lru.add(&mut self.pages, number, At::Head);
        self.stat.pswpin += 1;
    }

    /// A program uses a page of its memory. Tells whether that faults: the page was read with
    /// another from swap and is not mapped yet.
    pub fn touch(&mut self, pfn: u32, write: bool) -> bool {
        let page = &mut self.pages[pfn];
        page.set(PageFlags::REFERENCED);
        let faults = !page.has(PageFlags::MAPPED);
        page.set(PageFlags::MAPPED);
        if write {
            page.set(PageFlags::DIRTY);
            if page.swap > 0 && !page.has(PageFlags::WRITEBACK) {
                // What is in swap is old now.
                self.swap.put(page.swap - 1);
                page.swap = 0;
            }
        }
        faults
    }
}
