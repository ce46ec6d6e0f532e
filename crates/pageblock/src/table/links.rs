//! Storage for the links of listed blocks: links of frames are in the [page map](super::map), those of whole
//! pageblocks here.

use crate::base::frame::Order;
use crate::base::sync::{AtomicU32, Relaxed};
use crate::table::map::Index;
use crate::table::memory::{Tables, TablesLayout};

/// The next and the previous block on a list.
pub(crate) type Link = [AtomicU32; 2];
pub(crate) const NEXT: usize = 0;
pub(crate) const PREV: usize = 1;

/// Storage for the links of blocks.
pub(crate) trait Links {
    /// Returns the block after `i`.
    fn next(&self, i: Index) -> Index;
    /// Returns the block before `i`.
    fn prev(&self, i: Index) -> Index;
    fn set_next(&self, i: Index, next: Index);
    fn set_prev(&self, i: Index, prev: Index);
    /// Returns the number of frames; every block has a lower index.
    fn frames(&self) -> Index;
}

/// Links of blocks of whole pageblocks, one per pageblock.
#[derive(Clone, Copy)]
pub(crate) struct BlockLinks<'m> {
    pageblock_order: Order,
    links: &'m [Link],
}

impl<'m> BlockLinks<'m> {
    pub(crate) const EMPTY: Self = Self { pageblock_order: 0, links: &[] };

    /// Adds the tables for `blocks` pageblocks to `layout`.
    pub(crate) fn layout(layout: TablesLayout, blocks: usize) -> Option<TablesLayout> {
        layout.and::<Link>(blocks)
    }

    pub(crate) fn new(
        tables: &mut Tables<'m>,
        blocks: usize,
        pageblock_order: Order,
    ) -> Option<Self> {
        Some(Self { pageblock_order, links: tables.take_pairs(blocks)? })
    }

    #[inline]
    fn of(&self, i: Index) -> &Link {
        &self.links[(i >> self.pageblock_order) as usize]
    }
}

impl Links for BlockLinks<'_> {
    #[inline]
    fn next(&self, i: Index) -> Index {
        self.of(i)[NEXT].load(Relaxed)
    }

    #[inline]
    fn prev(&self, i: Index) -> Index {
        self.of(i)[PREV].load(Relaxed)
    }

    #[inline]
    fn set_next(&self, i: Index, next: Index) {
        self.of(i)[NEXT].store(next, Relaxed);
    }

    #[inline]
    fn set_prev(&self, i: Index, prev: Index) {
        self.of(i)[PREV].store(prev, Relaxed);
    }

    fn frames(&self) -> Index {
        (self.links.len() as Index) << self.pageblock_order
    }
}
