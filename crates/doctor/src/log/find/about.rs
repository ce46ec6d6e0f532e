//! The messages of parts of the kernel, and of programs that kill, about a failed allocation.

use serde::Serialize;

use super::words::Told;
use crate::class::Confidence;

/// The subject of such a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// XFS waits for contiguous memory: bytes. Old kernels do not print the size.
    Xfs(Option<u64>),
    /// XFS waits for an object of a slab cache, or for at most a page.
    XfsObject,
    /// ZFS waits for contiguous memory: bytes.
    Zfs(u64),
    /// ZFS allocated contiguous memory that it calls large: bytes.
    ZfsLarge(u64),
    /// CMA could not allocate a number of pages: that number and the error.
    Cma(u64, i64),
    /// Pages of a range could not be moved out of it (`alloc_contig_range`).
    ContigRange,
    /// There are fewer huge pages than requested: both numbers, and the size of a huge page.
    Hugetlb(u64, u64, String),
    /// A task has waited in compaction for this many seconds; 0 if only its stack is in the log.
    Compaction(u64),
    /// A task has waited in reclaim for this many seconds, or 0.
    Reclaim(u64),
    /// A task has waited for this many seconds until pages were moved out of a range, mostly of CMA.
    Isolation(u64),
    /// A slab cache got no page.
    Slab {
        /// Its name.
        cache: Option<String>,
        /// Its memory cgroup, which is a part of its name up to 5.8.
        cgroup: Option<String>,
        /// The smallest order that it can use.
        order: Option<u64>,
        /// The request's flags, as printed.
        flags: String,
    },
    /// A request was for an order above the allocator's largest.
    TooLarge,
    /// A request with `__GFP_NOFAIL` was for more than one page.
    NoFail,
    /// A balloon got no page to return to the hypervisor.
    Balloon(u64),
    /// An allocation of per-CPU memory failed: bytes.
    PerCpu(u64),
    /// An allocation of per-CPU memory by a caller that cannot wait failed: bytes.
    PerCpuAtomic(u64),
    /// A request for per-CPU memory exceeds the limit: bytes.
    PerCpuSize(u64),
    /// The bounce buffers are full: bytes.
    Swiotlb(u64),
    /// There are no bounce buffers.
    NoSwiotlb,
    /// A mapping is larger than bounce buffers support: bytes.
    SwiotlbSize(u64),
    /// The pool for atomic DMA could not be allocated: KiB.
    AtomicPool(u64),
    /// A graphics driver got no memory; its own words.
    Graphics(String),
    /// A graphics driver has no addresses left to map a buffer.
    GpuSpace,
    /// zram got no memory for a page: bytes.
    Zram(u64),
    /// A page could not be written to swap: the device.
    SwapWrite(String),
    /// TCP is at its own limit.
    Tcp,
    /// On a machine without an MMU a process got no block: bytes.
    NoMmu(u64),
    /// The OOM killer found no process to kill.
    NobodyToKill,
    /// The kernel panicked because the machine was out of memory and no process could be killed.
    NobodyLeft,
    /// Memory that a hypervisor offered was not added.
    HotAdd,
    /// No memory was set aside for a crash kernel.
    CrashKernel,
    /// The initial file system did not fit into memory.
    Initramfs,
    /// A program, not the kernel, killed a process or a unit before memory ran out: the program.
    KilledBy(String),
    /// systemd or Kubernetes reports that a kernel killed a process.
    Node,
    /// Docker or Kubernetes reports that a process of a container was killed for memory.
    Container,
    /// The kubelet evicted pods, or is about to, because less memory was available than it requires.
    Evicted,
    /// A graphics driver released pages just before the OOM killer would have been called.
    GpuPurge,
    /// A user requested a kill with SysRq-f.
    Asked,
    /// The kernel refuses to commit more than it has memory for (`vm.overcommit_memory`): bytes, or 0 if they are
    /// not printed.
    Overcommit(u64),
    /// The control files of a memory cgroup, in kB.
    Usage {
        /// Its limit.
        limit: u64,
        /// Its memory.
        usage: Option<u64>,
        /// The most that it had.
        peak: Option<u64>,
        /// How often the limit was met (version 1).
        refused: Option<u64>,
        /// The number of its processes that were killed.
        kills: Option<u64>,
    },
    /// The share of the last seconds that tasks waited for memory, in hundredths of a percent.
    Pressure {
        /// In which at least one task waited.
        some: u64,
        /// In which all did.
        full: u64,
    },
    /// A CMA area could not be reserved at boot: MiB, or 0 if they are not printed.
    CmaReserve(u64),
    /// The range of addresses for code is full.
    ExecMem,
    /// The kernel is set to panic instead of killing, and did so.
    PanicOnOom,
    /// A driver or a program reports a failed allocation in its own words: their meaning. Only used if nothing else is in the
    /// log.
    Words(Told, String),
}

impl About {
    /// Returns the confidence in the meaning of such a message.
    pub(crate) const fn confidence(&self) -> Confidence {
        match self {
            Self::Words(Told::Nothing, _) => Confidence::Low,
            Self::Words(
                Told::Hardware | Told::OwnHeap | Told::Card | Told::Limit | Told::Mappings,
                _,
            ) => Confidence::High,
            Self::Words(..)
            | Self::Compaction(0)
            | Self::Reclaim(0)
            | Self::Isolation(0)
            | Self::Container
            | Self::Slab { cgroup: None, .. }
            | Self::Graphics(_)
            | Self::Node
            | Self::Zfs(_)
            | Self::Xfs(None)
            | Self::XfsObject
            | Self::SwapWrite(_)
            | Self::Hugetlb(..) => Confidence::Medium,
            _ => Confidence::High,
        }
    }

    /// Returns whether messages about both have the same explanation.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cma(_, error), Self::Cma(_, other)) => error == other,
            (Self::Hugetlb(.., size), Self::Hugetlb(.., other)) => size == other,
            (Self::Slab { .. }, Self::Slab { .. })
            | (Self::KilledBy(_), Self::KilledBy(_))
            | (Self::Graphics(_), Self::Graphics(_))
            | (Self::Words(Told::Nothing, _), Self::Words(..)) => self == other,
            (Self::Words(told, _), Self::Words(other, _)) => told == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Takes the size from another message with this subject, if it is larger.
    pub(super) fn enlarge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Xfs(size), Self::Xfs(new)) => *size = (*size).max(*new),
            (Self::Zfs(size), Self::Zfs(new))
            | (Self::ZfsLarge(size), Self::ZfsLarge(new))
            | (Self::Cma(size, _), Self::Cma(new, _))
            | (Self::PerCpu(size), Self::PerCpu(new))
            | (Self::Swiotlb(size), Self::Swiotlb(new))
            | (Self::SwiotlbSize(size), Self::SwiotlbSize(new))
            | (Self::Zram(size), Self::Zram(new))
            | (Self::NoMmu(size), Self::NoMmu(new)) => *size = (*size).max(*new),
            _ => {}
        }
    }
}
