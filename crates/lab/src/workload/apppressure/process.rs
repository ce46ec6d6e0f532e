//! An app or a tab: its memory, and what the kernel holds for it.

use std::cell::RefCell;
use std::ops::Range;

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::SpaceId;

use super::super::android::process::{free, ion_buffer};
use super::Device;
use super::sizes::{self, Graphics, PARTS, Sizes};
use crate::sim::Nanos;
use crate::sim::task::{Ctx, OutOfMemory};
use crate::sim::world::World;

/// Slab caches of processes. (K): sizes of 6.x on 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caches {
    task_struct: CacheId,
    vm_area_struct: CacheId,
    pub(super) small: CacheId,
}

impl Caches {
    pub(super) fn new(w: &mut World<'_>) -> Self {
        let mut cache =
            |name, size| w.vm.create_cache(CacheSpec { name, size, reclaimable: false });
        Self {
            task_struct: cache("task_struct", 4800),
            vm_area_struct: cache("vm_area_struct", 184),
            small: cache("kmalloc-128", 128),
        }
    }
}

/// A thread: its stack, whose pages are mapped together, and its task.
#[derive(Debug)]
pub(super) struct Thread {
    stack: Vec<Pfn>,
    task: u32,
}

impl Thread {
    pub(super) async fn fork(ctx: &Ctx<'_>, caches: Caches) -> Result<Self, OutOfMemory> {
        let task = ctx.object(caches.task_struct, Gfp::GFP_KERNEL).await?;
        let mut thread = Self { stack: Vec::new(), task };
        for request in ctx.with(|w| w.vm.config().stack_requests()) {
            match ctx.kernel_block(request, Owner::Stack).await {
                Ok(page) => thread.stack.push(page),
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
pub(super) struct Process {
    pub(super) anon: SpaceId,
    /// Pages that it uses of it.
    pub(super) anon_pages: u32,
    /// It was built up once.
    built: bool,
    plan: Plan,
    threads: Vec<Thread>,
    objects: Vec<u32>,
    /// Page tables and pages of transactions.
    blocks: Vec<Pfn>,
    buffers: Vec<Vec<Pfn>>,
}

/// How much it takes to build it up.
#[derive(Clone, Copy, Debug)]
struct Plan {
    anon: u64,
    tables: u64,
    threads: u64,
    buffers: u64,
    binder: u64,
    areas: u64,
    small: u64,
}

impl Process {
    /// One that has nothing yet.
    pub(super) fn new(ctx: &Ctx<'_>, device: &RefCell<Device>) -> Self {
        let device = &mut *device.borrow_mut();
        let (sizes, random) = (device.sizes, &mut device.random);
        let spec = sizes.spec;
        let mut of = |range| sizes.of_range(random, range);
        let plan = Plan {
            anon: of(spec.anon),
            tables: of(spec.tables),
            threads: of(spec.threads),
            buffers: of(spec.buffers),
            binder: of(sizes::BINDER_PAGES),
            areas: of(sizes::VM_AREAS),
            small: of(sizes::SMALL_OBJECTS),
        };
        // All mappings are of one length, so that their rows are used again.
        let len = sizes.part(spec.anon.1) as u32;
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

    /// Brings it to the front, from the request to when it shows itself: a new one is built up; of one that is
    /// known a part of its memory is used, from another page on each time, and a part of its files read.
    pub(super) async fn launch(
        &mut self,
        ctx: &Ctx<'_>,
        device: &RefCell<Device>,
        app: usize,
    ) -> Result<(), OutOfMemory> {
        let (sizes, files) = (device.borrow().sizes, device.borrow().files[app].clone());
        let spec = sizes.spec;
        let think = sizes.time(if self.built { spec.think.1 } else { spec.think.0 }) / PARTS;
        let shared = device.borrow().shared.clone();
        let warm = self.built;
        for part in 0..PARTS {
            let of = |n: u64| (part * n / PARTS)..((part + 1) * n / PARTS);
            self.think(ctx, think).await;
            if warm {
                let first = device.borrow_mut().random.below(spec.warm_part);
                for index in of(self.plan.anon / spec.warm_part) {
                    ctx.touch(self.anon, (spec.warm_part * index + first) as u32, true).await?;
                }
            } else {
                self.build(ctx, device, &of).await?;
            }
            let skip = if warm { spec.warm_files } else { 1 };
            for at in of(files.len() as u64).filter(|at| at % skip == 0) {
                read_file(ctx, files[at as usize], u32::MAX).await?;
            }
            for at in of(shared.len() as u64 / 2) {
                let other = device.borrow_mut().random.below(2);
                read_file(ctx, shared[(2 * at + other) as usize], u32::MAX).await?;
            }
        }
        if warm && !self.buffers.is_empty() {
            self.replace_buffer(ctx, device).await?;
        }
        self.built = true;
        ctx.pay().await;
        Ok(())
    }

    async fn think(&self, ctx: &Ctx<'_>, time: Nanos) {
        ctx.spend(time);
        ctx.with(|w| w.user += time);
        ctx.pay().await;
    }

    /// A part of what a new app takes.
    async fn build(
        &mut self,
        ctx: &Ctx<'_>,
        device: &RefCell<Device>,
        of: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<(), OutOfMemory> {
        let (plan, caches) = (self.plan, device.borrow().caches);
        for _ in of(plan.threads) {
            self.threads.push(Thread::fork(ctx, caches).await?);
        }
        for (count, cache) in [(plan.areas, caches.vm_area_struct), (plan.small, caches.small)] {
            for _ in of(count) {
                self.objects.push(ctx.object(cache, Gfp::GFP_KERNEL_ACCOUNT).await?);
            }
        }
        let table = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
        for _ in of(plan.tables) {
            self.blocks.push(ctx.kernel_block(table, Owner::PageTable).await?);
        }
        let transaction = Request::new(0, Gfp::GFP_KERNEL | Gfp::HIGHMEM | Gfp::ZERO);
        for _ in of(plan.binder) {
            self.blocks.push(ctx.kernel_block(transaction, Owner::Driver).await?);
        }
        for _ in of(plan.buffers) {
            self.add_buffer(ctx, device).await?;
        }
        for index in of(plan.anon) {
            ctx.fault_base(self.anon, index as u32).await?;
        }
        Ok(())
    }

    async fn add_buffer(
        &mut self,
        ctx: &Ctx<'_>,
        device: &RefCell<Device>,
    ) -> Result<(), OutOfMemory> {
        let (pages, graphics) = {
            let Device { sizes, random, .. } = &mut *device.borrow_mut();
            (sizes.of_range(random, sizes.spec.buffer_pages), sizes.spec.graphics)
        };
        let (blocks, result) = match graphics {
            Graphics::DmaBuf => ion_buffer(ctx, pages).await,
            Graphics::Shmem => shmem_buffer(ctx, pages).await,
        };
        self.buffers.push(blocks);
        result
    }

    async fn replace_buffer(
        &mut self,
        ctx: &Ctx<'_>,
        device: &RefCell<Device>,
    ) -> Result<(), OutOfMemory> {
        let at = device.borrow_mut().random.below(self.buffers.len() as u64) as usize;
        free(ctx, &mut self.buffers.swap_remove(at));
        self.add_buffer(ctx, device).await
    }

    /// It is at the front for a while: part of its memory is given up and used anew, it reads files, and
    /// one of its buffers is replaced.
    pub(super) async fn be_used(
        &mut self,
        ctx: &Ctx<'_>,
        device: &RefCell<Device>,
    ) -> Result<(), OutOfMemory> {
        let sizes: Sizes = device.borrow().sizes;
        for _ in 0..sizes.spec.used / sizes::TURN {
            for _ in 0..sizes.part(sizes::TURN_ANON) {
                let some = || device.borrow_mut().random.below(self.anon_pages.into()) as u32;
                let (gone, used) = (some(), some());
                let cpu = ctx.cpu();
                ctx.with(|w| w.vm.unmap_page(cpu, self.anon, gone));
                ctx.fault_base(self.anon, used).await?;
            }
            let mut read = 0;
            while read < sizes.part(sizes::TURN_FILES) {
                let file = device.borrow_mut().some_media();
                read += read_file(ctx, file, u32::MAX).await?;
            }
            if !self.buffers.is_empty() {
                self.replace_buffer(ctx, device).await?;
            }
            ctx.sleep(sizes::TURN).await;
        }
        Ok(())
    }

    /// It ends.
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

/// A graphics buffer of shared memory.
async fn shmem_buffer(ctx: &Ctx<'_>, pages: u64) -> (Vec<Pfn>, Result<(), OutOfMemory>) {
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

/// Opens a file, reads at most so many pages of it, and closes it; gives the pages.
pub(super) async fn read_file(
    ctx: &Ctx<'_>,
    inode: InodeId,
    most: u32,
) -> Result<u64, OutOfMemory> {
    ctx.open(inode).await?;
    let (space, len) = ctx.with(|w| {
        let space = w.vm.inodes().get(inode).space;
        (space, w.vm.spaces().get(space).len().min(most))
    });
    let result = ctx.read_pages(space, 0..len).await;
    ctx.with(|w| w.vm.close(inode));
    result.map(|_| u64::from(len))
}
