//! What a guest has to do, as the host writes it into the guest's first file system.

use serde::{Deserialize, Serialize};

/// The job's file in the guest.
pub const FILE: &str = "/job.json";

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
    /// The device that a recording is written to, and its file system.
    pub recording: Option<String>,
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
    /// Small files, written and read at random, beside memory that should get huge pages.
    Thpfioscale(Thpfioscale),
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
