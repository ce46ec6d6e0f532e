//! All amounts for all forms, from docs/experiments/sources.md#apps unless noted. (K): general knowledge,
//! unchecked.

use pageblock_vm::inode::FileObject;

use super::super::Workload;
use super::super::app::{Graphics, between};
use super::Form;
use crate::error::Error;
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::sim::world::Random;
use crate::sim::{MILLISECOND, Nanos, SECOND};

/// A range, both ends included.
pub(super) type Range = (u64, u64);

/// The amounts of an app or a tab, and of its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// The number of apps or tabs, used in turn. (K)
    pub(super) apps: u64,
    /// Anonymous pages of an app.
    pub(super) anon: Range,
    /// Pages of an app's own files.
    pub(super) files: Range,
    /// Pages of files shared by all: framework, browser. (K)
    pub(super) shared_files: u64,
    /// A cached app that is launched accesses one in this many of its anonymous pages. (K)
    pub(super) warm_part: u64,
    /// A cached app that is launched reads one in this many of its files' pages. (K)
    pub(super) warm_files: u64,
    /// User time until the app is displayed: a new app, a cached app. (K)
    pub(super) think: (Nanos, Nanos),
    /// The time for which it is then used. (K)
    pub(super) used: Nanos,
    /// The time in the background after which its memory is paged out. (K)
    pub(super) page_out_after: Nanos,
    pub(super) threads: Range,
    pub(super) tables: Range,
    /// Graphics buffers, and the pages of one.
    pub(super) graphics: Graphics,
    pub(super) buffers: Range,
    pub(super) buffer_pages: Range,
    /// The system's long-lived memory: kernel pages, program pages; and its threads. (K)
    pub(super) system_kernel: u64,
    pub(super) system_anon: u64,
    pub(super) system_threads: u64,
}

/// Android: app launch. An app's amounts are the lower half of those of docs/experiments/sources.md#apps, as
/// the phone is small.
pub(super) const LAUNCH: Spec = Spec {
    apps: 18,
    anon: (30_000, 80_000),
    files: (10_000, 30_000),
    shared_files: 40_000,
    warm_part: 2,
    warm_files: 4,
    think: (500 * MILLISECOND, 150 * MILLISECOND),
    used: SECOND,
    page_out_after: 2 * SECOND,
    threads: (20, 60),
    tables: (200, 800),
    graphics: Graphics::DmaBuf,
    buffers: (10, 30),
    buffer_pages: (25, 1000),
    system_kernel: 45_000,
    system_anon: 130_000,
    system_threads: 1_000,
};

/// The same with more apps than fit in memory and a zram of 2 GiB: most launches are of killed apps. (K)
pub(super) const KILL: Spec = Spec { apps: 22, ..LAUNCH };

/// ChromeOS: tab switching. A tab's amounts (K): a renderer of 80 to 240 MB.
pub(super) const TABS: Spec = Spec {
    apps: 40,
    anon: (20_000, 60_000),
    files: (1_000, 3_000),
    shared_files: 50_000,
    warm_part: 3,
    warm_files: 2,
    think: (400 * MILLISECOND, 40 * MILLISECOND),
    used: 500 * MILLISECOND,
    page_out_after: 2 * SECOND,
    threads: (15, 25),
    tables: (100, 300),
    graphics: Graphics::Shmem,
    buffers: (4, 12),
    buffer_pages: (100, 1500),
    system_kernel: 45_000,
    system_anon: 150_000,
    system_threads: 600,
};

/// Rounds over all apps. The first round only builds them up and is not counted.
pub(super) const ROUNDS: u64 = 10;
/// The number of parts of a launch, each with all kinds of work.
pub(super) const PARTS: u64 = 64;
/// Slab objects of an app: VMAs, and small objects. (K)
pub(super) const VM_AREAS: Range = (1000, 2000);
pub(super) const SMALL_OBJECTS: Range = (1000, 3000);
/// Binder pages that an app has mapped. (K)
pub(super) const BINDER_PAGES: Range = (20, 100);
/// While an app is used: the interval between its actions, the pages freed and faulted each time, and the file
/// pages read; one buffer is replaced. (K)
pub(super) const TURN: Nanos = 200 * MILLISECOND;
pub(super) const TURN_ANON: u64 = 500;
pub(super) const TURN_FILES: u64 = 200;

/// The user's files, and lookups per second. (K)
pub(super) const MEDIA_FILES: u64 = 20_000;
pub(super) const LOOKUPS_PER_S: u64 = 40;
/// The system's activity: turns per second, and per turn its own pages accessed, objects replaced, and pages of
/// shared files read. (K)
pub(super) const SYSTEM_PER_S: u64 = 50;
pub(super) const SYSTEM_TOUCHES: u64 = 40;
pub(super) const SYSTEM_OBJECTS: u64 = 20;
pub(super) const SYSTEM_READS: u32 = 8;
/// Short-lived threads that the system starts per second, and the lifetime of each in seconds. (K)
pub(super) const THREADS_PER_S: u64 = 10;
pub(super) const THREAD_LIFE_S: Range = (1, 20);
/// Network buffers: per second, and in flight. `GFP_ATOMIC`, orders 0 to 3. (K)
pub(super) const BUFFERS_PER_S: u64 = 200;
pub(super) const BUFFERS_IN_FLIGHT: usize = 16;

/// The killer's interval and thresholds. It kills the least recently used app if free pages are below the high
/// watermarks and either free swap is below this percentage, or the file pages refaulted within a second reach
/// this percentage of the page cache: the rules and settings of Android's lmkd
/// (`ro.lmk.swap_free_low_percentage`, `ro.lmk.thrashing_limit`). (K); assumed for ChromeOS too.
pub(super) const LOOK_EVERY: Nanos = 100 * MILLISECOND;
pub(super) const SWAP_SHORT: u64 = 10;
pub(super) const THRASHING: u64 = 100;
pub(super) const THRASHING_WINDOW: Nanos = SECOND;

/// The pages of each of the user's files. (K)
pub const MEDIA_PAGES: u32 = 32;
/// The pages of an app's file.
pub const FILE_LEN: u64 = 256;

/// The slab objects of a file on ext4 or f2fs. (K)
pub(super) const FILE_OBJECTS: &[FileObject] =
    &[FileObject::DENTRY, FileObject::inode("ext4_inode_cache", 1112)];

/// The sizes on a machine. A smaller machine has as many apps, each smaller, which need proportionally less
/// time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) spec: Spec,
    scale: Scale,
}

impl Sizes {
    pub(super) fn of(form: Form, machine: &MachineSpec) -> Result<Self, Error> {
        let (spec, scale) = (form.spec(), machine.scale);
        let least = spec.system_kernel + spec.system_anon + 2 * spec.anon.1;
        if machine.cpu_nodes.len() < 4 {
            return Err(Error::Workload(format!("{} needs four CPUs", form.name())));
        }
        if machine.pages() < scale.of(least) {
            let message = format!("machine {} is too small for {}", machine.name, form.name());
            return Err(Error::Workload(message));
        }
        if machine.swap_pages == 0 || !machine.zram {
            let message = format!("{} needs zram: zram = true, swap_mib", form.name());
            return Err(Error::Workload(message));
        }
        Ok(Self { spec, scale })
    }

    /// Returns this machine's share of an amount for the whole machine.
    pub(super) fn part(&self, whole: u64) -> u64 {
        self.scale.of(whole).max(1)
    }

    /// Returns this machine's share of a random amount from a range.
    pub(super) fn of_range(&self, random: &mut Random, range: Range) -> u64 {
        self.part(between(random, range))
    }

    /// Returns CPU time in proportion to the scale.
    pub(super) fn time(&self, whole: Nanos) -> Nanos {
        self.scale.of(whole)
    }

    pub(super) fn launches(&self) -> u64 {
        ROUNDS * self.spec.apps
    }
}

/// Returns the lengths of files that have this many pages in total.
pub(super) fn file_lengths(pages: u64) -> impl Iterator<Item = u32> {
    (0..pages.div_ceil(FILE_LEN)).map(|_| FILE_LEN as u32)
}
