//! hugealloc: kernel builds one after another without a reboot, beside a memory cache that serves a network,
//! while a program requests batches of huge pages.
//!
//! After Weiner's description of his benchmark of freelist hygiene (docs/experiments/sources.md#hugealloc),
//! whose source is not public. The memory of a compile job and of a cache item is measured. A smaller machine
//! compiles proportionally fewer and smaller jobs, and a job takes the full time: it runs part of every
//! build, at the memory pressure of the whole machine. Guests compute nothing, for which an emulator has no time; so
//! kswapd and huge pages have more of a build, and get more of them.

mod amounts;
mod load;

pub use amounts::Amounts;
pub use load::{HUGE_PAGES, LOOK_EVERY};

use std::cell::Cell;
use std::rc::Rc;

use pageblock::movement::Movements;
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::{ThpDefrag, ThpEnabled};
use pageblock_measure::Counters;
use pageblock_measure::value::names;
use pageblock_vm::config::Filesystem;

use super::build::{self, Build, Job, Tree};
use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::sim::progress::Pace;
use crate::sim::world::{Random, World};
use crate::sim::{MILLISECOND, Nanos};

/// Compile jobs of a defconfig build. (K)
const JOBS: u64 = 2400;
/// CPU time of a compile job: 1,271 s for 2,400 jobs (docs/experiments/sources.md#hugealloc).
const JOB_TIME: Nanos = 530 * MILLISECOND;

/// A compile job with that much computation: sh, gcc, cc1 and as; a compiler's memory from lib/string.c to
/// mm/page_alloc.c, 13.4 thousand pages on average (docs/experiments/sources.md#compile-jobs). (K): files of 40 KB,
/// headers, object files of 64 KB.
pub(super) fn job(time: Nanos) -> Job {
    Job {
        pages: vec![(7_100, 20_600)],
        time,
        programs: 4,
        source_pages: 10,
        headers: (5_000, 300),
        header_pages: 3,
        object_pages: 16,
    }
}

/// Batches of huge pages during a build: with [`BATCH_PART`] as many attempts as published, 67,211.
const BATCHES: u64 = 600;
/// A batch requests this fraction of all pageblocks. (K)
const BATCH_PART: u64 = 8;
/// The size of the memory cache, in percent of memory. **Fitted**, among 35, 40, 42 and 45, to the pages
/// swapped out and the attempts refused under the first policy.
const CACHE_PERCENT: u64 = 45;

/// The benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hugealloc {
    /// Builds one after another.
    pub builds: u32,
    /// CPU time of a compile job, beside what its faults and files take, in nanoseconds.
    pub job_time: Nanos,
    /// Verifies the allocator after every compile job, not only after every build.
    pub verify_jobs: bool,
}

impl Hugealloc {
    /// The published configuration.
    pub const WHOLE: Self = Self { builds: 50, job_time: JOB_TIME, verify_jobs: false };
    /// What guests do: a few builds whose jobs take memory and files, and compute nothing.
    pub const SHORT: Self = Self { builds: 4, job_time: 0, verify_jobs: false };
}

/// The sizes of the benchmark on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Compile jobs of a build.
    pub jobs: u64,
    /// Batches of huge pages of a build.
    pub batches: u64,
    /// Huge pages of a batch.
    pub batch: u64,
    /// Pages of the memory cache.
    pub cache: u64,
    /// The ratio of this machine to the published one.
    pub scale: Scale,
}

impl Sizes {
    /// Returns the sizes on a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine that is too small.
    pub fn of(machine: &MachineSpec) -> Result<Self, Error> {
        let scale = machine.scale;
        let batch = machine.pages() / machine.geometry.pageblock_pages() / BATCH_PART;
        if batch == 0 || scale.of(JOBS) < 2 {
            let message = format!("machine {} is too small for hugealloc", machine.name);
            return Err(Error::Workload(message));
        }
        Ok(Self {
            jobs: scale.of(JOBS),
            batches: scale.of(BATCHES).max(1),
            batch,
            cache: machine.pages() * CACHE_PERCENT / 100,
            scale,
        })
    }
}

impl Workload for Hugealloc {
    fn head(&self) -> Head<'_> {
        let (name, summary) = if self.builds == Self::SHORT.builds {
            ("hugealloc-short", "the same with 4 builds that compute nothing, as guests run it")
        } else {
            (
                "hugealloc",
                "kernel builds, a memory cache and batches of huge pages (freelist hygiene, Mar 2024)",
            )
        };
        Head { name, summary, machine: "weiner-1g8", tables: include_str!("tables.toml") }
    }

    fn filesystem(&self) -> Filesystem {
        if self.builds == Self::SHORT.builds {
            return Filesystem::Ext4;
        }
        // As in the guests that repeated the published runs (docs/experiments/hugealloc.md).
        Filesystem::Xfs
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(machine).map(|_| ())
    }

    /// Gives huge pages only to the program that requests them, so their number is the same in every build.
    fn set_up(&self, kernel: &mut Kernel) {
        kernel.huge.thp_enabled = ThpEnabled::Madvise;
        // **Fitted** to the first policy: with direct compaction nearly every refused attempt stalls, while one
        // in 84 was published.
        kernel.huge.thp_defrag = ThpDefrag::Defer;
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(machine)?;
        boot::run(executor)?;
        let job = Rc::new(job(self.job_time));
        let (start, tree) = executor.with(|w| {
            w.start_counting();
            w.vm.observer.record_taken();
            w.dirtiers = w.vm.allocator().cpus() as u64;
            (w.now(), Rc::new(Tree::new(&mut w.vm, &job, sizes.jobs, sizes.scale)))
        });
        let stop = Rc::new(Cell::new(false));
        let cache = executor.spawn("memory-cache", Place::Near(0), |ctx| {
            load::memory_cache(ctx, sizes, Random::new(seed, 1), Rc::clone(&stop))
        });
        let mut before = executor.with(|w| counted(w));
        for number in 0..self.builds {
            let phase = format!("build {}", number + 1);
            let began = executor.with(|w| {
                let pages = job.pages_of(sizes.jobs, sizes.scale);
                w.begin_phase(1.0 / f64::from(self.builds), Pace::Pages(pages));
                w.now()
            });
            let random = Random::new(seed, 2 + u64::from(number));
            let (tree, job) = (Rc::clone(&tree), Rc::clone(&job));
            let build = Build::new(tree, job, sizes.jobs, sizes.scale, random);
            let build = Rc::new(build.verifying_jobs(self.verify_jobs));
            build::run(executor, &build, &phase, |executor| {
                let batches = |ctx| load::batches(ctx, Rc::clone(&build), sizes);
                Some(executor.spawn("huge-pages", Place::Near(0), batches))
            })?;
            check(executor, &phase)?;
            before = executor.with(|w| {
                let after = counted(w);
                sample(w, &after.since(&before), w.now() - began);
                after
            });
        }
        stop.set(true);
        executor.run(&[cache], "the end of the memory cache")?;
        let (elapsed, mismatch, movements) = executor
            .with(|w| (w.now() - start, w.list_mismatch.total(), w.vm.allocator().movements()));
        let mut counters = vec![
            (names::SIMULATED_ELAPSED_MS.to_owned(), elapsed / MILLISECOND),
            (names::LIST_MISMATCH_PAGES.to_owned(), mismatch),
        ];
        let mut notes = vec![format!(
            "{} builds of {} jobs and {} attempts at a huge page each.",
            self.builds,
            sizes.jobs,
            sizes.batches * sizes.batch
        )];
        if let Some(Movements { all, mixed }) = movements {
            counters.push((names::LIST_MOVEMENTS.to_owned(), all));
            counters.push((names::LIST_MOVEMENTS_MIXED.to_owned(), mixed));
            notes.push(format!(
                "{all} movements of free blocks were checked; {mixed} were to or from a list of \
                 another type than the block's pageblock has."
            ));
        }
        Ok(Outcome { counters, notes })
    }
}

/// The name of the samples of the durations of batches, in nanoseconds.
const BATCH_TIME: &str = "hugealloc-time";

/// The counters that a run samples for each build, beside the build's duration.
const COUNTERS: &[&str] = &[
    names::SIMULATED_USER_MS,
    names::SIMULATED_SYSTEM_MS,
    "thp_fault_alloc",
    "thp_fault_fallback",
    names::MM_PAGE_ALLOC_EXTFRAG,
    names::LIST_MISMATCH_PAGES,
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_daemon_migrate_scanned",
    "compact_daemon_free_scanned",
    "allocstall",
    "pgscan_kswapd",
    "pgsteal_kswapd",
    "pgscan_direct",
    "pgsteal_direct",
    "pswpout",
    "pswpin",
    "workingset_refault",
];

/// Returns those of them that `/proc/vmstat` has.
pub fn vmstat_counters() -> impl Iterator<Item = &'static str> {
    let beside = [
        names::SIMULATED_USER_MS,
        names::SIMULATED_SYSTEM_MS,
        names::MM_PAGE_ALLOC_EXTFRAG,
        names::LIST_MISMATCH_PAGES,
    ];
    COUNTERS.iter().copied().filter(move |name| !beside.contains(name))
}

/// Returns the name of a counter's samples, one for each build.
#[must_use]
pub fn sample_name(counter: &str) -> String {
    format!("build-{counter}")
}

/// Returns everything that is counted for each build, since the start.
fn counted(world: &World<'_>) -> Counters {
    let mut counters = world.counters();
    counters.set(names::MM_PAGE_ALLOC_EXTFRAG, world.vm.observer.extfrag().total());
    counters.set(names::LIST_MISMATCH_PAGES, world.list_mismatch.total());
    counters
}

fn sample(world: &mut World<'_>, counted: &Counters, elapsed: u64) {
    let mut push = |name, count| {
        world.samples.entry(sample_name(name)).or_default().push(count);
    };
    for &name in COUNTERS {
        push(name, counted.get(name).unwrap_or(0));
    }
    push(names::SIMULATED_ELAPSED_MS, elapsed / MILLISECOND);
}
