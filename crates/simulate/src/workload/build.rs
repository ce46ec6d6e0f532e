//! A kernel build: a source tree, compile jobs on every CPU, and the link.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::Vm;
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::Advice;

use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::Scale;
use crate::sim::sched::TaskId;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::Random;
use crate::sim::{MILLISECOND, Nanos, SECOND};

/// CPU time of each program of a job except the compiler. (K)
const PROGRAM_TIME: Nanos = 2 * MILLISECOND;
/// Pages that a page table maps.
const TABLE_PAGES: u32 = 512;
/// Pages that a compiler faults between two slices of computation.
const RUN: u32 = 16;

/// What is built, and what a job of it does, on a whole machine.
#[derive(Debug)]
pub(super) struct Job {
    /// The least and the most pages of a compiler's memory, in equal shares of the jobs one after another.
    pub(super) pages: Vec<(u64, u64)>,
    /// CPU time.
    pub(super) time: Nanos,
    /// Programs of a job.
    pub(super) programs: u64,
    /// Pages of a source file.
    pub(super) source_pages: u32,
    /// Headers in use, and how many of them a job reads.
    pub(super) headers: (u64, u64),
    /// Pages of a header.
    pub(super) header_pages: u32,
    /// Pages of an object file.
    pub(super) object_pages: u32,
}

impl Job {
    /// Returns the approximate number of pages that all jobs touch, on a machine with `jobs` of them.
    pub(super) fn pages_of(&self, jobs: u64, scale: Scale) -> u64 {
        let headers = scale.of(self.headers.1) * u64::from(self.header_pages);
        jobs * (scale.of(self.mean_pages())
            + headers
            + u64::from(self.source_pages + 3 * self.object_pages))
    }

    fn mean_pages(&self) -> u64 {
        let means = self.pages.iter().map(|&(least, most)| u64::midpoint(least, most));
        means.sum::<u64>() / self.pages.len() as u64
    }

    /// Returns the range of pages of one job of many.
    fn range(&self, job: u64, jobs: u64) -> (u64, u64) {
        self.pages[(job * self.pages.len() as u64 / jobs) as usize]
    }
}

/// The files that persist from build to build, and the objects of the last one.
#[derive(Debug)]
pub(super) struct Tree {
    sources: Vec<InodeId>,
    headers: Vec<InodeId>,
    objects: RefCell<Vec<InodeId>>,
}

impl Tree {
    pub(super) fn new<O: Observer>(vm: &mut Vm<'_, O>, job: &Job, jobs: u64, scale: Scale) -> Self {
        let mut files = |count, pages| (0..count).map(|_| vm.create_file(pages)).collect();
        Self {
            sources: files(jobs, job.source_pages),
            headers: files(scale.of(job.headers.0).max(1), job.header_pages),
            objects: RefCell::default(),
        }
    }
}

/// A build in progress.
#[derive(Debug)]
pub(super) struct Build {
    tree: Rc<Tree>,
    job: Rc<Job>,
    pub(super) jobs: u64,
    scale: Scale,
    random: RefCell<Random>,
    next: Cell<u64>,
    pub(super) done: Cell<u64>,
    verify_jobs: bool,
}

impl Build {
    pub(super) fn new(
        tree: Rc<Tree>,
        job: Rc<Job>,
        jobs: u64,
        scale: Scale,
        random: Random,
    ) -> Self {
        let random = RefCell::new(random);
        let (next, done) = (Cell::new(0), Cell::new(0));
        Self { tree, job, jobs, scale, random, next, done, verify_jobs: false }
    }

    /// Verifies the allocator after every job.
    pub(super) fn verifying_jobs(self, verify_jobs: bool) -> Self {
        Self { verify_jobs, ..self }
    }

    fn below(&self, n: u64) -> u64 {
        self.random.borrow_mut().below(n)
    }
}

/// Runs a build to its end, with a task beside its jobs.
pub(super) fn run<'m>(
    executor: &mut Executor<'m>,
    build: &Rc<Build>,
    phase: &str,
    beside: impl FnOnce(&mut Executor<'m>) -> Option<TaskId>,
) -> Ran {
    let cpus = executor.with(|w| w.vm.allocator().cpus());
    let start = executor.spawn("make", Place::Near(0), |ctx| begin(ctx, Rc::clone(build)));
    executor.run(&[start], phase)?;
    let job = |cpu| executor.spawn("cc", Place::Near(cpu), |ctx| worker(ctx, Rc::clone(build)));
    let mut tasks: Vec<_> = (0..cpus).map(job).collect();
    tasks.extend(beside(executor));
    executor.run(&tasks, phase)?;
    let link = executor.spawn("ld", Place::Near(0), |ctx| link(ctx, Rc::clone(build)));
    executor.run(&[link], phase)
}

/// Does what `make clean` does: removes what a build wrote.
pub(super) async fn clean(ctx: &Ctx<'_>, tree: &Tree) {
    for object in tree.objects.take() {
        while !ctx.with(|w| {
            let cpu = w.sched.cpu_of(ctx.id);
            w.vm.remove_file(cpu, object)
        }) {
            ctx.wait_writes(SECOND / 10).await;
        }
    }
}

/// Cleans, and stats every file as make does.
async fn begin(ctx: Ctx<'_>, build: Rc<Build>) {
    clean(&ctx, &build.tree).await;
    for &file in build.tree.sources.iter().chain(&build.tree.headers) {
        if read_file(&ctx, file, 0).await.is_err() {
            ctx.end_program("make");
            return;
        }
    }
}

/// Runs a job slot of make.
async fn worker(ctx: Ctx<'_>, build: Rc<Build>) {
    while build.next.get() < build.jobs {
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

async fn compile(ctx: &Ctx<'_>, build: &Build, job: u64) -> Served {
    // A scaled job has a fraction of the processes, but at least the compiler's.
    for _ in 1..build.scale.of(build.job.programs) {
        ctx.run_program(PROGRAM_TIME).await?;
    }
    let process = ctx.start_program().await?;
    let (least, most) = build.job.range(job, build.jobs);
    let pages = build.scale.of(least + build.below(most - least + 1)).max(1) as u32;
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
) -> Served {
    let (tree, amounts) = (&build.tree, &build.job);
    read_file(ctx, tree.sources[job as usize], amounts.source_pages).await?;
    for _ in 0..build.scale.of(amounts.headers.1) {
        let header = tree.headers[build.below(tree.headers.len() as u64) as usize];
        read_file(ctx, header, amounts.header_pages).await?;
    }
    let pages = ctx.with(|w| w.vm.spaces().get(space).len());
    let (least, most) = amounts.range(job, build.jobs);
    let mean = build.scale.of(u64::midpoint(least, most)).max(1);
    let time = amounts.time * u64::from(RUN) / mean;
    for index in 0..pages {
        if index % TABLE_PAGES == 0 {
            let table = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
            tables.push(ctx.kernel_block(table, Owner::PageTable).await?);
        }
        // Where all memory may be huge, one fault brings the pages of the next ones.
        let huge = index % TABLE_PAGES == 0 && ctx.fault_huge(space, index, Advice::None).await;
        if !huge && ctx.with(|w| w.vm.spaces().slot(space, index)) == Slot::Empty {
            ctx.fault_sized(space, index, Advice::None).await?;
        }
        if index % RUN == RUN - 1 {
            think(ctx, time).await;
        }
    }
    let object = write_file(ctx, amounts.object_pages).await?;
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
async fn link(ctx: Ctx<'_>, build: Rc<Build>) {
    let objects = build.tree.objects.borrow().clone();
    let object_pages = build.job.object_pages;
    for &object in &objects {
        if read_file(&ctx, object, object_pages).await.is_err() {
            return ctx.end_program("ld");
        }
    }
    for _ in 0..2 {
        match write_file(&ctx, objects.len() as u32 * object_pages).await {
            Ok(image) => build.tree.objects.borrow_mut().push(image),
            Err(OutOfMemory) => return ctx.end_program("ld"),
        }
    }
}

/// Opens a file, reads its first pages, and closes it.
// Linux: readahead reads several pages at a time.
async fn read_file(ctx: &Ctx<'_>, inode: InodeId, pages: u32) -> Served {
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
async fn write_file(ctx: &Ctx<'_>, pages: u32) -> Served<InodeId> {
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
