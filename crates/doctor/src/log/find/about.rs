//! The texts by which parts of the kernel, and programs that kill, say that memory was not had.

use serde::Serialize;

use super::words::Told;
use crate::class::Confidence;

/// The subject of such a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// XFS waits for one piece of memory of a size, in bytes; old kernels do not print the size.
    Xfs(Option<u64>),
    /// XFS waits for an object of a slab cache, or for a page or less.
    XfsObject,
    /// ZFS waits for one piece of memory of a size, in bytes.
    Zfs(u64),
    /// ZFS asked for one piece of memory that it calls large, in bytes, and got it.
    ZfsLarge(u64),
    /// CMA could not allocate a number of pages; the error.
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
        /// Its memory cgroup, which is part of its name up to 5.8.
        cgroup: Option<String>,
        /// The smallest order that it can do with.
        order: Option<u64>,
        /// The request's flags, as printed.
        flags: String,
    },
    /// An order above the largest of the allocator was asked for.
    TooLarge,
    /// More than one page was asked for with `__GFP_NOFAIL`.
    NoFail,
    /// A balloon got no page to give back to the hypervisor.
    Balloon(u64),
    /// Memory for every CPU was not had: bytes.
    PerCpu(u64),
    /// The same for a caller that cannot wait: bytes.
    PerCpuAtomic(u64),
    /// More was asked for every CPU than may be: bytes.
    PerCpuSize(u64),
    /// The bounce buffers are full: bytes.
    Swiotlb(u64),
    /// There are no bounce buffers.
    NoSwiotlb,
    /// A mapping is larger than the bounce buffers serve: bytes.
    SwiotlbSize(u64),
    /// The pool for atomic DMA was not had: KiB.
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
    /// A process without an MMU got no block: bytes.
    NoMmu(u64),
    /// The OOM killer found nobody to kill.
    NobodyToKill,
    /// The kernel panicked, as it found nobody to kill for the machine's memory.
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
    /// The kubelet evicted pods, as less memory was available than it wants, or is about to.
    Evicted,
    /// A graphics driver gave pages back as the OOM killer was about to be called.
    GpuPurge,
    /// Somebody asked for a kill, with SysRq-f.
    Asked,
    /// The kernel promises no more addresses than it has memory for (`vm.overcommit_memory`): bytes, or 0 where they are
    /// not printed.
    Overcommit(u64),
    /// An area for CMA was not had at boot: MiB, or 0 where it is not printed.
    CmaReserve(u64),
    /// The range of addresses for code is full.
    ExecMem,
    /// The kernel panicked instead of killing, as it was told to.
    PanicOnOom,
    /// A line of a driver or a program that says so in its own words, and what they tell; only where nothing else is in the
    /// log.
    Words(Told, String),
}

impl About {
    /// Returns how sure it is what such a line means.
    pub(crate) const fn confidence(&self) -> Confidence {
        match self {
            Self::Words(Told::Nothing, _) => Confidence::Low,
            Self::Words(Told::Hardware | Told::OwnHeap | Told::Card | Told::Limit, _) => {
                Confidence::High
            }
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

    /// Returns whether lines about both are one answer.
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

    /// Takes the size of another line about the same, if it is larger.
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
