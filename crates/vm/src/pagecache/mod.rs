//! The page cache: files and mappings, the LRU lists, refaults, and dirty pages.

mod buffers;
pub mod filemap;
mod folio;
pub mod lru;
pub(crate) mod mglru;
mod migrate;
mod outside;
pub mod space;
mod workingset;
pub mod writeback;

use pageblock::zone::Zone;
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::reclaim::LruLists;

use self::lru::{Lru, Lruvec};
use self::mglru::{Generations, UsedTables};
use self::space::{Slot, SpaceId, Spaces};
use self::writeback::Writeback;
use crate::config::{Config, Filesystem};
use crate::node::Nodes;
use crate::slab::{CacheId, CacheSpec, Slabs};

/// The cache of index nodes of files.
const RADIX_TREE_NODE: CacheSpec =
    CacheSpec { name: "radix_tree_node", size: 576, reclaimable: true };

/// The files and mappings of a machine, and the lists of their pages.
#[derive(Debug)]
pub(crate) struct PageCache {
    spaces: Spaces,
    lru: Lru,
    /// Page tables through which pages were used, kept for generations.
    used_tables: UsedTables,
    index_nodes: CacheId,
    buffer_heads: Option<CacheId>,
    writeback: Writeback,
}

impl PageCache {
    /// Returns an empty page cache.
    pub(crate) fn new(
        zones: &[Zone<'_>],
        nodes: &Nodes,
        slabs: &mut Slabs,
        kernel: &Kernel,
        config: &Config,
    ) -> Self {
        let vec_of_zone = |zone: usize| match kernel.reclaim.lru {
            LruLists::Node | LruLists::Mglru => nodes.of_zone(zone) as u8,
            LruLists::Zone => zone as u8,
        };
        let lru = Lru::new((0..zones.len()).map(vec_of_zone).collect());
        Self {
            spaces: Spaces::default(),
            lru: match kernel.reclaim.lru {
                LruLists::Mglru => lru.with_generations(kernel.mglru),
                LruLists::Node | LruLists::Zone => lru,
            },
            used_tables: UsedTables::default(),
            index_nodes: slabs.create(RADIX_TREE_NODE),
            buffer_heads: (config.filesystem == Filesystem::Ext4)
                .then(|| slabs.create(buffers::BUFFER_HEAD)),
            writeback: Writeback::new(zones, nodes.len()),
        }
    }

    /// Returns the files and mappings.
    pub(crate) const fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns the cache of buffer heads, if pages have them.
    pub(crate) const fn buffer_heads(&self) -> Option<CacheId> {
        self.buffer_heads
    }

    /// Returns a lruvec.
    pub(crate) fn lruvec(&mut self, at: usize) -> &mut Lruvec {
        self.lru.vec(at)
    }

    /// Returns all lists.
    pub(crate) const fn lru_mut(&mut self) -> &mut Lru {
        &mut self.lru
    }

    /// Returns the generations of a lruvec, which the kernel must have.
    pub(crate) fn generations(&mut self, at: usize) -> &mut Generations {
        &mut self.lru.generations[at]
    }

    /// Returns the page tables through which pages were used.
    pub(crate) const fn used_tables(&mut self) -> &mut UsedTables {
        &mut self.used_tables
    }

    /// Notes that a page of a mapping was used through its page table.
    pub(crate) fn note_used_table(&mut self, space: SpaceId, index: u32) {
        if self.lru.has_generations() {
            self.used_tables.note(space, index);
        }
    }

    /// Sets the entry at an index of a file or mapping.
    pub(crate) fn set_slot(&mut self, space: SpaceId, index: u32, slot: Slot) {
        self.spaces.set(space, index, slot);
    }
}
