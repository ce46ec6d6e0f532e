//! Programs on a small machine, for switches that no workload reaches: faults of sizes between a page and a huge page,
//! streams of files in folios, the pool of hugetlb pages, khugepaged, the OOM killer, compactions of all kinds one after another.

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::Named;
use pageblock_simulate::Error;
use pageblock_simulate::sim::executor::{Executor, Place, Ran};
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::sim::task::Ctx;
use pageblock_simulate::sim::{MILLISECOND, SECOND};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::{Head, Outcome, Workload};
use pageblock_vm::config::{Config, Filesystem};
use pageblock_vm::inject::Inject;
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::Advice;
use std::ops::Range;

/// A scenario: its machine, and what its programs do.
#[derive(Debug)]
struct Scenario {
    name: &'static str,
    /// The nodes of the machine, each with two CPUs, by the MiB where its memory starts and ends.
    nodes: &'static [(u64, u64)],
    /// Where the zones DMA32 and, above it, Normal meet, in MiB.
    dma32_end_mib: u64,
    /// The part at the end of memory that is for contiguous buffers.
    cma_mib: u64,
    programs: &'static [Program],
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Faults,
    Streams,
    Pool,
    Collapse,
    Holes,
    Hog,
    MustNotFail,
    MayFail,
    Churn(u64),
    /// Kernel buffers of an order.
    Buffers(u8),
}

/// The scenario whose files are on XFS; those of all others are on ext4.
const ON_XFS: &str = "streams-on-xfs";

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "faults",
        nodes: &[(0, 64)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Faults],
    },
    Scenario {
        name: ON_XFS,
        nodes: &[(0, 64)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Streams],
    },
    Scenario {
        name: "streams-on-ext4",
        nodes: &[(0, 64)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Streams],
    },
    Scenario {
        name: "pool",
        nodes: &[(0, 32), (32, 96)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Pool],
    },
    Scenario {
        name: "collapse",
        nodes: &[(0, 128)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Collapse],
    },
    Scenario {
        name: "holes",
        nodes: &[(0, 128)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Holes],
    },
    Scenario {
        name: "must-not-fail",
        nodes: &[(0, 64)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Hog, Program::MustNotFail],
    },
    Scenario {
        name: "may-fail",
        nodes: &[(0, 64)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Hog, Program::MayFail],
    },
    Scenario {
        name: "churn",
        nodes: &[(0, 96)],
        dma32_end_mib: 32,
        cma_mib: 0,
        programs: &[Program::Churn(1), Program::Churn(2), Program::Churn(3)],
    },
    Scenario {
        name: "cma",
        nodes: &[(0, 96)],
        dma32_end_mib: 0,
        cma_mib: 64,
        programs: &[Program::Buffers(3)],
    },
    Scenario {
        name: "whole-pageblocks",
        nodes: &[(0, 96)],
        dma32_end_mib: 0,
        cma_mib: 0,
        programs: &[Program::Buffers(9)],
    },
];

impl Scenario {
    fn machine(&self) -> MachineSpec {
        let node = |(start, end): &(u64, u64)| {
            format!("[[node]]\ncpus = 2\nmemory_mib = [[{start}, {end}]]\n")
        };
        let nodes: String = self.nodes.iter().map(node).collect();
        let text = format!(
            "name = \"{}\"\ndma_end_mib = 0\ndma32_end_mib = {}\ncma_mib = {}\n{nodes}\
             [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 400\n",
            self.name, self.dma32_end_mib, self.cma_mib
        );
        machine_file::parse(&text, Scale::WHOLE).expect("it is a machine")
    }
}

impl Workload for Scenario {
    fn head(&self) -> Head<'_> {
        let summary = "programs for switches that no workload reaches";
        Head { name: self.name, summary, machine: self.name, tables: "" }
    }

    fn configure(&self, config: &mut Config) {
        if self.name == ON_XFS {
            config.filesystem = Filesystem::Xfs;
        }
    }

    fn fits(&self, _: &MachineSpec) -> Result<(), Error> {
        Ok(())
    }

    fn run(&self, executor: &mut Executor<'_>, _: &MachineSpec, _: u64) -> Ran<Outcome> {
        let mut tasks = Vec::new();
        for &program in self.programs {
            tasks.push(executor.spawn("program", Place::Node(0), |ctx| async move {
                match program {
                    Program::Faults => faults(&ctx).await,
                    Program::Streams => streams(&ctx).await,
                    Program::Pool => pool(&ctx).await,
                    Program::Collapse => collapse(&ctx).await,
                    Program::Holes => holes(&ctx).await,
                    Program::Hog => hog(&ctx).await,
                    Program::MustNotFail => kernel_pages(&ctx, Gfp::NOFAIL | Gfp::THISNODE).await,
                    Program::MayFail => kernel_pages(&ctx, Gfp::RETRY_MAYFAIL).await,
                    Program::Churn(seed) => churn(&ctx, seed).await,
                    Program::Buffers(order) => buffers(&ctx, order).await,
                }
            }));
        }
        executor.run(&tasks, self.name)?;
        Ok(Outcome::default())
    }
}

/// Returns the event hash of a scenario under a kernel; none if there is no such scenario.
pub(crate) fn hash(scenario: &str, kernel: &str) -> Option<String> {
    let workload = SCENARIOS.iter().find(|known| known.name == scenario)?;
    let kernel = Named::parse(kernel).unwrap_or_else(|error| panic!("{error}"));
    let machine = workload.machine();
    let simulation = Simulation { machine: &machine, kernel: &kernel, workload, seed: 1 };
    let run = simulation.run(&mut |_| true).unwrap_or_else(|error| panic!("{scenario}: {error}"));
    Some(run.expect("nobody stops it").event_hash)
}

/// Faults of mappings with and without `MADV_HUGEPAGE`, each far enough from the next for the largest size.
async fn faults(ctx: &Ctx<'_>) {
    const STRIDE: u32 = 256;
    const FAULTS: u32 = 8;
    for advice in [Advice::None, Advice::HugePages] {
        let space = ctx.with(|w| w.vm.create_mapping(STRIDE * FAULTS));
        for fault in 0..FAULTS {
            let done = ctx.fault_sized(space, fault * STRIDE, advice).await;
            done.expect("there is memory");
        }
    }
}

/// Writes a file in one call, and reads another from its start to its end.
async fn streams(ctx: &Ctx<'_>) {
    let (written, read) = (file(ctx, 203), file(ctx, 160));
    ctx.write_pages(written, 0..203, &mut 0).await.expect("there is memory");
    ctx.read_pages(read, 0..160).await.expect("there is memory");
}

/// Fills the first node with the pages of files, between which kernel pages lie, and asks for more hugetlb pages than
/// there is memory for, twice.
async fn pool(ctx: &Ctx<'_>) {
    let file = file(ctx, 6000);
    for index in 0..6000 {
        if index % 600 == 0 {
            let page = ctx.kernel_block(Request::new(0, Gfp::GFP_KERNEL), Owner::Driver).await;
            page.expect("there is memory");
        }
        ctx.read_page(file, index).await.expect("there is memory");
    }
    for _ in 0..2 {
        ctx.set_hugetlb(1000).await;
        ctx.set_hugetlb(0).await;
    }
}

/// Creates a file of so many pages; none is in memory.
fn file(ctx: &Ctx<'_>, pages: u32) -> SpaceId {
    ctx.with(|w| {
        let inode = w.vm.create_file(pages);
        w.vm.inodes().get(inode).space
    })
}

/// Places of small pages for khugepaged, each with more pages missing than the one before.
async fn collapse(ctx: &Ctx<'_>) {
    const SIZE: u32 = 512;
    let space = ctx.with(|w| w.vm.create_mapping(12 * SIZE));
    for place in 0..12 {
        for index in 0..SIZE - 40 * place {
            ctx.fault_base(space, place * SIZE + index).await.expect("there is memory");
        }
    }
    ctx.with(|w| w.vm.enter_khugepaged(space));
    ctx.sleep(11 * SECOND).await;
}

/// Faults a quarter of memory, and gives every third page back, so that a tenth of free memory is in small blocks.
async fn holes(ctx: &Ctx<'_>) {
    const PAGES: u32 = 8192;
    let space = ctx.with(|w| w.vm.create_mapping(PAGES));
    for index in 0..PAGES {
        ctx.fault_base(space, index).await.expect("there is memory");
    }
    let cpu = ctx.cpu();
    for index in (0..PAGES).step_by(3) {
        ctx.with(|w| w.vm.unmap_page(cpu, space, index));
    }
    ctx.sleep(5 * SECOND).await;
}

/// Faults most of memory, and ends after a while.
async fn hog(ctx: &Ctx<'_>) {
    let space = ctx.with(|w| w.vm.create_mapping(1 << 16));
    for index in 0..12_000 {
        if ctx.fault_base(space, index).await.is_err() {
            break;
        }
    }
    ctx.sleep(2 * SECOND).await;
    let cpu = ctx.cpu();
    ctx.with(|w| w.vm.remove_space(cpu, space));
}

/// Takes kernel pages while the hog has the memory, and frees them.
async fn kernel_pages(ctx: &Ctx<'_>, more: Gfp) {
    ctx.sleep(SECOND).await;
    let request = Request::new(0, Gfp::GFP_KERNEL | more);
    let mut pages = Vec::new();
    for _ in 0..6000 {
        match ctx.kernel_block(request, Owner::Driver).await {
            Ok(page) => pages.push(page),
            Err(_) => break,
        }
    }
    pages.into_iter().for_each(|page| ctx.free_kernel_block(page));
}

/// Asks for large blocks until compaction is deferred for longest, and then restarts.
async fn insist(ctx: &Ctx<'_>, blocks: &mut Vec<Pfn>) {
    let request = Request::new(9, Gfp::GFP_KERNEL | Gfp::NOWARN);
    for _ in 0..200 {
        blocks.extend(ctx.kernel_block(request, Owner::Driver).await);
    }
}

/// Faults most of memory, CMA too, gives all but every 13th page back, and asks for kernel buffers. The free blocks of
/// CMA do not count for them: compaction finds them at the start of the pageblocks to which it migrates.
async fn buffers(ctx: &Ctx<'_>, order: u8) {
    const PAGES: u32 = 20_000;
    let space = ctx.with(|w| w.vm.create_mapping(PAGES));
    for index in 0..PAGES {
        ctx.fault_base(space, index).await.expect("there is memory");
    }
    let cpu = ctx.cpu();
    for index in (0..PAGES).filter(|index| index % 13 != 0) {
        ctx.with(|w| w.vm.unmap_page(cpu, space, index));
    }
    let request = Request::new(order, Gfp::GFP_KERNEL | Gfp::NOWARN);
    for _ in 0..3000 {
        if ctx.kernel_block(request, Owner::Driver).await.is_err() {
            break;
        }
    }
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(below)) as u32
    }
}

/// Requests of the churn, which may fail, with the orders in which they come.
const REQUESTS: &[(Gfp, Range<u32>)] = &[
    (Gfp::GFP_KERNEL, 0..1),
    (Gfp::GFP_KERNEL, 0..4),
    (Gfp::GFP_KERNEL, 4..10),
    (Gfp::GFP_NOFS, 1..5),
    (Gfp::GFP_HIGHUSER_MOVABLE, 2..10),
    (Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::NORETRY.0), 4..10),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::RETRY_MAYFAIL.0), 4..10),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0), 0..5),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::DMA32.0), 0..6),
    (Gfp::GFP_TRANSHUGE, 9..10),
    (Gfp::GFP_TRANSHUGE_LIGHT, 9..10),
];

/// Requests of all orders on a machine whose memory fills up with small pages and loses some of them, where every
/// eleventh migration fails.
async fn churn(ctx: &Ctx<'_>, seed: u64) {
    const PAGES: u32 = 9000;
    ctx.with(|w| w.vm.inject = Inject::new(0, 11));
    let mut random = Random(0x2545_f491_4f6c_dd1d * seed);
    let mut space = ctx.with(|w| w.vm.create_mapping(PAGES));
    let file = file(ctx, PAGES);
    let mut blocks = Vec::new();
    for _ in 0..3000 {
        match random.below(16) {
            0..=5 => {
                let start = random.below(PAGES - 64);
                for index in start..start + 64 {
                    let empty = ctx.with(|w| w.vm.spaces().slot(space, index) == Slot::Empty);
                    if empty && ctx.fault_base(space, index).await.is_err() {
                        let cpu = ctx.cpu();
                        ctx.with(|w| w.vm.remove_space(cpu, space));
                        space = ctx.with(|w| w.vm.create_mapping(PAGES));
                        break;
                    }
                }
            }
            6 | 7 => {
                let start = random.below(PAGES - 64);
                for index in start..start + 64 {
                    let _ = ctx.read_page(file, index).await;
                }
            }
            8 => {
                let (start, cpu) = (random.below(PAGES - 256), ctx.cpu());
                for index in (start..start + 256).step_by(1 + random.below(4) as usize) {
                    ctx.with(|w| w.vm.unmap_page(cpu, space, index));
                }
            }
            9..=11 => {
                let (gfp, orders) = &REQUESTS[random.below(REQUESTS.len() as u32) as usize];
                let order = orders.start + random.below(orders.end - orders.start);
                let request = Request::new(order as u8, *gfp | Gfp::NOWARN);
                if let Ok(pfn) = ctx.kernel_block(request, Owner::Driver).await {
                    blocks.push(pfn);
                }
            }
            12..=14 => {
                for _ in 0..random.below(4).min(blocks.len() as u32) {
                    let at = random.below(blocks.len() as u32) as usize;
                    ctx.free_kernel_block(blocks.swap_remove(at));
                }
            }
            _ if random.below(32) == 0 => insist(ctx, &mut blocks).await,
            _ => ctx.sleep(u64::from(random.below(120)) * MILLISECOND).await,
        }
    }
}
