//! Buffer heads: an object for each page of a file that was written, if the file system keeps them.
//!
//! Source: `create_empty_buffers`, `try_to_free_buffers` (fs/buffer.c), `filemap_release_folio` (mm/filemap.c). Pages that
//! are only read have none (`ext4_mpage_readpages`).

use pageblock::event::Observer;
use pageblock::frame::Order;

use super::space::{Slot, SpaceId};
use crate::page::Owner;
use crate::slab::{CacheId, CacheSpec};
use crate::vm::Vm;

pub(super) const BUFFER_HEAD: CacheSpec =
    CacheSpec { name: "buffer_head", size: 104, reclaimable: true };

impl<O: Observer> Vm<'_, O> {
    /// Returns the cache of buffer heads, and an index of a folio of a file whose page has none yet.
    #[must_use]
    pub fn missing_buffer(&self, space: SpaceId, index: u32) -> Option<(CacheId, u32)> {
        let cache = self.pagecache.buffer_heads?;
        let head = &self.pages[self.folio_at(space, index)?];
        let mut indexes = head.index..head.index + (1 << head.order());
        indexes.find(|&at| self.lacks_buffer(space, at)).map(|at| (cache, at))
    }

    fn lacks_buffer(&self, space: SpaceId, index: u32) -> bool {
        match self.pagecache.spaces.slot(space, index) {
            Slot::Page(pfn) => self.pages[pfn].buffer_head().is_none(),
            _ => false,
        }
    }

    /// Gives a page the buffer head that [`missing_buffer`](Self::missing_buffer) found missing, or frees it if the page was
    /// reclaimed meanwhile.
    pub fn set_buffer(&mut self, cpu: usize, space: SpaceId, index: u32, object: u32) {
        match self.pagecache.spaces.slot(space, index) {
            Slot::Page(pfn) if self.pages[pfn].buffer_head().is_none() => {
                self.pages[pfn].set_buffer_head(Some(object));
            }
            _ => self.put_object(cpu, object),
        }
    }

    /// Frees the buffer heads of a page or folio of a file that is dropped.
    pub(super) fn free_buffers(&mut self, cpu: usize, pfn: u32, order: Order) {
        debug_assert_eq!(self.pages[pfn].kind(), Owner::File);
        for page in pfn..pfn + (1 << order) {
            debug_assert!(!self.pages[page].is_held(), "the journal holds frame {page}");
            if let Some(object) = self.pages[page].buffer_head() {
                self.pages[page].set_buffer_head(None);
                self.put_object(cpu, object);
            }
        }
    }
}
