//! Shrinkers: reclaim of slab objects, in proportion to what reclaim does to pages.
//!
//! Source: `do_shrink_slab` (mm/vmscan.c), `super_cache_scan` (fs/super.c).

use pageblock::event::Observer;

use crate::base::shrink::{Pressure, ShrinkControl, scan_target};
use crate::fs::inode::{InodeId, Inodes, Lifetime, Unused};
use crate::page::space::Slot;
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::At;
use crate::vm::Vm;

/// Objects that a file system's shrinker looks at in one go (`s_shrink.batch`).
const SUPER_BATCH: u64 = 1024;

impl<O: Observer> Vm<'_, O> {
    /// Runs the shrinkers of a node.
    pub(crate) fn shrink_slab(&mut self, node: usize, pressure: Pressure, by: ShrinkControl) {
        let unused = self.inodes.unused[node];
        let (dentries, inodes) = (unused.dentries.len(), unused.inodes.len());
        let freeable =
            u64::from(dentries + inodes) * u64::from(self.kernel.sysctl.vfs_cache_pressure) / 100;
        let deferred = self.nodes[node].kswapd.take_deferred();
        let least = if self.kernel.shrinkers.slab_min_scan { SUPER_BATCH } else { 0 };
        let mut left = scan_target(freeable, deferred, pressure, least);
        // A task that holds a file system's locks cannot enter it: others make up for that later.
        while by.fs && freeable > 0 && (left >= SUPER_BATCH || left >= freeable) {
            let batch = left.min(SUPER_BATCH);
            let UnusedCounts { dentries, inodes } = self.unused_counts(node);
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
        self.nodes[node].kswapd.set_deferred(left);
        self.shrink_buffers(node, pressure, by);
        self.shrink_shadows(pressure, by);
    }

    fn unused_counts(&self, node: usize) -> UnusedCounts {
        let lists = &self.inodes.unused[node];
        UnusedCounts { dentries: lists.dentries.len().into(), inodes: lists.inodes.len().into() }
    }

    fn prune_dentries(&mut self, node: usize, scan: u64, by: ShrinkControl) {
        for _ in 0..scan {
            let Some(id) = self.inodes.unused[node].dentries.tail() else { return };
            let inode = self.inodes.get(id);
            if inode.users > 0 {
                self.inodes.set_unused(id, Unused::No);
            } else if inode.referenced {
                self.inodes.get_mut(id).referenced = false;
                let Inodes { inodes, unused, .. } = &mut self.inodes;
                unused[node].dentries.rotate(inodes);
            } else {
                for object in self.inodes.take_objects(id, Lifetime::Dentry) {
                    self.put_object(by.cpu, object);
                }
                self.inodes.set_unused(id, Unused::Inode);
            }
        }
    }

    fn prune_inodes(&mut self, node: usize, scan: u64, by: ShrinkControl) {
        for _ in 0..scan {
            let Some(id) = self.inodes.unused[node].inodes.tail() else { return };
            let inode = self.inodes.get(id);
            let space = self.spaces.get(inode.space);
            let keeps = self.kernel.shrinkers.keeps_inodes_with_pages && space.present > 1;
            if keeps || inode.vectors.is_pinned() || space.dirty > 0 || space.writeback > 0 {
                let Inodes { inodes, unused, .. } = &mut self.inodes;
                unused[node].inodes.rotate(inodes);
            } else {
                self.evict_inode(id, by);
            }
        }
    }

    /// Frees an unused inode with its clean page cache (`inode_lru_isolate`).
    // Linux: from about 5.14 an inode with page cache is not on the list at all.
    fn evict_inode(&mut self, id: InodeId, by: ShrinkControl) {
        let space = self.inodes.get(id).space;
        let mut dropped = 0;
        for index in 0..self.spaces.get(space).len() {
            match self.spaces.slot(space, index) {
                Slot::Page(pfn) => {
                    debug_assert_eq!(self.pages[pfn].kind(), Owner::File);
                    self.drop_page(by.cpu, pfn, Slot::Empty);
                    dropped += 1;
                }
                Slot::Shadow(_) => self.spaces.set(space, index, Slot::Empty),
                Slot::Empty | Slot::Swap(_) => {}
            }
        }
        if by.kswapd {
            self.stat.kswapd_inodesteal += dropped;
        } else {
            self.stat.pginodesteal += dropped;
        }
        self.work.reclaimed += dropped;
        self.free_index_nodes(by.cpu, space);
        for object in self.inodes.take_objects(id, Lifetime::Inode) {
            self.put_object(by.cpu, object);
        }
        self.inodes.set_unused(id, Unused::No);
    }

    /// Drops every clean page of files, and every unused inode (`drop_caches` = 3).
    pub fn drop_caches(&mut self, cpu: usize) {
        for node in 0..self.nodes.len() {
            let by = ShrinkControl { cpu, kswapd: false, fs: true };
            let UnusedCounts { dentries, inodes } = self.unused_counts(node);
            self.prune_dentries(node, 2 * dentries, by);
            self.prune_inodes(node, dentries + inodes, by);
        }
        for pfn in 0..self.pages.len() as u32 {
            let page = &self.pages[pfn];
            let busy = page.has(PageFlags::DIRTY) || page.has(PageFlags::WRITEBACK);
            if page.kind() == Owner::File && page.has(PageFlags::LRU) && !busy {
                self.drop_page(cpu, pfn, Slot::Empty);
            }
        }
    }

    /// Puts a page back on the list that its flags name.
    pub(crate) fn putback(&mut self, pfn: u32) {
        self.lru.add(&mut self.pages, pfn, At::Head);
    }
}

struct UnusedCounts {
    dentries: u64,
    inodes: u64,
}
