//! An app of the phone: its memory, its launch, and its use.

use std::cell::RefCell;

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};
use pageblock_vm::thp::Advice;

use super::super::app::{App, Caches, Graphics, Host, Plan, Read, between, read_file};
use super::sizes::{self, Sizes};
use super::{Phone, kill_where_short};
use crate::sim::task::{Ctx, Served};
use crate::sim::world::Random;

/// `THREAD_SIZE_ORDER` of arm64: 16 KiB contiguous, before stacks were vmapped.
const STACK_ORDER: Order = 2;
/// The size of `task_struct` on arm64's 3.10. (K)
pub(super) const TASK_STRUCT: u32 = 3392;

impl Host for Phone {
    const ACCOUNT: Gfp = Gfp::GFP_KERNEL;

    fn stack(_: &Ctx<'_>) -> impl Iterator<Item = Request> {
        std::iter::once(Request::new(STACK_ORDER, Gfp::GFP_KERNEL))
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
        Plan {
            anon: sizes::ANON_PAGES,
            tables: sizes::TABLES,
            threads: sizes::THREADS,
            buffers: sizes::BUFFERS,
            binder: sizes::BINDER_PAGES,
            areas: sizes::VM_AREAS,
            small: sizes::SMALL_OBJECTS,
        }
    }

    fn buffer_pages(&mut self) -> u64 {
        between(&mut self.random, sizes::BUFFER_PAGES)
    }

    fn graphics(&self) -> Graphics {
        Graphics::DmaBuf
    }
}

/// Brings an app to the front: a new app is built up; a cached app accesses a quarter of its memory. Both read
/// the app's files and some that all apps share.
pub(super) async fn launch(
    app: &mut App,
    ctx: &Ctx<'_>,
    phone: &RefCell<Phone>,
    number: usize,
) -> Served {
    let files = phone.borrow().files[number].clone();
    let framework = phone.borrow().framework.clone();
    let parts = sizes::LAUNCH_PARTS;
    for part in 0..parts {
        kill_where_short(ctx, phone);
        let of = |n: u64| (part * n / parts)..((part + 1) * n / parts);
        if app.built {
            for index in of(u64::from(app.anon_pages) / 4) {
                ctx.fault_sized(app.anon, 4 * index as u32, Advice::None).await?;
            }
        } else {
            app.grow(ctx, phone, &of).await?;
        }
        for at in of(files.len() as u64) {
            read_file(ctx, files[at as usize], u32::MAX, Read::Single).await?;
        }
        for at in of(framework.len() as u64 / 2) {
            let other = phone.borrow_mut().random.below(2);
            read_file(ctx, framework[(2 * at + other) as usize], u32::MAX, Read::Single).await?;
        }
        ctx.sleep(sizes::LAUNCH_PAUSE).await;
    }
    app.built = true;
    Ok(())
}

/// Uses the foreground app until the next launch: it frees and faults part of its memory, reads files, and
/// replaces one of its buffers.
pub(super) async fn run_foreground(app: &mut App, ctx: &Ctx<'_>, phone: &RefCell<Phone>) -> Served {
    let sizes: Sizes = phone.borrow().sizes;
    for _ in 0..sizes::BETWEEN_LAUNCHES / sizes::USE_EVERY {
        kill_where_short(ctx, phone);
        for _ in 0..sizes.part(sizes::USE_ANON_PAGES) {
            app.turn_over(ctx, phone).await?;
        }
        let mut read = 0;
        while read < sizes.part(sizes::USE_FILE_PAGES) {
            let file = phone.borrow_mut().random_media_file();
            read += read_file(ctx, file, u32::MAX, Read::Single).await?;
        }
        app.replace_buffer(ctx, phone).await?;
        ctx.sleep(sizes::USE_EVERY).await;
    }
    Ok(())
}
