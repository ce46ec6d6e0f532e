//! The buffer cache of a file system's metadata: blocks of inodes in unmovable pages, until a shrinker frees them.
//!
//! XFS keeps inodes in clusters of 16 KiB. A cluster's buffer is needed when an inode is created, read or written
//! back, and is freed after a shrinker found it unused a few times. Source: `xfs_buf_allocate_memory`,
//! `xfs_buftarg_isolate` (fs/xfs/xfs_buf.c). One block of 16 KiB for 32 files is measured
//! (docs/experiments/sources.md#files-on-xfs: 0.032 unmovable blocks of order 2 a file on 6.18, which allocates them
//! whole; kernels of 2018 take four pages).

use std::collections::VecDeque;

use pageblock::event::Observer;
use pageblock::frame::Pfn;

use super::inode::InodeId;
use crate::base::list::{Linked, Links, List};
use crate::base::shrink::{Pressure, ShrinkControl, scan_target};
use crate::page::Owner;
use crate::vm::Vm;

/// The number of a buffer.
pub type BufferId = u32;

/// Pages of a buffer.
const PAGES: usize = 4;
/// Inodes of a cluster, of 512 bytes each.
const INODES: u32 = 32;
/// Scans that a buffer of inodes survives after it was used (`XFS_INO_REF`).
const REFS: u8 = 2;
/// Buffers that the shrinker scans in one batch (`SHRINK_BATCH`).
const BATCH: u64 = 128;

#[derive(Clone, Copy, Debug)]
struct Buffer {
    links: Links,
    pages: [u32; PAGES],
    /// The number of its pages that are allocated; a complete buffer is on the list.
    present: u8,
    /// Scans that it still survives.
    refs: u8,
    node: u8,
    /// An inode in it was changed since it was last written.
    logged: bool,
}

impl Linked for Buffer {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    buffers: Vec<Buffer>,
    /// Buffers with changed inodes; the one that was changed first is in front.
    logged: VecDeque<BufferId>,
    lru: Vec<List>,
    /// Buffers that the shrinker of each node left to later calls.
    deferred: Vec<u64>,
}

impl Buffers {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            buffers: Vec::new(),
            logged: VecDeque::new(),
            lru: vec![List::default(); nodes],
            deferred: vec![0; nodes],
        }
    }

    /// Returns the number of allocated pages, including those of incomplete buffers.
    pub(super) fn pages(&self) -> u64 {
        self.buffers.iter().map(|b| u64::from(b.present)).sum()
    }

    /// Returns a buffer, which starts without pages.
    fn entry(&mut self, id: BufferId) -> &mut Buffer {
        const BLANK: Buffer = Buffer {
            links: Links::NONE,
            pages: [0; PAGES],
            present: 0,
            refs: 0,
            node: 0,
            logged: false,
        };
        let len = self.buffers.len().max(id as usize + 1);
        self.buffers.resize(len, BLANK);
        &mut self.buffers[id as usize]
    }
}

/// Returns the buffer of an inode's cluster.
#[must_use]
pub const fn buffer_of(inode: InodeId) -> BufferId {
    inode / INODES
}

/// Returns the first inode of a buffer's cluster.
#[must_use]
pub const fn first_inode(id: BufferId) -> InodeId {
    id * INODES
}

impl<O: Observer> Vm<'_, O> {
    /// Notes that a change of an inode is in the log, so that its cluster must be written
    /// (`xfs_trans_log_inode`).
    pub fn log_inode(&mut self, inode: InodeId) {
        let id = buffer_of(inode);
        if !std::mem::replace(&mut self.fs.buffers.entry(id).logged, true) {
            self.fs.buffers.logged.push_back(id);
        }
    }

    /// Takes the buffer whose inodes were changed first; its inodes count as written (`xfsaild_push`).
    pub fn take_logged(&mut self) -> Option<BufferId> {
        let id = self.fs.buffers.logged.pop_front()?;
        self.fs.buffers.entry(id).logged = false;
        for inode in first_inode(id)..first_inode(id + 1).min(self.fs.inodes.len()) {
            self.fs.inodes.get_mut(inode).vectors.written();
        }
        Some(id)
    }

    /// Marks a buffer as used. Returns `false` if it needs another page first, see
    /// [`add_buffer_page`](Self::add_buffer_page).
    pub fn use_buffer(&mut self, id: BufferId) -> bool {
        let buffer = self.fs.buffers.entry(id);
        buffer.refs = REFS;
        usize::from(buffer.present) == PAGES
    }

    /// Adds a page that was just allocated to a buffer. Returns `false`, and leaves the page without an owner, if the
    /// buffer is complete.
    pub fn add_buffer_page(&mut self, id: BufferId, pfn: Pfn) -> bool {
        let pfn = pfn.0 as u32;
        let node = self.node_of(pfn);
        let buffer = &mut self.fs.buffers.buffers[id as usize];
        if usize::from(buffer.present) == PAGES {
            return false;
        }
        self.pages[pfn].own(Owner::Buffer, 0, id, buffer.present.into());
        buffer.pages[usize::from(buffer.present)] = pfn;
        buffer.present += 1;
        if usize::from(buffer.present) == PAGES {
            buffer.node = node as u8;
            self.fs.buffers.lru[node].push_head(&mut self.fs.buffers.buffers, id);
        }
        true
    }

    /// Runs the shrinker of a node's buffers.
    pub(crate) fn shrink_buffers(&mut self, node: usize, pressure: Pressure, by: ShrinkControl) {
        let freeable = u64::from(self.fs.buffers.lru[node].len());
        let least = if self.kernel.shrinkers.slab_min_scan { BATCH } else { 0 };
        let deferred = std::mem::take(&mut self.fs.buffers.deferred[node]);
        let mut left = scan_target(freeable, deferred, pressure, least);
        while freeable > 0 && (left >= BATCH || left >= freeable) {
            let batch = left.min(BATCH);
            for _ in 0..batch {
                self.shrink_buffer(node, by);
            }
            self.stat.slabs_scanned += batch;
            self.work.shrunk += batch;
            left -= batch;
        }
        self.fs.buffers.deferred[node] = left;
    }

    /// Scans the oldest buffer of a node; frees it if it was not used recently.
    fn shrink_buffer(&mut self, node: usize, by: ShrinkControl) {
        let Some(id) = self.fs.buffers.lru[node].tail() else { return };
        let Buffers { buffers, lru, .. } = &mut self.fs.buffers;
        let buffer = &mut buffers[id as usize];
        if buffer.refs > 0 {
            buffer.refs -= 1;
            lru[node].rotate(buffers);
            return;
        }
        buffer.present = 0;
        let pages = buffer.pages;
        lru[node].remove(buffers, id);
        for pfn in pages {
            self.free_block(by.cpu, pfn, 0);
        }
    }

    /// Frees all buffers (unmounting).
    pub fn drop_buffers(&mut self, cpu: usize) {
        for node in 0..self.nodes.len() {
            let by = ShrinkControl { cpu, kswapd: false, fs: true };
            while self.fs.buffers.lru[node].len() > 0 {
                self.shrink_buffer(node, by);
            }
        }
    }
}
