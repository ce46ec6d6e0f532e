//! An app: its memory, and what the kernel holds for it.

use std::cell::RefCell;
use std::ops::Range;

use pageblock::frame::{Order, Pfn, pages};
use pageblock::request::{Gfp, Request};
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::SpaceId;

use super::sizes::{self, Sizes};
use super::{Phone, between, kill_where_short};
use crate::sim::task::{Ctx, OutOfMemory};
use crate::sim::world::World;

/// `THREAD_SIZE_ORDER` of arm64: 16 KiB in one piece, before stacks were mapped.
const STACK_ORDER: Order = 2;
/// The orders that ion's system heap tries, the largest first.
const ION_ORDERS: [Order; 3] = [8, 4, 0];

/// The slab caches of processes; sizes of arm64's 3.10. (K)
#[derive(Clone, Copy, Debug)]
pub(super) struct Caches {
    task_struct: CacheId,
    vm_area_struct: CacheId,
    small: CacheId,
}

impl Caches {
    pub(super) fn new(w: &mut World<'_>) -> Self {
        let mut cache =
            |name, size| w.vm.create_cache(CacheSpec { name, size, reclaimable: false });
        Self {
            task_struct: cache("task_struct", 3392),
            vm_area_struct: cache("vm_area_struct", 184),
            small: cache("kmalloc-128", 128),
        }
    }
}

/// A thread: its stack, and its task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    stack: Pfn,
    task: u32,
}

impl Thread {
    /// `copy_process`: the task first, then its stack.
    pub(super) async fn fork(ctx: &Ctx<'_>, caches: Caches) -> Result<Self, OutOfMemory> {
        let task = ctx.object(caches.task_struct, Gfp::GFP_KERNEL).await?;
        let stack = Request::new(STACK_ORDER, Gfp::GFP_KERNEL);
        match ctx.kernel_block(stack, Owner::Stack).await {
            Ok(stack) => Ok(Self { stack, task }),
            Err(error) => {
                let cpu = ctx.cpu();
                ctx.with(|w| w.vm.put_object(cpu, task));
                Err(error)
            }
        }
    }

    pub(super) fn exit(self, ctx: &Ctx<'_>) {
        let cpu = ctx.cpu();
        ctx.with(|w| {
            w.vm.disown(cpu, self.stack);
            w.vm.put_object(cpu, self.task);
        });
    }
}

/// A graphics buffer of so many pages, as ion's system heap makes it: of the largest blocks that are to
/// be had without effort, the rest of pages.
pub(in crate::workload) async fn ion_buffer(
    ctx: &Ctx<'_>,
    size: u64,
) -> (Vec<Pfn>, Result<(), OutOfMemory>) {
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

/// Gives kernel blocks back.
pub(in crate::workload) fn free(ctx: &Ctx<'_>, blocks: &mut Vec<Pfn>) {
    let cpu = ctx.cpu();
    ctx.with(|w| blocks.drain(..).for_each(|block| w.vm.disown(cpu, block)));
}

/// An app in memory.
#[derive(Debug)]
pub(super) struct Process {
    anon: SpaceId,
    /// Pages that the app uses of it.
    anon_pages: u32,
    /// Whether the launch got to its end once.
    launched: bool,
    plan: Plan,
    threads: Vec<Thread>,
    objects: Vec<u32>,
    /// Page tables and pages of transactions.
    blocks: Vec<Pfn>,
    buffers: Vec<Vec<Pfn>>,
}

/// How much a launch takes.
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
    /// An app that is forked and has nothing yet.
    pub(super) fn new(ctx: &Ctx<'_>, phone: &RefCell<Phone>) -> Self {
        let phone = &mut *phone.borrow_mut();
        let (sizes, random) = (phone.sizes, &mut phone.random);
        let mut of = |range| sizes.part(between(random, range));
        let plan = Plan {
            anon: of(sizes::ANON_PAGES),
            tables: of(sizes::TABLES),
            threads: of(sizes::THREADS),
            buffers: of(sizes::BUFFERS),
            binder: of(sizes::BINDER_PAGES),
            areas: of(sizes::VM_AREAS),
            small: of(sizes::SMALL_OBJECTS),
        };
        // All mappings are of one length, so that their rows are used again.
        let len = sizes.part(sizes::ANON_PAGES.1) as u32;
        Self {
            anon: ctx.with(|w| w.vm.create_mapping(len)),
            anon_pages: plan.anon as u32,
            launched: false,
            plan,
            threads: Vec::new(),
            objects: Vec::new(),
            blocks: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// Brings the app to the front: a new one is built up, of a known one a quarter of its memory is
    /// used; both read its files and some that all apps use.
    pub(super) async fn launch(
        &mut self,
        ctx: &Ctx<'_>,
        phone: &RefCell<Phone>,
        app: usize,
    ) -> Result<(), OutOfMemory> {
        let files = phone.borrow().files[app].clone();
        let framework = phone.borrow().framework.clone();
        let parts = sizes::LAUNCH_PARTS;
        for part in 0..parts {
            kill_where_short(ctx, phone);
            let of = |n: u64| (part * n / parts)..((part + 1) * n / parts);
            if self.launched {
                for index in of(self.plan.anon / 4) {
                    ctx.fault_base(self.anon, 4 * index as u32).await?;
                }
            } else {
                self.grow(ctx, phone, &of).await?;
            }
            for at in of(files.len() as u64) {
                read_file(ctx, files[at as usize], u32::MAX).await?;
            }
            for at in of(framework.len() as u64 / 2) {
                let other = phone.borrow_mut().random.below(2);
                read_file(ctx, framework[(2 * at + other) as usize], u32::MAX).await?;
            }
            ctx.sleep(sizes::LAUNCH_PAUSE).await;
        }
        self.launched = true;
        Ok(())
    }

    /// A part of what a new app takes.
    async fn grow(
        &mut self,
        ctx: &Ctx<'_>,
        phone: &RefCell<Phone>,
        of: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<(), OutOfMemory> {
        let (plan, caches) = (self.plan, phone.borrow().caches);
        for _ in of(plan.threads) {
            self.threads.push(Thread::fork(ctx, caches).await?);
        }
        for (count, cache) in [(plan.areas, caches.vm_area_struct), (plan.small, caches.small)] {
            for _ in of(count) {
                self.objects.push(ctx.object(cache, Gfp::GFP_KERNEL).await?);
            }
        }
        let table = Request::new(0, Gfp::GFP_KERNEL | Gfp::ZERO);
        for _ in of(plan.tables) {
            self.blocks.push(ctx.kernel_block(table, Owner::PageTable).await?);
        }
        let transaction = Request::new(0, Gfp::GFP_KERNEL | Gfp::HIGHMEM | Gfp::ZERO);
        for _ in of(plan.binder) {
            self.blocks.push(ctx.kernel_block(transaction, Owner::Driver).await?);
        }
        for _ in of(plan.buffers) {
            self.add_buffer(ctx, phone).await?;
        }
        for index in of(plan.anon) {
            ctx.fault_base(self.anon, index as u32).await?;
        }
        Ok(())
    }

    async fn add_buffer(
        &mut self,
        ctx: &Ctx<'_>,
        phone: &RefCell<Phone>,
    ) -> Result<(), OutOfMemory> {
        let size = between(&mut phone.borrow_mut().random, sizes::BUFFER_PAGES);
        let (blocks, result) = ion_buffer(ctx, size).await;
        self.buffers.push(blocks);
        result
    }

    /// The app is at the front until the next launch: part of its memory is given up and used anew, it
    /// reads files, and one of its buffers is replaced.
    pub(super) async fn be_used(
        &mut self,
        ctx: &Ctx<'_>,
        phone: &RefCell<Phone>,
    ) -> Result<(), OutOfMemory> {
        let sizes: Sizes = phone.borrow().sizes;
        for _ in 0..sizes::BETWEEN_LAUNCHES / sizes::USE_EVERY {
            kill_where_short(ctx, phone);
            for _ in 0..sizes.part(sizes::USE_ANON_PAGES) {
                let index = phone.borrow_mut().random.below(self.anon_pages.into()) as u32;
                let cpu = ctx.cpu();
                ctx.with(|w| w.vm.unmap_page(cpu, self.anon, index));
                let index = phone.borrow_mut().random.below(self.anon_pages.into()) as u32;
                ctx.fault_base(self.anon, index).await?;
            }
            let mut read = 0;
            while read < sizes.part(sizes::USE_FILE_PAGES) {
                let file = phone.borrow_mut().some_media();
                read += read_file(ctx, file, u32::MAX).await?;
            }
            if !self.buffers.is_empty() {
                let at = phone.borrow_mut().random.below(self.buffers.len() as u64) as usize;
                free(ctx, &mut self.buffers.swap_remove(at));
                self.add_buffer(ctx, phone).await?;
            }
            ctx.sleep(sizes::USE_EVERY).await;
        }
        Ok(())
    }

    /// The app ends.
    pub(super) fn exit(&mut self, ctx: &Ctx<'_>) {
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
    let mut result = Ok(u64::from(len));
    for index in 0..len {
        if let Err(error) = ctx.read_page(space, index).await {
            result = Err(error);
            break;
        }
    }
    ctx.with(|w| w.vm.close(inode));
    result
}
