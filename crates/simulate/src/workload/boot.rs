//! A machine after boot: the long-lived memory of the kernel and a few programs.

use pageblock::request::{Gfp, Request};
use pageblock_vm::page::Owner;
use pageblock_vm::thp::Advice;

use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::task::{Ctx, OutOfMemory, Served};

// Shares of memory, in thousandths. [K]: an idle server uses one or two hundred MiB.
const KERNEL: u64 = 3;
const PROGRAMS: u64 = 4;
const FILES: u64 = 5;
/// The share of memory that a boot takes, in thousandths.
pub const TAKEN: u64 = KERNEL + PROGRAMS + FILES;

/// Boots the machine.
///
/// # Errors
/// As [`Executor::run`].
pub fn run(executor: &mut Executor<'_>) -> Ran {
    let task = executor.spawn("boot", Place::Near(0), boot);
    executor.run(&[task], "boot")
}

/// Takes the memory, mixed as programs start: some kernel pages, some file pages, some anonymous pages.
async fn boot(ctx: Ctx<'_>) {
    if let Err(OutOfMemory) = start(&ctx).await {
        ctx.panic_without_memory();
    }
}

async fn start(ctx: &Ctx<'_>) -> Served {
    const STEP: u64 = 64;
    let pages: u64 =
        ctx.with(|w| w.vm.allocator().zones().iter().map(pageblock::zone::Zone::managed).sum());
    let (kernel, programs, files) =
        (pages * KERNEL / 1000, pages * PROGRAMS / 1000, pages * FILES / 1000);
    let mapping = ctx.with(|w| w.vm.create_mapping(programs.max(1) as u32));
    let file = ctx.with(|w| w.vm.create_file(files.max(1) as u32));
    ctx.open(file).await?;
    let space = ctx.with(|w| w.vm.inodes().get(file).space);
    for at in 0..STEP {
        let part = |n: u64| at * n / STEP..(at + 1) * n / STEP;
        for _ in part(kernel) {
            ctx.kernel_block(Request::new(0, Gfp::GFP_KERNEL), Owner::Driver).await?;
        }
        for index in part(files) {
            ctx.read_page(space, index as u32).await?;
        }
        for index in part(programs) {
            ctx.fault_sized(mapping, index as u32, Advice::None).await?;
        }
    }
    ctx.charge_accrued().await;
    Ok(())
}
