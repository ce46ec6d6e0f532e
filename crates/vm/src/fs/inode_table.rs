//! ext4's blocks of inodes: pages of the page cache of its block device, movable ones, which stay where they are while the
//! journal holds their buffers.
//!
//! A change joins the running transaction, a commit makes the block dirty, and its write ends the journal's hold. Source:
//! `__ext4_get_inode_loc`, `jbd2_journal_dirty_metadata`, `__jbd2_journal_remove_checkpoint`, and
//! `buffer_migrate_folio_norefs` (mm/migrate.c), which fails while a buffer is held.

use std::collections::BTreeSet;

use pageblock::event::Observer;

use super::inode::InodeId;
use crate::base::list::NIL;
use crate::config::Filesystem;
use crate::pagecache::space::{Slot, SpaceId};
use crate::vm::Vm;

/// Inodes of a block, of 256 bytes each.
const INODES: u32 = 16;
/// Blocks of the table of a block group.
const BLOCKS: u32 = 512;

/// The tables of all block groups.
#[derive(Debug, Default)]
pub(super) struct InodeTables {
    /// Each group's part of the device.
    groups: Vec<SpaceId>,
    /// The blocks of the running transaction.
    running: BTreeSet<(SpaceId, u32)>,
}

impl<O: Observer> Vm<'_, O> {
    /// Returns where the block of an inode is in the page cache; `None` if the file system is not ext4.
    pub fn inode_block(&mut self, inode: InodeId) -> Option<(SpaceId, u32)> {
        if self.config.filesystem != Filesystem::Ext4 {
            return None;
        }
        let (group, index) = (inode / (INODES * BLOCKS), inode / INODES % BLOCKS);
        while self.fs.tables.groups.len() as u32 <= group {
            let space = self.create_file_space(BLOCKS, NIL);
            self.fs.tables.groups.push(space);
        }
        Some((self.fs.tables.groups[group as usize], index))
    }

    /// Notes a change of an inode. Returns `false` if its block is not in memory with its buffer head.
    pub fn journal_inode(&mut self, inode: InodeId) -> bool {
        let Some((space, index)) = self.inode_block(inode) else { return true };
        let Slot::Page(pfn) = self.spaces().slot(space, index) else { return false };
        if self.pages[pfn].buffer_head().is_none() {
            return false;
        }
        self.pages[pfn].set_held(true);
        self.fs.tables.running.insert((space, index));
        true
    }

    /// Commits the running transaction: its blocks are to be written.
    pub fn commit_journal(&mut self) {
        for (space, index) in std::mem::take(&mut self.fs.tables.running) {
            match self.spaces().slot(space, index) {
                Slot::Page(pfn) => self.dirty(pfn),
                slot => debug_assert!(false, "a journaled block is {slot:?}"),
            }
        }
    }

    /// Ends the journal's hold of a page that was written, unless it was changed again.
    pub(crate) fn end_journal_hold(&mut self, pfn: u32) {
        let page = &self.pages[pfn];
        if page.is_held() && !self.fs.tables.running.contains(&(page.owner, page.index)) {
            self.pages[pfn].set_held(false);
        }
    }
}
