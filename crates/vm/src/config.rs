//! The configuration of a machine and its file systems, whatever the kernel.

use crate::fs::inode::{FileObject, XFS_WITH_VECTORS};
use crate::slab::SlabAllocator;

/// The file system of a machine's files, which decides whether the page cache has them in large folios. The objects of files
/// are [`Config::file_objects`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filesystem {
    /// XFS.
    Xfs,
    /// ext4, with blocks of 4 KiB and without `data=journal`: inodes are in the page cache of its device, and each page of a
    /// file that was written has a buffer head.
    Ext4,
    /// FUSE over another file system, as Android has it.
    Fuse,
}

/// The configuration of a machine, besides its allocator and its kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The slab allocator that the kernel was built with.
    pub slab: SlabAllocator,
    /// The file system.
    pub filesystem: Filesystem,
    /// The objects of a file.
    pub file_objects: &'static [FileObject],
    /// Bytes of changes after which the file system's log writes a checkpoint
    /// ([`checkpoint_bytes`](crate::cil::checkpoint_bytes)); 0 if neither the log's memory nor that of open files is
    /// modelled.
    pub checkpoint_bytes: u64,
    /// Swap space in pages.
    pub swap_pages: u32,
    /// Swap is in memory, compressed ([`crate::zram`]).
    pub zram: bool,
}

impl Default for Config {
    /// Returns a machine with SLUB, XFS without its log, and no swap.
    fn default() -> Self {
        Self {
            slab: SlabAllocator::Slub,
            filesystem: Filesystem::Xfs,
            file_objects: XFS_WITH_VECTORS,
            checkpoint_bytes: 0,
            swap_pages: 0,
            zram: false,
        }
    }
}
