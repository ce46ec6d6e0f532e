//! File systems: dentries and inodes, XFS's metadata buffers, lists of extents and log, ext4's blocks of inodes and journal,
//! and the shrinkers.

pub mod buffer;
pub mod cil;
pub mod extent;
mod file;
pub mod inode;
mod inode_table;
mod prune;

use self::buffer::Buffers;
use self::cil::Cil;
use self::inode::{InodeId, Inodes};
use self::inode_table::InodeTables;
use crate::base::list::NIL;
use crate::config::Config;
use crate::slab::{CacheId, Slabs};

/// The file system of a machine.
#[derive(Debug)]
pub(crate) struct FileSystem {
    inodes: Inodes,
    buffers: Buffers,
    tables: InodeTables,
    cil: Cil,
    /// The caches of lists of extents ([`extent::CACHES`]).
    extent_caches: Vec<CacheId>,
    /// The caches of log vectors ([`cil::CACHES`]).
    vector_caches: Vec<CacheId>,
    /// The cache of open files, if they are modelled.
    file_cache: Option<CacheId>,
}

/// An object of a file, and the caches that it may be from.
pub(crate) struct HeldObject<'a> {
    pub(crate) inode: InodeId,
    /// The slab that it is on.
    pub(crate) slab: u32,
    pub(crate) caches: &'a [CacheId],
}

impl FileSystem {
    /// Returns a file system without files, whose caches it creates.
    pub(crate) fn new(config: &Config, slabs: &mut Slabs, nodes: usize) -> Self {
        let mut names: Vec<(&str, CacheId)> = Vec::new();
        let mut objects = Vec::new();
        for object in config.file_objects {
            let known = names.iter().find(|(name, _)| *name == object.cache.name);
            let id = known.map(|&(_, id)| id).unwrap_or_else(|| {
                let id = slabs.create(object.cache);
                names.push((object.cache.name, id));
                id
            });
            objects.push((id, object.lifetime));
        }
        let with_log = config.checkpoint_bytes > 0;
        let vector_caches = cil::CACHES.iter().filter(|_| with_log);
        Self {
            inodes: Inodes::new(objects, nodes),
            buffers: Buffers::new(nodes),
            tables: InodeTables::default(),
            cil: Cil::default(),
            extent_caches: extent::CACHES.iter().map(|&spec| slabs.create(spec)).collect(),
            vector_caches: vector_caches.map(|&spec| slabs.create(spec)).collect(),
            file_cache: with_log.then(|| slabs.create(inode::FILP)),
        }
    }

    /// Iterates over the objects of every file that are in memory.
    pub(crate) fn held_objects(&self) -> impl Iterator<Item = HeldObject<'_>> {
        self.inodes.existing().flat_map(|(inode, entry)| {
            let own = entry.objects.iter().zip(self.inodes.caches());
            let own = own.map(|(&slab, cache)| (slab, std::slice::from_ref(cache)));
            let vectors = entry.vectors.objects().into_iter();
            let vectors = vectors.map(|slab| (slab, self.vector_caches.as_slice()));
            let extents = (entry.extents.object, self.extent_caches.as_slice());
            own.chain(vectors)
                .chain([extents])
                .filter(|&(slab, _)| slab != NIL)
                .map(move |(slab, caches)| HeldObject { inode, slab, caches })
        })
    }

    /// Returns the pages of metadata buffers, including those of incomplete buffers.
    pub(crate) fn buffer_pages(&self) -> u64 {
        self.buffers.pages()
    }
}
