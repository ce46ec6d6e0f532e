//! Swap: slots for anonymous pages on a disk or, compressed, in memory.

mod map;
mod swap_in;
mod write;
pub mod zram;
pub mod zsmalloc;

use pageblock_kernel::rules::memory::Memory;

use self::map::SwapMap;
use self::zram::Zram;
use crate::page::PageTable;
use crate::vm::Vm;

/// The swap space of a machine.
#[derive(Debug)]
pub(crate) struct Swap {
    map: SwapMap,
    /// The device if swap is in memory.
    zram: Option<Zram>,
    /// Pages that are to be written to their swap slots; each entry is one write.
    writes: Vec<Vec<u32>>,
}

impl Swap {
    /// Returns swap space of `slots` pages, in memory if `zram` says so.
    pub(crate) fn new(slots: u32, zram: bool, memory: &Memory) -> Self {
        Self {
            map: SwapMap::new(slots),
            zram: zram.then(|| Zram::new(memory, slots)),
            writes: Vec::new(),
        }
    }

    /// Returns whether the pages of zsmalloc can be migrated.
    pub(crate) fn zsmalloc_is_movable(&self) -> bool {
        self.zram.as_ref().is_some_and(Zram::is_movable)
    }

    /// Moves the content of a page of zsmalloc to a page without an owner. The old page has no owner afterwards.
    pub(crate) fn migrate_zsmalloc(&mut self, pages: &mut PageTable, from: u32, to: u32) {
        let page = pages[from];
        pages[to].own(page.kind(), 0, page.owner, page.index);
        pages[from].disown();
        if let Some(zram) = &mut self.zram {
            zram.move_page(page.owner, page.index, to);
        }
    }
}

impl<O> Vm<'_, O> {
    /// Returns the number of free swap slots, and of all.
    #[must_use]
    pub fn swap_places(&self) -> (u64, u64) {
        (self.swap.map.free_slots(), self.swap.map.slots().into())
    }

    /// Returns whether a swap slot is free.
    pub(crate) fn has_free_swap(&self) -> bool {
        self.swap.map.free_slots() > 0
    }

    /// Keeps the shadow entry of a page that is evicted to a swap slot on a disk.
    pub(crate) fn keep_shadow(&mut self, slot: u32, shadow: u32) {
        self.swap.map.set_shadow(slot, shadow);
    }

    /// Frees a swap slot on a disk.
    pub(crate) fn put_swap_slot(&mut self, slot: u32) {
        self.swap.map.put(slot);
    }
}
