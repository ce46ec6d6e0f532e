//! The operations of a task on files: open, close, grow, commit.

use pageblock::request::{Gfp, Request};
use pageblock_vm::buffer::buffer_of;
use pageblock_vm::cache::GFP_CACHE_READ;
use pageblock_vm::config::Filesystem;
use pageblock_vm::inode::{InodeId, Inodes};
use pageblock_vm::page::Owner;
use pageblock_vm::slab::CacheId;

use super::task::{Ctx, Served};

/// A file that a program has open.
#[derive(Debug)]
#[must_use]
pub struct OpenFile {
    inode: InodeId,
    /// The object of the open file, if that is modelled.
    object: Option<u32>,
}

/// Why a task accesses the block of an inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockAccess {
    /// To read the inode.
    Read,
    /// To change an inode that is on the disk.
    Change,
    /// To change an inode that is new: its block has nothing to read.
    Create,
}

impl Ctx<'_> {
    /// Opens a file, which brings its objects into memory.
    pub async fn open(&self, inode: InodeId) -> Served {
        self.with(|w| w.pending += w.costs.open);
        self.objects_of(inode, Inodes::missing_object).await?;
        self.extents(inode, false).await?;
        self.with(|w| w.vm.open(inode));
        self.yield_if_ahead().await;
        Ok(())
    }

    /// Allocates the missing objects of a file.
    pub(super) async fn objects_of(
        &self,
        inode: InodeId,
        missing: impl Fn(&Inodes, InodeId) -> Option<(usize, CacheId)>,
    ) -> Served {
        while let Some((at, cache)) = self.with(|w| missing(w.vm.inodes(), inode)) {
            let object = self.object(cache, Gfp::GFP_NOFS).await?;
            self.with(|w| match missing(w.vm.inodes(), inode) {
                Some((still, _)) if still == at => w.vm.set_object(inode, at, object),
                // Another task allocated it meanwhile.
                _ => {
                    let cpu = w.sched.cpu_of(self.id);
                    w.vm.put_object(cpu, object);
                }
            });
        }
        Ok(())
    }

    /// Opens a file and keeps the program's object for it, for [`close_file`](Self::close_file).
    pub async fn open_file(&self, inode: InodeId) -> Served<OpenFile> {
        let object = match self.with(|w| w.vm.file_cache()) {
            Some(cache) => Some(self.object(cache, Gfp::GFP_KERNEL).await?),
            None => None,
        };
        let file = OpenFile { inode, object };
        match self.open(inode).await {
            Ok(()) => Ok(file),
            Err(error) => {
                self.put_file(&file);
                Err(error)
            }
        }
    }

    /// Closes a file opened by [`open_file`](Self::open_file).
    pub fn close_file(&self, file: OpenFile) {
        self.with(|w| w.vm.close(file.inode));
        self.put_file(&file);
    }

    fn put_file(&self, file: &OpenFile) {
        let cpu = self.cpu();
        if let Some(object) = file.object {
            self.with(|w| w.vm.put_object(cpu, object));
        }
    }

    /// Brings the list of a file's extents into memory, with room for one more if `more`.
    pub(super) async fn extents(&self, inode: InodeId, more: bool) -> Served {
        while let Some(cache) = self.with(|w| w.vm.missing_extents(inode, more)) {
            let object = self.object(cache, Gfp::GFP_NOFS).await?;
            let cpu = self.cpu();
            self.with(|w| w.vm.set_extents(cpu, inode, object));
        }
        Ok(())
    }

    /// Accesses the metadata block of an inode's cluster, which is read from the disk if it is not in memory; a
    /// `new` block is not read.
    pub async fn inode_buffer(&self, inode: InodeId, new: bool) -> Served {
        match self.with(|w| w.vm.config().filesystem) {
            Filesystem::Xfs => {}
            Filesystem::Ext4 => {
                let access = if new { BlockAccess::Create } else { BlockAccess::Read };
                return self.inode_block(inode, access).await;
            }
            Filesystem::Fuse => return Ok(()),
        }
        let id = buffer_of(inode);
        let mut read = !new;
        while !self.with(|w| w.vm.use_buffer(id)) {
            let pfn = self.alloc(Request::new(0, Gfp::GFP_NOFS)).await?;
            let cpu = self.cpu();
            let added = self.with(|w| {
                let added = w.vm.add_buffer_page(id, pfn);
                if !added {
                    w.vm.own(pfn, 0, Owner::Driver, 0);
                    w.vm.disown(cpu, pfn);
                }
                added
            });
            if added && std::mem::take(&mut read) {
                self.read_disk().await;
            }
        }
        Ok(())
    }

    /// Accesses ext4's block of an inode, which is read from the disk if it is not in memory and the inode is not new. After
    /// a change the journal holds it.
    async fn inode_block(&self, inode: InodeId, access: BlockAccess) -> Served {
        loop {
            let Some((space, index)) = self.with(|w| w.vm.inode_block(inode)) else {
                return Ok(());
            };
            match self.with(|w| w.vm.folio_at(space, index)) {
                Some(page) => self.with(|w| w.vm.mark_accessed(page)),
                None => {
                    self.add_folio(space, index, 0, GFP_CACHE_READ).await?;
                    if access != BlockAccess::Create {
                        self.read_disk().await;
                    }
                }
            }
            self.buffer_heads(space, index).await?;
            // While its objects were allocated, the block may have been reclaimed.
            if access == BlockAccess::Read || self.with(|w| w.vm.journal_inode(inode)) {
                return Ok(());
            }
        }
    }

    /// Commits a change of an inode to the log, with or without its list of extents.
    pub async fn commit_inode(&self, inode: InodeId, extents: bool) -> Served {
        self.objects_of(inode, Inodes::missing_for_change).await?;
        match self.with(|w| w.vm.config().filesystem) {
            Filesystem::Xfs => {}
            Filesystem::Ext4 => return self.inode_block(inode, BlockAccess::Change).await,
            Filesystem::Fuse => return Ok(()),
        }
        while let Some(cache) = self.with(|w| w.vm.missing_vector(inode, extents)) {
            let object = self.object(cache, Gfp::GFP_NOFS).await?;
            let cpu = self.cpu();
            self.with(|w| w.vm.set_vector(cpu, inode, object));
        }
        self.with(|w| {
            w.vm.commit_inode(inode);
            if w.vm.checkpoint_is_due() {
                w.wake_log();
            }
        });
        Ok(())
    }
}
