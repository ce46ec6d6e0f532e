//! The operations of a task: use CPU time, wait, allocate, touch files and memory.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock::slowpath::Caller;
use pageblock_vm::buffer::buffer_of;
use pageblock_vm::cache::{GFP_ANON, GFP_CACHE_READ, GFP_CACHE_WRITE};
use pageblock_vm::inode::{InodeId, Inodes};
use pageblock_vm::node_reclaim::NodeReclaim;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::CacheId;
use pageblock_vm::slow::{Slow, SlowAlloc};
use pageblock_vm::space::{Slot, SpaceId};

use super::read_ahead::Stall;
use super::sched::TaskId;
use super::world::{Pause, World};
use super::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// The longest time by which a task may run ahead of the others; they see its effects from that time at once.
const QUANTUM: Nanos = 20 * MICROSECOND;
/// The pages that a task may dirty between checks of the limits (`ratelimit_pages`, at most 32 for tasks near
/// the limit).
const DIRTY_BATCH: u32 = 32;
/// The longest pause of a task that dirties too fast (`MAX_PAUSE`, HZ/5).
const MAX_PAUSE: Nanos = 200 * MILLISECOND;

/// A request that failed for good: the program would be killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// A file that a program has open.
#[derive(Debug)]
#[must_use]
pub struct OpenFile {
    inode: InodeId,
    /// The object of the open file, if that is modelled.
    object: Option<u32>,
}

/// A task's handle on the world.
#[derive(Clone)]
pub struct Ctx<'m> {
    pub(crate) world: Rc<RefCell<World<'m>>>,
    pub(crate) id: TaskId,
}

/// Ready when it is polled a second time.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<'m> Ctx<'m> {
    /// Runs a closure that reads or changes the world, without time passing.
    pub fn with<R>(&self, body: impl FnOnce(&mut World<'m>) -> R) -> R {
        body(&mut self.world.borrow_mut())
    }

    /// Returns the CPU that the task is on.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.world.borrow().sched.cpu_of(self.id)
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.world.borrow().now()
    }

    /// Reports whether the simulation is being stopped: tasks in endless loops then return.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.world.borrow().stopping
    }

    async fn pause(&self, pause: Pause) {
        self.world.borrow_mut().pause = Some(pause);
        Once(false).await;
    }

    /// Charges the task's accrued CPU time.
    pub async fn charge_accrued(&self) {
        let pending = self.with(|w| std::mem::take(&mut w.pending));
        if pending > 0 {
            self.pause(Pause::Charge(pending)).await;
        }
    }

    /// Yields to other tasks if this one is too far ahead.
    pub async fn yield_if_ahead(&self) {
        if self.world.borrow().pending >= QUANTUM {
            self.charge_accrued().await;
        }
    }

    /// Uses CPU time.
    pub fn spend(&self, ns: Nanos) {
        self.world.borrow_mut().pending += ns;
    }

    /// Waits until woken, with an optional timeout.
    pub async fn block(&self, timeout: Option<Nanos>) {
        self.charge_accrued().await;
        self.pause(Pause::Block(timeout)).await;
    }

    /// Sleeps.
    pub async fn sleep(&self, ns: Nanos) {
        self.block(Some(ns)).await;
    }

    /// Waits until a write completes, with a timeout; returns at once if none is in flight.
    pub async fn wait_writes(&self, timeout: Nanos) {
        self.charge_accrued().await;
        let waits = self.with(|w| {
            if w.disk.outstanding == 0 {
                return false;
            }
            w.wait_for_write(self.id);
            true
        });
        if waits {
            self.pause(Pause::Block(Some(timeout))).await;
        } else {
            // Even without a write the kernel's wait yields to others.
            self.sleep(timeout.min(MILLISECOND)).await;
        }
    }

    /// Waits for a slot in the disk's queue if reclaim needs one for its next write; `batch` counts the writes
    /// since it last waited.
    pub(crate) async fn wait_for_queue(&self, batch: &mut usize) {
        while *batch > 0 && self.with(|w| w.refuses_writes(*batch)) {
            self.wait_writes(SECOND).await;
            if self.with(|w| !w.disk.is_full()) {
                *batch = 0;
            }
        }
    }

    /// Reads a page from the disk.
    pub async fn read_disk(&self) {
        self.read_disk_pages(1).await;
    }

    /// Reads contiguous pages from the disk.
    pub async fn read_disk_pages(&self, pages: u64) {
        self.charge_accrued().await;
        let wait = self.with(|w| {
            let jitter = w.random.below(401) as i64 - 200;
            let now = w.sched.now;
            w.disk.read(now, jitter, pages) - now
        });
        self.pause(Pause::Block(Some(wait))).await;
    }

    /// Allocates a block, which must get an owner before the task waits again.
    pub async fn alloc(&self, request: Request) -> Result<Pfn, OutOfMemory> {
        if self.with(|w| w.vm.kernel().allocator.zone_reclaim_mode) != 0 {
            self.reclaim_own_node(&request).await;
        }
        let quick = self.with(|w| {
            w.pending += w.costs.alloc;
            let page = w.vm.try_alloc(w.sched.cpu_of(self.id), &request);
            w.count_list_mismatches();
            w.charge_looks();
            if w.vm.nodes().iter().any(|n| n.kswapd.woken) {
                w.wake_daemons();
            }
            page
        });
        match quick {
            Some(pfn) => Ok(pfn),
            None => self.alloc_slow(request).await,
        }
    }

    /// Reclaims the local node first if its memory is short (`node_reclaim`).
    async fn reclaim_own_node(&self, request: &Request) {
        let cpu = self.cpu();
        let Some(mut reclaim) = self.with(|w| NodeReclaim::before(&w.vm, cpu, request)) else {
            return;
        };
        while self.with(|w| {
            let more = reclaim.step(&mut w.vm);
            w.charge_work();
            w.submit_reclaimed();
            w.wake_daemons();
            more
        }) {
            self.yield_if_ahead().await;
        }
    }

    /// Goes through the slow path, watched for livelocks.
    async fn alloc_slow(&self, request: Request) -> Result<Pfn, OutOfMemory> {
        self.with(|w| w.begin_slow(self.id, request));
        let result = self.slow_path(request).await;
        self.with(|w| w.end_slow(self.id));
        result
    }

    /// Goes through the slow path, step by step.
    async fn slow_path(&self, request: Request) -> Result<Pfn, OutOfMemory> {
        let cpu = self.cpu();
        let mut slow = self.with(|w| SlowAlloc::new(&w.vm, cpu, request, Caller::default()));
        let mut stall = Stall::default();
        let mut batch = 0;
        loop {
            self.note_stall(&mut stall, slow.is_stalled()).await;
            let cpu = self.cpu();
            let step = self.with(|w| {
                let step = slow.step(&mut w.vm, cpu);
                w.charge_looks();
                w.charge_work();
                batch += w.submit_reclaimed();
                w.wake_daemons();
                step
            });
            match step {
                Slow::Page(pfn) => {
                    // Others run while the stall is paid for: until then the block is the kernel's.
                    self.with(|w| w.vm.own(pfn, request.order, Owner::Driver, 0));
                    self.end_stall(stall, request).await;
                    self.with(|w| w.vm.own(pfn, 0, Owner::None, 0));
                    return Ok(pfn);
                }
                Slow::Failed => {
                    self.end_stall(stall, request).await;
                    return Err(OutOfMemory);
                }
                Slow::Ran => {
                    self.wait_for_queue(&mut batch).await;
                    self.yield_if_ahead().await;
                }
                Slow::Spins(ns) => {
                    self.wait_for_queue(&mut batch).await;
                    self.spend(ns);
                    self.charge_accrued().await;
                }
                Slow::Wait(ns) => self.sleep(ns).await,
                Slow::WaitWrites(ns) => self.wait_writes(ns).await,
            }
        }
    }

    /// Allocates an object of a slab cache.
    pub async fn object(&self, cache: CacheId, flags: Gfp) -> Result<u32, OutOfMemory> {
        loop {
            let (cpu, node) = self.here();
            let object = self.with(|w| {
                w.pending += w.costs.object;
                w.vm.take_object(cache, cpu, node)
            });
            if let Some(object) = object {
                return Ok(object);
            }
            let preferred = self.with(|w| w.vm.slabs().request(cache, flags, true));
            let smallest = self.with(|w| w.vm.slabs().request(cache, flags, false));
            let (pfn, order) = match self.alloc(preferred).await {
                Ok(pfn) => (pfn, preferred.order),
                Err(OutOfMemory) if preferred.order > smallest.order => {
                    (self.alloc(smallest).await?, smallest.order)
                }
                Err(error) => return Err(error),
            };
            let cpu = self.cpu();
            self.with(|w| w.vm.add_slab(cache, cpu, pfn, order));
        }
    }

    /// Returns the CPU and the index of its node.
    fn here(&self) -> (usize, usize) {
        let world = self.world.borrow();
        let cpu = world.sched.cpu_of(self.id);
        (cpu, world.vm.node_of_cpu(world.sched.node_of(cpu)))
    }

    /// Opens a file, which brings its objects into memory.
    pub async fn open(&self, inode: InodeId) -> Result<(), OutOfMemory> {
        self.with(|w| w.pending += w.costs.open);
        self.objects_of(inode, Inodes::missing_object).await?;
        self.extents(inode, false).await?;
        self.with(|w| w.vm.open(inode));
        self.yield_if_ahead().await;
        Ok(())
    }

    /// Allocates the missing objects of a file.
    async fn objects_of(
        &self,
        inode: InodeId,
        missing: impl Fn(&Inodes, InodeId) -> Option<(usize, CacheId)>,
    ) -> Result<(), OutOfMemory> {
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
    pub async fn open_file(&self, inode: InodeId) -> Result<OpenFile, OutOfMemory> {
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
    async fn extents(&self, inode: InodeId, more: bool) -> Result<(), OutOfMemory> {
        while let Some(cache) = self.with(|w| w.vm.missing_extents(inode, more)) {
            let object = self.object(cache, Gfp::GFP_NOFS).await?;
            let cpu = self.cpu();
            self.with(|w| w.vm.set_extents(cpu, inode, object));
        }
        Ok(())
    }

    /// Accesses the metadata block of an inode's cluster, which is read from the disk if it is not in memory; a
    /// `new` block is not read.
    pub async fn inode_buffer(&self, inode: InodeId, new: bool) -> Result<(), OutOfMemory> {
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

    /// Commits a change of an inode to the log, with or without its list of extents.
    pub async fn commit_inode(&self, inode: InodeId, extents: bool) -> Result<(), OutOfMemory> {
        self.objects_of(inode, Inodes::missing_for_change).await?;
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

    /// Adds a page that is not cached to a file.
    pub(crate) async fn add_page(
        &self,
        space: SpaceId,
        index: u32,
        gfp: Gfp,
    ) -> Result<u32, OutOfMemory> {
        while self.with(|w| w.vm.spaces().needs_node(space, index)) {
            let nodes = self.with(|w| w.vm.radix_nodes());
            let object = self.object(nodes, Gfp::GFP_NOFS).await?;
            self.with(|w| {
                if w.vm.spaces().needs_node(space, index) {
                    w.vm.set_index_node(space, index, object);
                } else {
                    let cpu = w.sched.cpu_of(self.id);
                    w.vm.put_object(cpu, object);
                }
            });
        }
        let pfn = self.alloc(Request::new(0, gfp)).await?;
        let missing = self.with(|w| match w.vm.spaces().slot(space, index) {
            // Another task read it meanwhile.
            Slot::Page(other) => {
                w.vm.own(pfn, 0, Owner::Driver, 0);
                let cpu = w.sched.cpu_of(self.id);
                w.vm.disown(cpu, pfn);
                Some(other)
            }
            // While this task waited for its page, the index node may have been reclaimed.
            _ if w.vm.spaces().needs_node(space, index) => {
                w.vm.own(pfn, 0, Owner::Driver, 0);
                let cpu = w.sched.cpu_of(self.id);
                w.vm.disown(cpu, pfn);
                None
            }
            _ => {
                w.vm.add_page(space, index, pfn, 0);
                Some(pfn.0 as u32)
            }
        });
        match missing {
            Some(pfn) => Ok(pfn),
            None => Box::pin(self.add_page(space, index, gfp)).await,
        }
    }

    /// Writes a whole page of a file, and waits if too much is dirty.
    pub async fn write_page(
        &self,
        space: SpaceId,
        index: u32,
        dirtied: &mut u32,
    ) -> Result<(), OutOfMemory> {
        let (present, inode) = self.with(|w| {
            w.pending += w.costs.write_page;
            w.user += w.costs.user.write_page;
            (w.vm.spaces().slot(space, index), w.vm.spaces().get(space).inode)
        });
        let pfn = match present {
            Slot::Page(pfn) => pfn,
            _ => {
                self.extents(inode, true).await?;
                self.with(|w| w.vm.delay_extent(inode));
                self.add_page(space, index, GFP_CACHE_WRITE).await?
            }
        };
        let logs = self.with(|w| {
            w.vm.dirty(pfn);
            w.vm.mark_written(pfn);
            w.progress += 1;
            w.vm.config().checkpoint_bytes > 0
        });
        if logs {
            // The change of the modification time.
            self.commit_inode(inode, false).await?;
        } else {
            self.objects_of(inode, Inodes::missing_for_change).await?;
        }
        *dirtied += 1;
        if *dirtied >= DIRTY_BATCH {
            self.balance_dirty(std::mem::take(dirtied)).await;
        }
        self.yield_if_ahead().await;
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
    pub async fn read_page(&self, space: SpaceId, index: u32) -> Result<bool, OutOfMemory> {
        let look = |w: &mut World<'_>| {
            w.pending += w.costs.read_page;
            w.user += w.costs.user.read_page;
            w.progress += 1;
            let Slot::Page(pfn) = w.vm.spaces().slot(space, index) else { return false };
            w.vm.mark_accessed(pfn);
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
        let pfn = self.add_page(space, index, GFP_CACHE_READ).await?;
        self.read_disk().await;
        // The page is marked as accessed when the read returns, if it is still there.
        self.with(|w| {
            if w.vm.spaces().slot(space, index) == Slot::Page(pfn) {
                w.vm.mark_accessed(pfn);
            }
        });
        Ok(true)
    }

    /// Faults a small page of a mapping.
    pub async fn fault_base(&self, space: SpaceId, index: u32) -> Result<(), OutOfMemory> {
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

    /// Allocates a kernel block: page tables, stacks, buffers.
    pub async fn kernel_block(&self, request: Request, kind: Owner) -> Result<Pfn, OutOfMemory> {
        let pfn = self.alloc(request).await?;
        self.with(|w| w.vm.own(pfn, request.order, kind, 0));
        self.yield_if_ahead().await;
        Ok(pfn)
    }

    /// Frees a kernel block.
    pub fn free_kernel_block(&self, pfn: Pfn) {
        let cpu = self.cpu();
        self.with(|w| w.vm.disown(cpu, pfn));
    }

    /// Ends a program because memory is exhausted. The others continue, and the run reports it.
    pub fn end_program(&self, program: &str) {
        let now = self.now();
        self.with(|w| w.deaths.push((now, program.to_owned())));
    }

    /// Ends the whole simulation: a task that the machine cannot do without got no memory.
    pub fn panic_without_memory(&self) {
        self.with(|w| w.panic_without_memory(self.id));
    }

    /// Ends the whole simulation because of a defect.
    pub fn fail(&self, message: &str) {
        self.with(|w| {
            w.failure.get_or_insert_with(|| message.to_owned());
            w.stopping = true;
        });
    }
}
