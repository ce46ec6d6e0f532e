//! Inodes and directory entries in memory: slab objects that pin their slabs until a shrinker frees them.
//!
//! An open file pins both. When the last user closes it, its dentry goes on a list of unused ones; when the dentry is
//! pruned, the inode goes on such a list; when the inode is pruned, its page cache is freed with it. Source:
//! `dput` (fs/dcache.c), `iput` (fs/inode.c).

use super::cil::Vectors;
use super::extent::Extents;
use crate::base::list::{Linked, Links, List, NIL};
use crate::pagecache::space::SpaceId;
use crate::slab::{CacheId, CacheSpec};

/// The number of an inode.
pub type InodeId = u32;

/// When an object of a file is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// With the directory entry.
    Dentry,
    /// With the inode.
    Inode,
    /// With the inode; only an inode that was changed since it was read has it.
    Changed,
}

/// An object that each file of a file system needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileObject {
    /// The cache.
    pub cache: CacheSpec,
    /// When it is freed.
    pub lifetime: Lifetime,
}

/// The largest number of objects of a file.
pub const MAX_FILE_OBJECTS: usize = 5;

impl FileObject {
    /// A directory entry.
    pub const DENTRY: Self = Self {
        cache: CacheSpec { name: "dentry", size: 192, reclaimable: true },
        lifetime: Lifetime::Dentry,
    };

    /// Returns an inode of a file system, with the size of its cache's objects in bytes.
    #[must_use]
    pub const fn inode(name: &'static str, size: u32) -> Self {
        Self { cache: CacheSpec { name, size, reclaimable: true }, lifetime: Lifetime::Inode }
    }

    /// Returns an object in unmovable memory.
    const fn unmovable(name: &'static str, size: u32, lifetime: Lifetime) -> Self {
        Self { cache: CacheSpec { name, size, reclaimable: false }, lifetime }
    }
}

/// The objects of a file on XFS without the log's, which [`cil`](super::cil) models
/// (docs/experiments/sources.md#files-on-xfs, measured).
pub const XFS: &[FileObject] = &[
    FileObject::DENTRY,
    FileObject::inode("xfs_inode", 960),
    FileObject::unmovable("xfs_ili", 208, Lifetime::Inode),
];

/// The objects of a file on ext4, besides its buffer heads
/// (docs/experiments/sources.md#files-on-ext4, measured).
pub const EXT4: &[FileObject] = &[
    FileObject::DENTRY,
    FileObject::inode("ext4_inode_cache", 1168),
    FileObject::unmovable("jbd2_inode", 64, Lifetime::Changed),
];

/// The objects of a file on XFS if the log is not modelled: its two buffers are freed with the inode. The log holds
/// nothing of an inode that no transaction changed (`xfs_trans_ijoin`): a file that is only read has its dentry and
/// inode.
pub const XFS_WITH_VECTORS: &[FileObject] = &[
    XFS[0],
    XFS[1],
    FileObject { cache: XFS[2].cache, lifetime: Lifetime::Changed },
    VECTOR,
    VECTOR,
];

const VECTOR: FileObject = FileObject::unmovable("kmalloc-512", 512, Lifetime::Changed);

/// An open file (`struct file`). Measured in the run of [`cil`](super::cil): 24,477 while the jobs had 24,576 files
/// open.
pub(super) const FILP: CacheSpec = CacheSpec { name: "filp", size: 256, reclaimable: false };

/// The list of unused objects that a file is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unused {
    /// None: it is in use, or not in memory.
    No,
    /// Unused dentries.
    Dentry,
    /// Unused inodes, whose dentries are freed.
    Inode,
    /// None, though its dentry is freed: its page cache keeps it off the list (`mapping_shrinkable`).
    Cached,
}

/// A file's inode and directory entry.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    links: Links,
    /// Its page cache.
    pub space: SpaceId,
    /// The number of users that have it open.
    pub users: u32,
    /// The slab of each of its objects; [`NIL`] if the object is not in memory.
    pub(super) objects: [u32; MAX_FILE_OBJECTS],
    /// Its list of extents.
    pub(super) extents: Extents,
    /// Its log vectors.
    pub(super) vectors: Vectors,
    pub(super) unused: Unused,
    /// The index of the node of the list.
    pub(super) node: u8,
    /// It was opened since its dentry was last scanned.
    pub(super) referenced: bool,
    /// Its content is newer than its access time.
    pub(super) modified: bool,
    pub(super) exists: bool,
}

impl Linked for Inode {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The unused objects of a node.
#[derive(Clone, Copy, Debug, Default)]
struct UnusedLists {
    dentries: List,
    inodes: List,
    /// Objects that the shrinker left to later calls.
    deferred: u64,
}

/// All files of a file system.
#[derive(Debug)]
pub struct Inodes {
    inodes: Vec<Inode>,
    free: Vec<InodeId>,
    unused: Vec<UnusedLists>,
    /// The cache of each object of a file.
    caches: Vec<CacheId>,
    /// When each object of a file is freed.
    lifetimes: Vec<Lifetime>,
}

impl Inodes {
    pub(super) fn new(objects: Vec<(CacheId, Lifetime)>, nodes: usize) -> Self {
        assert!(objects.len() <= MAX_FILE_OBJECTS, "{} objects of a file", objects.len());
        Self {
            inodes: Vec::new(),
            free: Vec::new(),
            unused: vec![UnusedLists::default(); nodes],
            caches: objects.iter().map(|&(cache, _)| cache).collect(),
            lifetimes: objects.iter().map(|&(_, lifetime)| lifetime).collect(),
        }
    }

    /// Creates a file without any object in memory.
    pub(super) fn create(&mut self, space: SpaceId) -> InodeId {
        let inode = Inode {
            links: Links::NONE,
            space,
            users: 0,
            objects: [NIL; MAX_FILE_OBJECTS],
            extents: Extents::NONE,
            vectors: Vectors::NONE,
            unused: Unused::No,
            node: 0,
            referenced: false,
            modified: false,
            exists: true,
        };
        if let Some(id) = self.free.pop() {
            self.inodes[id as usize] = inode;
            return id;
        }
        self.inodes.push(inode);
        self.inodes.len() as u32 - 1
    }

    /// Deletes a file; its number is reused.
    pub(super) fn forget(&mut self, id: InodeId) {
        self.set_unused(id, Unused::No);
        self.inodes[id as usize].exists = false;
        self.free.push(id);
    }

    /// Returns one more than the highest number of a file.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.inodes.len() as u32
    }

    /// Returns whether no file was ever created.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty()
    }

    /// Returns whether the file of this number exists.
    #[must_use]
    pub fn exists(&self, id: InodeId) -> bool {
        self.inodes.get(id as usize).is_some_and(|i| i.exists)
    }

    /// Returns an inode.
    #[must_use]
    pub fn get(&self, id: InodeId) -> &Inode {
        &self.inodes[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id as usize]
    }

    /// Returns the place and cache of the first object that an open file needs and that is not in memory.
    #[must_use]
    pub fn missing_object(&self, id: InodeId) -> Option<(usize, CacheId)> {
        self.missing(id, |lifetime| lifetime != Lifetime::Changed)
    }

    /// Returns the place and cache of the first object that a changed file needs and that is not in memory.
    #[must_use]
    pub fn missing_for_change(&self, id: InodeId) -> Option<(usize, CacheId)> {
        self.missing(id, |lifetime| lifetime == Lifetime::Changed)
    }

    fn missing(&self, id: InodeId, wanted: impl Fn(Lifetime) -> bool) -> Option<(usize, CacheId)> {
        let inode = &self.inodes[id as usize];
        let at = (0..self.caches.len())
            .find(|&at| inode.objects[at] == NIL && wanted(self.lifetimes[at]))?;
        Some((at, self.caches[at]))
    }

    /// Takes the objects that are freed with the dentry, or all others, from a file and returns them.
    pub(super) fn take_objects(&mut self, id: InodeId, lifetime: Lifetime) -> Vec<u32> {
        let with_dentry = lifetime == Lifetime::Dentry;
        let inode = &mut self.inodes[id as usize];
        let of = self.lifetimes.iter().zip(&mut inode.objects);
        let of = of.filter(|&(&lifetime, _)| (lifetime == Lifetime::Dentry) == with_dentry);
        let mut slabs: Vec<u32> = of.map(|(_, slab)| std::mem::replace(slab, NIL)).collect();
        if !with_dentry {
            slabs.push(std::mem::replace(&mut inode.extents.object, NIL));
            slabs.extend(inode.vectors.take());
        }
        slabs.retain(|&slab| slab != NIL);
        slabs
    }

    /// Returns the cache of each object of a file.
    pub(super) fn caches(&self) -> &[CacheId] {
        &self.caches
    }

    /// Iterates over the files that exist.
    pub(super) fn existing(&self) -> impl Iterator<Item = (InodeId, &Inode)> {
        (0..).zip(&self.inodes).filter(|(_, inode)| inode.exists)
    }

    /// Returns the number of unused dentries and inodes of a node.
    pub(super) fn nr_unused(&self, node: usize) -> (u64, u64) {
        let lists = &self.unused[node];
        (lists.dentries.len().into(), lists.inodes.len().into())
    }

    /// Returns the dentry of a node that has been unused longest.
    pub(super) fn oldest_unused_dentry(&self, node: usize) -> Option<InodeId> {
        self.unused[node].dentries.tail()
    }

    /// Returns the inode of a node that has been unused longest.
    pub(super) fn oldest_unused_inode(&self, node: usize) -> Option<InodeId> {
        self.unused[node].inodes.tail()
    }

    /// Moves the oldest unused dentry of a node to the head of the list.
    pub(super) fn rotate_dentries(&mut self, node: usize) {
        self.unused[node].dentries.rotate(&mut self.inodes);
    }

    /// Moves the oldest unused inode of a node to the head of the list.
    pub(super) fn rotate_inodes(&mut self, node: usize) {
        self.unused[node].inodes.rotate(&mut self.inodes);
    }

    /// Takes the number of objects that earlier calls of a node's shrinker left.
    pub(super) fn take_deferred(&mut self, node: usize) -> u64 {
        std::mem::take(&mut self.unused[node].deferred)
    }

    /// Leaves objects to later calls of a node's shrinker.
    pub(super) fn defer(&mut self, node: usize, objects: u64) {
        self.unused[node].deferred = objects;
    }

    /// Puts a file on a list of unused objects, or on none.
    pub(super) fn set_unused(&mut self, id: InodeId, to: Unused) {
        let Inode { unused: from, node, .. } = self.inodes[id as usize];
        let lists = &mut self.unused[usize::from(node)];
        match from {
            Unused::No | Unused::Cached => {}
            Unused::Dentry => lists.dentries.remove(&mut self.inodes, id),
            Unused::Inode => lists.inodes.remove(&mut self.inodes, id),
        }
        match to {
            Unused::No | Unused::Cached => {}
            Unused::Dentry => lists.dentries.push_head(&mut self.inodes, id),
            Unused::Inode => lists.inodes.push_head(&mut self.inodes, id),
        }
        self.inodes[id as usize].unused = to;
    }
}
