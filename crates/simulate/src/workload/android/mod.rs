//! A phone in use: apps are launched in turn, used for a while, and killed when memory is short.
//!
//! The published phones were used by hand for two and a half days, so the model of an app comes from
//! docs/experiments/sources.md#apps, not from the series. Every amount below is for the whole machine and
//! shrinks with it. `sizes.rs` has the amounts, `process.rs` what an app does, `background.rs` the activity
//! beside the foreground app.

mod background;
mod process;
mod sizes;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use pageblock::policy::CmaUse;
use pageblock::tuning;
use pageblock::zone::Zone;
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::ThpEnabled;
use pageblock_measure::value::names;
use pageblock_vm::config::{Config, Filesystem};
use pageblock_vm::inode::InodeId;
use pageblock_vm::lru::Lruvec;

use super::app::{App, Caches, between};
use super::{Head, Outcome, Workload, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::task::{Ctx, Served};
use crate::sim::world::{Random, World};
use crate::sim::{MILLISECOND, Nanos, SECOND};
use sizes::Sizes;

/// `vm.extra_free_kbytes` of a phone with 1080 x 1920 pixels: three screens of 4 bytes a pixel, as
/// Android's window manager sets it.
const EXTRA_FREE_KBYTES: u32 = 24_300;
/// The highest order of free blocks that is reported, as in the series.
const ORDERS: Order = 4;

/// ChengYi He's phone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AndroidUptime;

impl Workload for AndroidUptime {
    fn head(&self) -> Head<'_> {
        Head {
            name: "android-uptime",
            summary: "apps launched, used and killed on a phone for days (sparing orders 2 and 3, Dec 2015)",
            machine: "phone-2g8",
            tables: include_str!("tables.toml"),
        }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(machine).map(|_| ())
    }

    fn filesystem(&self) -> Filesystem {
        Filesystem::Fuse
    }

    fn configure(&self, config: &mut Config) {
        config.file_objects = sizes::FILE_OBJECTS;
    }

    fn set_up(&self, kernel: &mut Kernel) {
        kernel.huge.thp_enabled = ThpEnabled::Never;
        let policy = &mut kernel.allocator;
        // Vendors of such phones changed 3.10 in this way (docs/experiments/android-uptime.md).
        if policy.cma == CmaUse::InFallback {
            policy.cma = CmaUse::First;
        }
        if policy.extra_free_kbytes == 0 {
            policy.extra_free_kbytes = EXTRA_FREE_KBYTES;
        }
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(machine)?;
        let phone = executor.with(|w| Phone::new(w, sizes, seed));
        let phone = Rc::new(RefCell::new(phone));
        let shared = Rc::clone(&phone);
        let task = executor.spawn("boot", Place::Near(0), |ctx| background::boot(ctx, shared));
        executor.run(&[task], "boot")?;
        check(executor, "after boot")?;
        let start = executor.with(|w| {
            w.start_counting();
            w.begin_phase(1.0, Pace::Steps(sizes.launches));
            w.now()
        });
        let (shared, random) = (Rc::clone(&phone), Random::new(seed, 2));
        executor.spawn("threads", Place::Near(1), |ctx| background::threads(ctx, shared, random));
        let (shared, random) = (Rc::clone(&phone), Random::new(seed, 3));
        executor.spawn("files", Place::Near(2), |ctx| background::files(ctx, shared, random));
        let shared = Rc::clone(&phone);
        let user = executor.spawn("user", Place::Near(0), |ctx| user(ctx, shared));
        executor.run(&[user], "use")?;
        check(executor, "after use")?;
        let elapsed = executor.with(|w| w.now()) - start;
        let phone = phone.borrow();
        let mut counters = executor.with(|w| at_the_end(w));
        counters.extend(phone.counted(elapsed));
        Ok(Outcome {
            counters,
            notes: vec![format!(
                "android-uptime: {} launches in {:.1} simulated hours of use; free blocks are those of the last \
                 moment.",
                phone.launches,
                elapsed as f64 / (3600 * SECOND) as f64
            )],
        })
    }
}

/// The state that the phone's tasks share.
struct Phone {
    sizes: Sizes,
    caches: Caches,
    /// The files of each app, by app number.
    files: Vec<Vec<InodeId>>,
    /// Files that every app uses.
    framework: Vec<InodeId>,
    /// Files that background tasks look up.
    media: Vec<InodeId>,
    /// The apps in the background, least recently used first.
    cached: VecDeque<(usize, App)>,
    random: Random,
    launches: u64,
    cold: u64,
    killed: u64,
    out_of_memory: u64,
    /// Requests that failed in background tasks.
    failed: u64,
    /// The number of scanned pages when the low memory killer was last called.
    scanned: u64,
    stopping: bool,
}

impl Phone {
    fn new(w: &mut World<'_>, sizes: Sizes, seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let files = (0..sizes::APPS)
            .map(|_| {
                let pages = sizes.part(between(&mut random, sizes::FILE_PAGES));
                sizes::file_lengths(pages).map(|len| w.vm.create_file(len)).collect()
            })
            .collect();
        let framework = sizes::file_lengths(sizes.part(sizes::FRAMEWORK_PAGES));
        let framework = framework.map(|len| w.vm.create_file(len)).collect();
        let media = (0..sizes.part(sizes::MEDIA_FILES))
            .map(|_| w.vm.create_file(sizes::MEDIA_PAGES))
            .collect();
        Self {
            sizes,
            caches: Caches::new(w, process::TASK_STRUCT),
            files,
            framework,
            media,
            cached: VecDeque::new(),
            random,
            launches: 0,
            cold: 0,
            killed: 0,
            out_of_memory: 0,
            failed: 0,
            scanned: 0,
            stopping: false,
        }
    }

    fn random_media_file(&mut self) -> InodeId {
        self.media[self.random.below(self.media.len() as u64) as usize]
    }

    fn counted(&self, elapsed: Nanos) -> Vec<(String, u64)> {
        [
            ("android_launches", self.launches),
            ("android_cold_launches", self.cold),
            ("android_apps_killed", self.killed),
            ("android_apps_out_of_memory", self.out_of_memory),
            ("android_background_failures", self.failed),
            (names::SIMULATED_ELAPSED_MS, elapsed / MILLISECOND),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec()
    }
}

/// Models the user: brings one app after another to the front and uses it for a while.
async fn user(ctx: Ctx<'_>, phone: Rc<RefCell<Phone>>) {
    let launches = phone.borrow().sizes.launches;
    for launch in 0..launches {
        let number = launch as usize % sizes::APPS;
        let known = {
            let mut phone = phone.borrow_mut();
            phone.launches += 1;
            let at = phone.cached.iter().position(|&(of, _)| of == number);
            at.and_then(|at| phone.cached.remove(at)).map(|(_, app)| app)
        };
        let mut app = match known {
            Some(app) => app,
            None => {
                phone.borrow_mut().cold += 1;
                App::new(&ctx, &phone)
            }
        };
        let used = use_app(&ctx, &phone, number, &mut app).await;
        if used.is_err() {
            phone.borrow_mut().out_of_memory += 1;
            app.exit(&ctx);
        } else {
            phone.borrow_mut().cached.push_back((number, app));
        }
        ctx.charge_accrued().await;
        ctx.with(|w| {
            w.steps += 1;
            sample_free(w);
        });
    }
    phone.borrow_mut().stopping = true;
}

async fn use_app(ctx: &Ctx<'_>, phone: &RefCell<Phone>, number: usize, app: &mut App) -> Served {
    ctx.charge_accrued().await;
    let start = ctx.now();
    process::launch(app, ctx, phone, number).await?;
    ctx.charge_accrued().await;
    let latency = ctx.now() - start;
    ctx.with(|w| w.samples.entry("launch".to_owned()).or_default().push(latency));
    process::run_foreground(app, ctx, phone).await
}

/// Kills the least recently used app if pages were scanned since the last call and both free pages and the page
/// cache are below the limit (the low memory killer of 3.10: a shrinker, so only reclaim calls it).
fn kill_where_short(ctx: &Ctx<'_>, phone: &RefCell<Phone>) {
    let limit = phone.borrow().sizes.part(sizes::MINFREE_PAGES);
    let (scanned, short) = ctx.with(|w| {
        let scanned = w.vm.stat.pgscan_kswapd + w.vm.stat.pgscan_direct;
        (scanned, free_pages(w) < limit && cached_pages(w) < limit)
    });
    let before = std::mem::replace(&mut phone.borrow_mut().scanned, scanned);
    if !short || scanned == before {
        return;
    }
    let Some((_, victim)) = phone.borrow_mut().cached.pop_front() else { return };
    phone.borrow_mut().killed += 1;
    victim.exit(ctx);
}

fn free_pages(w: &World<'_>) -> u64 {
    w.vm.allocator().zones().iter().map(Zone::free_pages).sum()
}

fn cached_pages(w: &World<'_>) -> u64 {
    w.vm.lru().vecs().iter().map(Lruvec::file).sum()
}

/// Samples the free blocks of each order.
fn sample_free(w: &mut World<'_>) {
    let free = free_pages(w);
    w.samples.entry("free-pages".to_owned()).or_default().push(free);
    for order in 0..=3 {
        let blocks = w.vm.allocator().zones().iter().map(|zone| zone.nr_free(order)).sum();
        w.samples.entry(format!("free-order-{order}")).or_default().push(blocks);
    }
}

/// Returns the final values of `/proc/meminfo` and `/proc/pagetypeinfo`.
fn at_the_end(w: &World<'_>) -> Vec<(String, u64)> {
    let mut counters = vec![
        ("mem_free_kb".to_owned(), tuning::KBYTES_PER_PAGE * free_pages(w)),
        ("cached_kb".to_owned(), tuning::KBYTES_PER_PAGE * cached_pages(w)),
    ];
    for order in 0..=3 {
        // Orders that never stalled have no counter.
        counters.push((format!("allocstall_order_{order}"), w.vm.stalls.allocstall(order)));
    }
    for mt in Migratetype::ALL {
        let blocks = w.vm.allocator().zones().iter().flat_map(Zone::pageblocks);
        let blocks = blocks.filter(|&(_, of, _)| of == mt).count() as u64;
        counters.push((names::blocks(mt), blocks));
        for order in 0..=ORDERS {
            let zones = w.vm.allocator().zones().iter();
            let blocks = zones.map(|zone| zone.nr_free_of(order, mt)).sum();
            counters.push((names::free_blocks(mt, order), blocks));
        }
    }
    counters
}
