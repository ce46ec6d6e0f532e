//! Log vectors: what a file system's log keeps in memory of each changed inode until a checkpoint is on
//! the disk, and then frees all at once.
//!
//! XFS gathers changes in memory (the committed item list). A change of an inode is formatted into a
//! buffer of its own, its log vector; what changes again before the checkpoint is formatted into the same
//! one. The buffer for the next change is allocated beforehand and stays with the inode, its shadow.
//! A checkpoint takes all vectors along, and frees them when it is written; it is due when
//! enough has gathered, and every 30 s. Source: `xlog_cil_alloc_shadow_bufs`, `xfs_cil_prepare_item`,
//! `xlog_cil_committed` (fs/xfs/xfs_log_cil.c, from 4.8), `xfs_log_worker`.
//!
//! Measured on 6.18 with 24,576 files as of docs/experiments/sources.md#files-on-xfs, written at 60 MiB/s: 1.99
//! objects of kmalloc-512 a file, replaced when blocks are chosen, then 3.02 of kmalloc-1k, of which
//! checkpoints freed 2.00 and one stays.

use pageblock::event::Observer;
use pageblock_kernel::rules::writeback::LogLimit;

use crate::base::list::NIL;
use crate::fs::inode::InodeId;
use crate::slab::caches::{CacheId, CacheSpec};
use crate::vm::Vm;

/// The caches of vectors: of an inode alone, and of one with its list of extents, for which there is
/// always room for as much as an inode of 512 bytes can hold (`xfs_inode_item_data_fork_size`).
pub(crate) const CACHES: [CacheSpec; 2] = [
    CacheSpec { name: "kmalloc-512", size: 512, reclaimable: false },
    CacheSpec { name: "kmalloc-1k", size: 1024, reclaimable: false },
];

/// Bytes of an inode in the log: `xfs_inode_log_format`, `xfs_log_dinode`, and the headers of three regions.
const INODE_BYTES: u64 = 56 + 176 + 3 * 12;
/// Bytes of a record of an extent.
const RECORD_BYTES: u64 = 16;
/// mkfs.xfs gives the log the 2048th part of the file system, up to 2 GiB (xfsprogs of 2018,
/// `calculate_log_size`).
const LOG_PART: u64 = 2048;
const LOG_MAX: u64 = 2 << 30;
/// From 5.7 a checkpoint has no more than this (108a42358a05).
const LIMIT_MAX: u64 = 32 << 20;

/// The bytes of changes after which a checkpoint is due on a file system of a size
/// (`XLOG_CIL_SPACE_LIMIT`).
#[must_use]
pub fn checkpoint_bytes(file_system: u64, rule: LogLimit) -> u64 {
    let limit = (file_system / LOG_PART).min(LOG_MAX) / 8;
    match rule {
        LogLimit::Eighth => limit,
        LogLimit::Capped => limit.min(LIMIT_MAX),
    }
}

/// The vectors of an inode: slabs, or [`NIL`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors {
    /// What the next checkpoint writes.
    active: u32,
    /// The buffer for the next change.
    shadow: u32,
    /// The list of extents was changed since the inode was last written in its place.
    extents: bool,
}

impl Vectors {
    pub(crate) const NONE: Self = Self { active: NIL, shadow: NIL, extents: false };

    /// A checkpoint that is not taken yet has the inode.
    pub(crate) const fn is_pinned(&self) -> bool {
        self.active != NIL
    }

    /// The inode is written in its place.
    pub(crate) const fn written(&mut self) {
        self.extents = false;
    }

    /// Gives up the objects.
    pub(crate) fn take(&mut self) -> [u32; 2] {
        let Self { active, shadow, .. } = std::mem::replace(self, Self::NONE);
        [active, shadow]
    }

    pub(crate) const fn objects(&self) -> [u32; 2] {
        [self.active, self.shadow]
    }
}

/// The log in memory.
#[derive(Debug, Default)]
pub(crate) struct Cil {
    /// The inodes of the next checkpoint; one may be there again after its file was removed.
    items: Vec<InodeId>,
    /// Bytes that it would write.
    bytes: u64,
    /// What is being written: inodes, and vectors to free after it.
    committing: Vec<(InodeId, u32)>,
}

impl<O: Observer> Vm<'_, O> {
    /// Tells whether the log's memory is modelled.
    const fn has_cil(&self) -> bool {
        self.config.checkpoint_bytes > 0
    }

    /// The cache of the buffer that a change of an inode needs, where it has none that is large enough.
    /// `extents`: its list of extents changes, which is logged with every change until the inode is
    /// written in its place.
    pub fn missing_vector(&mut self, id: InodeId, extents: bool) -> Option<CacheId> {
        if !self.has_cil() {
            return None;
        }
        let vectors = &mut self.inodes.get_mut(id).vectors;
        vectors.extents |= extents;
        let Vectors { shadow, extents, .. } = *vectors;
        let cache = self.vector_caches[usize::from(extents)];
        (shadow == NIL || self.vector_size(shadow) < self.slabs.size(cache)).then_some(cache)
    }

    fn vector_size(&self, object: u32) -> u32 {
        if object == NIL { 0 } else { self.slabs.size(self.pages[object].owner) }
    }

    /// Gives an inode a buffer for its next change in the place of the one it has.
    pub fn set_vector(&mut self, cpu: usize, id: InodeId, object: u32) {
        let old = std::mem::replace(&mut self.inodes.get_mut(id).vectors.shadow, object);
        if old != NIL {
            self.put_object(cpu, old);
        }
    }

    /// A change of an inode, which has a buffer for it, is committed: it is of the next checkpoint.
    pub fn commit_inode(&mut self, id: InodeId) {
        if !self.has_cil() {
            return self.log_inode(id);
        }
        let records = u64::from(self.inodes.get(id).extents.records());
        let Vectors { active, shadow, extents } = self.inodes.get(id).vectors;
        if active == NIL {
            let list = if extents { records * RECORD_BYTES } else { 0 };
            self.cil.bytes += INODE_BYTES + list;
            self.cil.items.push(id);
        } else if self.vector_size(shadow) <= self.vector_size(active) {
            return;
        }
        let vectors = &mut self.inodes.get_mut(id).vectors;
        (vectors.active, vectors.shadow) = (shadow, active);
    }

    /// Tells whether enough has gathered for a checkpoint, and none is being written.
    #[must_use]
    pub const fn checkpoint_is_due(&self) -> bool {
        self.has_cil()
            && self.cil.bytes >= self.config.checkpoint_bytes
            && self.cil.committing.is_empty()
    }

    /// Begins a checkpoint of all that has gathered; gives its bytes. Report its end with
    /// [`end_checkpoint`](Self::end_checkpoint) before the next begins.
    pub fn begin_checkpoint(&mut self) -> u64 {
        debug_assert!(self.cil.committing.is_empty(), "one checkpoint at a time");
        for id in std::mem::take(&mut self.cil.items) {
            let vectors = &mut self.inodes.get_mut(id).vectors;
            let object = std::mem::replace(&mut vectors.active, NIL);
            if object != NIL {
                self.cil.committing.push((id, object));
            }
        }
        std::mem::take(&mut self.cil.bytes)
    }

    /// A checkpoint is on the disk: its vectors are freed, and its inodes are to be written in their
    /// places.
    pub fn end_checkpoint(&mut self, cpu: usize) {
        for (id, object) in std::mem::take(&mut self.cil.committing) {
            self.put_object(cpu, object);
            self.log_inode(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_grows_with_the_log_until_5_7() {
        const GIB: u64 = 1 << 30;
        let bytes = |gib, rule| checkpoint_bytes(gib * GIB, rule) >> 10;
        let eighth = |gib| bytes(gib, LogLimit::Eighth);
        assert_eq!([eighth(64), eighth(256)], [4 << 10, 16 << 10]);
        assert_eq!([eighth(8192), bytes(8192, LogLimit::Capped)], [256 << 10, 32 << 10]);
    }
}
