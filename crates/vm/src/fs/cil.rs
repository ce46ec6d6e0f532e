//! Log vectors: what a file system's log keeps in memory of each changed inode until a checkpoint is on the disk, and
//! then frees all at once.
//!
//! XFS collects changes in memory (the committed item list). A change of an inode is formatted into a buffer of its
//! own, its log vector; further changes before the checkpoint are formatted into the same buffer. The buffer for the
//! next change, the shadow, is allocated beforehand and stays with the inode. A checkpoint takes all vectors and frees
//! them when it is written; it is due when enough bytes have been collected, and every 30 s. Source:
//! `xlog_cil_alloc_shadow_bufs`, `xfs_cil_prepare_item`, `xlog_cil_committed` (fs/xfs/xfs_log_cil.c, from 4.8),
//! `xfs_log_worker`.
//!
//! Measured on 6.18 with 24,576 files as of docs/experiments/sources.md#files-on-xfs, written at 60 MiB/s: 1.99
//! objects of kmalloc-512 a file, replaced when blocks are allocated, then 3.02 of kmalloc-1k; checkpoints
//! freed 2.00 of them, and one stays.

use pageblock::event::Observer;
use pageblock_kernel::rules::writeback::LogLimit;

use super::inode::InodeId;
use crate::base::list::NIL;
use crate::slab::{CacheId, CacheSpec};
use crate::vm::Vm;

/// The caches of vectors: of an inode alone, and of an inode with its list of extents, which always has room for as
/// much as an inode of 512 bytes can hold (`xfs_inode_item_data_fork_size`).
pub(super) const CACHES: [CacheSpec; 2] = [
    CacheSpec { name: "kmalloc-512", size: 512, reclaimable: false },
    CacheSpec { name: "kmalloc-1k", size: 1024, reclaimable: false },
];

/// Bytes of an inode in the log: `xfs_inode_log_format`, `xfs_log_dinode`, and the headers of three regions.
const INODE_BYTES: u64 = 56 + 176 + 3 * 12;
/// Bytes of an extent's record in the log.
const RECORD_BYTES: u64 = 16;
/// The log's part of a file system: mkfs.xfs makes it the 2048th part (xfsprogs of 2018, `calculate_log_size`).
const LOG_PART: u64 = 2048;
/// The largest log in bytes.
const LOG_MAX: u64 = 2 << 30;
/// The most bytes of a checkpoint from 5.7 on (108a42358a05).
const LIMIT_MAX: u64 = 32 << 20;

/// Returns the bytes of changes after which a checkpoint is due on a file system of `file_system` bytes
/// (`XLOG_CIL_SPACE_LIMIT`).
#[must_use]
pub fn checkpoint_bytes(file_system: u64, rule: LogLimit) -> u64 {
    let limit = (file_system / LOG_PART).min(LOG_MAX) / 8;
    match rule {
        LogLimit::Eighth => limit,
        LogLimit::Capped => limit.min(LIMIT_MAX),
    }
}

/// The log vectors of an inode: slabs, or [`NIL`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Vectors {
    /// The vector that the next checkpoint writes.
    active: u32,
    /// The buffer for the next change.
    shadow: u32,
    /// The list of extents was changed since the inode was last written back.
    extents: bool,
}

impl Vectors {
    pub(super) const NONE: Self = Self { active: NIL, shadow: NIL, extents: false };

    /// Returns whether the inode is part of the next checkpoint.
    pub(super) const fn is_pinned(&self) -> bool {
        self.active != NIL
    }

    /// Notes that the inode was written back.
    pub(super) const fn written(&mut self) {
        self.extents = false;
    }

    /// Takes the objects, to be freed.
    pub(super) fn take(&mut self) -> [u32; 2] {
        let Self { active, shadow, .. } = std::mem::replace(self, Self::NONE);
        [active, shadow]
    }

    /// Returns the objects.
    pub(super) const fn objects(&self) -> [u32; 2] {
        [self.active, self.shadow]
    }
}

/// The committed item list.
#[derive(Debug, Default)]
pub(super) struct Cil {
    /// The inodes of the next checkpoint; a number occurs twice if its file was removed and it was reused.
    items: Vec<InodeId>,
    /// The bytes of the next checkpoint.
    bytes: u64,
    /// The checkpoint that is being written: inodes, and vectors to be freed.
    committing: Vec<(InodeId, u32)>,
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether the log's memory is modelled.
    const fn has_log(&self) -> bool {
        self.config.checkpoint_bytes > 0
    }

    /// Returns the cache of the buffer that a change of an inode needs, unless the inode has one that is large enough.
    /// `extents`: its list of extents changes, which is logged with every change until the inode is written back.
    pub fn missing_vector(&mut self, id: InodeId, extents: bool) -> Option<CacheId> {
        if !self.has_log() {
            return None;
        }
        let vectors = &mut self.fs.inodes.get_mut(id).vectors;
        vectors.extents |= extents;
        let Vectors { shadow, extents, .. } = *vectors;
        let cache = self.fs.vector_caches[usize::from(extents)];
        (shadow == NIL || self.vector_size(shadow) < self.slabs.size(cache)).then_some(cache)
    }

    /// Returns the size of a vector in bytes; 0 for [`NIL`].
    fn vector_size(&self, object: u32) -> u32 {
        if object == NIL { 0 } else { self.object_size(object) }
    }

    /// Replaces the buffer for the next change of an inode.
    pub fn set_vector(&mut self, cpu: usize, id: InodeId, object: u32) {
        let old = std::mem::replace(&mut self.fs.inodes.get_mut(id).vectors.shadow, object);
        if old != NIL {
            self.put_object(cpu, old);
        }
    }

    /// Commits a change of an inode, which has a buffer for it, to the next checkpoint.
    pub fn commit_inode(&mut self, id: InodeId) {
        if !self.has_log() {
            return self.log_inode(id);
        }
        let records = u64::from(self.fs.inodes.get(id).extents.records());
        let Vectors { active, shadow, extents } = self.fs.inodes.get(id).vectors;
        if active == NIL {
            let list = if extents { records * RECORD_BYTES } else { 0 };
            self.fs.cil.bytes += INODE_BYTES + list;
            self.fs.cil.items.push(id);
        } else if self.vector_size(shadow) <= self.vector_size(active) {
            return;
        }
        let vectors = &mut self.fs.inodes.get_mut(id).vectors;
        (vectors.active, vectors.shadow) = (shadow, active);
    }

    /// Returns whether a checkpoint is due and none is being written.
    #[must_use]
    pub const fn checkpoint_is_due(&self) -> bool {
        self.has_log()
            && self.fs.cil.bytes >= self.config.checkpoint_bytes
            && self.fs.cil.committing.is_empty()
    }

    /// Starts a checkpoint of all committed changes. Returns its bytes. Report its end with
    /// [`end_checkpoint`](Self::end_checkpoint) before the next one starts.
    pub fn begin_checkpoint(&mut self) -> u64 {
        debug_assert!(self.fs.cil.committing.is_empty(), "one checkpoint at a time");
        for id in std::mem::take(&mut self.fs.cil.items) {
            let vectors = &mut self.fs.inodes.get_mut(id).vectors;
            let object = std::mem::replace(&mut vectors.active, NIL);
            if object != NIL {
                self.fs.cil.committing.push((id, object));
            }
        }
        std::mem::take(&mut self.fs.cil.bytes)
    }

    /// Ends a checkpoint: frees its vectors; its inodes must be written back.
    pub fn end_checkpoint(&mut self, cpu: usize) {
        for (id, object) in std::mem::take(&mut self.fs.cil.committing) {
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
