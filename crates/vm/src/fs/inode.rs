//! Inodes and directory entries in memory: slab objects that pin their slabs until a shrinker
//! frees them.
//!
//! A file that is open pins both. When the last user closes it, its dentry waits on a list of
//! unused ones; when that is pruned, the inode waits; when that is pruned, its page cache goes
//! with it. Source: `prune_dcache_sb` (fs/dcache.c), `prune_icache_sb` (fs/inode.c),
//! `super_cache_scan` (fs/super.c).

use crate::base::list::{Linked, Links, List, NIL};
use crate::fs::cil::Vectors;
use crate::fs::extent::Extents;
use crate::page::space::SpaceId;
use crate::slab::caches::{CacheId, CacheSpec};

/// The number of an inode.
pub type InodeId = u32;

/// When an object that belongs to a file is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// With the directory entry.
    Dentry,
    /// With the inode.
    Inode,
    /// With the inode, and only if that was changed since it came to memory.
    Changed,
}

/// An object that each file of a file system needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileObject {
    /// The cache.
    pub cache: CacheSpec,
    /// When it goes.
    pub lifetime: Lifetime,
}

/// The largest number of objects of a file.
pub const MAX_FILE_OBJECTS: usize = 5;

/// The objects of a file on XFS (docs/experiments/sources.md#files-on-xfs, measured), the log's memory left out: see
/// [`crate::fs::cil`].
pub const XFS: &[FileObject] = &[
    FileObject {
        cache: CacheSpec { name: "dentry", size: 192, reclaimable: true },
        lifetime: Lifetime::Dentry,
    },
    FileObject {
        cache: CacheSpec { name: "xfs_inode", size: 960, reclaimable: true },
        lifetime: Lifetime::Inode,
    },
    FileObject {
        cache: CacheSpec { name: "xfs_ili", size: 208, reclaimable: false },
        lifetime: Lifetime::Inode,
    },
];

/// The same where the log is not modelled: its two buffers stay with their inode. The log has nothing of an inode that no
/// transaction changed (`xfs_trans_ijoin`): a file that is only read has its dentry and inode.
pub const XFS_WITH_VECTORS: &[FileObject] = &[
    XFS[0],
    XFS[1],
    FileObject { cache: XFS[2].cache, lifetime: Lifetime::Changed },
    VECTOR,
    VECTOR,
];

const VECTOR: FileObject = FileObject {
    cache: CacheSpec { name: "kmalloc-512", size: 512, reclaimable: false },
    lifetime: Lifetime::Changed,
};

/// What a program has of a file that it has open (`struct file`). Measured in the run of
/// [`crate::fs::cil`]: 24,477 of them while the jobs had 24,576 files open.
pub(crate) const FILP: CacheSpec = CacheSpec { name: "filp", size: 256, reclaimable: false };

/// The index nodes of page caches.
pub const RADIX_TREE_NODE: CacheSpec =
    CacheSpec { name: "radix_tree_node", size: 576, reclaimable: true };

/// Which list of unused objects a file is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unused {
    /// On none: in use, or not in memory.
    No,
    /// Its dentry is unused.
    Dentry,
    /// Its inode is unused, its dentry gone.
    Inode,
}

/// A file's inode and directory entry.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    links: Links,
    /// Its page cache.
    pub space: SpaceId,
    /// Users that have it open.
    pub users: u32,
    /// The slab of each of its objects; [`NIL`] where the object is not in memory.
    pub(crate) objects: [u32; MAX_FILE_OBJECTS],
    /// Where its blocks are.
    pub(crate) extents: Extents,
    /// What the log has of it.
    pub(crate) vectors: Vectors,
    pub(crate) unused: Unused,
    /// The list is that of this node.
    pub(crate) node: u8,
    pub(crate) referenced: bool,
    /// Its content is newer than its access time.
    pub(crate) modified: bool,
    pub(crate) exists: bool,
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
pub(crate) struct UnusedLists {
    pub(crate) dentries: List,
    pub(crate) inodes: List,
}

/// All files of a file system.
#[derive(Debug)]
pub struct Inodes {
    pub(crate) inodes: Vec<Inode>,
    free: Vec<InodeId>,
    pub(crate) unused: Vec<UnusedLists>,
    /// The cache of each object, and its lifetime.
    pub(crate) objects: Vec<(CacheId, Lifetime)>,
}

impl Inodes {
    pub(crate) fn new(objects: Vec<(CacheId, Lifetime)>, nodes: usize) -> Self {
        assert!(objects.len() <= MAX_FILE_OBJECTS, "{} objects of a file", objects.len());
        Self {
            inodes: Vec::new(),
            free: Vec::new(),
            unused: vec![UnusedLists::default(); nodes],
            objects,
        }
    }

    /// A file without any object in memory.
    pub(crate) fn create(&mut self, space: SpaceId) -> InodeId {
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

    /// The file's number is free to be used again.
    pub(crate) fn forget(&mut self, id: InodeId) {
        self.set_unused(id, Unused::No);
        self.inodes[id as usize].exists = false;
        self.free.push(id);
    }

    /// How many numbers were given out.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.inodes.len() as u32
    }

    /// Tells whether there never was a file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty()
    }

    /// Tells whether the file of this number exists.
    #[must_use]
    pub fn exists(&self, id: InodeId) -> bool {
        self.inodes.get(id as usize).is_some_and(|i| i.exists)
    }

    /// An inode.
    #[must_use]
    pub fn get(&self, id: InodeId) -> &Inode {
        &self.inodes[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id as usize]
    }

    /// The first object that an open file needs and that is not in memory: its place and cache.
    #[must_use]
    pub fn missing_object(&self, id: InodeId) -> Option<(usize, CacheId)> {
        self.missing(id, |lifetime| lifetime != Lifetime::Changed)
    }

    /// The same for a file that is changed.
    #[must_use]
    pub fn missing_for_change(&self, id: InodeId) -> Option<(usize, CacheId)> {
        self.missing(id, |lifetime| lifetime == Lifetime::Changed)
    }

    fn missing(&self, id: InodeId, wanted: impl Fn(Lifetime) -> bool) -> Option<(usize, CacheId)> {
        let inode = &self.inodes[id as usize];
        let at = (0..self.objects.len())
            .find(|&at| inode.objects[at] == NIL && wanted(self.objects[at].1))?;
        Some((at, self.objects[at].0))
    }

    /// Takes the objects that go with the directory entry, or else all others, from a file, to be freed.
    pub(crate) fn take_objects(&mut self, id: InodeId, lifetime: Lifetime) -> Vec<u32> {
        let with_dentry = lifetime == Lifetime::Dentry;
        let inode = &mut self.inodes[id as usize];
        let of = self.objects.iter().zip(&mut inode.objects);
        let of = of.filter(|(o, _)| (o.1 == Lifetime::Dentry) == with_dentry);
        let mut slabs: Vec<u32> = of.map(|(_, slab)| std::mem::replace(slab, NIL)).collect();
        if !with_dentry {
            slabs.push(std::mem::replace(&mut inode.extents.object, NIL));
            slabs.extend(inode.vectors.take());
        }
        slabs.retain(|&slab| slab != NIL);
        slabs
    }

    /// Puts a file on a list of unused ones, or on none.
    pub(crate) fn set_unused(&mut self, id: InodeId, to: Unused) {
        let Inode { unused: from, node, .. } = self.inodes[id as usize];
        let lists = &mut self.unused[usize::from(node)];
        match from {
            Unused::No => {}
            Unused::Dentry => lists.dentries.remove(&mut self.inodes, id),
            Unused::Inode => lists.inodes.remove(&mut self.inodes, id),
        }
        match to {
            Unused::No => {}
            Unused::Dentry => lists.dentries.push_head(&mut self.inodes, id),
            Unused::Inode => lists.inodes.push_head(&mut self.inodes, id),
        }
        self.inodes[id as usize].unused = to;
    }
}
