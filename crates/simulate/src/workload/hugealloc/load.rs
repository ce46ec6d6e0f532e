//! The load beside the builds: a memory cache that serves a network, and a program that requests huge pages.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::Advice;

use super::{BATCH_TIME, Sizes};
use crate::sim::MILLISECOND;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::Random;
use crate::workload::build::Build;

/// The interval at which the cache serves its clients.
pub(super) const TURN: u64 = 10 * MILLISECOND;
/// Pages that it touches each time. (K): 25,600 a second on the whole machine.
pub(super) const TOUCHES: u64 = 256;
/// Blocks of order 3 from which replies are sent (`page_frag`), one each time, and how many are in flight. (K)
const FRAGMENTS: usize = 8;
/// Buffers of 1 KiB that arrive each time, and how many are in flight. (K)
const BUFFERS: (usize, usize) = (8, 64);
/// Pages of a huge page.
pub const HUGE_PAGES: u32 = 512;
/// The time for which the program sleeps while its next batch is not due.
pub const LOOK_EVERY: u64 = 5 * MILLISECOND;

/// Models memcached: long-lived items in memory, popular ones touched more often; network buffers.
pub(super) async fn memory_cache(
    ctx: Ctx<'_>,
    sizes: Sizes,
    mut random: Random,
    stop: Rc<Cell<bool>>,
) {
    let space = ctx.with(|w| w.vm.create_mapping(sizes.cache as u32));
    let buffers = ctx.with(|w| {
        w.vm.create_cache(CacheSpec { name: "kmalloc-1k", size: 1024, reclaimable: false })
    });
    let mut network = Network { buffers, fragments: VecDeque::new(), objects: VecDeque::new() };
    let served = serve(&ctx, sizes, space, &mut network, &mut random, &stop).await;
    if served.is_err() {
        ctx.end_program("the memory cache");
    }
    let cpu = ctx.cpu();
    ctx.with(|w| {
        w.vm.remove_space(cpu, space);
        network.objects.iter().for_each(|&object| w.vm.put_object(cpu, object));
        network.fragments.iter().for_each(|&block| w.vm.disown(cpu, block));
    });
}

async fn serve(
    ctx: &Ctx<'_>,
    sizes: Sizes,
    space: SpaceId,
    network: &mut Network,
    random: &mut Random,
    stop: &Cell<bool>,
) -> Served {
    for index in 0..sizes.cache as u32 {
        ctx.fault_sized(space, index, Advice::None).await?;
    }
    while !stop.get() {
        network.turn(ctx).await?;
        for _ in 0..sizes.scale.of(TOUCHES).max(1) {
            // Pages with lower indexes are more popular.
            let index = random.below(sizes.cache) * random.below(sizes.cache) / sizes.cache;
            let swapped = ctx.with(|w| {
                w.pending += w.costs.read_page;
                match w.vm.spaces().slot(space, index as u32) {
                    Slot::Page(_) => {
                        if w.vm.touch(space, index as u32, false) {
                            w.pending += w.costs.fault_base;
                            w.vm.stat.pgfault += 1;
                        }
                        false
                    }
                    _ => true,
                }
            });
            if swapped {
                ctx.fault_sized(space, index as u32, Advice::None).await?;
            }
        }
        ctx.sleep(TURN).await;
    }
    Ok(())
}

/// Buffers in flight.
struct Network {
    buffers: CacheId,
    fragments: VecDeque<Pfn>,
    objects: VecDeque<u32>,
}

impl Network {
    async fn turn(&mut self, ctx: &Ctx<'_>) -> Served {
        self.fragments.push_back(fragment(ctx).await?);
        for _ in 0..BUFFERS.0 {
            self.objects.push_back(ctx.object(self.buffers, Gfp::GFP_KERNEL).await?);
        }
        while self.fragments.len() > FRAGMENTS {
            self.fragments.pop_front().into_iter().for_each(|block| ctx.free_kernel_block(block));
        }
        let cpu = ctx.cpu();
        while self.objects.len() > BUFFERS.1 {
            let oldest = self.objects.pop_front();
            ctx.with(|w| oldest.into_iter().for_each(|object| w.vm.put_object(cpu, object)));
        }
        Ok(())
    }
}

/// Allocates a block of order 3 if available, else a page (`skb_page_frag_refill`).
async fn fragment(ctx: &Ctx<'_>) -> Served<Pfn> {
    let light = Gfp::GFP_NOWAIT | Gfp::COMP | Gfp::NOWARN | Gfp::NORETRY;
    match ctx.kernel_block(Request::new(3, light), Owner::Driver).await {
        Ok(block) => Ok(block),
        Err(OutOfMemory) => ctx.kernel_block(Request::new(0, Gfp::GFP_KERNEL), Owner::Driver).await,
    }
}

/// Models the program that requests huge pages: its batches are spread evenly over the jobs of the build.
pub(super) async fn batches(ctx: Ctx<'_>, build: Rc<Build>, sizes: Sizes) {
    let Sizes { jobs, batches, batch, .. } = sizes;
    for number in 0..batches {
        while build.done.get() * batches < number * jobs {
            ctx.sleep(LOOK_EVERY).await;
        }
        if one_batch(&ctx, batch).await.is_err() {
            ctx.end_program("the program that asks for huge pages");
        }
    }
}

async fn one_batch(ctx: &Ctx<'_>, batch: u64) -> Served {
    let space = ctx.with(|w| w.vm.create_mapping(batch as u32 * HUGE_PAGES));
    ctx.charge_accrued().await;
    let start = ctx.now();
    let mut tables = Vec::new();
    let faulted = fault_batch(ctx, space, batch, &mut tables).await;
    ctx.charge_accrued().await;
    let time = ctx.now() - start;
    let cpu = ctx.cpu();
    ctx.with(|w| {
        w.samples.entry(BATCH_TIME.to_owned()).or_default().push(time);
        w.vm.remove_space(cpu, space);
    });
    tables.into_iter().for_each(|table| ctx.free_kernel_block(table));
    faulted
}

/// Touches each region once: faults a huge page, or a small one.
async fn fault_batch(ctx: &Ctx<'_>, space: SpaceId, batch: u64, tables: &mut Vec<Pfn>) -> Served {
    for region in 0..batch as u32 {
        let first = region * HUGE_PAGES;
        if !ctx.fault_huge(space, first, Advice::HugePages).await {
            ctx.fault_sized(space, first, Advice::HugePages).await?;
        }
        // A huge page deposits a page table for when it is split.
        let table = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
        tables.push(ctx.kernel_block(table, Owner::PageTable).await?);
    }
    Ok(())
}
