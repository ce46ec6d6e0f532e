//! An app or a tab: its memory, its launch, and its use.

use std::cell::RefCell;

use pageblock::request::{Gfp, Request};
use pageblock_vm::process;
use pageblock_vm::thp::Advice;

use super::super::app::{App, Caches, Graphics, Host, Plan, Read, read_file};
use super::Device;
use super::sizes::{self, PARTS, Sizes};
use crate::sim::Nanos;
use crate::sim::task::{Ctx, Served};
use crate::sim::world::Random;

/// The size of `task_struct` in 6.x on 64-bit machines. (K)
pub(super) const TASK_STRUCT: u32 = 4800;

impl Host for Device {
    const ACCOUNT: Gfp = Gfp::GFP_KERNEL_ACCOUNT;

    fn stack(ctx: &Ctx<'_>) -> impl Iterator<Item = Request> {
        ctx.with(|w| process::stack_requests(&w.vm.kernel().memory))
    }

    fn caches(&self) -> Caches {
        self.caches
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn part(&self, whole: u64) -> u64 {
        self.sizes.part(whole)
    }

    fn bounds(&self) -> Plan<(u64, u64)> {
        let spec = self.sizes.spec;
        Plan {
            anon: spec.anon,
            tables: spec.tables,
            threads: spec.threads,
            buffers: spec.buffers,
            binder: sizes::BINDER_PAGES,
            areas: sizes::VM_AREAS,
            small: sizes::SMALL_OBJECTS,
        }
    }

    fn buffer_pages(&mut self) -> u64 {
        let Self { sizes, random, .. } = self;
        sizes.of_range(random, sizes.spec.buffer_pages)
    }

    fn graphics(&self) -> Graphics {
        self.sizes.spec.graphics
    }
}

/// Brings an app to the front and returns when it is displayed. A new app is built up; a cached app accesses
/// part of its memory, starting at another page each time, and reads part of its files.
pub(super) async fn launch(
    app: &mut App,
    ctx: &Ctx<'_>,
    device: &RefCell<Device>,
    number: usize,
) -> Served {
    let (sizes, files) = (device.borrow().sizes, device.borrow().files[number].clone());
    let spec = sizes.spec;
    let warm = app.built;
    let think_time = sizes.time(if warm { spec.think.1 } else { spec.think.0 }) / PARTS;
    let shared = device.borrow().shared.clone();
    for part in 0..PARTS {
        let of = |n: u64| (part * n / PARTS)..((part + 1) * n / PARTS);
        think(ctx, think_time).await;
        if warm {
            let first = device.borrow_mut().random.below(spec.warm_part);
            for index in of(u64::from(app.anon_pages) / spec.warm_part) {
                ctx.touch(app.anon, (spec.warm_part * index + first) as u32, true, Advice::None)
                    .await?;
            }
        } else {
            app.grow(ctx, device, &of).await?;
        }
        let skip = if warm { spec.warm_files } else { 1 };
        for at in of(files.len() as u64).filter(|at| at % skip == 0) {
            read_file(ctx, files[at as usize], u32::MAX, Read::Ahead).await?;
        }
        for at in of(shared.len() as u64 / 2) {
            let other = device.borrow_mut().random.below(2);
            read_file(ctx, shared[(2 * at + other) as usize], u32::MAX, Read::Ahead).await?;
        }
    }
    if warm {
        app.replace_buffer(ctx, device).await?;
    }
    app.built = true;
    ctx.charge_accrued().await;
    Ok(())
}

async fn think(ctx: &Ctx<'_>, time: Nanos) {
    ctx.spend(time);
    ctx.with(|w| w.user += time);
    ctx.charge_accrued().await;
}

/// Uses the foreground app for a while: it frees and faults part of its memory, reads files, and replaces one
/// of its buffers.
pub(super) async fn run_foreground(
    app: &mut App,
    ctx: &Ctx<'_>,
    device: &RefCell<Device>,
) -> Served {
    let sizes: Sizes = device.borrow().sizes;
    for _ in 0..sizes.spec.used / sizes::TURN {
        for _ in 0..sizes.part(sizes::TURN_ANON) {
            app.turn_over(ctx, device).await?;
        }
        let mut read = 0;
        while read < sizes.part(sizes::TURN_FILES) {
            let file = device.borrow_mut().random_media_file();
            read += read_file(ctx, file, u32::MAX, Read::Ahead).await?;
        }
        app.replace_buffer(ctx, device).await?;
        ctx.sleep(sizes::TURN).await;
    }
    Ok(())
}
