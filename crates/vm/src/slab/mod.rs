//! Slab caches, and the sizes of what is allocated from them or straight from the page allocator.

mod cache;
mod caches;
mod order;
pub mod process;
mod sheaves;
pub mod skb;

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};

pub use cache::{Cache, CacheId, CacheSpec};
pub use caches::Slabs;
pub use order::{SlabAllocator, cpu_partial, min_partial};

use crate::page::PageTable;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Returns the slab caches.
    #[must_use]
    pub fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// Returns the slab cache with these parameters; creates it if there is none.
    pub fn create_cache(&mut self, spec: CacheSpec) -> CacheId {
        self.slabs.find_or_create(spec)
    }

    /// Takes an object of a cache for a CPU; `None` if a new slab is needed.
    pub fn take_object(&mut self, cache: CacheId, cpu: usize, node: usize) -> Option<u32> {
        self.slabs.take(&mut self.pages, cache, cpu, node)
    }

    /// Makes a block that was just allocated a slab.
    pub fn add_slab(&mut self, cache: CacheId, cpu: usize, pfn: Pfn, order: Order) {
        let nodes = &self.nodes;
        let node = |pages: &PageTable, pfn: u32| nodes.of_zone(pages[pfn].zone.into());
        self.slabs.add(&mut self.pages, cache, cpu, pfn.0 as u32, order, node);
    }

    /// Takes an object for a CPU although there is no memory for a new slab: with sheaves, one of a partial slab.
    pub fn take_last_object(&mut self, cache: CacheId, cpu: usize) -> Option<u32> {
        let nodes = &self.nodes;
        let node = |pages: &PageTable, pfn: u32| nodes.of_zone(pages[pfn].zone.into());
        let (object, empty) = self.slabs.give_up(&mut self.pages, cache, cpu, node);
        for slab in empty {
            self.free_block(cpu, slab.pfn, slab.order);
        }
        object
    }

    /// Frees an object, and the slabs that are empty then beyond those that are kept.
    pub fn put_object(&mut self, cpu: usize, object: u32) {
        let nodes = &self.nodes;
        let node = |pages: &PageTable, pfn: u32| nodes.of_zone(pages[pfn].zone.into());
        for empty in self.slabs.put(&mut self.pages, object, cpu, node) {
            self.free_block(cpu, empty.pfn, empty.order);
        }
    }

    /// Returns the size in bytes of the objects of an object's cache.
    pub(crate) fn object_size(&self, object: u32) -> u32 {
        self.slabs.size(self.pages[object].owner)
    }
}
