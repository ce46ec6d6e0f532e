//! Files as programs use them: created, opened, closed, and removed.

use pageblock::event::Observer;

use super::inode::{InodeId, Inodes, Lifetime, Unused};
use crate::base::list::NIL;
use crate::pagecache::space::SpaceId;
use crate::slab::CacheId;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Returns the inodes.
    #[must_use]
    pub fn inodes(&self) -> &Inodes {
        &self.fs.inodes
    }

    /// Returns the cache of open files (`struct file`); `None` if they are not modelled, see
    /// [`Config::checkpoint_bytes`](crate::config::Config::checkpoint_bytes).
    #[must_use]
    pub const fn file_cache(&self) -> Option<CacheId> {
        self.fs.file_cache
    }

    /// Creates a file of up to `len` pages. Its objects are not in memory yet.
    pub fn create_file(&mut self, len: u32) -> InodeId {
        let inode = self.fs.inodes.create(NIL);
        let space = self.create_file_space(len, inode);
        self.fs.inodes.get_mut(inode).space = space;
        inode
    }

    /// Sets an object of a file that [`Inodes::missing_object`] or [`Inodes::missing_for_change`] returned.
    pub fn set_object(&mut self, inode: InodeId, at: usize, object: u32) {
        self.fs.inodes.get_mut(inode).objects[at] = object;
    }

    /// Opens a file. Its objects must all be in memory.
    pub fn open(&mut self, id: InodeId) {
        let inodes = &mut self.fs.inodes;
        debug_assert!(inodes.missing_object(id).is_none(), "inode {id} is not in memory");
        let inode = inodes.get_mut(id);
        inode.users += 1;
        inode.referenced = true;
        if matches!(inode.unused, Unused::Inode | Unused::Cached) {
            // A new dentry looked it up.
            inodes.set_unused(id, Unused::No);
        }
    }

    /// Closes a file. After the last close its dentry is on the list of unused ones.
    pub fn close(&mut self, id: InodeId) {
        let dentry = self.fs.inodes.get(id).objects[0];
        let node = if dentry == NIL { 0 } else { self.node_of(dentry) as u8 };
        let inode = self.fs.inodes.get_mut(id);
        inode.users -= 1;
        if inode.users == 0 && inode.unused == Unused::No {
            inode.referenced = false;
            inode.node = node;
            self.fs.inodes.set_unused(id, Unused::Dentry);
        }
    }

    /// Removes a file with its pages and objects (`unlink`). Returns `false` and removes nothing if pages are under
    /// writeback or users have it open.
    pub fn remove_file(&mut self, cpu: usize, id: InodeId) -> bool {
        let space = self.fs.inodes.get(id).space;
        if self.fs.inodes.get(id).users > 0 || self.spaces().get(space).writeback > 0 {
            return false;
        }
        self.journal_inode(id);
        self.remove_space(cpu, space);
        for lifetime in [Lifetime::Dentry, Lifetime::Inode] {
            self.put_file_objects(cpu, id, lifetime);
        }
        self.fs.inodes.forget(id);
        true
    }

    /// Frees the objects of a file that are freed with its dentry, or all others.
    pub(super) fn put_file_objects(&mut self, cpu: usize, id: InodeId, lifetime: Lifetime) {
        for object in self.fs.inodes.take_objects(id, lifetime) {
            self.put_object(cpu, object);
        }
    }

    /// Notes that the content of a file was changed.
    pub(crate) fn mark_modified(&mut self, inode: InodeId) {
        self.fs.inodes.get_mut(inode).modified = true;
    }

    /// Notes that a file was read. Returns its inode if its access time changes, so that the change is committed: not
    /// if it is newer than the content (`relatime`).
    #[must_use]
    pub fn touch_atime(&mut self, space: SpaceId) -> Option<InodeId> {
        let inode = self.spaces().get(space).inode;
        std::mem::take(&mut self.fs.inodes.get_mut(inode).modified).then_some(inode)
    }
}
