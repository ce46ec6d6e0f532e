//! A simulated run: computes a [`Run`] from a machine, a kernel, a workload and a seed.

use std::mem::MaybeUninit;

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock::setup::Setup;
use pageblock::zone::Zone;
use pageblock_kernel::{Kernel, Named, Switch, own};
use pageblock_measure::certificate::note::Note;
use pageblock_measure::run::KernelRecord;
use pageblock_measure::value::blocks::{BlockCensus, BlockSummary, TypeCounts};
use pageblock_measure::value::setup::SetupRecord;
use pageblock_measure::{EventUnit, Run};
use pageblock_vm::Vm;
use pageblock_vm::cil;
use pageblock_vm::config::{Config, Filesystem};
use pageblock_vm::inode::{EXT4, XFS, XFS_WITH_VECTORS};

use crate::error::Error;
use crate::scaled;
use crate::sim::daemons;
use crate::sim::disk::Disk;
use crate::sim::executor::{Executor, Progress, Stop};
use crate::sim::fragment;
use crate::sim::gigabytes;
use crate::sim::history::content_type;
use crate::sim::machine_file::MachineSpec;
use crate::sim::observed::Observed;
use crate::sim::read_ahead::SAMPLES_MAX;
use crate::sim::world::World;
use crate::workload::{self, Outcome, Workload, check};

/// The input of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation<'s> {
    /// The machine.
    pub machine: &'s MachineSpec,
    /// The kernel that runs on it.
    pub kernel: &'s Named,
    /// The workload.
    pub workload: &'s dyn Workload,
    /// The seed.
    pub seed: u64,
}

/// Returns the kernel as a run stores it.
fn record(named: &Named) -> KernelRecord {
    let value = |switch: Switch| (switch.name().to_owned(), switch.get(&named.kernel).to_string());
    let decide = named.own.map(|own| (own::KEY.to_owned(), own.name.to_owned()));
    let set = named.set.iter().map(|(switch, _)| switch.name().to_owned());
    KernelRecord {
        base: named.base.name.to_owned(),
        set: set.chain(decide.iter().map(|(key, _)| key.clone())).collect(),
        switches: Switch::all().map(value).chain(decide.clone()).collect(),
    }
}

impl Simulation<'_> {
    fn config(&self, kernel: &Kernel) -> Config {
        let mut config = Config {
            swap_pages: self.machine.swap_pages,
            zram: self.machine.zram,
            ..Config::default()
        };
        if kernel.memory.slab_exists {
            config.slab = self.machine.slab;
        }
        config.filesystem = self.workload.filesystem();
        config.file_objects = match (config.filesystem, self.workload.logs()) {
            (Filesystem::Xfs, true) => XFS,
            (Filesystem::Xfs, false) => XFS_WITH_VECTORS,
            (Filesystem::Ext4 | Filesystem::Fuse, _) => EXT4,
        };
        if self.workload.logs() {
            let whole = cil::checkpoint_bytes(self.machine.disk.bytes, kernel.writeback.log_limit);
            config.checkpoint_bytes = self.machine.scale.of(whole).max(1);
        }
        self.workload.configure(&mut config);
        config
    }

    /// Runs it; `progress` is called with the world now and then and may stop the run, which then returns
    /// `None`.
    ///
    /// # Errors
    /// If the workload does not fit the machine, or the simulation has a defect.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Option<Run>, Error> {
        self.simulate(false, progress)
    }

    /// Runs it like [`run`](Self::run), and keeps the history of the machine's memory.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with_history(&self, progress: &mut Progress<'_>) -> Result<Option<Run>, Error> {
        self.simulate(true, progress)
    }

    fn simulate(
        &self,
        with_history: bool,
        progress: &mut Progress<'_>,
    ) -> Result<Option<Run>, Error> {
        let machine = self.machine;
        self.workload.fits(machine)?;
        let kernel = scaled::kernel(self.kernel, machine, self.workload)?;
        let setup = Setup {
            geometry: machine.geometry,
            ..Setup::new(kernel.allocator, &machine.zones, &machine.cpu_nodes)
        };
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size()?];
        let mut allocator = Allocator::new(&mut memory, &setup)?;
        allocator.reserve_cma(machine.cma)?;
        for &range in &machine.memory {
            allocator.release(range)?;
        }
        allocator.retune();
        let observed = Observed::new(self.kernel.own);
        let mut vm = Vm::new(allocator, &kernel, self.config(&kernel), observed);
        if let Some(goal) = &machine.fragment {
            fragment::fragment(&mut vm, goal, self.seed)?;
        }
        let disk = Disk::new(machine.disk);
        let mut world = World::new(vm, machine.cpu, disk, &machine.cpu_nodes, self.seed);
        world.scale = machine.scale;
        if with_history {
            world.record_history();
        }
        let mut executor = Executor::new(world, progress);
        daemons::spawn(&mut executor);
        let outcome = match self.workload.run(&mut executor, machine, self.seed) {
            Ok(outcome) => Some(outcome),
            Err(Stop::Ended) => None,
            Err(Stop::Failed(error)) => return Err(error),
        };
        if executor.with(|w| w.ended.is_some()) {
            let run = executor.with(|w| self.result(w, Outcome::default()))?;
            check(&executor, "at its early end")?;
            return Ok(Some(run));
        }
        let Some(outcome) = outcome else { return Ok(None) };
        let run = executor.with(|w| self.result(w, outcome))?;
        self.workload.clean_up(&mut executor)?;
        Ok(Some(run))
    }

    fn result(&self, world: &mut World<'_>, outcome: Outcome) -> Result<Run, Error> {
        let history = world.finish_history();
        let vm = &world.vm;
        let mut run = Run::from_tally(&vm.observer.tally);
        run.history = history;
        self.kernel.label.clone_into(&mut run.policy);
        run.kernel = Some(record(self.kernel));
        run.setup = Some(SetupRecord {
            layout: SetupRecord::LAYOUT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            scale: self.machine.scale.to_string(),
            machine: self.machine.record.clone(),
        });
        self.workload.name().clone_into(&mut run.workload);
        run.tables = Some(workload::tables(self.workload)?);
        self.machine.name.clone_into(&mut run.machine);
        run.seed = self.seed;
        run.extfrag_unit = Some(EventUnit::of(&vm.kernel().allocator));
        run.pageblock_order = Some(vm.allocator().geometry().pageblock_order);
        run.counters.extend(&world.counters());
        for zone in vm.allocator().zones() {
            let free = (0..=zone.geometry().max_order).map(|order| zone.nr_free(order)).collect();
            let many = self.machine.nodes() > 1;
            let label = if many {
                format!("{}-{}", zone.node(), zone.kind())
            } else {
                zone.kind().to_string()
            };
            run.set_free_blocks(&label, free);
        }
        for (name, count) in outcome.counters {
            run.counters.set(name, count);
        }
        run.samples.clone_from(&world.samples);
        run.ended.clone_from(&world.ended);
        run.notes = vec![
            "Simulated: times come from a cost model (crates/simulate/src/sim/cost.rs), not from a clock."
                .to_owned()
                .into(),
        ];
        for (at, program) in &world.deaths {
            let seconds = *at as f64 / crate::sim::SECOND as f64;
            run.notes.push(format!("Out of memory: {program} died after {seconds:.1} s.").into());
        }
        for (name, samples) in &world.samples {
            if samples.len() == SAMPLES_MAX {
                let note = format!("Only the first {SAMPLES_MAX} samples of {name} are kept.");
                run.notes.push(note.into());
            }
        }
        if let Some(refused) = vm.observer.refusals() {
            run.notes.push(refused.into());
        }
        run.notes.extend(outcome.notes.into_iter().map(Note::Words));
        run.set_blocks(census(vm));
        let stays = |zone: &Zone<'_>, start| {
            let allocated = contents(vm, zone, start);
            Migratetype::ALL
                .into_iter()
                .any(|kind| kind != Migratetype::Movable && allocated[kind] > 0)
        };
        gigabytes::count(vm.allocator(), &stays, &mut run.counters);
        Ok(run)
    }
}

/// Counts the pageblocks by type, and those that hold pages of another type.
fn census(vm: &Vm<'_, Observed>) -> BlockCensus {
    let summaries = vm.allocator().zones().iter().flat_map(|zone| {
        zone.pageblocks().map(move |(start, migratetype, _)| BlockSummary {
            migratetype,
            allocated: contents(vm, zone, start),
        })
    });
    BlockCensus::of(summaries)
}

/// Counts the allocated pages of a pageblock by the type of what is in them.
fn contents(vm: &Vm<'_, Observed>, zone: &Zone<'_>, start: Pfn) -> TypeCounts {
    let mut allocated = TypeCounts::default();
    let mut pfn = start.0;
    while pfn < start.0 + zone.geometry().pageblock_pages() {
        pfn += match zone.state(Pfn(pfn)) {
            Some(FrameState::Allocated { order, .. }) => {
                allocated[content_type(vm, Pfn(pfn))] += pages(order);
                pages(order)
            }
            Some(FrameState::Free { order, .. } | FrameState::CpuList { order, .. }) => {
                pages(order)
            }
            _ => 1,
        };
    }
    allocated
}
