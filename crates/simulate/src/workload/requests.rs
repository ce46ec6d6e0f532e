//! A workload whose requests come from outside: batches of them, each request at a time of the virtual clock.
//!
//! Each task has a stream of batches ([`Source`]), and serves them in order. A task that is late, because an allocation
//! stalled or the disk was slow, goes on at once: the machine is a closed loop.

use std::fmt::Debug;
use std::sync::Arc;

use pageblock::frame::{ORDER_LIMIT, Pfn};
use pageblock::request::{Gfp, Request};
use pageblock_vm::inode::InodeId;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::{Advice, HPAGE_PMD_ORDER};

use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::files::OpenFile;
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::{MICROSECOND, Nanos, SECOND};

/// Ids are below this: a task's table of what it holds has a place for each.
pub const IDS: u32 = 1 << 24;
/// The most pages of a file or a mapping: 64 GiB.
const PAGES: u64 = 1 << 24;
/// The largest slab object, in bytes (`KMALLOC_MAX_CACHE_SIZE` of SLUB).
const OBJECT: u64 = 8192;
/// How far a request may be ahead of its time, so that the task need not sleep before each.
const AHEAD: Nanos = 20 * MICROSECOND;
/// The tasks of a workload, at most.
pub const TASKS: u32 = 256;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Allocates a block of order `amount` for the kernel; it becomes `id`.
    Alloc,
    /// Allocates a block of order `amount` for the kernel that counts as reclaimable; it becomes `id`.
    AllocReclaimable,
    /// Allocates a slab object of `amount` bytes; it becomes `id`.
    Object,
    /// Allocates a slab object of `amount` bytes of a reclaimable cache; it becomes `id`.
    ObjectReclaimable,
    /// Creates and opens a file of `amount` pages; it becomes `id`.
    File,
    /// Reads `amount` pages of the file `id` from page `offset` on.
    Read,
    /// Writes `amount` pages of the file `id` from page `offset` on.
    Write,
    /// Maps `amount` pages of anonymous memory; the mapping becomes `id`.
    Map,
    /// Maps `amount` pages of anonymous memory, advised to be huge (`MADV_HUGEPAGE`); the mapping becomes `id`.
    MapHuge,
    /// Writes to `amount` pages of the mapping `id` from page `offset` on; they are faulted or swapped in.
    Touch,
    /// Unmaps `amount` pages of the mapping `id` from page `offset` on, and frees them; it can be written to again.
    Unmap,
    /// Frees `id`: a block, an object, a file (which is removed) or a mapping.
    Free,
}

impl Operation {
    /// Every operation with its name, by code.
    pub const ALL: [(&str, Self); 12] = [
        ("alloc", Self::Alloc),
        ("alloc_reclaimable", Self::AllocReclaimable),
        ("object", Self::Object),
        ("object_reclaimable", Self::ObjectReclaimable),
        ("file", Self::File),
        ("read", Self::Read),
        ("write", Self::Write),
        ("map", Self::Map),
        ("map_huge", Self::MapHuge),
        ("touch", Self::Touch),
        ("free", Self::Free),
        // Codes of users stay: what is new comes last.
        ("unmap", Self::Unmap),
    ];
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// When, from the start of the workload on; within a task it never decreases.
    pub time_ns: Nanos,
    /// What.
    pub operation: Operation,
    /// Of what, or what it becomes; below [`IDS`].
    pub id: u32,
    /// How much.
    pub amount: u64,
    /// The first page.
    pub offset: u64,
    /// The flags of a block or an object; [`Gfp::NONE`] for those of the operation.
    pub flags: Gfp,
}

/// The requests of one task in one run.
pub trait Stream {
    /// Returns the next requests; `None` at the end.
    ///
    /// # Errors
    /// In words, if there are none because of a mistake.
    fn next(&mut self) -> Result<Option<Vec<Ask>>, String>;
}

/// Where requests come from.
pub trait Source: Debug + Send + Sync {
    /// Begins the stream of a task in the run with a seed, on a machine of this many pages.
    ///
    /// # Errors
    /// In words, if it cannot begin.
    fn open(&self, seed: u64, task: u32, pages: u64) -> Result<Box<dyn Stream>, String>;
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Its name.
    pub name: String,
    /// The machine that it runs on where none is named.
    pub machine: String,
    /// The tasks, 1 to [`TASKS`]; they start on the CPUs in turn.
    pub tasks: u32,
    /// Its tables and measures, as TOML; empty for none.
    pub tables: String,
    /// Whether the time of each request is kept: samples `latency-OPERATION`.
    pub latency: bool,
    /// The text of the file that describes it; empty where the requests come from outside.
    pub text: String,
    /// Where the requests come from.
    pub source: Arc<dyn Source>,
}

impl Workload for Requests {
    fn head(&self) -> Head<'_> {
        let Self { name, machine, tables, .. } = self;
        Head { name, summary: "requests that come from outside", machine, tables }
    }

    fn fits(&self, _machine: &MachineSpec) -> Result<(), Error> {
        match self.tasks {
            1..=TASKS => Ok(()),
            tasks => Err(Error::Workload(format!("{tasks} tasks: 1 to {TASKS} are possible"))),
        }
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        boot::run(executor)?;
        let cpus = executor.with(|w| {
            w.start_counting();
            // How many requests there will be nobody knows.
            w.begin_phase(1.0, Pace::Steps(0));
            w.vm.allocator().cpus()
        });
        let mut tasks = Vec::new();
        for number in 0..self.tasks {
            let stream =
                self.source.open(seed, number, machine.pages()).map_err(Error::Workload)?;
            let place = Place::Near(number as usize % cpus);
            let body = |ctx| serve(ctx, number, stream, self.latency);
            tasks.push(executor.spawn("requests", place, body));
        }
        executor.run(&tasks, "requests")?;
        check(executor, "after the last request")?;
        let requests = executor.with(|w| w.steps);
        let mut notes = vec![
            "Samples late-N are how late the last request of each batch of task N was, ns."
                .to_owned(),
        ];
        if self.latency {
            notes
                .push("Samples latency-OPERATION are the times of single requests, ns.".to_owned());
        }
        Ok(Outcome { counters: vec![("requests".to_owned(), requests)], notes })
    }
}

/// What an id stands for.
enum Held {
    /// Nothing: it was freed, or no request made it.
    Nothing,
    /// A request for it failed.
    Failed,
    Block(Pfn),
    Object(u32),
    File(OpenFile, InodeId, u64),
    Mapping {
        space: SpaceId,
        pages: u64,
        huge: bool,
    },
}

/// A task's state.
struct Task {
    held: Vec<Held>,
    /// The caches by size and kind, smallest first.
    caches: Vec<(u64, bool, CacheId)>,
    dirtied: u32,
    failed: u64,
}

async fn serve(ctx: Ctx<'_>, number: u32, mut stream: Box<dyn Stream>, latency: bool) {
    let start = ctx.now();
    let mut task = Task { held: Vec::new(), caches: Vec::new(), dirtied: 0, failed: 0 };
    let mut served: u64 = 0;
    let mut last: Nanos = 0;
    while !ctx.is_stopping() {
        let batch = match stream.next() {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(mistake) => return ctx.fail(&mistake),
        };
        for ask in &batch {
            let time = ask.time_ns;
            if time < last {
                let what = format!("time_ns {time} is before that of the request above, {last}");
                return ctx.fail(&place(number, served, &what));
            }
            last = time;
            let due = start.saturating_add(time);
            let now = ctx.now();
            if due > now.saturating_add(AHEAD) {
                ctx.sleep(due - now).await;
            }
            let begun = ctx.now();
            if let Err(mistake) = task.serve(&ctx, ask).await {
                return ctx.fail(&place(number, served, &mistake));
            }
            if latency {
                took(&ctx, ask.operation, ctx.now() - begun);
            }
            served += 1;
            ctx.with(|w| w.steps += 1);
            ctx.yield_if_ahead().await;
        }
        let late = ctx.now().saturating_sub(start.saturating_add(last));
        ctx.with(|w| w.samples.entry(format!("late-{number}")).or_default().push(late));
    }
    ctx.charge_accrued().await;
    let failed = task.failed;
    ctx.with(|w| {
        if failed > 0 {
            w.samples.entry("requests-failed".to_owned()).or_default().push(failed);
        }
    });
}

/// Keeps the time of a request.
fn took(ctx: &Ctx<'_>, operation: Operation, time: Nanos) {
    let named = Operation::ALL.iter().find(|(_, of)| *of == operation);
    let name = named.map_or("", |(name, _)| name);
    ctx.with(|w| w.samples.entry(format!("latency-{name}")).or_default().push(time));
}

fn place(task: u32, request: u64, what: &str) -> String {
    format!("task {task}, request {request}: {what}")
}

impl Task {
    /// Serves a request; an error is a mistake in it.
    async fn serve(&mut self, ctx: &Ctx<'_>, ask: &Ask) -> Result<(), String> {
        let Ask { operation, id, amount, offset, flags, .. } = *ask;
        let at = id as usize;
        if id >= IDS {
            return Err(format!(
                "id {id}: ids are below {IDS}; those of what was freed can be used again"
            ));
        }
        if at >= self.held.len() {
            self.held.resize_with(at + 1, || Held::Nothing);
        }
        let allocates = matches!(
            operation,
            Operation::Alloc
                | Operation::AllocReclaimable
                | Operation::Object
                | Operation::ObjectReclaimable
        );
        if flags != Gfp::NONE && !allocates {
            return Err("flags: only blocks and objects have them".to_owned());
        }
        match operation {
            Operation::Free => return self.free(ctx, at).await,
            Operation::Read | Operation::Write => return self.transfer(ctx, ask).await,
            Operation::Touch => return self.touch(ctx, ask).await,
            Operation::Unmap => return self.unmap(ctx, ask).await,
            _ => {}
        }
        if !matches!(self.held[at], Held::Nothing | Held::Failed) {
            return Err(format!("id {id} stands for something else; free it first"));
        }
        if offset != 0 {
            return Err(format!("offset {offset}: only read, write, touch and unmap have one"));
        }
        self.held[at] = match self.make(ctx, operation, amount, flags).await? {
            Ok(held) => held,
            Err(OutOfMemory) => {
                self.failed += 1;
                Held::Failed
            }
        };
        Ok(())
    }

    async fn make(
        &mut self,
        ctx: &Ctx<'_>,
        operation: Operation,
        amount: u64,
        flags: Gfp,
    ) -> Result<Served<Held>, String> {
        let own = if flags == Gfp::NONE { Gfp::GFP_KERNEL } else { flags };
        Ok(match operation {
            Operation::Alloc => block(ctx, amount, own).await?,
            Operation::AllocReclaimable => block(ctx, amount, own | Gfp::RECLAIMABLE).await?,
            Operation::Object | Operation::ObjectReclaimable => {
                let reclaimable = operation == Operation::ObjectReclaimable;
                let cache = self.cache(ctx, amount, reclaimable)?;
                ctx.object(cache, own).await.map(Held::Object)
            }
            Operation::File => {
                let pages = within("file", amount, 1, PAGES)?;
                let inode = ctx.with(|w| w.vm.create_file(pages as u32));
                ctx.open_file(inode).await.map(|file| Held::File(file, inode, pages))
            }
            _ => {
                let huge = operation == Operation::MapHuge;
                let pages = within("mapping", amount, 1, PAGES)?;
                let space = ctx.with(|w| w.vm.create_mapping(pages as u32));
                Ok(Held::Mapping { space, pages, huge })
            }
        })
    }

    /// Returns the cache of objects of at least this size.
    fn cache(&mut self, ctx: &Ctx<'_>, bytes: u64, reclaimable: bool) -> Result<CacheId, String> {
        let bytes = within("object of bytes", bytes, 1, OBJECT)?;
        // kmalloc's sizes.
        let size = match bytes {
            65..=96 => 96,
            129..=192 => 192,
            _ => bytes.next_power_of_two().max(8),
        };
        let known = self.caches.iter().find(|(of, kind, _)| (*of, *kind) == (size, reclaimable));
        if let Some((.., cache)) = known {
            return Ok(*cache);
        }
        let name = if reclaimable { "kmalloc-rcl" } else { "kmalloc" };
        let spec = CacheSpec { name, size: size as u32, reclaimable };
        let cache = ctx.with(|w| w.vm.create_cache(spec));
        self.caches.push((size, reclaimable, cache));
        Ok(cache)
    }

    async fn transfer(&mut self, ctx: &Ctx<'_>, ask: &Ask) -> Result<(), String> {
        let (inode, pages) = match &self.held[ask.id as usize] {
            Held::File(_, inode, pages) => (*inode, *pages),
            Held::Failed => return Ok(()),
            _ => return Err(format!("id {} is no file", ask.id)),
        };
        let space = ctx.with(|w| w.vm.inodes().get(inode).space);
        let span = span(ask, pages)?;
        let mut at = span.start;
        while at < span.end {
            let done = match ask.operation {
                Operation::Read => ctx.read_page(space, at).await.map(|_| 1),
                _ => ctx.write_folio(space, at, span.end, &mut self.dirtied).await,
            };
            self.failed += u64::from(done.is_err());
            at += done.unwrap_or(1);
        }
        Ok(())
    }

    async fn touch(&mut self, ctx: &Ctx<'_>, ask: &Ask) -> Result<(), String> {
        let (space, pages, huge) = match self.held[ask.id as usize] {
            Held::Mapping { space, pages, huge } => (space, pages, huge),
            Held::Failed => return Ok(()),
            _ => return Err(format!("id {} is no mapping", ask.id)),
        };
        let advice = if huge { Advice::HugePages } else { Advice::None };
        let size = 1_u32 << HPAGE_PMD_ORDER;
        for index in span(ask, pages)? {
            let whole = u64::from(index / size * size + size) <= pages;
            if whole && ctx.with(|w| w.vm.has_room(space, index / size * size, HPAGE_PMD_ORDER)) {
                ctx.fault_huge(space, index / size * size, advice).await;
            }
            if ctx.touch(space, index, true, advice).await.is_err() {
                self.failed += 1;
                if ctx.with(|w| w.vm.is_killed(space)) {
                    ctx.end_program("a task with requests");
                    break;
                }
            }
            ctx.yield_if_ahead().await;
        }
        Ok(())
    }

    async fn unmap(&mut self, ctx: &Ctx<'_>, ask: &Ask) -> Result<(), String> {
        let (space, pages) = match self.held[ask.id as usize] {
            Held::Mapping { space, pages, .. } => (space, pages),
            Held::Failed => return Ok(()),
            _ => return Err(format!("id {} is no mapping", ask.id)),
        };
        let cpu = ctx.cpu();
        for index in span(ask, pages)? {
            if ctx.with(|w| w.vm.is_killed(space)) {
                break;
            }
            ctx.with(|w| w.vm.unmap_page(cpu, space, index));
            ctx.yield_if_ahead().await;
        }
        Ok(())
    }

    async fn free(&mut self, ctx: &Ctx<'_>, at: usize) -> Result<(), String> {
        let cpu = ctx.cpu();
        match std::mem::replace(&mut self.held[at], Held::Nothing) {
            Held::Nothing => return Err(format!("free of id {at}, which stands for nothing")),
            Held::Failed => {}
            Held::Block(pfn) => ctx.free_kernel_block(pfn),
            Held::Object(object) => ctx.with(|w| {
                w.pending += w.costs.object;
                w.vm.put_object(cpu, object);
            }),
            Held::File(file, inode, _) => {
                ctx.close_file(file);
                // Pages under writeback keep it.
                while !ctx.with(|w| w.vm.remove_file(cpu, inode)) && !ctx.is_stopping() {
                    ctx.wait_writes(SECOND).await;
                }
            }
            Held::Mapping { space, .. } => ctx.with(|w| w.vm.remove_space(cpu, space)),
        }
        Ok(())
    }
}

async fn block(ctx: &Ctx<'_>, order: u64, flags: Gfp) -> Result<Served<Held>, String> {
    let largest = ctx.with(|w| w.vm.allocator().geometry().max_order).min(ORDER_LIMIT);
    let order = within("order", order, 0, largest.into())? as u8;
    let flags = if order > 0 { flags | Gfp::COMP } else { flags };
    Ok(ctx.kernel_block(Request::new(order, flags), Owner::Driver).await.map(Held::Block))
}

fn within(what: &str, amount: u64, min: u64, max: u64) -> Result<u64, String> {
    match (min..=max).contains(&amount) {
        true => Ok(amount),
        false => Err(format!("{what} {amount}: allowed: {min} to {max}")),
    }
}

/// Returns the pages of a request.
fn span(ask: &Ask, pages: u64) -> Result<std::ops::Range<u32>, String> {
    let Ask { id, offset, amount, .. } = *ask;
    match offset.checked_add(amount) {
        Some(end) if end <= pages => Ok(offset as u32..end as u32),
        _ => Err(format!("{amount} pages from {offset} on: {id} has {pages}")),
    }
}
