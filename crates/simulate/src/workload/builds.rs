//! One build of Linux or of clang on an idle machine, then a clean, then the page cache dropped: how much of the free
//! memory is in blocks of 2 MiB after each.
//!
//! As published for guests of QEMU (docs/experiments/builds.md). The memory that compilers use and the pages of files
//! are the published ones; where they lie is not. A smaller machine compiles fewer and smaller jobs.

use std::rc::Rc;

use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::ThpEnabled;
use pageblock_vm::thp::HPAGE_PMD_ORDER;

use super::build::{self, Build, Job, Tree};
use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::world::{Random, World};
use crate::sim::{MILLISECOND, Nanos, SECOND};

/// Pages of a MiB.
const MIB: u64 = 256;
/// Job slots of the published guests: their CPUs.
const SLOTS: u64 = 12;

/// MiB that the build of Linux used beyond what was in use before, without page cache, in 24 equal parts of its time.
const LINUX_MIB: [u64; 24] = [
    110, 572, 583, 543, 570, 618, 645, 623, 594, 608, 647, 642, 681, 654, 674, 829, 804, 631, 592,
    1216, 866, 338, 232, 163,
];
/// The same of clang, means of six builds, in 48 parts.
const CLANG_MIB: [u64; 48] = [
    1974, 2780, 3575, 3862, 3974, 5274, 4090, 4071, 4163, 4943, 3972, 3352, 2702, 2854, 6168, 6189,
    5616, 5759, 5872, 5275, 4603, 3900, 4126, 5085, 5403, 4239, 5108, 5278, 4741, 5365, 4752, 7934,
    11911, 11702, 10148, 9125, 6161, 5140, 7179, 5830, 5624, 6017, 6268, 5687, 5313, 3880, 3938,
    3130,
];

/// What is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Linux, in 8 GiB.
    Linux,
    /// clang 16, in 16 GiB.
    Clang,
}

impl Form {
    /// Returns the number of jobs on a whole machine. Linux: 1,887 s of user time, 530 ms each. (K) for clang.
    const fn jobs(self) -> u64 {
        match self {
            Self::Linux => 3_560,
            Self::Clang => 3_300,
        }
    }

    /// Returns what a job does. Files are as large as the page cache of the published builds: 250 and 240 MiB stay
    /// after the clean, 219 and 1,670 MiB are object files, and the link writes twice as much.
    fn job(self) -> Job {
        let (used, time, source_pages, object_pages): (&[u64], Nanos, u32, u32) = match self {
            Self::Linux => (&LINUX_MIB, 530 * MILLISECOND, 14, 16),
            Self::Clang => (&CLANG_MIB, 8_800 * MILLISECOND, 14, 130),
        };
        // A job's memory grows evenly until it exits: at the end it has twice its mean.
        let range = |&mib: &u64| (3 * mib * MIB / SLOTS / 2, 5 * mib * MIB / SLOTS / 2);
        Job {
            pages: used.iter().map(range).collect(),
            time,
            programs: 4,
            source_pages,
            headers: (5_000, 300),
            header_pages: 3,
            object_pages,
        }
    }

    /// Returns the time that was waited after each phase.
    const fn pause(self) -> Nanos {
        match self {
            Self::Linux => 30 * SECOND,
            Self::Clang => 200 * SECOND,
        }
    }
}

impl Workload for Form {
    fn head(&self) -> Head<'_> {
        let (name, summary, machine) = match self {
            Self::Linux => (
                "build-linux",
                "one build of Linux, a clean, and the page cache dropped (HyperAlloc, 2025)",
                "guest-8g",
            ),
            Self::Clang => (
                "build-clang",
                "one build of clang, a clean, and the page cache dropped (HyperAlloc, 2025)",
                "guest-16g",
            ),
        };
        Head { name, summary, machine, tables: include_str!("builds.toml") }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        if machine.scale.of(self.jobs()) < 2 {
            let message = format!("machine {} is too small for {}", machine.name, self.name());
            return Err(Error::Workload(message));
        }
        Ok(())
    }

    /// Gives huge pages to those that ask, which compilers do not: the published setting is not known, and is one of
    /// those that docs/experiments/builds.md compares.
    fn set_up(&self, kernel: &mut Kernel) {
        kernel.huge.thp_enabled = ThpEnabled::Madvise;
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        boot::run(executor)?;
        let (job, jobs, scale) =
            (Rc::new(self.job()), machine.scale.of(self.jobs()), machine.scale);
        let tree = executor.with(|w| {
            w.start_counting();
            w.dirtiers = w.vm.allocator().cpus() as u64;
            w.begin_phase(1.0, Pace::Pages(job.pages_of(jobs, scale)));
            Rc::new(Tree::new(&mut w.vm, &job, jobs, scale))
        });
        let random = Random::new(seed, 2);
        let build = Rc::new(Build::new(Rc::clone(&tree), job, jobs, scale, random));
        build::run(executor, &build, "the build", |_| None)?;
        let phases = [("built", After::Build), ("cleaned", After::Clean), ("dropped", After::Drop)];
        for (phase, does) in phases {
            let (tree, pause) = (Rc::clone(&tree), self.pause());
            let task = executor.spawn("make", Place::Near(0), move |ctx| async move {
                match does {
                    After::Build => {}
                    After::Clean => build::clean(&ctx, &tree).await,
                    After::Drop => ctx.with(|w| w.vm.drop_page_caches(w.sched.cpu_of(ctx.id))),
                }
                for _ in 0..pause / SECOND {
                    ctx.sleep(SECOND).await;
                    // A pause is no livelock.
                    ctx.with(|w| w.progress += 1);
                }
            });
            executor.run(&[task], phase)?;
            check(executor, phase)?;
            executor.with(|w| sample(w, phase));
        }
        Ok(Outcome::default())
    }
}

/// What is done before a pause.
#[derive(Clone, Copy)]
enum After {
    /// Nothing.
    Build,
    /// `make clean`.
    Clean,
    /// 1 to `/proc/sys/vm/drop_caches`.
    Drop,
}

/// Samples the share of free memory in free blocks of 2 MiB, in hundredths of a percent.
fn sample(world: &mut World<'_>, phase: &str) {
    let allocator = world.vm.allocator();
    let (mut free, mut huge) = (0, 0);
    for zone in allocator.zones() {
        for order in 0..=zone.geometry().max_order {
            let pages = zone.nr_free(order) << order;
            free += pages;
            huge += if order >= HPAGE_PMD_ORDER { pages } else { 0 };
        }
    }
    let share = huge * 10_000 / free.max(1);
    world.samples.entry(format!("free-in-2-mib-{phase}")).or_default().push(share);
}
