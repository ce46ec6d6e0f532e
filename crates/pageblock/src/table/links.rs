//! Where the links of listed blocks are stored: of frames in the [page map](super::map), of whole pageblocks here.

use crate::base::frame::Order;
use crate::base::sync::{AtomicU32, Relaxed};
use crate::table::map::Index;
use crate::table::memory::{Tables, TablesLayout};

/// The next and the previous block on a block's list.
pub(crate) type Link = [AtomicU32; 2];
pub(crate) const NEXT: usize = 0;
pub(crate) const PREV: usize = 1;

/// Where the links of blocks are stored.
pub(crate) trait Links {
    /// Returns the block after one.
    fn next(&self, i: Index) -> Index;
    /// Returns the block before one.
    fn prev(&self, i: Index) -> Index;
    fn set_next(&self, i: Index, next: Index);
    fn set_prev(&self, i: Index, prev: Index);
    /// Returns the number of frames, which is above every block.
    fn frames(&self) -> Index;
}

/// Links of blocks of whole pageblocks, one a pageblock.
#[derive(Clone, Copy)]
pub(crate) struct BlockLinks<'m> {
    pageblock_order: Order,
    links: &'m [Link],
}

impl<'m> BlockLinks<'m> {
    pub(crate) const EMPTY: Self = Self { pageblock_order: 0, links: &[] };

    /// Adds what `blocks` pageblocks need to `layout`.
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
