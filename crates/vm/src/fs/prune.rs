//! The shrinker of a file system: prunes unused dentries and inodes.
//!
//! Source: `super_cache_scan` (fs/super.c), `prune_dcache_sb` (fs/dcache.c), `prune_icache_sb` (fs/inode.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::shrinkers::CachedInodes;

use super::inode::{Inode, InodeId, Lifetime, Unused};
use crate::base::shrink::{Pressure, ShrinkControl, scan_target};
use crate::pagecache::space::SpaceId;
use crate::vm::Vm;

/// Objects that the shrinker scans in one batch (`s_shrink.batch`).
const BATCH: u64 = 1024;

impl<O: Observer> Vm<'_, O> {
    /// Runs the shrinker of a node's unused dentries and inodes.
    pub(crate) fn shrink_inodes(&mut self, node: usize, pressure: Pressure, by: ShrinkControl) {
        let (dentries, inodes) = self.fs.inodes.nr_unused(node);
        let cache_pressure = u64::from(self.kernel.sysctl.vfs_cache_pressure);
        let freeable = (dentries + inodes) * cache_pressure / 100;
        let deferred = self.fs.inodes.take_deferred(node);
        let least = if self.kernel.shrinkers.slab_min_scan { BATCH } else { 0 };
        let mut left = scan_target(freeable, deferred, pressure, least);
        // A task that holds a file system's locks must not enter it: what it leaves is deferred to others.
        while by.fs && freeable > 0 && (left >= BATCH || left >= freeable) {
            let batch = left.min(BATCH);
            let (dentries, inodes) = self.fs.inodes.nr_unused(node);
            if dentries + inodes == 0 {
                left = 0;
                break;
            }
            let of_dentries = batch * dentries / (dentries + inodes);
            self.prune_dentries(node, of_dentries, by);
            self.prune_inodes(node, batch - of_dentries, by);
            self.stat.slabs_scanned += batch;
            self.work.shrunk += batch;
            left -= batch;
        }
        self.fs.inodes.defer(node, left);
    }

    /// Scans unused dentries; frees those that were not referenced since they were last scanned.
    fn prune_dentries(&mut self, node: usize, scan: u64, by: ShrinkControl) {
        for _ in 0..scan {
            let Some(id) = self.fs.inodes.oldest_unused_dentry(node) else { return };
            let inode = self.fs.inodes.get_mut(id);
            if inode.users > 0 {
                self.fs.inodes.set_unused(id, Unused::No);
            } else if inode.referenced {
                inode.referenced = false;
                self.fs.inodes.rotate_dentries(node);
            } else {
                self.put_file_objects(by.cpu, id, Lifetime::Dentry);
                let to = self.unused_inode(self.fs.inodes.get(id));
                self.fs.inodes.set_unused(id, to);
            }
        }
    }

    /// Returns where an inode is put whose last user or dentry went (`__inode_add_lru`).
    fn unused_inode(&self, inode: &Inode) -> Unused {
        let unlisted = self.kernel.shrinkers.cached_inodes == CachedInodes::Unlisted;
        let listed = !unlisted || self.spaces().get(inode.space).is_shrinkable();
        if listed { Unused::Inode } else { Unused::Cached }
    }

    /// Returns how many unused inodes without a dentry are listed where their page cache forbids it, or unlisted where it does
    /// not.
    pub(crate) fn misplaced_inodes(&self) -> u64 {
        let is_unused = |inode: &Inode| matches!(inode.unused, Unused::Inode | Unused::Cached);
        let inodes = self.fs.inodes.existing().map(|(_, inode)| inode);
        let misplaced =
            |inode: &&Inode| is_unused(inode) && inode.unused != self.unused_inode(inode);
        inodes.filter(misplaced).count() as u64
    }

    /// Lists an unused inode when what kept it off the list is gone: its last page or index node.
    pub(crate) fn relist_inode(&mut self, space: SpaceId) {
        let space = self.spaces().get(space);
        let Some(id) = space.inode().filter(|_| space.is_shrinkable()) else { return };
        if self.fs.inodes.get(id).unused == Unused::Cached {
            self.fs.inodes.set_unused(id, Unused::Inode);
        }
    }

    /// Scans unused inodes; frees those that are neither pinned nor dirty.
    fn prune_inodes(&mut self, node: usize, scan: u64, by: ShrinkControl) {
        for _ in 0..scan {
            let Some(id) = self.fs.inodes.oldest_unused_inode(node) else { return };
            let inode = self.fs.inodes.get(id);
            let space = self.spaces().get(inode.space);
            let keeps = match self.kernel.shrinkers.cached_inodes {
                CachedInodes::Freed => false,
                CachedInodes::PassedOver => space.present > 1,
                CachedInodes::Unlisted => {
                    debug_assert!(space.is_shrinkable(), "inode {id} is listed with its pages");
                    false
                }
            };
            if keeps || inode.vectors.is_pinned() || space.dirty > 0 || space.writeback > 0 {
                self.fs.inodes.rotate_inodes(node);
            } else {
                self.evict_inode(id, by);
            }
        }
    }

    /// Frees an unused inode with its clean page cache (`inode_lru_isolate`).
    fn evict_inode(&mut self, id: InodeId, by: ShrinkControl) {
        let dropped = self.invalidate(by.cpu, self.fs.inodes.get(id).space);
        if by.kswapd {
            self.stat.kswapd_inodesteal += dropped;
        } else {
            self.stat.pginodesteal += dropped;
        }
        self.work.reclaimed += dropped;
        self.put_file_objects(by.cpu, id, Lifetime::Inode);
        self.fs.inodes.set_unused(id, Unused::No);
    }

    /// Frees the clean pages of all files, then the unused dentries and inodes (`drop_caches` = 3).
    pub fn drop_caches(&mut self, cpu: usize) {
        self.drop_page_caches(cpu);
        for node in 0..self.nodes.len() {
            let by = ShrinkControl { cpu, kswapd: false, fs: true };
            let (dentries, inodes) = self.fs.inodes.nr_unused(node);
            self.prune_dentries(node, 2 * dentries, by);
            self.prune_inodes(node, dentries + inodes, by);
        }
    }
}
