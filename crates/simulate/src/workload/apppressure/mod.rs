//! apppressure: client devices without huge pages under memory pressure, where freelist hygiene was reported to
//! cause a regression.
//!
//! The test has three forms. On a phone apps are launched in turn, used for a while, and paged out to zram once
//! they are in the background; the apps fit in memory and zram, or exceed it. On a Chromebook tabs are
//! switched. No published test is public in full (docs/experiments/sources.md#apppressure). `sizes.rs` has the
//! amounts, `process.rs` what an app does, `background.rs` the activity beside it.

mod amounts;
mod background;
pub mod names;
mod process;
mod sizes;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::huge::ThpEnabled;
use pageblock_measure::value::names as common;
use pageblock_vm::config::Config;
use pageblock_vm::inode::InodeId;
use pageblock_vm::space::SpaceId;

use super::app::{App, Caches};
use super::{Head, Outcome, Workload, check};
use crate::error::Error;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::task::{Ctx, Served};
use crate::sim::world::{Random, World};
use crate::sim::{MICROSECOND, MILLISECOND, Nanos};
use sizes::{Sizes, Spec};

pub use amounts::Amounts;
pub use background::PAGE_OUT_BATCH;
pub use sizes::{FILE_LEN, MEDIA_PAGES};

/// Android's addition to the low and the high watermark: three screens of 1080 x 2400 pixels of 4 bytes, in KiB
/// (`extra_free_kbytes`; from Android 12 on by `watermark_scale_factor`). (K)
const EXTRA_FREE_KBYTES: u32 = 30_375;

/// The form of the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Android: app launch.
    Launch,
    /// The same with more apps than fit: the oldest are killed.
    Kill,
    /// ChromeOS: tab switching.
    Tabs,
}

impl Form {
    const fn spec(self) -> Spec {
        match self {
            Self::Launch => sizes::LAUNCH,
            Self::Kill => sizes::KILL,
            Self::Tabs => sizes::TABS,
        }
    }
}

impl Workload for Form {
    fn head(&self) -> Head<'_> {
        let (name, summary, machine) = match self {
            Self::Launch => (
                "apppressure",
                "apps launched on a phone with zram (regression by freelist hygiene, Jun 2024)",
                "phone-3g",
            ),
            Self::Kill => (
                "apppressure-kill",
                "the same with more apps and less zram: the oldest are killed",
                "phone-3g-kill",
            ),
            Self::Tabs => (
                "apppressure-tabs",
                "tabs switched on a Chromebook with zram (regression by freelist hygiene, Jun 2024)",
                "chromebook-4g",
            ),
        };
        Head { name, summary, machine, tables: include_str!("tables.toml") }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        Sizes::of(*self, machine).map(|_| ())
    }

    fn configure(&self, config: &mut Config) {
        config.file_objects = sizes::FILE_OBJECTS;
    }

    fn set_up(&self, kernel: &mut Kernel) {
        kernel.huge.thp_enabled = ThpEnabled::Never;
        kernel.sysctl.swappiness = 100;
        let policy = &mut kernel.allocator;
        if *self != Self::Tabs && policy.extra_free_kbytes == 0 {
            policy.extra_free_kbytes = EXTRA_FREE_KBYTES;
        }
    }

    fn run(&self, executor: &mut Executor<'_>, machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        let sizes = Sizes::of(*self, machine)?;
        let device = executor.with(|w| {
            w.costs = w.costs.of_client();
            w.watches_stalls = true;
            Rc::new(RefCell::new(Device::new(w, sizes, seed)))
        });
        let shared = Rc::clone(&device);
        let boot = executor.spawn("boot", Place::Near(0), |ctx| background::boot(ctx, shared));
        executor.run(&[boot], "boot")?;
        check(executor, "after boot")?;
        executor.with(|w| w.begin_phase(1.0, Pace::Steps(sizes.launches())));
        spawn_background(executor, &device, seed);
        let (shared, first) = (Rc::clone(&device), 0..sizes.spec.apps);
        let user = executor.spawn("user", Place::Near(0), |ctx| user(ctx, shared, first));
        executor.run(&[user], "the first round")?;
        check(executor, "after the first round")?;
        let (start, before) = executor.with(|w| {
            w.start_counting();
            w.samples.clear();
            w.vm.observer.record_taken();
            device.borrow_mut().start_counting();
            (w.now(), w.pressure())
        });
        let (shared, rest) = (Rc::clone(&device), sizes.spec.apps..sizes.launches());
        let user = executor.spawn("user", Place::Near(0), |ctx| user_counted(ctx, shared, rest));
        executor.run(&[user], "use")?;
        check(executor, "after use")?;
        let mut counters = device.borrow().counted();
        executor.with(|w| counters.extend(at_the_end(w, start, before)));
        Ok(Outcome {
            counters,
            notes: vec![format!(
                "{}: {} launches are counted; latencies shrink with the scale, as apps do.",
                self.name(),
                sizes.launches() - sizes.spec.apps
            )],
        })
    }
}

fn spawn_background(executor: &mut Executor<'_>, device: &Rc<RefCell<Device>>, seed: u64) {
    let random = |purpose| Random::new(seed, purpose);
    let of = || Rc::clone(device);
    let shared = of();
    executor.spawn("system", Place::Near(1), |ctx| background::system(ctx, shared, random(2)));
    let shared = of();
    executor.spawn("network", Place::Near(2), |ctx| background::network(ctx, shared, random(3)));
    let shared = of();
    executor.spawn("lookups", Place::Near(3), |ctx| background::lookups(ctx, shared, random(4)));
    let shared = of();
    executor.spawn("page-out", Place::Near(1), |ctx| background::page_out(ctx, shared));
    let shared = of();
    executor.spawn("killer", Place::Near(2), |ctx| background::killer(ctx, shared));
}

/// The state that the device's tasks share.
struct Device {
    sizes: Sizes,
    caches: Caches,
    /// The files of each app, by app number.
    files: Vec<Vec<InodeId>>,
    /// Files shared by all apps.
    shared: Vec<InodeId>,
    /// Files that are looked up in the background.
    media: Vec<InodeId>,
    /// The memory of the system's programs.
    system: SpaceId,
    /// The apps in the background, least recently used first.
    cached: VecDeque<(usize, App)>,
    /// The apps to be paged out: when, which, and the memory.
    to_page_out: VecDeque<(Nanos, usize, SpaceId)>,
    random: Random,
    cold: u64,
    warm: u64,
    killed: u64,
    out_of_memory: u64,
    failed: u64,
    dropped: u64,
    stopping: bool,
}

impl Device {
    fn new(w: &mut World<'_>, sizes: Sizes, seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let mut files = |pages: u64| -> Vec<InodeId> {
            sizes::file_lengths(pages).map(|len| w.vm.create_file(len)).collect()
        };
        let own = (0..sizes.spec.apps)
            .map(|_| files(sizes.of_range(&mut random, sizes.spec.files)))
            .collect();
        let shared = files(sizes.part(sizes.spec.shared_files));
        let media = (0..sizes.part(sizes::MEDIA_FILES))
            .map(|_| w.vm.create_file(sizes::MEDIA_PAGES))
            .collect();
        let system = w.vm.create_mapping(sizes.part(sizes.spec.system_anon) as u32);
        // (K): Android's `system_server` has an `oom_score_adj` of -900.
        w.vm.never_kill(system);
        Self {
            sizes,
            caches: Caches::new(w, process::TASK_STRUCT),
            files: own,
            shared,
            media,
            system,
            cached: VecDeque::new(),
            to_page_out: VecDeque::new(),
            random,
            cold: 0,
            warm: 0,
            killed: 0,
            out_of_memory: 0,
            failed: 0,
            dropped: 0,
            stopping: false,
        }
    }

    fn random_media_file(&mut self) -> InodeId {
        self.media[self.random.below(self.media.len() as u64) as usize]
    }

    fn start_counting(&mut self) {
        for count in [
            &mut self.cold,
            &mut self.warm,
            &mut self.killed,
            &mut self.out_of_memory,
            &mut self.failed,
            &mut self.dropped,
        ] {
            *count = 0;
        }
    }

    fn counted(&self) -> Vec<(String, u64)> {
        [
            (names::COLD, self.cold),
            (names::WARM, self.warm),
            (names::KILLED, self.killed),
            (names::OUT_OF_MEMORY, self.out_of_memory),
            (names::FAILED, self.failed),
            (names::DROPPED, self.dropped),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec()
    }
}

/// Models the user: brings one app after another to the front and uses it for a while.
async fn user(ctx: Ctx<'_>, device: Rc<RefCell<Device>>, launches: std::ops::Range<u64>) {
    for launch in launches {
        let number = (launch % device.borrow().sizes.spec.apps) as usize;
        let known = {
            let cached = &mut device.borrow_mut().cached;
            let at = cached.iter().position(|&(of, _)| of == number);
            at.and_then(|at| cached.remove(at)).map(|(_, app)| app)
        };
        let warm = known.is_some();
        let mut app = known.unwrap_or_else(|| App::new(&ctx, &device));
        let used = use_app(&ctx, &device, number, &mut app, warm).await;
        ctx.charge_accrued().await;
        if used.is_err() {
            device.borrow_mut().out_of_memory += 1;
            app.exit(&ctx);
        } else {
            let mut device = device.borrow_mut();
            let due = ctx.now() + device.sizes.spec.page_out_after;
            device.to_page_out.push_back((due, number, app.anon));
            device.cached.push_back((number, app));
        }
        ctx.with(|w| {
            w.steps += 1;
            sample_free(w);
        });
    }
}

/// Models the user, then stops the background tasks.
async fn user_counted(ctx: Ctx<'_>, device: Rc<RefCell<Device>>, launches: std::ops::Range<u64>) {
    user(ctx, Rc::clone(&device), launches).await;
    device.borrow_mut().stopping = true;
}

async fn use_app(
    ctx: &Ctx<'_>,
    device: &RefCell<Device>,
    number: usize,
    app: &mut App,
    warm: bool,
) -> Served {
    ctx.charge_accrued().await;
    let start = ctx.now();
    process::launch(app, ctx, device, number).await?;
    let latency = ctx.now() - start;
    let kind = if warm {
        device.borrow_mut().warm += 1;
        names::LATENCY_WARM
    } else {
        device.borrow_mut().cold += 1;
        names::LATENCY_COLD
    };
    ctx.with(|w| {
        for name in [names::LATENCY, kind] {
            w.samples.entry(name.to_owned()).or_default().push(latency);
        }
    });
    process::run_foreground(app, ctx, device).await
}

fn sample_free(w: &mut World<'_>) {
    let free = w.vm.allocator().zones().iter().map(Zone::free_pages).sum();
    w.samples.entry("free-pages".to_owned()).or_default().push(free);
}

/// Returns the pressure and the other values that are read at the end.
fn at_the_end(w: &mut World<'_>, start: Nanos, before: (Nanos, Nanos)) -> Vec<(String, u64)> {
    let (some, full) = w.pressure();
    let mut counters = vec![
        (common::SIMULATED_ELAPSED_MS.to_owned(), (w.now() - start) / MILLISECOND),
        (common::PSI_SOME_US.to_owned(), (some - before.0) / MICROSECOND),
        (common::PSI_FULL_US.to_owned(), (full - before.1) / MICROSECOND),
        (common::LIST_MISMATCH_PAGES.to_owned(), w.list_mismatch.total()),
        (names::ZSMALLOC.to_owned(), w.vm.zram().map_or(0, |zram| zram.pool().pages())),
    ];
    for order in 0..=3 {
        // Orders that never stalled have no counter.
        counters.push((format!("allocstall_order_{order}"), w.vm.stalls.allocstall(order)));
    }
    for mt in Migratetype::ALL {
        let blocks = w.vm.allocator().zones().iter().flat_map(Zone::pageblocks);
        counters.push((common::blocks(mt), blocks.filter(|&(_, of, _)| of == mt).count() as u64));
    }
    counters
}
