//! Activity in the background: the system's programs, the network, file lookups, the thread that pages out
//! background apps, and the killer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::alloc_flags::Watermark;
use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};
use pageblock::zone::Zone;
use pageblock_vm::lru::Lruvec;
use pageblock_vm::page::Owner;
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::super::app::{Read, Thread, read_file};
use super::Device;
use super::sizes;
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::{Random, World};
use crate::sim::{Nanos, SECOND};

/// Pages that are paged out between two checks of the time.
pub const PAGE_OUT_BATCH: u32 = 64;

/// Boots the system: takes memory that stays allocated, in a mixture as programs start.
pub(super) async fn boot(ctx: Ctx<'_>, device: Rc<RefCell<Device>>) {
    if let Err(OutOfMemory) = start(&ctx, &device).await {
        ctx.panic_without_memory();
    }
}

async fn start(ctx: &Ctx<'_>, device: &RefCell<Device>) -> Served {
    const STEP: u64 = 64;
    let sizes = device.borrow().sizes;
    let (shared, mapping) = (device.borrow().shared.clone(), device.borrow().system);
    let spec = sizes.spec;
    for at in 0..STEP {
        let part = |n: u64| at * n / STEP..(at + 1) * n / STEP;
        for _ in part(sizes.part(spec.system_kernel)) {
            ctx.kernel_block(Request::new(0, Gfp::GFP_KERNEL), Owner::Driver).await?;
        }
        for _ in part(sizes.part(spec.system_threads)) {
            Thread::fork(ctx, device).await?;
        }
        for file in part(shared.len() as u64) {
            read_file(ctx, shared[file as usize], u32::MAX, Read::Ahead).await?;
        }
        for index in part(sizes.part(spec.system_anon)) {
            ctx.fault_sized(mapping, index as u32, Advice::None).await?;
        }
    }
    ctx.charge_accrued().await;
    Ok(())
}

/// Returns the interval on this machine for a rate per second on the whole machine.
fn every(device: &RefCell<Device>, a_second: u64) -> Nanos {
    let sizes = device.borrow().sizes;
    SECOND * 1_000_000 / (sizes.part(1_000_000) * a_second)
}

/// Runs the system's own programs: they access their memory, replace slab objects, start short threads, read
/// shared files.
pub(super) async fn system(ctx: Ctx<'_>, device: Rc<RefCell<Device>>, mut random: Random) {
    let turn = SECOND / sizes::SYSTEM_PER_S;
    let per_thread = every(&device, sizes::THREADS_PER_S);
    let mut threads: Vec<(Nanos, Thread)> = Vec::new();
    let mut objects: VecDeque<u32> = VecDeque::new();
    let mut next_thread = 0;
    while !device.borrow().stopping {
        ctx.sleep(turn / 2 + random.below(turn)).await;
        let now = ctx.now();
        for (_, thread) in threads.extract_if(.., |(end, _)| *end <= now) {
            thread.exit(&ctx);
        }
        if work(&ctx, &device, &mut random, &mut objects).await.is_err() {
            device.borrow_mut().failed += 1;
        }
        if now >= next_thread {
            next_thread = now + per_thread;
            match Thread::fork(&ctx, &device).await {
                Ok(thread) => {
                    let (least, most) = sizes::THREAD_LIFE_S;
                    let life = (least + random.below(most - least + 1)) * SECOND;
                    threads.push((now + life, thread));
                }
                Err(OutOfMemory) => device.borrow_mut().failed += 1,
            }
        }
    }
}

async fn work(
    ctx: &Ctx<'_>,
    device: &RefCell<Device>,
    random: &mut Random,
    objects: &mut VecDeque<u32>,
) -> Served {
    let (sizes, caches, mapping) =
        (device.borrow().sizes, device.borrow().caches, device.borrow().system);
    let pages = sizes.part(sizes.spec.system_anon);
    for _ in 0..sizes.part(sizes::SYSTEM_TOUCHES) {
        // The lower its index, the more often a page is used.
        let index = random.below(pages) * random.below(pages) / pages;
        ctx.touch(mapping, index as u32, true, Advice::None).await?;
    }
    for _ in 0..sizes.part(sizes::SYSTEM_OBJECTS) {
        objects.push_back(ctx.object(caches.small, Gfp::GFP_KERNEL).await?);
    }
    let cpu = ctx.cpu();
    // They live a hundred turns.
    while objects.len() as u64 > 100 * sizes.part(sizes::SYSTEM_OBJECTS) {
        let oldest = objects.pop_front();
        ctx.with(|w| oldest.into_iter().for_each(|object| w.vm.put_object(cpu, object)));
    }
    let file = {
        let shared = &device.borrow().shared;
        shared[random.below(shared.len() as u64) as usize]
    };
    read_file(ctx, file, sizes::SYSTEM_READS, Read::Ahead).await?;
    Ok(())
}

/// Models packets: blocks that an interrupt allocates and a program frees soon after.
pub(super) async fn network(ctx: Ctx<'_>, device: Rc<RefCell<Device>>, mut random: Random) {
    let every = every(&device, sizes::BUFFERS_PER_S);
    let mut in_flight = VecDeque::new();
    while !device.borrow().stopping {
        ctx.sleep(every / 2 + random.below(every)).await;
        let order = random.below(4) as Order;
        let atomic = |order| Request::new(order, Gfp::GFP_ATOMIC | Gfp::COMP | Gfp::NOWARN);
        let block = match ctx.kernel_block(atomic(order), Owner::Driver).await {
            Ok(block) => Ok(block),
            Err(OutOfMemory) => ctx.kernel_block(atomic(0), Owner::Driver).await,
        };
        match block {
            Ok(block) => in_flight.push_back(block),
            // The packet is dropped.
            Err(OutOfMemory) => device.borrow_mut().dropped += 1,
        }
        if in_flight.len() > sizes::BUFFERS_IN_FLIGHT {
            in_flight.pop_front().into_iter().for_each(|block| ctx.free_kernel_block(block));
        }
    }
    in_flight.into_iter().for_each(|block| ctx.free_kernel_block(block));
}

/// Looks up files, as galleries and storage scans do.
pub(super) async fn lookups(ctx: Ctx<'_>, device: Rc<RefCell<Device>>, mut random: Random) {
    let every = every(&device, sizes::LOOKUPS_PER_S);
    while !device.borrow().stopping {
        ctx.sleep(every / 2 + random.below(every)).await;
        let inode = device.borrow_mut().random_media_file();
        if read_file(&ctx, inode, 1, Read::Ahead).await.is_err() {
            device.borrow_mut().failed += 1;
        }
    }
}

/// Pages out apps that have been in the background for some time (`process_madvise(MADV_PAGEOUT)`).
pub(super) async fn page_out(ctx: Ctx<'_>, device: Rc<RefCell<Device>>) {
    while !device.borrow().stopping {
        let due = {
            let queue = &mut device.borrow_mut().to_page_out;
            let due = queue.front().is_some_and(|&(time, ..)| time <= ctx.now());
            if due { queue.pop_front() } else { None }
        };
        let Some((_, app, mapping)) = due else {
            ctx.sleep(sizes::LOOK_EVERY).await;
            continue;
        };
        let mut index = 0;
        while let Some(len) = background_pages(&device, app, mapping)
            && index < len
        {
            let cpu = ctx.cpu();
            ctx.with(|w| {
                let freed = w.vm.page_out(cpu, mapping, index..(index + PAGE_OUT_BATCH).min(len));
                w.vm.stat.pgmadvise_pageout += freed;
                w.charge_looks();
                w.charge_work();
                w.wake_daemons();
            });
            index += PAGE_OUT_BATCH;
            ctx.yield_if_ahead().await;
        }
    }
}

/// Returns the pages of an app, if it is still in the background with the same memory.
fn background_pages(device: &RefCell<Device>, app: usize, mapping: SpaceId) -> Option<u32> {
    let device = device.borrow();
    let mut known = device.cached.iter();
    let process = known.find(|(of, process)| *of == app && process.anon == mapping);
    process.map(|(_, process)| process.anon_pages)
}

/// The time window in which refaults of file pages are counted.
#[derive(Clone, Copy, Default)]
struct Window {
    start: Nanos,
    refaults: u64,
    files: u64,
}

/// Kills the least recently used app while memory is short.
pub(super) async fn killer(ctx: Ctx<'_>, device: Rc<RefCell<Device>>) {
    let mut window = Window::default();
    while !device.borrow().stopping {
        ctx.sleep(sizes::LOOK_EVERY).await;
        let short = ctx.with(|w| is_short(w, &mut window));
        let out_of_memory = ctx.with(|w| {
            let cached = &device.borrow().cached;
            cached.iter().position(|(_, process)| w.vm.is_killed(process.anon))
        });
        let Device { cached, killed, out_of_memory: dead, .. } = &mut *device.borrow_mut();
        if let Some((_, process)) = out_of_memory.and_then(|at| cached.remove(at)) {
            *dead += 1;
            process.exit(&ctx);
        } else if short && let Some((_, victim)) = cached.pop_front() {
            *killed += 1;
            window = Window::default();
            victim.exit(&ctx);
        }
    }
}

fn is_short(w: &mut World<'_>, window: &mut Window) -> bool {
    let zones = w.vm.allocator().zones();
    let free: u64 = zones.iter().map(Zone::free_pages).sum();
    let high: u64 = zones.iter().map(|zone| zone.watermark(Watermark::High)).sum();
    let refaults = w.vm.stat.workingset_refault;
    if w.now() >= window.start + sizes::THRASHING_WINDOW {
        let files = w.vm.lru().vecs().iter().map(Lruvec::file).sum();
        *window = Window { start: w.now(), refaults, files };
    }
    let (swap_free, swap) = w.vm.swap_places();
    let thrashes = (refaults - window.refaults) * 100 > window.files * sizes::THRASHING;
    free < high && (swap_free * 100 < swap * sizes::SWAP_SHORT || thrashes)
}
