//! A kernel build: a source tree, compile jobs on every CPU, and the link.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::Vm;
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::Sizes;
use crate::sim::machine_file::Scale;
use crate::sim::task::{Ctx, OutOfMemory};
use crate::sim::world::Random;
use crate::sim::{MILLISECOND, Nanos, SECOND};

/// The range of pages of a compiler's memory, from lib/string.c to mm/page_alloc.c; 13.4 thousand on average
/// (docs/experiments/sources.md#compile-jobs).
pub(super) const JOB_PAGES: (u64, u64) = (7_100, 20_600);
/// CPU time of a job: 1,271 s of a build of 2,400 jobs (docs/experiments/sources.md#hugealloc).
const JOB_TIME: Nanos = 530 * MILLISECOND;
/// Processes of a job: sh, gcc, cc1, as (docs/experiments/sources.md#compile-jobs).
pub(super) const PROGRAMS: u64 = 4;
/// CPU time of each except cc1. (K)
const PROGRAM_TIME: Nanos = 2 * MILLISECOND;
/// Pages of a source file. (K): 40 KB.
pub(super) const SOURCE_PAGES: u32 = 10;
/// Headers in use, and how many of them a job reads. (K)
pub(super) const HEADERS: (u64, u64) = (5_000, 300);
/// Pages of a header. (K)
pub(super) const HEADER_PAGES: u32 = 3;
/// Pages of an object file. (K): 64 KB.
pub(super) const OBJECT_PAGES: u32 = 16;
/// Pages that a page table maps.
const TABLE_PAGES: u32 = 512;
/// Pages that a compiler faults between two slices of computation.
const RUN: u32 = 16;

/// Returns the approximate number of pages that a job touches.
pub(super) fn pages_of_job(scale: Scale) -> u64 {
    let headers = scale.of(HEADERS.1) * u64::from(HEADER_PAGES);
    scale.of(mean_pages()) + headers + u64::from(SOURCE_PAGES + 3 * OBJECT_PAGES)
}

const fn mean_pages() -> u64 {
    u64::midpoint(JOB_PAGES.0, JOB_PAGES.1)
}

/// The files that persist from build to build, and the objects of the last one.
#[derive(Debug)]
pub(super) struct Tree {
    sources: Vec<InodeId>,
    headers: Vec<InodeId>,
    objects: RefCell<Vec<InodeId>>,
}

impl Tree {
    pub(super) fn new<O: Observer>(vm: &mut Vm<'_, O>, sizes: Sizes) -> Self {
        let mut files = |count, pages| (0..count).map(|_| vm.create_file(pages)).collect();
        Self {
            sources: files(sizes.jobs, SOURCE_PAGES),
            headers: files(sizes.scale.of(HEADERS.0).max(1), HEADER_PAGES),
            objects: RefCell::default(),
        }
    }
}

/// A build in progress.
#[derive(Debug)]
pub(super) struct Build {
    tree: Rc<Tree>,
    pub(super) sizes: Sizes,
    random: RefCell<Random>,
    next: Cell<u64>,
    pub(super) done: Cell<u64>,
    verify_jobs: bool,
}

impl Build {
    pub(super) fn new(tree: Rc<Tree>, sizes: Sizes, random: Random, verify_jobs: bool) -> Self {
        let random = RefCell::new(random);
        Self { tree, sizes, random, next: Cell::new(0), done: Cell::new(0), verify_jobs }
    }

    fn below(&self, n: u64) -> u64 {
        self.random.borrow_mut().below(n)
    }
}

/// Does what `make clean` does, and stats every file as make does.
pub(super) async fn begin(ctx: Ctx<'_>, build: Rc<Build>) {
    for object in build.tree.objects.take() {
        while !ctx.with(|w| {
            let cpu = w.sched.cpu_of(ctx.id);
            w.vm.remove_file(cpu, object)
        }) {
            ctx.wait_writes(SECOND / 10).await;
        }
    }
    for &file in build.tree.sources.iter().chain(&build.tree.headers) {
        if read_file(&ctx, file, 0).await.is_err() {
            ctx.end_program("make");
            return;
        }
    }
}

/// Runs a job slot of make.
pub(super) async fn worker(ctx: Ctx<'_>, build: Rc<Build>) {
    while build.next.get() < build.sizes.jobs {
        let job = build.next.replace(build.next.get() + 1);
        if compile(&ctx, &build, job).await.is_err() {
            ctx.end_program("a compile job");
        }
        build.done.set(build.done.get() + 1);
        if build.verify_jobs
            && let Err(broken) = ctx.with(|w| w.vm.allocator().check())
        {
            ctx.fail(&broken.to_string());
            return;
        }
    }
}

async fn compile(ctx: &Ctx<'_>, build: &Build, job: u64) -> Result<(), OutOfMemory> {
    // A scaled job has a fraction of the processes, but at least the compiler's.
    for _ in 1..build.sizes.scale.of(PROGRAMS) {
        ctx.run_program(PROGRAM_TIME).await?;
    }
    let process = ctx.start_program().await?;
    let (least, most) = JOB_PAGES;
    let pages = build.sizes.scale.of(least + build.below(most - least + 1)).max(1) as u32;
    let space = ctx.with(|w| w.vm.create_mapping(pages));
    let mut tables = Vec::new();
    let compiled = compile_in(ctx, build, job, space, &mut tables).await;
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, space));
    for table in tables {
        ctx.free_kernel_block(table);
    }
    ctx.exit_program(process).await;
    compiled
}

async fn compile_in(
    ctx: &Ctx<'_>,
    build: &Build,
    job: u64,
    space: SpaceId,
    tables: &mut Vec<Pfn>,
) -> Result<(), OutOfMemory> {
    let tree = &build.tree;
    read_file(ctx, tree.sources[job as usize], SOURCE_PAGES).await?;
    for _ in 0..build.sizes.scale.of(HEADERS.1) {
        let header = tree.headers[build.below(tree.headers.len() as u64) as usize];
        read_file(ctx, header, HEADER_PAGES).await?;
    }
    let pages = ctx.with(|w| w.vm.spaces().get(space).len());
    let time = JOB_TIME * u64::from(RUN) / build.sizes.scale.of(mean_pages()).max(1);
    for index in 0..pages {
        if index % TABLE_PAGES == 0 {
            let table = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
            tables.push(ctx.kernel_block(table, Owner::PageTable).await?);
        }
        ctx.fault_sized(space, index, Advice::None).await?;
        if index % RUN == RUN - 1 {
            think(ctx, time).await;
        }
    }
    let object = write_file(ctx, OBJECT_PAGES).await?;
    tree.objects.borrow_mut().push(object);
    Ok(())
}

/// Models a program's user time.
async fn think(ctx: &Ctx<'_>, time: Nanos) {
    ctx.spend(time);
    ctx.with(|w| w.user += time);
    ctx.charge_accrued().await;
}

/// Links: reads every object and writes as much, twice (vmlinux.o, vmlinux).
pub(super) async fn link(ctx: Ctx<'_>, build: Rc<Build>) {
    let objects = build.tree.objects.borrow().clone();
    for &object in &objects {
        if read_file(&ctx, object, OBJECT_PAGES).await.is_err() {
            return ctx.end_program("ld");
        }
    }
    for _ in 0..2 {
        match write_file(&ctx, objects.len() as u32 * OBJECT_PAGES).await {
            Ok(image) => build.tree.objects.borrow_mut().push(image),
            Err(OutOfMemory) => return ctx.end_program("ld"),
        }
    }
}

/// Opens a file, reads its first pages, and closes it.
// Linux: readahead reads several pages at a time.
async fn read_file(ctx: &Ctx<'_>, inode: InodeId, pages: u32) -> Result<(), OutOfMemory> {
    if ctx.with(|w| w.vm.inodes().missing_object(inode).is_some()) {
        ctx.inode_buffer(inode, false).await?;
    }
    ctx.open(inode).await?;
    let space = ctx.with(|w| w.vm.inodes().get(inode).space);
    let mut read = Ok(());
    for index in 0..pages {
        read = ctx.read_page(space, index).await.map(|_| ());
        if read.is_err() {
            break;
        }
    }
    ctx.with(|w| w.vm.close(inode));
    read
}

/// Writes a new file.
async fn write_file(ctx: &Ctx<'_>, pages: u32) -> Result<InodeId, OutOfMemory> {
    let inode = ctx.with(|w| w.vm.create_file(pages.max(1)));
    ctx.inode_buffer(inode, true).await?;
    ctx.open(inode).await?;
    let space = ctx.with(|w| w.vm.inodes().get(inode).space);
    let mut dirtied = 0;
    let mut written = Ok(());
    for index in 0..pages {
        written = ctx.write_page(space, index, &mut dirtied).await;
        if written.is_err() {
            break;
        }
    }
    ctx.with(|w| w.vm.close(inode));
    written.map(|()| inode)
}
