//! All amounts, from docs/experiments/sources.md#apps unless noted. (K): general knowledge, unchecked. (D):
//! derived from published figures.

use pageblock_vm::inode::FileObject;

use crate::error::Error;
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::sim::{MILLISECOND, Nanos, SECOND};

/// The number of apps, used in turn. (K)
pub(super) const APPS: usize = 16;
/// Seconds for which the published phones were awake: 60 hours less 16:43:56 of sleep.
const AWAKE_S: u64 = 216_415 - 60_236;
/// The time between launches. (D): with 40,000 pages of files per launch and 150 per second of use, the 66
/// million pages reclaimed in the series are 1,100 launches.
pub(super) const BETWEEN_LAUNCHES: Nanos = 130 * SECOND;

/// Anonymous pages of an app.
pub(super) const ANON_PAGES: (u64, u64) = (30_000, 100_000);
/// File pages that a launch reads.
pub(super) const FILE_PAGES: (u64, u64) = (20_000, 60_000);
/// Page tables of an app.
pub(super) const TABLES: (u64, u64) = (200, 800);
/// Threads of an app.
pub(super) const THREADS: (u64, u64) = (20, 60);
/// Graphics buffers of an app, and the pages of one: 0.1 to 8 MB.
pub(super) const BUFFERS: (u64, u64) = (10, 40);
pub(super) const BUFFER_PAGES: (u64, u64) = (25, 2000);
/// Binder pages that an app has mapped. (K)
pub(super) const BINDER_PAGES: (u64, u64) = (20, 100);
/// The VMAs of an app. (K)
pub(super) const VM_AREAS: (u64, u64) = (1000, 2000);
/// Small objects of an app: binder's nodes and references, sockets, epoll's items. (K)
pub(super) const SMALL_OBJECTS: (u64, u64) = (1000, 3000);
/// The number of parts of a launch, and the pause after each: 2.6 s in all.
pub(super) const LAUNCH_PARTS: u64 = 64;
pub(super) const LAUNCH_PAUSE: Nanos = 40 * MILLISECOND;
/// The interval between an app's actions while it is used, and the amounts of each action. (K)
pub(super) const USE_EVERY: Nanos = 2 * SECOND;
pub(super) const USE_ANON_PAGES: u64 = 500;
pub(super) const USE_FILE_PAGES: u64 = 300;

/// File pages shared by all apps. (K)
pub(super) const FRAMEWORK_PAGES: u64 = 30_000;
/// The user's files, such as pictures, which apps show and scans look up; and the pages of each. (K)
pub(super) const MEDIA_FILES: u64 = 20_000;
pub(super) const MEDIA_PAGES: u32 = 32;
/// Lookups a second. (K)
pub(super) const LOOKUPS_PER_S: u64 = 20;
/// Short-lived threads started per second, and the lifetime of each in seconds. (D): the series' 637,608 stalls
/// of order 2 in 43 hours awake need at least four requests per second.
pub(super) const THREADS_PER_S: u64 = 5;
pub(super) const THREAD_LIFE_S: (u64, u64) = (1, 60);

/// The system's long-lived memory: kernel pages, program pages, buffers; and its threads. (K)
pub(super) const SYSTEM_KERNEL_PAGES: u64 = 40_000;
pub(super) const SYSTEM_ANON_PAGES: u64 = 120_000;
pub(super) const SYSTEM_BUFFER_PAGES: u64 = 15_000;
pub(super) const SYSTEM_THREADS: u64 = 1_000;

/// Apps are killed while free pages and page cache are below this: the highest of the six thresholds of a phone
/// with 3 GiB, which is for cached apps. (K)
pub(super) const MINFREE_PAGES: u64 = 80_640;

/// The pages of an app's file.
const FILE_LEN: u64 = 128;

/// The slab objects of a file. Android's shared storage is a FUSE file system over ext4, so there are two
/// inodes. Sizes are those of arm64's 3.10. (K)
pub(super) const FILE_OBJECTS: &[FileObject] = &[
    FileObject::DENTRY,
    FileObject::inode("fuse_inode", 896),
    FileObject::inode("ext4_inode_cache", 1088),
];

/// The sizes on a machine. A smaller machine has as many apps, each smaller, and is used for a shorter time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    scale: Scale,
    pub(super) launches: u64,
}

impl Sizes {
    pub(super) fn of(machine: &MachineSpec) -> Result<Self, Error> {
        if machine.cpu_nodes.len() < 4 {
            return Err(Error::Workload("android-uptime needs four CPUs".to_owned()));
        }
        let scale = machine.scale;
        // The whole machine's amounts for the system and one app.
        let least = SYSTEM_KERNEL_PAGES + SYSTEM_ANON_PAGES + SYSTEM_BUFFER_PAGES + ANON_PAGES.1;
        if machine.pages() < 2 * scale.of(least) {
            return Err(Error::Workload(format!(
                "machine {} is too small for android-uptime",
                machine.name
            )));
        }
        let launches = scale.of(AWAKE_S * SECOND / BETWEEN_LAUNCHES).max(2 * APPS as u64);
        Ok(Self { scale, launches })
    }

    /// Returns this machine's share of an amount for the whole machine.
    pub(super) fn part(&self, whole: u64) -> u64 {
        self.scale.of(whole).max(1)
    }

    /// Returns the interval on this machine for a rate per second on the whole machine.
    pub(super) fn every(&self, a_second: u64) -> Nanos {
        SECOND * self.scale.denominator / (self.scale.numerator * a_second)
    }
}

/// Returns the lengths of files that have this many pages in total.
pub(super) fn file_lengths(pages: u64) -> impl Iterator<Item = u32> {
    (0..pages.div_ceil(FILE_LEN)).map(|_| FILE_LEN as u32)
}
