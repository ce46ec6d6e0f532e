//! The texts by which parts of the kernel, and programs that kill, say that memory was not had.

use serde::Serialize;

use super::texts::{PATTERNS, TEXTS};
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
    /// More was asked for every CPU than may be: bytes.
    PerCpuSize(u64),
    /// The bounce buffers are full: bytes.
    Swiotlb(u64),
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
    /// Returns what a line is about, and its task.
    pub(super) fn find(text: &str) -> Option<(Self, Option<String>)> {
        TEXTS.iter().zip(&*PATTERNS).find_map(|(known, pattern)| {
            let found = text.contains(known.mark).then(|| pattern.captures(text)).flatten()?;
            let task = found.name("task").map(|task| task.as_str().to_owned());
            Some(((known.make)(&found)?, task))
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a line is found, what it is about, and its task.
    #[track_caller]
    fn known(texts: &[(&str, About, Option<&str>)]) {
        for (text, about, task) in texts {
            assert!(super::super::texts::MARKS.iter().any(|mark| text.contains(mark)), "{text}");
            assert_eq!(About::find(text), Some((about.clone(), task.map(str::to_owned))), "{text}");
        }
    }

    #[test]
    fn what_the_kernel_lacked_is_known() {
        known(&[
            (
                "XFS: fs_mark(1300) possible memory allocation deadlock size 65728 in kmem_realloc (mode:0x2408240)",
                About::Xfs(Some(65_728)),
                Some("fs_mark"),
            ),
            (
                "XFS: runc:[1:CHILD](3580) possible memory allocation deadlock in kmem_zone_alloc (mode:0x82d0)",
                About::XfsObject,
                Some("runc:[1:CHILD]"),
            ),
            (
                "XFS: java(7) possible memory allocation deadlock size 144 in kmem_alloc (mode:0x2400240)",
                About::XfsObject,
                Some("java"),
            ),
            (
                "XFS: possible memory allocation deadlock in kmem_alloc (mode:0x250)",
                About::Xfs(None),
                None,
            ),
            ("Possible memory allocation deadlock: size=48 lflags=0x4210", About::Zfs(48), None),
            (
                "Large kmem_alloc(42672, 0x1000), please file an issue at:",
                About::ZfsLarge(42_672),
                None,
            ),
            (
                "cma: cma_alloc: linux,cma: alloc failed, req-size: 62864 pages, ret: -12",
                About::Cma(62_864, -12),
                None,
            ),
            ("alloc_contig_range: [a5a80, a5ade) PFNs busy", About::ContigRange, None),
            (
                "HugeTLB: allocating 51200 of page size 2.00 MiB failed.  Only allocated 47611 hugepages.",
                About::Hugetlb(51_200, 47_611, "2.00 MiB".into()),
                None,
            ),
            (
                "WARNING: CPU: 3 PID: 19257 at mm/page_alloc.c:4724 __alloc_pages_nodemask+0x1ee/0x320",
                About::TooLarge,
                None,
            ),
            (
                "WARNING: mm/page_alloc.c:5219 at __alloc_frozen_pages_noprof+0x30d/0x370, CPU#6: app one/815",
                About::TooLarge,
                Some("app one"),
            ),
            (
                "WARNING: CPU: 3 PID: 192 at mm/page_alloc.c:3125 get_page_from_freelist+0x92/0x320",
                About::NoFail,
                None,
            ),
        ]);
    }

    #[test]
    fn what_drivers_lacked_is_known() {
        known(&[
            ("virtio_balloon virtio3: Out of puff! Can't get 1 pages", About::Balloon(1), None),
            (
                "percpu: allocation failed, size=32768 align=8 atomic=0, failed to extend area map",
                About::PerCpu(32_768),
                None,
            ),
            (
                "rtl 0000:05:00.0: swiotlb buffer is full (sz: 4000 bytes), total 32768 (slots), used 32768 (slots)",
                About::Swiotlb(4000),
                None,
            ),
            (
                "gpu: swiotlb buffer is full (sz: 524288 bytes), total 32768 (slots), used 4 (slots)",
                About::SwiotlbSize(524_288),
                None,
            ),
            (
                "illegal size (32792) or align (8) for percpu allocation",
                About::PerCpuSize(32_792),
                None,
            ),
            ("NVRM: dmaAllocMapping: can't alloc VA space for mapping.", About::GpuSpace, None),
            ("hv_balloon: Memory hot add failed", About::HotAdd, None),
            (
                "DMA: Out of SW-IOMMU space for 9100 bytes at device 0000:02:00.0",
                About::Swiotlb(9100),
                None,
            ),
            (
                "DMA: failed to allocate 256 KiB GFP_KERNEL|GFP_DMA pool for atomic allocation",
                About::AtomicPool(256),
                None,
            ),
            (
                "NVRM: GPU 0: Out of memory for mapping",
                About::Graphics("NVRM: GPU 0: Out of memory".into()),
                None,
            ),
            (
                "[drm:nv_ioctl [nvidia_drm]] *ERROR* [nvidia-drm] Failed to allocate NVKMS memory for GEM object",
                About::Graphics("Failed to allocate NVKMS memory for GEM object".into()),
                None,
            ),
            (
                "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough memory for command submission!",
                About::Graphics("Not enough memory for command submission".into()),
                None,
            ),
            (
                "[TTM] Buffer eviction failed",
                About::Graphics("[TTM] Buffer eviction failed".into()),
                None,
            ),
            (
                "zram: Error allocating memory for compressed page: 4233, size=2720",
                About::Zram(2720),
                None,
            ),
            ("Write-error on swap-device (254:0:94208)", About::SwapWrite("254:0".into()), None),
            ("TCP: out of memory -- consider tuning tcp_mem", About::Tcp, None),
            (
                "nommu: Allocation of length 131072 from process 77 (nc) failed",
                About::NoMmu(131_072),
                Some("nc"),
            ),
        ]);
    }

    #[test]
    fn what_was_lacked_at_boot_or_by_rules_is_known() {
        known(&[
            ("cma: Failed to reserve 512 MiB", About::CmaReserve(512), None),
            ("Initramfs unpacking failed: write error", About::Initramfs, None),
            ("crashkernel reservation failed - No suitable area found.", About::CrashKernel, None),
            (
                "OF: reserved mem: failed to allocate memory for node 'linux,cma'",
                About::CmaReserve(0),
                None,
            ),
            ("execmem: unable to allocate memory", About::ExecMem, None),
            (
                "__vm_enough_memory: pid: 812, comm: java, bytes: 4294967296 not enough memory for the allocation",
                About::Overcommit(4_294_967_296),
                Some("java"),
            ),
            (
                "__vm_enough_memory: pid: 812, comm: java, no enough memory for the allocation",
                About::Overcommit(0),
                Some("java"),
            ),
        ]);
    }

    #[test]
    fn who_was_killed_is_known() {
        known(&[
            ("Out of memory and no killable processes...", About::NobodyToKill, None),
            (
                "Kernel panic - not syncing: Out of memory and no killable processes...",
                About::NobodyLeft,
                None,
            ),
            ("  map[exitCode:137 reason:OOM Killed", About::Container, None),
            (
                "Reclaim 'com.example' (591), uid 10112, state 19 to free 19252kB rss, 5kB swap",
                About::KilledBy("lowmemorykiller".into()),
                Some("com.example"),
            ),
            (
                "low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%",
                About::KilledBy("earlyoom".into()),
                None,
            ),
            (
                "Out of memory in UB 101: OOM killed process 812 (httpd) score 0 vm:9kB",
                About::Container,
                Some("httpd"),
            ),
            ("Kernel panic - not syncing: System is deadlocked on memory", About::NobodyLeft, None),
            (
                "systemd-oomd[612]: Killed /user.slice/app.scope due to memory pressure for /user.slice being 61.23% > 50.00%",
                About::KilledBy("systemd-oomd".into()),
                Some("/user.slice/app.scope"),
            ),
            (
                "killing process 27541 \"bash\" with signal 15: badness 550, VmRSS 7609 MiB",
                About::KilledBy("earlyoom".into()),
                Some("bash"),
            ),
            (
                r#"[talos] Sending SIGKILL to cgroup {"controller": "OOM", "cgroup": "/sys/fs/cgroup/pods/a"}"#,
                About::KilledBy("talos".into()),
                Some("/sys/fs/cgroup/pods/a"),
            ),
            (
                "systemd-oomd[612]: Killed /user.slice/app-with-a-name-that-the-terminal-cu>",
                About::KilledBy("systemd-oomd".into()),
                Some("/user.slice/app-with-a-name-that-the-terminal-cu>"),
            ),
            (
                "app.scope: systemd-oomd killed 3 process(es) in this unit.",
                About::KilledBy("systemd-oomd".into()),
                Some("app.scope"),
            ),
            (
                "Killing 'com.example' (4563), uid 10010, adj 906",
                About::KilledBy("lowmemorykiller".into()),
                Some("com.example"),
            ),
            (
                "earlyoom[700]: sending SIGTERM to process 812 uid 1000 \"firefox\": badness 801, VmRSS 2011 MiB",
                About::KilledBy("earlyoom".into()),
                Some("firefox"),
            ),
            (
                "lowmemorykiller: Kill 'com.example' (6673), uid 10565, oom_score_adj 100 to free 53808kB rss",
                About::KilledBy("lowmemorykiller".into()),
                Some("com.example"),
            ),
            (
                "Kill 'com.example' (6673), uid 10565, oom_score_adj 100 to free 53808kB rss",
                About::KilledBy("lowmemorykiller".into()),
                Some("com.example"),
            ),
        ]);
    }

    #[test]
    fn kills_that_others_tell_of_are_known() {
        known(&[
            (
                "web.service: A process of this unit has been killed by the OOM killer.",
                About::Node,
                Some("web.service"),
            ),
            ("web.service: Failed with result 'oom-kill'.", About::Node, Some("web.service")),
            ("      Reason:       OOMKilled", About::Container, None),
            ("            \"OOMKilled\": true,", About::Container, None),
            ("   Active: failed (Result: oom-kill) since Mon 2024-01-01", About::Node, None),
            (
                "kubelet[4991]: manager.go:1126] Created an OOM event in container \"/\" at 2017-10-10 17:41:55",
                About::Node,
                None,
            ),
            (
                "Message: The node was low on resource: memory. Container app was using 1Gi",
                About::Evicted,
                None,
            ),
            (
                "eviction_manager.go:288] eviction manager: node conditions - observed: [MemoryPressure]",
                About::Evicted,
                None,
            ),
            (
                "Purging GPU memory, 0 pages freed, 0 pages still pinned, 1 pages left available.",
                About::GpuPurge,
                None,
            ),
            (
                "systemd-oomd[70]: Memory pressure for /a.slice/b.scope is 74.23% > 20.00% for > 2s with reclaim activity",
                About::KilledBy("systemd-oomd".into()),
                Some("/a.slice/b.scope"),
            ),
            (
                "oomd[14628]: [../src/oomd/engine/Ruleset.cpp:112] Running Action=kill_by_memory_size_or_growth",
                About::KilledBy("oomd".into()),
                None,
            ),
            (
                "systemd-oomd[612]: Considered 75 cgroups for killing, top candidates were:",
                About::KilledBy("systemd-oomd".into()),
                None,
            ),
            ("sysrq: SysRq : Manual OOM execution", About::Asked, None),
            (
                "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled",
                About::PanicOnOom,
                None,
            ),
            (
                "Warning  SystemOOM  12m  kubelet  System OOM encountered, victim process: java, pid: 22113",
                About::Node,
                Some("java"),
            ),
            (
                "Warning  SystemOOM  12m (x4 over 25m)  kubelet  System OOM encountered",
                About::Node,
                None,
            ),
            (
                "earlyoom[73850]: Killing process 106631 kworker/27:0-events",
                About::KilledBy("earlyoom".into()),
                Some("kworker/27:0-events"),
            ),
        ]);
    }

    #[test]
    fn what_is_like_them_is_nothing() {
        for text in [
            // Its cache is on the next line.
            "SLUB: Unable to allocate memory on node -1 (gfp=0x20)",
            "WARNING: CPU: 3 PID: 1 at mm/page_alloc.c:100 free_pages+0x1/0x2",
            "TCP: request_sock_TCP: Possible SYN flooding",
            "systemd-oomd.service: Deactivated successfully.",
            "            \"OOMKilled\": false,",
            "helpers.go:808] eviction manager: no observation found for eviction signal allocatableMemory.available",
        ] {
            assert_eq!(About::find(text), None, "{text}");
        }
    }
}
