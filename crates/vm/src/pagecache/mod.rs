//! The page cache: files and mappings, the LRU lists, refaults, and dirty pages.

pub mod filemap;
mod folio;
pub mod lru;
mod migrate;
mod outside;
pub mod space;
mod workingset;
pub mod writeback;

use pageblock::zone::Zone;
use pageblock_kernel::rules::reclaim::LruLists;

use self::lru::{Lru, Lruvec};
use self::space::{Slot, SpaceId, Spaces};
use self::writeback::Writeback;
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
    index_nodes: CacheId,
    writeback: Writeback,
}

impl PageCache {
    /// Returns an empty page cache.
    pub(crate) fn new(
        zones: &[Zone<'_>],
        nodes: &Nodes,
        slabs: &mut Slabs,
        lists: LruLists,
    ) -> Self {
        let vec_of_zone = |zone: usize| match lists {
            LruLists::Node => nodes.of_zone(zone) as u8,
            LruLists::Zone => zone as u8,
        };
        Self {
            spaces: Spaces::default(),
            lru: Lru::new((0..zones.len()).map(vec_of_zone).collect()),
            index_nodes: slabs.create(RADIX_TREE_NODE),
            writeback: Writeback::new(zones, nodes.len()),
        }
    }

    /// Returns the files and mappings.
    pub(crate) const fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns a lruvec.
    pub(crate) fn lruvec(&mut self, at: usize) -> &mut Lruvec {
        self.lru.vec(at)
    }

    /// Sets the entry at an index of a file or mapping.
    pub(crate) fn set_slot(&mut self, space: SpaceId, index: u32, slot: Slot) {
        self.spaces.set(space, index, slot);
    }
}
