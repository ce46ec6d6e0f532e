//! parallelio: memcachetest in the foreground while dd writes a file of growing size.
//!
//! As in mmtests of 2013-07-15 (d02347b3); docs/experiments/sources.md#parallelio. For every size of the file,
//! eight times: memcached starts and is filled with items of 16 KiB, memcachetest gets and sets them at random
//! for 200 s, and dd begins its file when the memory in use reaches four fifths of what memcached is meant to
//! take.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::daemons;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::{Random, World};
use crate::sim::{MILLISECOND, Nanos, SECOND};
use pageblock_measure::value::names;

/// Iterations of each size. mmtests' default is five; the published writes correspond to eight files of each
/// size.
pub const ITERATIONS: u64 = 8;
/// Pages of a MiB.
const MIB: u64 = 256;
/// The bytes that memcachetest assumes for an item of 16 KiB.
const ITEM_BYTES: u64 = 16_384 + 4096;
/// Anonymous pages that memcached uses for an item, in hundredths
/// (docs/experiments/sources.md#memcached-and-network).
pub const ITEM_PAGES: u64 = 431;
/// The time for which memcachetest runs once the pool is full.
const DURATION: Nanos = 200 * SECOND;
/// Pages that dd writes in a call (`bs=1M`).
const DD_BLOCK: u32 = MIB as u32;
/// The interval at which the benchmark checks the memory in use before dd.
pub const DD_LOOKS: Nanos = 2 * SECOND;
/// The delay after that.
pub const DD_WAITS: Nanos = 5 * SECOND;
/// The memory in use at which dd begins, in percent: four fifths of the pool's four fifths.
pub const DD_BEGINS: u64 = 64;
/// Sets in percent of operations; the others are gets (memcachetest's `-P`). (K)
pub const SETS: u64 = 33;
/// The variation of an operation's time, in thousandths either way. (K)
const JITTER: u64 = 50;

/// memcachetest beside dd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParallelIo;

/// The sizes of the benchmark on a machine, in pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Items in the pool.
    pub items: u64,
    /// dd's files in pages, with their sizes in MiB on the whole machine, which name the rows.
    pub files: Vec<(u64, u64)>,
    /// The time for which memcachetest runs, scaled with the machine.
    pub duration: Nanos,
}

impl Sizes {
    /// Returns the sizes on a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine without swap.
    pub fn of(machine: &MachineSpec) -> Result<Self, Error> {
        if machine.swap_pages == 0 {
            return Err(Error::Workload(format!(
                "parallelio needs swap space; machine {} has none",
                machine.name
            )));
        }
        // Step 0 has no file, step 1 a tenth of memory; each further step adds 7/30.
        let file = |pages: u64, step: u64| match step {
            0 => 0,
            step => pages / 10 + (step - 1) * (pages * 7 / 10) / 3,
        };
        let scale = machine.scale;
        // The benchmark's swap file is as large as memory, and that of a smaller machine is not rounded to
        // blocks as its memory is. MemTotal excludes the kernel itself.
        let whole = u64::from(machine.swap_pages) * scale.denominator / scale.numerator;
        let name = |step| file(whole.saturating_sub(MIB), step) / MIB;
        let files: Vec<_> = (0..4).map(|step| (file(machine.pages(), step), name(step))).collect();
        let items = machine.pages() * 4096 * 8 / 10 / ITEM_BYTES;
        if items == 0 || files[1].0 == 0 || files[1].1 == 0 {
            return Err(Error::Workload(format!(
                "machine {} is too small for parallelio",
                machine.name
            )));
        }
        Ok(Self { items, files, duration: scale.of(DURATION) })
    }

    /// Returns the pages of an item.
    const fn pages_of(item: u64) -> std::ops::Range<u32> {
        (item * ITEM_PAGES / 100) as u32..((item + 1) * ITEM_PAGES / 100) as u32
    }

    /// Returns the pages that all iterations write and fill, including the warm-up iteration.
    fn pages(&self) -> u64 {
        let written: u64 = self.files.iter().map(|(pages, _)| pages).sum();
        let filled = (ITERATIONS * self.files.len() as u64 + 1) * u64::from(self.pool_pages());
        filled + ITERATIONS * written
    }

    const fn pool_pages(&self) -> u32 {
        Self::pages_of(self.items - 1).end
    }

    /// Returns a time scaled with the machine.
    #[must_use]
    pub const fn shrunk(&self, time: Nanos) -> Nanos {
        self.duration / (DURATION / time)
    }
}

impl Workload for ParallelIo {
    fn head(&self) -> Head<'_> {
        Head {
            name: "parallelio",
            summary: "memcachetest while dd writes files of growing size (fair zone allocator, Aug 2013)",
            machine: "numa-8g",
            tables: include_str!("parallelio.toml"),
        }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(machine).map(|_| ())
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(machine)?;
        boot::run(executor)?;
        executor.with(|w| {
            w.vm.keep_ages();
            w.begin_phase(1.0, Pace::Pages(sizes.pages()));
        });
        // One iteration to warm up, not counted.
        let mut purpose = 1;
        iterate(executor, &sizes, 0, (seed, purpose))?;
        let start = executor.with(|w| {
            w.start_counting();
            w.vm.take_ages();
            w.now()
        });
        for &(pages, mib) in &sizes.files {
            let mut rounds = Vec::new();
            for _ in 0..ITERATIONS {
                purpose += 1;
                rounds.push(iterate(executor, &sizes, pages, (seed, purpose))?);
                executor.with(sample_ages);
            }
            check(executor, &format!("after the files of {mib} MiB"))?;
            // As in the benchmark's report, all values are from the round with the fewest operations.
            let Some(worst) = rounds.into_iter().min_by_key(|round| round.rate) else { continue };
            executor.with(|w| {
                for (name, value) in worst.rows() {
                    w.samples.insert(format!("{name}-{mib}M"), vec![value]);
                }
            });
        }
        let elapsed = executor.with(|w| w.now()) - start;
        Ok(Outcome {
            counters: vec![(names::SIMULATED_ELAPSED_MS.to_owned(), elapsed / MILLISECOND)],
            notes: vec![
                "Samples of parallelio: memcachetest is operations a second, io-duration ms, the others counts, all of the \
                 iteration with the fewest operations; reclaim-age-ZONE is the mean age in ms of the pages \
                 reclaimed there in an iteration."
                    .to_owned(),
            ],
        })
    }
}

/// The measurements of an iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Operations per second.
    rate: u64,
    io_ms: u64,
    swapped: u64,
    swapped_in: u64,
    minor: u64,
    major: u64,
}

impl Round {
    const fn rows(&self) -> [(&'static str, u64); 6] {
        [
            ("memcachetest", self.rate),
            ("io-duration", self.io_ms),
            ("swaptotal", self.swapped),
            ("swapin", self.swapped_in),
            ("minorfaults", self.minor),
            ("majorfaults", self.major),
        ]
    }
}

/// The state that the two programs share.
#[derive(Default)]
struct Shared {
    /// Whether memcachetest has ended.
    over: Cell<bool>,
    round: RefCell<Round>,
}

/// Runs one iteration, from the start of memcached to its end.
fn iterate(
    executor: &mut Executor<'_>,
    sizes: &Sizes,
    file: u64,
    (seed, purpose): (u64, u64),
) -> Ran<Round> {
    let mut random = Random::new(seed, purpose);
    let before = executor.with(|w| w.vm.stat);
    let cpus = executor.with(|w| w.vm.allocator().cpus() as u64);
    let mut near = || Place::Near(random.below(cpus) as usize);
    let (foreground, background) = (near(), near());
    let shared = Rc::new(Shared::default());
    let (sizes_of, tells) = (sizes.clone(), Rc::clone(&shared));
    let mut tasks = vec![
        executor.spawn("memcached", foreground, |ctx| memcached(ctx, sizes_of, random, tells)),
    ];
    if file > 0 {
        let (sizes, tells) = (sizes.clone(), Rc::clone(&shared));
        tasks.push(executor.spawn("dd", background, |ctx| dd(ctx, file as u32, sizes, tells)));
    }
    executor.run(&tasks, "memcachetest and dd")?;
    let after = executor.with(|w| w.vm.stat);
    let mut round = *shared.round.borrow();
    let major = after.pgmajfault - before.pgmajfault;
    round.swapped_in = after.pswpin - before.pswpin;
    round.swapped = round.swapped_in + after.pswpout - before.pswpout;
    round.minor = (after.pgfault - before.pgfault).saturating_sub(major);
    round.major = major;
    Ok(round)
}

/// Samples the mean ages of the pages reclaimed in an iteration.
fn sample_ages(world: &mut World<'_>) {
    let ages = world.vm.take_ages();
    let mut samples = Vec::new();
    for (zone, taken) in world.vm.allocator().zones().iter().zip(ages) {
        if let Some(mean) = taken.mean_ms() {
            samples.push((format!("reclaim-age-{}-{}", zone.node(), zone.kind()), mean));
        }
    }
    for (name, mean) in samples {
        world.samples.entry(name).or_default().push(mean);
    }
}

/// Runs memcached and its only client. They wait for each other, so they are one task.
async fn memcached(ctx: Ctx<'_>, sizes: Sizes, mut random: Random, shared: Rc<Shared>) {
    let pool = ctx.with(|w| w.vm.create_mapping(sizes.pool_pages()));
    match serve(&ctx, &sizes, pool, &mut random).await {
        Ok(rate) => shared.round.borrow_mut().rate = rate,
        Err(OutOfMemory) => ctx.end_program("memcached"),
    }
    shared.over.set(true);
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, pool));
}

/// Fills the pool, then gets and sets; returns the operations per second as memcachetest computes them: the
/// sets that fill the pool count, their time does not.
async fn serve(ctx: &Ctx<'_>, sizes: &Sizes, pool: SpaceId, random: &mut Random) -> Served<u64> {
    for item in 0..sizes.items {
        operate(ctx, pool, item, true, random).await?;
    }
    ctx.charge_accrued().await;
    let start = ctx.now();
    let mut operations = sizes.items;
    while ctx.now() < start + sizes.duration {
        let item = random.below(sizes.items);
        let set = random.below(100) < SETS;
        operate(ctx, pool, item, set, random).await?;
        operations += 1;
    }
    let elapsed = u128::from((ctx.now() - start).max(1));
    Ok((u128::from(operations * SECOND) / elapsed) as u64)
}

/// Gets or sets an item: reads or writes all of it.
async fn operate(
    ctx: &Ctx<'_>,
    pool: SpaceId,
    item: u64,
    set: bool,
    random: &mut Random,
) -> Served {
    for index in Sizes::pages_of(item) {
        ctx.touch(pool, index, set, Advice::None).await?;
    }
    let varies = 1000 - JITTER + random.below(2 * JITTER + 1);
    ctx.with(|w| {
        w.pending += w.costs.memcached * varies / 1000;
        w.user += w.costs.user.memcached * varies / 1000;
    });
    ctx.yield_if_ahead().await;
    Ok(())
}

/// Runs `dd if=/dev/zero of=largefile bs=1M conv=fdatasync`; then removes the file.
async fn dd(ctx: Ctx<'_>, pages: u32, sizes: Sizes, shared: Rc<Shared>) {
    // Including page cache, as `free` counted then.
    let in_use = |world: &mut World<'_>| {
        let zones = world.vm.allocator().zones();
        let managed: u64 = zones.iter().map(pageblock::zone::Zone::managed).sum();
        let free: u64 = zones.iter().map(pageblock::zone::Zone::free_pages).sum();
        (managed - free) * 100 >= managed * DD_BEGINS
    };
    while !shared.over.get() && !ctx.with(in_use) {
        ctx.sleep(sizes.shrunk(DD_LOOKS)).await;
    }
    ctx.sleep(sizes.shrunk(DD_WAITS)).await;
    let start = ctx.now();
    match write(&ctx, pages).await {
        Ok(()) => shared.round.borrow_mut().io_ms = (ctx.now() - start) / MILLISECOND,
        Err(OutOfMemory) => ctx.end_program("dd"),
    }
}

async fn write(ctx: &Ctx<'_>, pages: u32) -> Served {
    let inode = ctx.with(|w| w.vm.create_file(pages));
    ctx.inode_buffer(inode, true).await?;
    ctx.open(inode).await?;
    let space = ctx.with(|w| w.vm.inodes().get(inode).space);
    let mut dirtied = 0;
    for begin in (0..pages).step_by(DD_BLOCK as usize) {
        ctx.write_pages(space, begin..pages.min(begin + DD_BLOCK), &mut dirtied).await?;
    }
    // fdatasync.
    loop {
        daemons::write_file(ctx, space).await;
        let (dirty, writeback) = ctx.with(|w| {
            let space = w.vm.spaces().get(space);
            (space.dirty, space.writeback)
        });
        if (dirty, writeback) == (0, 0) {
            break;
        }
        ctx.wait_writes(100 * MILLISECOND).await;
    }
    let cpu = ctx.cpu();
    ctx.with(|w| {
        w.vm.close(inode);
        if !w.vm.remove_file(cpu, inode) {
            w.failure.get_or_insert_with(|| "dd's file is still being written".to_owned());
        }
    });
    Ok(())
}
