//! What a round does: files, processes, kernel memory, bursts of huge pages.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock_vm::Vm;
use pageblock_vm::inode::InodeId;
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::held::{Held, TABLE_PAGES, table};
use super::{FILE_PAGES, HUGE_PAGES, PAUSE, Sizes};
use crate::sim::SECOND;
use crate::sim::sched::TaskId;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::Random;

/// Folders of files, which rounds fill in turn.
const FOLDERS: usize = 4;
/// Small files of a folder.
const SMALL_FILES: u64 = 64;
/// Rounds whose small files are kept.
const SMALL_ROUNDS: usize = 2;

/// The load between its rounds; a task takes it out of its place, and puts it back.
pub(super) type Shared = Rc<RefCell<Option<Load>>>;

/// What the load has.
#[derive(Debug)]
pub(super) struct Load {
    sizes: Sizes,
    random: Random,
    folders: [Vec<InodeId>; FOLDERS],
    small: VecDeque<Vec<InodeId>>,
    held: Held,
}

impl Load {
    pub(super) fn new<O: Observer>(vm: &mut Vm<'_, O>, sizes: Sizes, random: Random) -> Self {
        let held = Held::new(vm);
        Self { sizes, random, folders: Default::default(), small: VecDeque::new(), held }
    }
}

/// Runs the first part of a round: its files.
pub(super) async fn files(ctx: Ctx<'_>, shared: Shared, round: u64) {
    let Some(mut load) = shared.take() else { return };
    let mut done = write_and_read(&ctx, &mut load, round as usize).await;
    if done.is_ok() && load.sizes.small_files > 0 {
        done = small_files(&ctx, &mut load).await;
    }
    ctx.charge_accrued().await;
    match done {
        Ok(()) => *shared.borrow_mut() = Some(load),
        Err(OutOfMemory) => end(&ctx, load),
    }
}

/// Runs the last part of a round: kernel memory, the burst of huge pages, and the pause.
pub(super) async fn kernel_memory(ctx: Ctx<'_>, shared: Shared, round: u64) {
    let Some(mut load) = shared.take() else { return };
    let (least, most) = load.sizes.held[round as usize % load.sizes.held.len()];
    let pages = least + load.random.below(most - least + 1);
    let mut done = load.held.swing_to(&ctx, pages, &mut load.random).await;
    let each = load.sizes.burst_each;
    if done.is_ok() && round % each == each - 1 {
        done = burst(&ctx, load.sizes.burst).await;
    }
    ctx.charge_accrued().await;
    match done {
        Ok(()) => *shared.borrow_mut() = Some(load),
        Err(OutOfMemory) => return end(&ctx, load),
    }
    ctx.sleep(PAUSE).await;
}

/// Ends the load, which frees what it held.
fn end(ctx: &Ctx<'_>, mut load: Load) {
    load.held.release(ctx);
    ctx.end_program("the load");
}

/// Writes files that grow together, and reads as many files of this round and the last three.
async fn write_and_read(ctx: &Ctx<'_>, load: &mut Load, round: usize) -> Served {
    for file in std::mem::take(&mut load.folders[round % FOLDERS]) {
        remove(ctx, file).await;
    }
    let count = load.sizes.files;
    let mut open = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let inode = ctx.with(|w| w.vm.create_file(FILE_PAGES));
        load.folders[round % FOLDERS].push(inode);
        ctx.inode_buffer(inode, true).await?;
        open.push(ctx.open_file(inode).await?);
    }
    let (mut dirtied, mut written) = (0, Ok(()));
    'blocks: for block in 0..FILE_PAGES {
        for &inode in &load.folders[round % FOLDERS] {
            let space = ctx.with(|w| w.vm.inodes().get(inode).space);
            written = ctx.write_page(space, block, &mut dirtied).await;
            if written.is_err() {
                break 'blocks;
            }
        }
    }
    open.into_iter().for_each(|file| ctx.close_file(file));
    written?;
    for _ in 0..count {
        let older = load.random.below(round.min(FOLDERS - 1) as u64 + 1) as usize;
        let inode = load.folders[(round - older) % FOLDERS][load.random.below(count) as usize];
        read(ctx, inode).await?;
    }
    Ok(())
}

async fn read(ctx: &Ctx<'_>, inode: InodeId) -> Served {
    if ctx.with(|w| w.vm.inodes().missing_object(inode).is_some()) {
        ctx.inode_buffer(inode, false).await?;
    }
    let file = ctx.open_file(inode).await?;
    let space = ctx.with(|w| w.vm.inodes().get(inode).space);
    let read = ctx.read_pages(space, 0..FILE_PAGES).await;
    ctx.close_file(file);
    read.map(|_| ())
}

/// Creates many files of a page in folders of a page, and removes those of two rounds ago.
async fn small_files(ctx: &Ctx<'_>, load: &mut Load) -> Served {
    let (mut list, mut dirtied) = (Vec::new(), 0);
    for at in 0..load.sizes.small_files {
        let with_folder = if at % SMALL_FILES == 0 { 2 } else { 1 };
        for _ in 0..with_folder {
            let inode = ctx.with(|w| w.vm.create_file(1));
            list.push(inode);
            ctx.inode_buffer(inode, true).await?;
            let file = ctx.open_file(inode).await?;
            let space = ctx.with(|w| w.vm.inodes().get(inode).space);
            let written = ctx.write_page(space, 0, &mut dirtied).await;
            ctx.close_file(file);
            written?;
        }
    }
    load.small.push_back(list);
    if load.small.len() > SMALL_ROUNDS {
        for file in load.small.pop_front().into_iter().flatten() {
            remove(ctx, file).await;
        }
    }
    Ok(())
}

/// Removes a file; pages under writeback keep it.
async fn remove(ctx: &Ctx<'_>, file: InodeId) {
    let cpu = ctx.cpu();
    while !ctx.with(|w| w.vm.remove_file(cpu, file)) && !ctx.is_stopping() {
        ctx.wait_writes(SECOND / 10).await;
    }
}

/// The processes of a round, which the load starts one after the other.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pub(super) tasks: RefCell<Vec<TaskId>>,
    /// Those that run.
    running: Cell<usize>,
}

/// Starts processes; goes on to the next one when the last one runs its program (`posix_spawn`).
pub(super) async fn start(ctx: Ctx<'_>, processes: Rc<Processes>) {
    let tasks = processes.tasks.take();
    for (at, &task) in tasks.iter().enumerate() {
        ctx.start(task);
        while processes.running.get() <= at {
            ctx.block(None).await;
        }
    }
}

/// Runs a process that touches its memory at random, half as many times as it has pages, and ends.
pub(super) async fn toucher(
    ctx: Ctx<'_>,
    parent: TaskId,
    processes: Rc<Processes>,
    (pages, mut random): (u64, Random),
) {
    processes.running.update(|running| running + 1);
    ctx.wake(parent);
    let Ok(process) = ctx.start_program().await else {
        return ctx.end_program("a process");
    };
    let space = ctx.with(|w| w.vm.create_mapping(pages as u32));
    let mut tables = vec![None; pages.div_ceil(TABLE_PAGES) as usize];
    if touch(&ctx, space, pages, &mut tables, &mut random).await.is_err() {
        ctx.end_program("a process");
    }
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, space));
    tables.into_iter().flatten().for_each(|table| ctx.free_kernel_block(table));
    ctx.exit_program(process).await;
    ctx.charge_accrued().await;
}

async fn touch(
    ctx: &Ctx<'_>,
    space: SpaceId,
    pages: u64,
    tables: &mut [Option<Pfn>],
    random: &mut Random,
) -> Served {
    for _ in 0..pages / 2 {
        let index = random.below(pages);
        let of = &mut tables[(index / TABLE_PAGES) as usize];
        if of.is_none() {
            *of = Some(table(ctx).await?);
        }
        ctx.touch(space, index as u32, true, Advice::None).await?;
        ctx.yield_if_ahead().await;
    }
    Ok(())
}

/// Touches each region of a mapping once: a huge page, or a small one; and unmaps it.
async fn burst(ctx: &Ctx<'_>, regions: u64) -> Served {
    let space = ctx.with(|w| w.vm.create_mapping((regions * HUGE_PAGES) as u32));
    let mut tables = Vec::new();
    let mut done = Ok(());
    for region in 0..regions {
        done = fault(ctx, space, (region * HUGE_PAGES) as u32, &mut tables).await;
        if done.is_err() {
            break;
        }
    }
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, space));
    tables.into_iter().for_each(|table| ctx.free_kernel_block(table));
    done
}

async fn fault(ctx: &Ctx<'_>, space: SpaceId, first: u32, tables: &mut Vec<Pfn>) -> Served {
    ctx.charge_accrued().await;
    let start = ctx.now();
    // A huge page deposits its table for when it is split.
    tables.push(table(ctx).await?);
    let huge = ctx.fault_huge(space, first, Advice::HugePages).await;
    if !huge {
        ctx.fault_sized(space, first, Advice::HugePages).await?;
    }
    ctx.charge_accrued().await;
    let time = ctx.now() - start;
    let name = if huge { "burst-huge-1" } else { "burst-base-1" };
    ctx.with(|w| w.samples.entry(name.to_owned()).or_default().push(time));
    Ok(())
}
