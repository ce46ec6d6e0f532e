//! The operations of a task on pages: write and read those of files, fault memory.

use std::ops::Range;

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};
use pageblock_vm::cache::{GFP_ANON, GFP_CACHE_READ, GFP_CACHE_WRITE};
use pageblock_vm::inode::Inodes;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};

use super::task::{Ctx, OutOfMemory, Served};
use super::world::World;
use super::{MILLISECOND, Nanos};

/// The pages that a task may dirty between checks of the limits (`ratelimit_pages`, at most 32 for tasks near
/// the limit).
const DIRTY_BATCH: u32 = 32;
/// The longest pause of a task that dirties too fast (`MAX_PAUSE`, HZ/5).
const MAX_PAUSE: Nanos = 200 * MILLISECOND;

impl Ctx<'_> {
    /// Adds a page or folio that is not cached to a file. Returns the first page of the folio that has the index then.
    pub(crate) async fn add_folio(
        &self,
        space: SpaceId,
        index: u32,
        order: Order,
        gfp: Gfp,
    ) -> Served<u32> {
        self.index_nodes(space, index, order).await?;
        let gfp = if order > 0 { gfp | Gfp::COMP } else { gfp };
        let pfn = self.alloc(Request::new(order, gfp)).await?;
        let there = self.with(|w| {
            let is_page = |at| matches!(w.vm.spaces().slot(space, at), Slot::Page(_));
            // Another task read it, or another part of it, meanwhile.
            let is_late = (index..index + (1 << order)).any(is_page);
            // While this task waited for its page, the index node may have been reclaimed.
            if is_late || w.vm.missing_node(space, index, order).is_some() {
                w.vm.own(pfn, order, Owner::Driver, 0);
                let cpu = w.sched.cpu_of(self.id);
                w.vm.disown(cpu, pfn);
                return w.vm.folio_at(space, index);
            }
            w.vm.add_page(space, index, pfn, order);
            Some(pfn.0 as u32)
        });
        match there {
            Some(pfn) => Ok(pfn),
            None => Box::pin(self.add_folio(space, index, 0, gfp.without(Gfp::COMP))).await,
        }
    }

    /// Allocates the index nodes that a page or folio of a file needs.
    async fn index_nodes(&self, space: SpaceId, index: u32, order: Order) -> Served {
        while let Some(at) = self.with(|w| w.vm.missing_node(space, index, order)) {
            let nodes = self.with(|w| w.vm.radix_nodes());
            let object = self.object(nodes, Gfp::GFP_NOFS).await?;
            self.with(|w| {
                if w.vm.spaces().needs_node(space, at) {
                    w.vm.set_index_node(space, at, object);
                } else {
                    let cpu = w.sched.cpu_of(self.id);
                    w.vm.put_object(cpu, object);
                }
            });
        }
        Ok(())
    }

    /// Adds the folio of a write of pages of a file up to `end`: of a lower order, if there is no memory for one of the
    /// write's length (`__filemap_get_folio`).
    async fn folio_to_write(&self, space: SpaceId, index: u32, end: u32) -> Served<u32> {
        let mut order = self.with(|w| w.vm.write_order(index, end));
        while order > 0 {
            let gfp = GFP_CACHE_WRITE | Gfp::NORETRY | Gfp::NOWARN;
            if let Ok(folio) = self.add_folio(space, index, order, gfp).await {
                return Ok(folio);
            }
            order = self.with(|w| w.vm.write_order(index, index + (1 << (order - 1))));
        }
        self.add_folio(space, index, 0, GFP_CACHE_WRITE).await
    }

    /// Writes pages of a file in one call.
    pub async fn write_pages(
        &self,
        space: SpaceId,
        range: Range<u32>,
        dirtied: &mut u32,
    ) -> Served {
        let mut at = range.start;
        while at < range.end {
            at += self.write_folio(space, at, range.end, dirtied).await?;
        }
        Ok(())
    }

    /// Writes a whole page of a file, and waits if too much is dirty.
    pub async fn write_page(&self, space: SpaceId, index: u32, dirtied: &mut u32) -> Served {
        self.write_folio(space, index, index + 1, dirtied).await.map(|_| ())
    }

    /// Writes the pages of a file from an index up to `end` that are in one folio, and waits if too much is dirty. Returns
    /// their number.
    pub async fn write_folio(
        &self,
        space: SpaceId,
        index: u32,
        end: u32,
        dirtied: &mut u32,
    ) -> Served<u32> {
        let (present, inode) = self.with(|w| {
            w.pending += w.costs.write_page;
            w.user += w.costs.user.write_page;
            (w.vm.folio_at(space, index), w.vm.spaces().get(space).inode)
        });
        let folio = match present {
            Some(folio) => folio,
            None => {
                self.extents(inode, true).await?;
                self.with(|w| w.vm.delay_extent(inode));
                self.folio_to_write(space, index, end).await?
            }
        };
        let (pages, logs) = self.with(|w| {
            let pages = w.vm.pages_from(folio, index).min(end - index);
            let others = Nanos::from(pages - 1);
            w.pending += w.costs.write_page * others;
            w.user += w.costs.user.write_page * others;
            w.vm.dirty(folio);
            w.vm.mark_written(folio);
            w.progress += u64::from(pages);
            (pages, w.vm.config().checkpoint_bytes > 0)
        });
        if logs {
            // The change of the modification time.
            self.commit_inode(inode, false).await?;
        } else {
            self.objects_of(inode, Inodes::missing_for_change).await?;
        }
        self.buffer_heads(space, index).await?;
        *dirtied += pages;
        if *dirtied >= DIRTY_BATCH {
            self.balance_dirty(std::mem::take(dirtied)).await;
        }
        self.yield_if_ahead().await;
        Ok(pages)
    }

    /// Allocates the buffer heads of a page or folio of a file that is written.
    pub(super) async fn buffer_heads(&self, space: SpaceId, index: u32) -> Served {
        while let Some((cache, at)) = self.with(|w| w.vm.missing_buffer(space, index)) {
            let object = self.object(cache, Gfp::GFP_NOFS).await?;
            self.with(|w| {
                let cpu = w.sched.cpu_of(self.id);
                w.vm.set_buffer(cpu, space, at, object);
            });
        }
        Ok(())
    }

    /// Waits as long as the disk takes to write what the task dirtied, at its share of the bandwidth, if dirty
    /// memory is above the midpoint between the background limit and the limit (`balance_dirty_pages`).
    // Linux: the bandwidth is measured, and the rate of each task follows it slowly.
    async fn balance_dirty(&self, pages: u32) {
        loop {
            let pause = self.with(|w| {
                let (dirty, writeback) = w.vm.nr_dirty();
                let limits = w.vm.dirty_limits();
                if dirty > limits.background {
                    w.wake_flusher();
                }
                let free_run = u64::midpoint(limits.background, limits.limit);
                let total = dirty + writeback;
                if total <= free_run {
                    return None;
                }
                // Above the middle of that range tasks are slower than the disk.
                let range = (limits.limit - free_run).max(1);
                let pressure = 2000 * (total - free_run) / range;
                let share = w.disk.write_ns(pages.into()) * w.dirtiers;
                Some((share * pressure / 1000).clamp(MILLISECOND / 10, MAX_PAUSE))
            });
            let Some(pause) = pause else { return };
            self.sleep(pause).await;
            let (total, limit) = self.with(|w| {
                let (dirty, writeback) = w.vm.nr_dirty();
                (dirty + writeback, w.vm.dirty_limits().limit)
            });
            if total <= limit {
                return;
            }
        }
    }

    /// Reads a page of a file; returns whether it came from the disk.
    pub async fn read_page(&self, space: SpaceId, index: u32) -> Served<bool> {
        let look = |w: &mut World<'_>| {
            w.pending += w.costs.read_page;
            w.user += w.costs.user.read_page;
            w.progress += 1;
            let Some(folio) = w.vm.folio_at(space, index) else { return false };
            w.vm.mark_accessed(folio);
            true
        };
        let looked = self.with(|w| w.vm.touch_atime(space).map_or_else(|| Ok(look(w)), Err));
        let hit = match looked {
            Ok(hit) => hit,
            Err(inode) => {
                self.commit_inode(inode, false).await?;
                self.with(look)
            }
        };
        if hit {
            self.yield_if_ahead().await;
            return Ok(false);
        }
        self.with(|w| w.pending += w.costs.read_miss);
        let pfn = self.add_folio(space, index, 0, GFP_CACHE_READ).await?;
        self.read_disk().await;
        // The page is marked as accessed when the read returns, if it is still there.
        self.with(|w| {
            if w.vm.folio_at(space, index) == Some(pfn) {
                w.vm.mark_accessed(pfn);
            }
        });
        Ok(true)
    }

    /// Faults a small page of a mapping.
    pub async fn fault_base(&self, space: SpaceId, index: u32) -> Served {
        let (slot, zram) = self.with(|w| {
            w.pending += w.costs.fault_base;
            w.user += w.costs.user.fault_base;
            w.vm.stat.pgfault += 1;
            w.progress += 1;
            (w.vm.spaces().slot(space, index), w.vm.zram().is_some())
        });
        if let Slot::Page(_) = slot {
            return Ok(());
        }
        if let Slot::Swap(_) = slot {
            self.with(|w| {
                w.vm.stat.pgmajfault += 1;
                w.vm.stat.pswpin += 1;
            });
            if !zram {
                self.read_disk().await;
            }
        }
        let pfn = self.alloc(Request::new(0, GFP_ANON)).await?;
        self.with(|w| w.vm.add_or_free(w.sched.cpu_of(self.id), space, index, pfn, 0));
        if zram && matches!(slot, Slot::Swap(_)) {
            self.decompress(pfn).await;
        }
        self.yield_if_ahead().await;
        if self.with(|w| w.vm.is_killed(space)) { Err(OutOfMemory) } else { Ok(()) }
    }
}
