//! An app in memory, on a phone or a Chromebook: its own memory and the kernel's memory for it.

use std::cell::RefCell;
use std::ops::Range;

use pageblock::frame::{Order, Pfn, pages};
use pageblock::request::{Gfp, Request};
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::{Random, World};

/// The orders that ion's system heap tries, largest first.
const ION_ORDERS: [Order; 3] = [8, 4, 0];

/// The slab caches of processes. (K): sizes on 64-bit machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caches {
    task_struct: CacheId,
    vm_area_struct: CacheId,
    pub(super) small: CacheId,
}

impl Caches {
    /// Creates the caches. `task_struct` is the object size of that cache, the one that grew most.
    pub(super) fn new(w: &mut World<'_>, task_struct: u32) -> Self {
        let mut cache =
            |name, size| w.vm.create_cache(CacheSpec { name, size, reclaimable: false });
        Self {
            task_struct: cache("task_struct", task_struct),
            vm_area_struct: cache("vm_area_struct", 184),
            small: cache("kmalloc-128", 128),
        }
    }
}

/// The kind of memory of graphics buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Graphics {
    /// Android's ion, later its DMA-BUF system heap: orders 8, 4 and 0, unmovable.
    DmaBuf,
    /// i915's objects: shmem pages with `__GFP_RECLAIMABLE`, pinned while in use.
    Shmem,
}

/// The amounts of an app; or their bounds on the whole machine, inclusive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<T> {
    pub(super) anon: T,
    pub(super) tables: T,
    pub(super) threads: T,
    pub(super) buffers: T,
    /// Binder pages.
    pub(super) binder: T,
    /// VMAs, and small objects.
    pub(super) areas: T,
    pub(super) small: T,
}

/// The device that apps run on.
pub(super) trait Host {
    /// The gfp flags of slab objects and page tables.
    const ACCOUNT: Gfp;

    /// Returns the requests for a thread's stack.
    fn stack(ctx: &Ctx<'_>) -> impl Iterator<Item = Request>;

    fn caches(&self) -> Caches;

    fn random(&mut self) -> &mut Random;

    /// Returns this machine's share of an amount for the whole machine.
    fn part(&self, whole: u64) -> u64;

    /// Returns the bounds of an app's amounts on the whole machine.
    fn bounds(&self) -> Plan<(u64, u64)>;

    /// Returns the number of pages of a new buffer.
    fn buffer_pages(&mut self) -> u64;

    fn graphics(&self) -> Graphics;
}

/// Returns a random number from a range, both ends included.
pub(super) fn between(random: &mut Random, (least, most): (u64, u64)) -> u64 {
    least + random.below(most - least + 1)
}

/// A thread: its stack and its `task_struct`.
#[derive(Debug)]
pub(super) struct Thread {
    stack: Vec<Pfn>,
    task: u32,
}

impl Thread {
    /// Starts a thread (`copy_process`): allocates the `task_struct` first, then the stack.
    pub(super) async fn fork<H: Host>(ctx: &Ctx<'_>, host: &RefCell<H>) -> Served<Self> {
        let cache = host.borrow().caches().task_struct;
        let task = ctx.object(cache, Gfp::GFP_KERNEL).await?;
        let mut thread = Self { stack: Vec::new(), task };
        for request in H::stack(ctx) {
            match ctx.kernel_block(request, Owner::Stack).await {
                Ok(block) => thread.stack.push(block),
                Err(error) => {
                    thread.exit(ctx);
                    return Err(error);
                }
            }
        }
        Ok(thread)
    }

    pub(super) fn exit(mut self, ctx: &Ctx<'_>) {
        free(ctx, &mut self.stack);
        let cpu = ctx.cpu();
        ctx.with(|w| w.vm.put_object(cpu, self.task));
    }
}

/// An app in memory.
#[derive(Debug)]
pub(super) struct App {
    pub(super) anon: SpaceId,
    /// The pages of it that the app uses.
    pub(super) anon_pages: u32,
    /// Whether its first launch was completed.
    pub(super) built: bool,
    plan: Plan<u64>,
    threads: Vec<Thread>,
    objects: Vec<u32>,
    /// Page tables and binder pages.
    blocks: Vec<Pfn>,
    buffers: Vec<Vec<Pfn>>,
}

impl App {
    /// Makes a forked app that has no memory yet.
    pub(super) fn new<H: Host>(ctx: &Ctx<'_>, host: &RefCell<H>) -> Self {
        let host = &mut *host.borrow_mut();
        let bounds = host.bounds();
        let mut of = |range| {
            let whole = between(host.random(), range);
            host.part(whole)
        };
        let plan = Plan {
            anon: of(bounds.anon),
            tables: of(bounds.tables),
            threads: of(bounds.threads),
            buffers: of(bounds.buffers),
            binder: of(bounds.binder),
            areas: of(bounds.areas),
            small: of(bounds.small),
        };
        // All mappings have the same length, so that freed rows can be reused.
        let len = host.part(bounds.anon.1) as u32;
        Self {
            anon: ctx.with(|w| w.vm.create_mapping(len)),
            anon_pages: plan.anon as u32,
            built: false,
            plan,
            threads: Vec::new(),
            objects: Vec::new(),
            blocks: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// Allocates a part of a new app's memory: `of` returns the indexes of this part for a given amount.
    pub(super) async fn grow<H: Host>(
        &mut self,
        ctx: &Ctx<'_>,
        host: &RefCell<H>,
        of: &dyn Fn(u64) -> Range<u64>,
    ) -> Served {
        let (plan, caches) = (self.plan, host.borrow().caches());
        for _ in of(plan.threads) {
            self.threads.push(Thread::fork(ctx, host).await?);
        }
        for (count, cache) in [(plan.areas, caches.vm_area_struct), (plan.small, caches.small)] {
            for _ in of(count) {
                self.objects.push(ctx.object(cache, H::ACCOUNT).await?);
            }
        }
        let table = Request::new(0, H::ACCOUNT | Gfp::ZERO);
        for _ in of(plan.tables) {
            self.blocks.push(ctx.kernel_block(table, Owner::PageTable).await?);
        }
        let transaction = Request::new(0, Gfp::GFP_KERNEL | Gfp::HIGHMEM | Gfp::ZERO);
        for _ in of(plan.binder) {
            self.blocks.push(ctx.kernel_block(transaction, Owner::Driver).await?);
        }
        for _ in of(plan.buffers) {
            self.add_buffer(ctx, host).await?;
        }
        for index in of(plan.anon) {
            ctx.fault_sized(self.anon, index as u32, Advice::None).await?;
        }
        Ok(())
    }

    async fn add_buffer<H: Host>(&mut self, ctx: &Ctx<'_>, host: &RefCell<H>) -> Served {
        let size = host.borrow_mut().buffer_pages();
        let graphics = host.borrow().graphics();
        let (blocks, result) = match graphics {
            Graphics::DmaBuf => ion_buffer(ctx, size).await,
            Graphics::Shmem => shmem_buffer(ctx, size).await,
        };
        self.buffers.push(blocks);
        result
    }

    /// Frees one of the buffers, if there is any, and makes a new one.
    pub(super) async fn replace_buffer<H: Host>(
        &mut self,
        ctx: &Ctx<'_>,
        host: &RefCell<H>,
    ) -> Served {
        if self.buffers.is_empty() {
            return Ok(());
        }
        let at = host.borrow_mut().random().below(self.buffers.len() as u64) as usize;
        free(ctx, &mut self.buffers.swap_remove(at));
        self.add_buffer(ctx, host).await
    }

    /// Frees a page of its memory and faults another.
    pub(super) async fn turn_over<H: Host>(&self, ctx: &Ctx<'_>, host: &RefCell<H>) -> Served {
        let some = || host.borrow_mut().random().below(self.anon_pages.into()) as u32;
        let (gone, used) = (some(), some());
        let cpu = ctx.cpu();
        ctx.with(|w| w.vm.unmap_page(cpu, self.anon, gone));
        ctx.fault_sized(self.anon, used, Advice::None).await
    }

    /// Ends the app.
    pub(super) fn exit(mut self, ctx: &Ctx<'_>) {
        let cpu = ctx.cpu();
        self.threads.drain(..).for_each(|thread| thread.exit(ctx));
        free(ctx, &mut self.blocks);
        self.buffers.drain(..).for_each(|mut buffer| free(ctx, &mut buffer));
        ctx.with(|w| {
            self.objects.drain(..).for_each(|object| w.vm.put_object(cpu, object));
            w.vm.remove_space(cpu, self.anon);
        });
    }
}

/// Makes a graphics buffer of this many pages as ion's system heap does: from the largest blocks available
/// without reclaim, the rest from single pages.
pub(super) async fn ion_buffer(ctx: &Ctx<'_>, size: u64) -> (Vec<Pfn>, Served) {
    let mut blocks = Vec::new();
    let (mut left, mut from) = (size, 0);
    while left > 0 {
        let order = ION_ORDERS[from];
        if pages(order) > left {
            from += 1;
            continue;
        }
        let gfp = Gfp::GFP_HIGHUSER | Gfp::ZERO | Gfp::NOWARN;
        let gfp = if order > 0 { gfp.without(Gfp::RECLAIM) | Gfp::NORETRY } else { gfp };
        match ctx.kernel_block(Request::new(order, gfp), Owner::Driver).await {
            Ok(block) => {
                blocks.push(block);
                left -= pages(order);
            }
            Err(OutOfMemory) if order > 0 => from += 1,
            Err(error) => return (blocks, Err(error)),
        }
    }
    (blocks, Ok(()))
}

/// Makes a graphics buffer of shmem pages.
async fn shmem_buffer(ctx: &Ctx<'_>, pages: u64) -> (Vec<Pfn>, Served) {
    let request = Request::new(0, Gfp::GFP_HIGHUSER | Gfp::RECLAIMABLE | Gfp::ZERO);
    let mut blocks = Vec::new();
    for _ in 0..pages {
        match ctx.kernel_block(request, Owner::Driver).await {
            Ok(page) => blocks.push(page),
            Err(error) => return (blocks, Err(error)),
        }
    }
    (blocks, Ok(()))
}

/// Frees kernel blocks.
fn free(ctx: &Ctx<'_>, blocks: &mut Vec<Pfn>) {
    let cpu = ctx.cpu();
    ctx.with(|w| blocks.drain(..).for_each(|block| w.vm.disown(cpu, block)));
}

/// The way in which a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// Page by page.
    Single,
    /// In readahead windows.
    Ahead,
}

/// Opens a file, reads at most this many of its pages, and closes it; returns the number of pages.
pub(super) async fn read_file(ctx: &Ctx<'_>, inode: InodeId, most: u32, how: Read) -> Served<u64> {
    ctx.open(inode).await?;
    let (space, len) = ctx.with(|w| {
        let space = w.vm.inodes().get(inode).space;
        (space, w.vm.spaces().get(space).len().min(most))
    });
    let result = match how {
        Read::Single => read_singly(ctx, space, len).await,
        Read::Ahead => ctx.read_pages(space, 0..len).await.map(|_| ()),
    };
    ctx.with(|w| w.vm.close(inode));
    result.map(|()| u64::from(len))
}

async fn read_singly(ctx: &Ctx<'_>, space: SpaceId, len: u32) -> Served {
    for index in 0..len {
        ctx.read_page(space, index).await?;
    }
    Ok(())
}
