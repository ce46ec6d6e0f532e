//! thpfioscale: fio fills memory with the pages of small files, then reads them at random while a program
//! faults memory that should be backed by huge pages.
//!
//! As in mmtests of 2018-11-22 (413542d3); docs/experiments/sources.md#thpfioscale. Each job writes block 0 of
//! every file of its own, then block 1, and so on: all files grow together. The readers pick a file at random,
//! read its 16 blocks in random order, and pick the next.

use std::cell::Cell;
use std::rc::Rc;

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::ThpDefrag;
use pageblock_measure::value::names;
use pageblock_vm::config::Filesystem;
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::{Head, Outcome, Workload, boot, check, monitors};
use crate::error::Error;
use crate::sim::daemons::sync;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::files::OpenFile;
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::task::{Ctx, Served};
use crate::sim::world::Random;
use crate::sim::{MILLISECOND, Nanos};

/// fio jobs (`THPFIOSCALE_FIO_THREADS`).
pub const JOBS: u64 = 4;
/// Pages of a file of 65,536 bytes.
pub const FILE_PAGES: u32 = 16;
/// Files whose descriptors fill a page of fio's own memory: a quarter of a page each
/// (docs/experiments/sources.md#files-on-xfs).
pub const FILES_A_HEAP_PAGE: u64 = 4;
/// CPUs of a node that the benchmark reserves for fio, and by which it divides the remaining ones.
const CPUS_FOR_FIO: u64 = 4;
/// Pages of a region.
const HUGE_PAGES: u64 = 512;

// The share of a run's real time that each phase takes: runs at 1/4 to 1/32 under 4.20, 6.9 and 6.10 spend 13
// to 22 % on creating the files with `sync`, 70 to 83 % on reading, and the rest on faulting.
const CREATING: f64 = 0.16;
const READING: f64 = 0.75;
const FAULTING: f64 = 0.09;

/// The configuration of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// With the kernel's default settings.
    #[default]
    Default,
    /// `echo always > transparent_hugepage/defrag`.
    Defrag,
    /// The program uses `MADV_HUGEPAGE`.
    Madvhugepage,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Default, Self::Defrag, Self::Madvhugepage];
}

impl Workload for Form {
    /// The names are those of mmtests' configurations.
    fn head(&self) -> Head<'_> {
        let (name, summary) = match self {
            Self::Default => (
                "thpfioscale",
                "fio on small files while a program faults huge pages (fragmentation avoidance, Nov 2018)",
            ),
            Self::Defrag => {
                ("thpfioscale-defrag", "the same with transparent_hugepage/defrag=always")
            }
            Self::Madvhugepage => ("thpfioscale-madvhugepage", "the same with MADV_HUGEPAGE"),
        };
        Head { name, summary, machine: "skylake-1s", tables: include_str!("thpfioscale.toml") }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(machine).map(|_| ())
    }

    fn filesystem(&self) -> Filesystem {
        Filesystem::Xfs
    }

    fn logs(&self) -> bool {
        true
    }

    fn set_up(&self, kernel: &mut Kernel) {
        if *self == Self::Defrag {
            kernel.huge.thp_defrag = ThpDefrag::Always;
        }
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(machine)?;
        let durations = run(executor, sizes, *self, seed)?;
        let counter = |name: &str, ns| (name.to_owned(), ns / MILLISECOND);
        Ok(Outcome {
            counters: vec![
                counter("simulated_init_ms", durations.init),
                counter(names::SIMULATED_ELAPSED_MS, durations.elapsed),
            ],
            notes: Vec::new(),
        })
    }

    fn clean_up(&self, executor: &mut Executor<'_>) -> Result<(), Error> {
        clean_up(executor)
    }
}

/// The sizes of the benchmark on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Files of each job.
    pub files: u64,
    /// Threads that fault.
    pub threads: u64,
    /// Huge-page-sized regions that each thread faults.
    pub regions: u64,
}

impl Sizes {
    /// Returns the sizes on a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine with fewer than 8 CPUs a node.
    pub fn of(machine: &MachineSpec) -> Result<Self, Error> {
        let cpus = machine.cpu_nodes.len() as u64 / machine.nodes() as u64;
        let threads = cpus.saturating_sub(CPUS_FOR_FIO) / CPUS_FOR_FIO;
        if threads == 0 {
            return Err(Error::Workload(format!(
                "thpfioscale needs 8 CPUs a node; machine {} has {cpus}",
                machine.name
            )));
        }
        let files = machine.pages() * 3 / 2 / u64::from(FILE_PAGES) / JOBS;
        // Three quarters of node 0; half of that is faulted.
        let size = machine.node_pages(0) * 3 / 4;
        let regions = size / threads / 512 / 2;
        if files == 0 || regions == 0 {
            return Err(Error::Workload(format!(
                "machine {} is too small for thpfioscale",
                machine.name
            )));
        }
        Ok(Self { files, threads, regions })
    }

    /// Returns the pages of all files.
    #[must_use]
    pub const fn file_pages(&self) -> u64 {
        self.files * JOBS * FILE_PAGES as u64
    }
}

/// The durations of the phases, in simulated nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Durations {
    /// Creating the files, and `sync`.
    pub init: Nanos,
    /// From the first file to the last fault.
    pub elapsed: Nanos,
}

/// Runs it from boot to the end. Afterwards the world's samples have the fault latencies as `fault-base-T` and
/// `fault-huge-T`.
///
/// # Errors
/// [`Error::Simulation`] if a page was lost or a task could not continue.
fn run(executor: &mut Executor<'_>, sizes: Sizes, form: Form, seed: u64) -> Ran<Durations> {
    boot::run(executor)?;
    check(executor, "after boot")?;
    let start = executor.with(|w| {
        w.start_counting();
        w.dirtiers = JOBS;
        w.begin_phase(CREATING, Pace::Pages(sizes.file_pages()));
        w.now()
    });
    let mut random = Random::new(seed, 1);
    let cpus = executor.with(|w| w.vm.allocator().cpus() as u64);
    let mut near = || Place::Near(random.below(cpus) as usize);
    monitors::spawn(executor, &mut near);

    let files: Vec<Rc<Vec<InodeId>>> = executor.with(|w| {
        let mut job = || (0..sizes.files).map(|_| w.vm.create_file(FILE_PAGES)).collect();
        (0..JOBS).map(|_| Rc::new(job())).collect()
    });
    let writers: Vec<_> = files
        .iter()
        .map(|files| executor.spawn("fio-writer", near(), |ctx| writer(ctx, Rc::clone(files))))
        .collect();
    executor.run(&writers, "creating files")?;
    check(executor, "after creating files")?;
    let syncer = executor.spawn("sync", near(), |ctx| async move { sync(&ctx).await });
    executor.run(&[syncer], "sync")?;
    let init = executor.with(|w| {
        let init = w.now() - start;
        w.begin_phase(READING, Pace::Time(init));
        init
    });
    check(executor, "after sync")?;

    let stop = Rc::new(Cell::new(false));
    let readers: Vec<_> = (2..)
        .zip(&files)
        .map(|(purpose, files)| {
            let (files, stop) = (Rc::clone(files), Rc::clone(&stop));
            let random = Random::new(seed, purpose);
            executor.spawn("fio-reader", near(), |ctx| reader(ctx, files, random, stop))
        })
        .collect();
    let warm_up = executor.spawn("sleep", near(), |ctx| async move { ctx.sleep(init).await });
    executor.run(&[warm_up], "reading")?;
    check(executor, "after reading")?;

    executor.with(|w| w.begin_phase(FAULTING, Pace::Steps(sizes.threads * sizes.regions)));
    let threads: Vec<_> = (0..sizes.threads)
        .map(|_| executor.spawn("thpscale", near(), |ctx| faulter(ctx, sizes, form)))
        .collect();
    executor.run(&threads, "faulting")?;
    check(executor, "after faulting")?;
    let elapsed = executor.with(|w| w.now()) - start;
    stop.set(true);
    executor.run(&readers, "the end of reading")?;
    Ok(Durations { init, elapsed })
}

/// Removes the files. Not part of the measured time.
///
/// # Errors
/// [`Error::Simulation`] if something was lost.
fn clean_up(executor: &mut Executor<'_>) -> Result<(), Error> {
    executor.with(|w| {
        let files: Vec<InodeId> =
            (0..w.vm.inodes().len()).filter(|&i| w.vm.inodes().exists(i)).collect();
        w.vm.drop_buffers(0);
        for inode in files {
            if w.vm.inodes().get(inode).users == 0 {
                w.vm.remove_file(0, inode);
            }
        }
    });
    check(executor, "after removing the files")
}

/// Runs fio's job `writer`: `readwrite=write`, `create_on_open=1`, `fallocate=none`, `blocksize=4096`, files in
/// turn.
async fn writer(ctx: Ctx<'_>, files: Rc<Vec<InodeId>>) {
    let heap =
        ctx.with(|w| w.vm.create_mapping((files.len() as u64).div_ceil(FILES_A_HEAP_PAGE) as u32));
    let mut open = Vec::with_capacity(files.len());
    if write_all(&ctx, &files, heap, &mut open).await.is_err() {
        ctx.end_program("a writer of fio");
    }
    // A writer that died did not open all of them.
    for file in open {
        ctx.close_file(file);
    }
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, heap));
}

async fn write_all(
    ctx: &Ctx<'_>,
    files: &[InodeId],
    heap: u32,
    open: &mut Vec<OpenFile>,
) -> Served {
    fault_heap(ctx, heap).await?;
    let mut dirtied = 0;
    for block in 0..FILE_PAGES {
        for &inode in files {
            if block == 0 {
                ctx.inode_buffer(inode, true).await?;
                open.push(ctx.open_file(inode).await?);
                ctx.commit_inode(inode, false).await?;
            }
            let space = ctx.with(|w| w.vm.inodes().get(inode).space);
            ctx.write_page(space, block, &mut dirtied).await?;
        }
    }
    ctx.charge_accrued().await;
    Ok(())
}

/// Returns the blocks of a file in the order in which one visit reads them, each once:
/// `file_service_type=random:16`, and fio's map of read blocks is full after 16. `fio --write_iolog` of 3.33
/// shows this.
fn visit(random: &mut Random) -> [u32; FILE_PAGES as usize] {
    let mut blocks = std::array::from_fn(|block| block as u32);
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.below(last as u64 + 1) as usize);
    }
    blocks
}

/// Faults the heap in which fio describes every file before it starts.
async fn fault_heap(ctx: &Ctx<'_>, heap: u32) -> Served {
    let pages = ctx.with(|w| w.vm.spaces().get(heap).len());
    for index in 0..pages {
        ctx.fault_sized(heap, index, Advice::None).await?;
    }
    Ok(())
}

/// Runs fio's job `reader`: `randread`, `file_service_type=random:16`, until it is stopped. Files that it has
/// opened stay open.
async fn reader(ctx: Ctx<'_>, files: Rc<Vec<InodeId>>, mut random: Random, stop: Rc<Cell<bool>>) {
    let heap =
        ctx.with(|w| w.vm.create_mapping((files.len() as u64).div_ceil(FILES_A_HEAP_PAGE) as u32));
    let mut open: Vec<Option<OpenFile>> = files.iter().map(|_| None).collect();
    if read_all(&ctx, &files, heap, &mut open, &mut random, &stop).await.is_err() {
        ctx.end_program("a reader of fio");
    }
    for file in open.into_iter().flatten() {
        ctx.close_file(file);
    }
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, heap));
}

async fn read_all(
    ctx: &Ctx<'_>,
    files: &[InodeId],
    heap: u32,
    open: &mut [Option<OpenFile>],
    random: &mut Random,
    stop: &Cell<bool>,
) -> Served {
    fault_heap(ctx, heap).await?;
    while !stop.get() {
        let at = random.below(files.len() as u64) as usize;
        let inode = files[at];
        if open[at].is_none() {
            // The inode of an evicted file is read first.
            if ctx.with(|w| w.vm.inodes().missing_object(inode).is_some()) {
                ctx.inode_buffer(inode, false).await?;
            }
            open[at] = Some(ctx.open_file(inode).await?);
        }
        let space = ctx.with(|w| w.vm.inodes().get(inode).space);
        for block in visit(random) {
            ctx.read_page(space, block).await?;
        }
    }
    Ok(())
}

/// Runs a thread of the program that faults: for each region it touches the first byte, checks whether the page
/// is huge, and touches the rest.
async fn faulter(ctx: Ctx<'_>, sizes: Sizes, form: Form) {
    let mapping = ctx.with(|w| w.vm.create_mapping((sizes.regions * HUGE_PAGES) as u32));
    let mut tables = Vec::new();
    if fault_all(&ctx, sizes, form, mapping, &mut tables).await.is_err() {
        ctx.end_program("a thread that faults");
    }
    for table in tables {
        ctx.free_kernel_block(table);
    }
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, mapping));
}

async fn fault_all(
    ctx: &Ctx<'_>,
    sizes: Sizes,
    form: Form,
    mapping: SpaceId,
    tables: &mut Vec<Pfn>,
) -> Served {
    let advice = if form == Form::Madvhugepage { Advice::HugePages } else { Advice::None };
    for region in 0..sizes.regions {
        let first = (region * HUGE_PAGES) as u32;
        ctx.charge_accrued().await;
        let start = ctx.now();
        // The region's page table, deposited for when a huge page is split.
        let table = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
        tables.push(ctx.kernel_block(table, Owner::PageTable).await?);
        let huge = ctx.fault_huge(mapping, first, advice).await;
        if !huge {
            for index in first..first + HUGE_PAGES as u32 {
                ctx.fault_sized(mapping, index, advice).await?;
            }
        }
        ctx.charge_accrued().await;
        let latency = ctx.now() - start;
        let kind = if huge { "huge" } else { "base" };
        let name = format!("fault-{kind}-{}", sizes.threads);
        ctx.with(|w| {
            w.samples.entry(name).or_default().push(latency);
            w.steps += 1;
        });
    }
    Ok(())
}
