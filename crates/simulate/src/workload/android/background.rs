//! Activity in the background: the system that has run since boot, short-lived threads, file lookups.

use std::cell::RefCell;
use std::rc::Rc;

use pageblock::request::{Gfp, Request};
use pageblock_vm::page::Owner;
use pageblock_vm::thp::Advice;

use super::super::app::{Read, Thread, between, ion_buffer, read_file};
use super::{Phone, sizes};
use crate::sim::task::{Ctx, OutOfMemory, Served};
use crate::sim::world::Random;
use crate::sim::{Nanos, SECOND};

/// Boots the system: takes memory that stays allocated, in a mixture as programs start.
pub(super) async fn boot(ctx: Ctx<'_>, phone: Rc<RefCell<Phone>>) {
    if let Err(OutOfMemory) = start(&ctx, &phone).await {
        ctx.panic_without_memory();
    }
}

async fn start(ctx: &Ctx<'_>, phone: &RefCell<Phone>) -> Served {
    const STEP: u64 = 64;
    let sizes = phone.borrow().sizes;
    let framework = phone.borrow().framework.clone();
    let anon = sizes.part(sizes::SYSTEM_ANON_PAGES);
    let mapping = ctx.with(|w| w.vm.create_mapping(anon as u32));
    for at in 0..STEP {
        let part = |n: u64| at * n / STEP..(at + 1) * n / STEP;
        for _ in part(sizes.part(sizes::SYSTEM_KERNEL_PAGES)) {
            ctx.kernel_block(Request::new(0, Gfp::GFP_KERNEL), Owner::Driver).await?;
        }
        for _ in part(sizes.part(sizes::SYSTEM_THREADS)) {
            Thread::fork(ctx, phone).await?;
        }
        let buffer = part(sizes.part(sizes::SYSTEM_BUFFER_PAGES));
        ion_buffer(ctx, buffer.end - buffer.start).await.1?;
        for file in part(framework.len() as u64) {
            read_file(ctx, framework[file as usize], u32::MAX, Read::Single).await?;
        }
        for index in part(anon) {
            ctx.fault_sized(mapping, index as u32, Advice::None).await?;
        }
    }
    ctx.charge_accrued().await;
    Ok(())
}

/// Starts threads that do some work and exit.
pub(super) async fn threads(ctx: Ctx<'_>, phone: Rc<RefCell<Phone>>, mut random: Random) {
    let sizes = phone.borrow().sizes;
    let every = sizes.every(sizes::THREADS_PER_S);
    let mut alive: Vec<(Nanos, Thread)> = Vec::new();
    while !phone.borrow().stopping {
        ctx.sleep(every / 2 + random.below(every)).await;
        let now = ctx.now();
        for (_, thread) in alive.extract_if(.., |(end, _)| *end <= now) {
            thread.exit(&ctx);
        }
        match Thread::fork(&ctx, &phone).await {
            Ok(thread) => {
                let life = between(&mut random, sizes::THREAD_LIFE_S) * SECOND;
                alive.push((now + life, thread));
            }
            Err(OutOfMemory) => phone.borrow_mut().failed += 1,
        }
    }
}

/// Looks up files, as galleries and storage scans do.
pub(super) async fn files(ctx: Ctx<'_>, phone: Rc<RefCell<Phone>>, mut random: Random) {
    let every = phone.borrow().sizes.every(sizes::LOOKUPS_PER_S);
    while !phone.borrow().stopping {
        ctx.sleep(every / 2 + random.below(every)).await;
        let inode = {
            let media = &phone.borrow().media;
            media[random.below(media.len() as u64) as usize]
        };
        if read_file(&ctx, inode, 1, Read::Single).await.is_err() {
            phone.borrow_mut().failed += 1;
        }
    }
}
