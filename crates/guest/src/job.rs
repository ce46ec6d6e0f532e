//! What a guest has to do, as the host writes it into the guest's first file system.

use pageblock_simulate::sim::fragment::Goal;
use pageblock_simulate::workload::{apppressure, hugealloc};
use serde::{Deserialize, Serialize};

/// The job's file in the guest.
pub const FILE: &str = "/job.json";

/// The operations whose costs [`Load::Costs`] measures; the last two only a kernel of one's own is asked for.
pub const COSTS: [&str; 12] = [
    "fault_base",
    "table",
    "fault_huge",
    "write_page",
    "read_page",
    "open",
    "message",
    "message_free",
    "pipe_page",
    "program",
    "reclaim",
    "compact",
];

/// What a guest does between its start and its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The load.
    pub load: Load,
    /// Seeds what the load draws.
    pub seed: u64,
    /// The modules to load, in this order, as paths in the guest.
    pub modules: Vec<String>,
    /// The disks.
    pub disks: Disks,
    /// What is written to files of `/proc/sys` and `/sys` before the load, in this order.
    pub settings: Vec<Setting>,
    /// How memory is fragmented before the load, and stays so beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<Goal>,
    /// Whether to record the page allocator meanwhile.
    pub record: bool,
}

/// The guest's disks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Disks {
    /// The device with the load's files, and its file system.
    pub data: Option<(String, Filesystem)>,
    /// The device for swap.
    pub swap: Option<String>,
    /// The MiB of swap in compressed memory; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub zram_mib: u64,
    /// The device that a recording is written to, and its file system.
    pub recording: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A file system of the load's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

impl Filesystem {
    /// Returns the kernel's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
        }
    }
}

/// A value for a file of `/proc/sys` or `/sys`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// The file.
    pub file: String,
    /// What is written to it.
    pub value: String,
    /// Whether a kernel without the file may go without.
    pub optional: bool,
}

/// What the guest's program does to memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Load {
    /// Nothing: it shows that a kernel boots.
    Boot,
    /// What operations cost there.
    Costs,
    /// Small files, written and read at random, beside memory that should get huge pages.
    Thpfioscale(Thpfioscale),
    /// Builds, a memory cache and batches of huge pages.
    Hugealloc(Hugealloc),
    /// A memory cache with its client, while dd writes files.
    Parallelio(Parallelio),
    /// Apps that are launched, used and paged out.
    Apppressure {
        /// Rounds over all apps; the first only builds them up.
        rounds: u64,
        /// The amounts of the simulated workload.
        amounts: apppressure::Amounts,
    },
    /// A load that recordings were made with.
    Mixed(Mixed),
}

/// The amounts of parallelio.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parallelio {
    /// Iterations of each size of the file.
    pub iterations: u64,
    /// dd's files in pages, with their sizes in MiB on the whole machine, which name the rows.
    pub files: Vec<(u64, u64)>,
    /// Items in the pool.
    pub items: u64,
    /// Pages of an item, in hundredths.
    pub item_pages_percent: u64,
    /// Sets in percent of operations; the others are gets.
    pub sets_percent: u64,
    /// The time of an operation, in nanoseconds.
    pub operation_ns: u64,
    /// The time for which operations go on once the pool is full, in nanoseconds.
    pub duration_ns: u64,
    /// The memory in use at which dd begins, in percent.
    pub begins_percent: u64,
    /// The time between two looks at it, in nanoseconds.
    pub looks_ns: u64,
    /// The time from then until dd begins, in nanoseconds.
    pub waits_ns: u64,
}

/// The amounts of hugealloc.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hugealloc {
    /// Builds.
    pub builds: u64,
    /// Jobs of a build.
    pub jobs: u64,
    /// Batches of a build.
    pub batches: u64,
    /// Huge pages of a batch.
    pub batch: u64,
    /// Pages of the memory cache.
    pub cache: u64,
    /// The other amounts of the simulated workload.
    #[serde(flatten)]
    pub amounts: hugealloc::Amounts,
}

/// The amounts of a load that recordings were made with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mixed {
    /// Rounds.
    pub rounds: u64,
    /// Files that a round writes, and reads; 0 for none.
    pub files: u64,
    /// Pages of a file.
    pub file_pages: u64,
    /// Files of one page that a round creates; 0 for none.
    pub small_files: u64,
    /// Processes of a round.
    pub processes: u64,
    /// Pages of a process.
    pub process_pages: u64,
    /// Pages of kernel memory that are held after each round, the least and the most; the list repeats.
    pub held: Vec<(u64, u64)>,
    /// Rounds from one burst of huge pages to the next.
    pub burst_each: u64,
    /// Huge pages of a burst.
    pub burst: u64,
    /// The time between two rounds, in milliseconds.
    pub pause_ms: u64,
}

/// The amounts of thpfioscale.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thpfioscale {
    /// fio jobs.
    pub jobs: u64,
    /// Files of each job.
    pub files: u64,
    /// Pages of a file.
    pub file_pages: u64,
    /// Files whose descriptions fill a page of a job's memory.
    pub files_a_heap_page: u64,
    /// Threads that fault.
    pub threads: u64,
    /// Regions of a huge page's size that each thread faults.
    pub regions: u64,
    /// Whether they are marked with `MADV_HUGEPAGE`.
    pub madvise: bool,
}
