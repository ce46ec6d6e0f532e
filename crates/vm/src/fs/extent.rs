//! The extents of a file: a list of records in memory for each inode, which grows with every piece that the file is
//! written in.
//!
//! XFS allocates blocks when dirty pages are written, file by file, so that a file that grows between two rounds of
//! the flusher gets a new record in each. The list is one object of a size class and moves to the next class when it
//! is full. No shrinker can free it while the inode is in memory. Source: `xfs_iext_insert`, `xfs_iext_realloc_root`
//! (fs/xfs/libxfs/xfs_iext_tree.c, from 4.15; older versions grow one block in the same way),
//! `xfs_bmap_add_extent_hole_delay`.

use pageblock::event::Observer;

use super::inode::InodeId;
use crate::base::list::NIL;
use crate::config::Filesystem;
use crate::pagecache::space::SpaceId;
use crate::slab::{CacheId, CacheSpec};
use crate::vm::Vm;

/// Bytes of a record.
const RECORD: u32 = 16;
/// Records of the largest list that is one object (`RECS_PER_LEAF`).
const RECORDS_MAX: u32 = 15;

const fn kmalloc(name: &'static str, size: u32) -> CacheSpec {
    CacheSpec { name, size, reclaimable: false }
}

/// The size classes of lists.
pub(super) const CACHES: &[CacheSpec] = &[
    kmalloc("kmalloc-16", 16),
    kmalloc("kmalloc-32", 32),
    kmalloc("kmalloc-64", 64),
    kmalloc("kmalloc-96", 96),
    kmalloc("kmalloc-128", 128),
    kmalloc("kmalloc-192", 192),
    kmalloc("kmalloc-256", 256),
];

/// Returns the size class of a list of `records` records.
fn class(records: u32) -> usize {
    // A full leaf takes a whole node.
    let bytes = if records >= RECORDS_MAX { 256 } else { records.max(1) * RECORD };
    CACHES.iter().position(|cache| cache.size >= bytes).unwrap_or(CACHES.len() - 1)
}

/// A file's list of extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    /// The slab that the list is on; [`NIL`] if it is not in memory.
    pub(super) object: u32,
    /// Records.
    records: u32,
    /// The last record is of pages without blocks yet (delayed allocation).
    delayed: bool,
}

impl Extents {
    pub(super) const NONE: Self = Self { object: NIL, records: 0, delayed: false };

    /// Returns the number of records.
    pub(super) const fn records(&self) -> u32 {
        self.records
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the cache of the list that a file needs before its inode can be used, or, if `more`, before a new page
    /// is written to it; `None` if its list is large enough.
    #[must_use]
    pub fn missing_extents(&self, id: InodeId, more: bool) -> Option<CacheId> {
        if self.config.filesystem != Filesystem::Xfs {
            return None;
        }
        let Extents { object, records, delayed } = self.fs.inodes.get(id).extents;
        let wanted = records + u32::from(more && !delayed);
        if wanted == 0 {
            return None;
        }
        let cache = self.fs.extent_caches[class(wanted)];
        let fits = object != NIL && self.object_size(object) >= self.slabs.size(cache);
        (!fits).then_some(cache)
    }

    /// Replaces the list of a file.
    pub fn set_extents(&mut self, cpu: usize, id: InodeId, object: u32) {
        let old = std::mem::replace(&mut self.fs.inodes.get_mut(id).extents.object, object);
        if old != NIL {
            self.put_object(cpu, old);
        }
    }

    /// Notes that a new page was written to a file; its blocks are allocated later (`xfs_bmapi_reserve_delalloc`).
    pub fn delay_extent(&mut self, id: InodeId) {
        let extents = &mut self.fs.inodes.get_mut(id).extents;
        extents.records += u32::from(!extents.delayed);
        extents.delayed = true;
    }

    /// Allocates the blocks of a file's delayed pages.
    pub(crate) fn allocate_extent(&mut self, space: SpaceId) {
        if let Some(inode) = self.spaces().get(space).inode() {
            self.fs.inodes.get_mut(inode).extents.delayed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_through_the_size_classes() {
        let size = |records| CACHES[class(records)].size;
        assert_eq!(
            [1, 2, 3, 5, 7, 9, 12, 13, 14, 15, 16].map(size),
            [16, 32, 64, 96, 128, 192, 192, 256, 256, 256, 256]
        );
    }
}
