//! The loads that recordings were made with: a mixture, unmovable memory that swings, and kernel memory that grows and
//! shrinks. All amounts are shares of the machine's memory; a guest of a real kernel does the same with the same.

mod held;
mod round;

pub use held::{MESSAGES, PIPE_PAGES, TABLE_PAGES, TABLES};

use std::cell::RefCell;
use std::rc::Rc;

use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::{ThpDefrag, ThpEnabled};

use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::sched::TaskId;
use crate::sim::world::Random;
use crate::sim::{MILLISECOND, Nanos};
use round::Load;

/// Pages of a file.
pub const FILE_PAGES: u32 = 16;
/// The time between two rounds, in which kswapd and kcompactd end their work.
pub const PAUSE: Nanos = 200 * MILLISECOND;
/// Rounds, and from one burst of huge pages to the next.
const ROUNDS: u64 = 12;
const BURST_EACH: u64 = 2;
/// Processes that touch memory side by side.
const PROCESSES: u64 = 8;
/// Pages of a huge page.
pub const HUGE_PAGES: u64 = 512;
/// The smallest machine, in pages: its shares are not empty.
const LEAST_PAGES: u64 = 16 << 10;

/// What the load does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Processes, files that are written and read again, some kernel memory, bursts of huge pages.
    Mixed,
    /// Files, and unmovable memory that swings by 27 % of memory, with bursts of huge pages.
    Oscillating,
    /// Kernel memory that grows and shrinks, and many small files.
    KernelMemory,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Mixed, Self::Oscillating, Self::KernelMemory];

    /// Returns the range of what is held of kernel memory after each round, in percent of memory; the list repeats.
    const fn held_percent(self) -> &'static [(u64, u64)] {
        match self {
            Self::Mixed => &[(2, 7)],
            Self::Oscillating => &[(30, 30), (3, 3)],
            Self::KernelMemory => &[(40, 40), (10, 10), (55, 55), (5, 5)],
        }
    }
}

/// The amounts of a load on a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Rounds.
    pub rounds: u64,
    /// Files of 16 pages that a round writes, and reads.
    pub files: u64,
    /// Files of one page that a round creates; those of two rounds ago are removed.
    pub small_files: u64,
    /// Processes of a round.
    pub processes: u64,
    /// Pages of a process, which touches one at random half as many times.
    pub process_pages: u64,
    /// Pages of kernel memory that are held after each round, the least and the most; the list repeats.
    pub held: Vec<(u64, u64)>,
    /// Rounds from one burst of huge pages to the next.
    pub burst_each: u64,
    /// Huge pages of a burst.
    pub burst: u64,
}

impl Sizes {
    /// Returns the amounts on a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine with less than 64 MiB.
    pub fn of(form: Form, machine: &MachineSpec) -> Result<Self, Error> {
        let pages = machine.pages();
        if pages < LEAST_PAGES {
            return Err(Error::Workload(format!(
                "{} needs {LEAST_PAGES} pages; machine {} has {pages}",
                form.name(),
                machine.name
            )));
        }
        let (mixed, kernel) = (form == Form::Mixed, form == Form::KernelMemory);
        Ok(Self {
            rounds: ROUNDS,
            files: if kernel { 0 } else { pages / 5 / u64::from(FILE_PAGES) },
            small_files: if kernel { pages / 64 } else { 0 },
            processes: if mixed { PROCESSES } else { 0 },
            process_pages: pages / 40,
            held: form
                .held_percent()
                .iter()
                .map(|(least, most)| (pages * least / 100, pages * most / 100))
                .collect(),
            burst_each: BURST_EACH,
            burst: (pages / 10 / HUGE_PAGES).max(1),
        })
    }

    /// Returns the pages that a round takes, about.
    fn round_pages(&self) -> u64 {
        let held = self.held.iter().map(|(_, most)| most).sum::<u64>() / self.held.len() as u64;
        self.files * u64::from(FILE_PAGES)
            + self.small_files * 2
            + self.processes * self.process_pages / 2
            + held
    }
}

impl Workload for Form {
    fn head(&self) -> Head<'_> {
        let (name, summary) = match self {
            Self::Mixed => (
                "mixed",
                "files, processes, kernel memory and bursts of huge pages (the load of this project's recordings)",
            ),
            Self::Oscillating => {
                ("oscillating", "files and bursts, while unmovable memory swings from 3 to 30 %")
            }
            Self::KernelMemory => (
                "kernel-memory",
                "small files and bursts, while unmovable memory swings from 5 to 55 %",
            ),
        };
        Head { name, summary, machine: "guest-640m", tables: include_str!("tables.toml") }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(*self, machine).map(|_| ())
    }

    /// Gives huge pages to the bursts alone.
    fn set_up(&self, kernel: &mut Kernel) {
        kernel.huge.thp_enabled = ThpEnabled::Madvise;
        kernel.huge.thp_defrag = ThpDefrag::Madvise;
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(*self, machine)?;
        boot::run(executor)?;
        executor.with(|w| {
            w.start_counting();
            w.dirtiers = 1;
        });
        let load = executor.with(|w| Load::new(&mut w.vm, sizes.clone(), Random::new(seed, 1)));
        let load = Rc::new(RefCell::new(Some(load)));
        for number in 0..sizes.rounds {
            let phase = format!("round {}", number + 1);
            executor.with(|w| {
                w.begin_phase(1.0 / sizes.rounds as f64, Pace::Pages(sizes.round_pages()));
            });
            let files = executor
                .spawn("load", Place::Near(0), |ctx| round::files(ctx, Rc::clone(&load), number));
            executor.run(&[files], &phase)?;
            let processes = processes(executor, &sizes, number, seed);
            executor.run(&processes, &phase)?;
            let rest = executor.spawn("load", Place::Near(0), |ctx| {
                round::kernel_memory(ctx, Rc::clone(&load), number)
            });
            executor.run(&[rest], &phase)?;
            check(executor, &phase)?;
            if load.borrow().is_none() {
                // It was ended.
                break;
            }
        }
        Ok(Outcome::default())
    }
}

/// Adds the processes of a round, and starts the load that starts them. Returns all of them.
fn processes(executor: &mut Executor<'_>, sizes: &Sizes, round: u64, seed: u64) -> Vec<TaskId> {
    let cpus = executor.with(|w| w.vm.allocator().cpus());
    let shared = Rc::new(round::Processes::default());
    let parent = executor.add("load", Place::Near(0), |ctx| round::start(ctx, Rc::clone(&shared)));
    let mut tasks: Vec<_> = (0..sizes.processes)
        .map(|at| {
            let work = (sizes.process_pages, Random::new(seed * 1000 + round * PROCESSES + at, 3));
            executor.add("toucher", Place::Near(at as usize % cpus), |ctx| {
                round::toucher(ctx, parent, Rc::clone(&shared), work)
            })
        })
        .collect();
    shared.tasks.replace(tasks.clone());
    executor.with(|w| w.sched.start(parent));
    tasks.push(parent);
    tasks
}
