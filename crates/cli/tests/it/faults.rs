//! A program whose memory comes in sizes between a page and a huge page, as no workload's does.

use pageblock_kernel::Named;
use pageblock_simulate::Error;
use pageblock_simulate::sim::executor::{Executor, Place};
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::{Outcome, Progress, Workload, stopped};

const MACHINE: &str = "\
name = \"faults\"
dma32_end_mib = 0
[[node]]
cpus = 2
memory_mib = [[0, 64]]
[disk]
read_us = 90
read_places = 4
write_mib_s = 400
";

/// Faults of mappings with and without `MADV_HUGEPAGE`, each far enough from the next for the largest size.
#[derive(Debug)]
struct Faults;

const STRIDE: u32 = 256;
const FAULTS: u32 = 8;

impl Workload for Faults {
    fn name(&self) -> &'static str {
        "faults"
    }

    fn summary(&self) -> &'static str {
        "faults of memory in sizes between a page and a huge page"
    }

    fn machine(&self) -> &'static str {
        "faults"
    }

    fn fits(&self, _: &MachineSpec) -> Result<(), Error> {
        Ok(())
    }

    fn run(
        &self,
        executor: &mut Executor<'_>,
        _: &MachineSpec,
        _: u64,
        progress: &mut Progress<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let task = executor.spawn("faults", Place::Near(0), |ctx| async move {
            for madvised in [false, true] {
                let space = ctx.with(|w| w.vm.create_mapping(STRIDE * FAULTS));
                for fault in 0..FAULTS {
                    let done = ctx.fault_sized(space, fault * STRIDE, madvised).await;
                    done.expect("there is memory");
                }
            }
        });
        if !executor.run(&[task], progress) {
            return stopped(executor, "faults");
        }
        Ok(Some(Outcome::default()))
    }
}

/// Returns the event hash of the faults under a kernel.
pub(crate) fn hash(kernel: &str) -> String {
    let kernel = Named::parse(kernel).unwrap_or_else(|error| panic!("{error}"));
    let machine = machine_file::parse(MACHINE, Scale::WHOLE).expect("it is a machine");
    let simulation = Simulation { machine: &machine, kernel: &kernel, workload: &Faults, seed: 1 };
    let run = simulation.run(&mut |_| true).expect("nothing is lost");
    run.expect("nobody stops it").event_hash
}
