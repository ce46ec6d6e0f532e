//! hugealloc: kernel builds one after another without a reboot, beside a memory cache that serves a network,
//! while a program requests batches of huge pages.
//!
//! After Weiner's description of his benchmark of freelist hygiene (docs/experiments/sources.md#hugealloc),
//! whose source is not public. The memory of a compile job and of a cache item is measured. A smaller machine
//! compiles proportionally fewer and smaller jobs, each of which takes the full time: it runs part of every
//! build, at the memory pressure of the whole machine.

mod amounts;
mod build;
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

use super::{Outcome, Progress, Workload, boot, check, stopped};
use crate::error::Error;
use crate::sim::MILLISECOND;
use crate::sim::executor::{Executor, Place};
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::sim::progress::Pace;
use crate::sim::world::{Random, World};
use build::{Build, Tree};

/// Compile jobs of a defconfig build. (K)
const JOBS: u64 = 2400;
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
    /// Verifies the allocator after every compile job, not only after every build.
    pub verify_jobs: bool,
}

impl Hugealloc {
    /// The published configuration.
    pub const WHOLE: Self = Self { builds: 50, verify_jobs: false };
    /// A few builds, as many as a guest without KVM can do.
    pub const SHORT: Self = Self { builds: 4, verify_jobs: false };
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
    fn name(&self) -> &'static str {
        if self.builds == Self::SHORT.builds { "hugealloc-short" } else { "hugealloc" }
    }

    fn summary(&self) -> &'static str {
        if self.builds == Self::SHORT.builds {
            return "the same with 4 builds";
        }
        "kernel builds, a memory cache and batches of huge pages (freelist hygiene, Mar 2024)"
    }

    fn tables(&self) -> &'static str {
        include_str!("tables.toml")
    }

    fn machine(&self) -> &'static str {
        "weiner-1g8"
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

    fn run(
        &self,
        executor: &mut Executor<'_>,
        machine: &MachineSpec,
        seed: u64,
        progress: &mut Progress<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let sizes = Sizes::of(machine)?;
        if !boot::run(executor, progress) {
            return stopped(executor, "boot");
        }
        let (start, tree) = executor.with(|w| {
            w.start_counting();
            w.vm.observer.record_taken();
            w.dirtiers = w.vm.allocator().cpus() as u64;
            (w.now(), Rc::new(Tree::new(&mut w.vm, sizes)))
        });
        let stop = Rc::new(Cell::new(false));
        let cache = executor.spawn("memory-cache", Place::Near(0), |ctx| {
            load::memory_cache(ctx, sizes, Random::new(seed, 1), Rc::clone(&stop))
        });
        let mut before = executor.with(|w| counted(w));
        for number in 0..self.builds {
            let phase = format!("build {}", number + 1);
            let began = executor.with(|w| {
                let pages = sizes.jobs * build::pages_of_job(sizes.scale);
                w.begin_phase(1.0 / f64::from(self.builds), Pace::Pages(pages));
                w.now()
            });
            let random = Random::new(seed, 2 + u64::from(number));
            let build = Rc::new(Build::new(Rc::clone(&tree), sizes, random, self.verify_jobs));
            if !self.build(executor, &build, progress) {
                return stopped(executor, &phase);
            }
            check(executor, &phase)?;
            before = executor.with(|w| {
                let after = counted(w);
                sample(w, &after.since(&before), w.now() - began);
                after
            });
        }
        stop.set(true);
        if !executor.run(&[cache], progress) {
            return stopped(executor, "the end of the memory cache");
        }
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
        Ok(Some(Outcome { counters, notes }))
    }
}

impl Hugealloc {
    /// Runs one build, with its batches of huge pages.
    fn build<'m>(
        &self,
        executor: &mut Executor<'m>,
        build: &Rc<Build>,
        progress: &mut Progress<'_>,
    ) -> bool {
        let cpus = executor.with(|w| w.vm.allocator().cpus());
        let start =
            executor.spawn("make", Place::Near(0), |ctx| build::begin(ctx, Rc::clone(build)));
        if !executor.run(&[start], progress) {
            return false;
        }
        let mut tasks: Vec<_> = (0..cpus)
            .map(|cpu| {
                executor.spawn("cc", Place::Near(cpu), |ctx| build::worker(ctx, Rc::clone(build)))
            })
            .collect();
        tasks.push(
            executor
                .spawn("huge-pages", Place::Near(0), |ctx| load::batches(ctx, Rc::clone(build))),
        );
        if !executor.run(&tasks, progress) {
            return false;
        }
        let link = executor.spawn("ld", Place::Near(0), |ctx| build::link(ctx, Rc::clone(build)));
        executor.run(&[link], progress)
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
