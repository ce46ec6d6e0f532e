//! Reading pages back from swap, with their neighbours there, and a program's use of a page of its memory.
//!
//! Source: `swapin_readahead` (mm/swap_state.c), `do_swap_page`, `do_wp_page` (mm/memory.c), as of 3.10.

use pageblock::event::Observer;
use pageblock::frame::Pfn;

use crate::page::PageFlags;
use crate::pagecache::space::{Slot, SpaceId};
use crate::vm::Vm;

/// Pages that are read together: 2 to the power of `vm.page-cluster`.
const CLUSTER: u32 = 1 << 3;

impl<O: Observer> Vm<'_, O> {
    /// Returns the pages in swap that are read with the one at an index: those of its aligned group of slots, itself
    /// first. Empty if the page is not in swap.
    #[must_use]
    pub fn swap_cluster(&self, space: SpaceId, index: u32) -> Vec<(SpaceId, u32)> {
        let Slot::Swap(slot) = self.spaces().slot(space, index) else { return Vec::new() };
        let first = slot / CLUSTER * CLUSTER;
        let group = (first..first + CLUSTER).filter(|&other| other != slot);
        let others = group.filter_map(|other| {
            let (space, index) = self.swap.map.owner(other)?;
            // The mapping may be gone, and its number reused.
            let is_there = index < self.spaces().get(space).len()
                && self.spaces().slot(space, index) == Slot::Swap(other);
            is_there.then_some((space, index))
        });
        std::iter::once((space, index)).chain(others).collect()
    }

    /// Adds a page that was just allocated and is read from swap, or frees it if another task was faster.
    pub fn add_swapped(&mut self, cpu: usize, space: SpaceId, index: u32, pfn: Pfn) {
        let pfn = pfn.0 as u32;
        let Slot::Swap(slot) = self.spaces().slot(space, index) else {
            self.free_block(cpu, pfn, 0);
            return;
        };
        let shadow = self.swap.map.take_shadow(slot);
        self.add_swap_cache(space, index, pfn, slot, shadow);
        self.stat.pswpin += 1;
    }

    /// Marks a page of a mapping as used by its program. Returns whether that faults: the page was read from swap
    /// with another and is not mapped yet.
    pub fn touch(&mut self, space: SpaceId, index: u32, write: bool) -> bool {
        let Some(folio) = self.folio_at(space, index) else { return false };
        let accessed = self.pages.accessed();
        self.pagecache.note_used_table(space, index);
        let page = &mut self.pages[folio];
        page.set(accessed);
        let faults = !page.has(PageFlags::MAPPED);
        page.set(PageFlags::MAPPED);
        if write {
            page.set(PageFlags::DIRTY);
            if let Some(slot) = page.swap_slot()
                && !page.has(PageFlags::WRITEBACK)
            {
                // The copy in swap is stale now.
                self.swap.map.put(slot);
                page.set_swap_slot(None);
            }
        }
        faults
    }
}
