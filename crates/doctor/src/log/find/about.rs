//! The texts by which parts of the kernel, and programs that kill, say that memory was not had.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde::Serialize;

use crate::class::Confidence;

/// The subject of such a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// XFS waits for one piece of memory of a size, in bytes; old kernels do not print the size.
    Xfs(Option<u64>),
    /// ZFS waits for one piece of memory of a size, in bytes.
    Zfs(u64),
    /// CMA could not allocate a number of pages; the error.
    Cma(u64, i64),
    /// Pages of a range could not be moved out of it (`alloc_contig_range`).
    ContigRange,
    /// There are fewer huge pages than requested: both numbers, and the size of a huge page.
    Hugetlb(u64, u64, String),
    /// A task has waited in compaction for this many seconds.
    Compaction(u64),
    /// A task has waited in reclaim for this many seconds.
    Reclaim(u64),
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
    /// The bounce buffers are full: bytes.
    Swiotlb(u64),
    /// The pool for atomic DMA was not had: KiB.
    AtomicPool(u64),
    /// A graphics driver got no memory; its own words.
    Graphics(String),
    /// zram got no memory for a page: bytes.
    Zram(u64),
    /// TCP is at its own limit.
    Tcp,
    /// A process without an MMU got no block: bytes.
    NoMmu(u64),
    /// The OOM killer found nobody to kill.
    NobodyToKill,
    /// A program, not the kernel, killed a process or a unit before memory ran out: the program.
    KilledBy(String),
    /// systemd or Kubernetes reports that a kernel killed a process.
    Node,
    /// An area for CMA was not had at boot: MiB.
    CmaReserve(u64),
    /// The range of addresses for code is full.
    ExecMem,
    /// The kernel panicked instead of killing, as it was told to.
    PanicOnOom,
}

type Make = fn(&Captures<'_>) -> Option<About>;

/// A text: what a line must contain, its pattern, and what it is about. A group `task` is the task.
struct Text {
    mark: &'static str,
    pattern: &'static str,
    make: Make,
}

fn number<T: std::str::FromStr>(found: &Captures<'_>, group: usize) -> Option<T> {
    found.get(group)?.as_str().parse().ok()
}

fn words(found: &Captures<'_>, group: usize) -> Option<String> {
    found.get(group).map(|words| words.as_str().trim().to_owned())
}

const TEXTS: [Text; 31] = [
    Text {
        mark: "ossible memory allocation deadlock",
        pattern: r"XFS: (?:(?<task>.{1,15})\(\d+\) )?possible memory allocation deadlock(?: size (\d+))?",
        make: |found| Some(About::Xfs(number(found, 2))),
    },
    Text {
        mark: "ossible memory allocation deadlock",
        pattern: r"Possible memory allocation deadlock: size=(\d+)",
        make: |found| Some(About::Zfs(number(found, 1)?)),
    },
    Text {
        mark: "cma_alloc:",
        pattern: r"cma_alloc: .*alloc failed, req-size: (\d+) pages, ret: (-?\d+)",
        make: |found| Some(About::Cma(number(found, 1)?, number(found, 2)?)),
    },
    Text {
        mark: "PFNs busy",
        pattern: r"alloc_contig_(?:migrate_)?range: \[[0-9a-f]+, [0-9a-f]+\) PFNs busy",
        make: |_| Some(About::ContigRange),
    },
    Text {
        mark: "Only allocated",
        pattern: r"allocating (\d+) of page size (.+?) failed.*Only allocated (\d+) hugepages",
        make: |found| Some(About::Hugetlb(number(found, 1)?, number(found, 3)?, words(found, 2)?)),
    },
    Text {
        mark: "mm/page_alloc.c",
        pattern: r"at mm/page_alloc\.c:\d+.* (?:__)?alloc_(?:pages|frozen)\w*\+0x",
        make: |_| Some(About::TooLarge),
    },
    Text {
        mark: "mm/page_alloc.c",
        pattern: r"WARNING: mm/page_alloc\.c:\d+ at (?:__)?alloc_(?:pages|frozen)\w*\+0x\S+, CPU#\d+: (?<task>.{1,15})/\d+",
        make: |_| Some(About::TooLarge),
    },
    Text {
        mark: "mm/page_alloc.c",
        pattern: r"at mm/page_alloc\.c:\d+.* (?:rmqueue|get_page_from_freelist)\w*\+0x",
        make: |_| Some(About::NoFail),
    },
    Text {
        mark: "Out of puff",
        pattern: r"Out of puff! Can't get (\d+) pages",
        make: |found| Some(About::Balloon(number(found, 1)?)),
    },
    Text {
        mark: ": allocation failed, size=",
        pattern: r"(?i)percpu: allocation failed, size=(\d+)",
        make: |found| Some(About::PerCpu(number(found, 1)?)),
    },
    Text {
        mark: "swiotlb buffer is full",
        pattern: r"swiotlb buffer is full(?: \(sz: (\d+) bytes\))?",
        make: |found| Some(About::Swiotlb(number(found, 1).unwrap_or(0))),
    },
    Text {
        mark: "Out of SW-IOMMU space",
        pattern: r"Out of SW-IOMMU space for (\d+) bytes",
        make: |found| Some(About::Swiotlb(number(found, 1)?)),
    },
    Text {
        mark: "pool for atomic",
        pattern: r"failed to allocate (\d+) KiB .*pool for atomic (?:coherent )?allocation",
        make: |found| Some(About::AtomicPool(number(found, 1)?)),
    },
    Text {
        mark: "NVRM: ",
        pattern: r"NVRM: .*(?i:out of memory|failed to allocate|no memory|insufficient)",
        make: |found| words(found, 0).map(About::Graphics),
    },
    Text {
        mark: "[TTM] ",
        pattern: r"\[TTM\] (?:Unable to allocate|Out of|Failed to allocate|Buffer eviction failed|No memory).*",
        make: |found| words(found, 0).map(About::Graphics),
    },
    Text {
        mark: "memory for compressed page",
        pattern: r"zram: .*memory for compressed page: \d+, size=(\d+)",
        make: |found| Some(About::Zram(number(found, 1)?)),
    },
    Text {
        mark: "TCP: out of memory",
        pattern: r"TCP: out of memory -- consider tuning tcp_mem",
        make: |_| Some(About::Tcp),
    },
    Text {
        mark: "Allocation of length ",
        pattern: r"Allocation of length (\d+) from process \d+ \((?<task>.*?)\) failed",
        make: |found| Some(About::NoMmu(number(found, 1)?)),
    },
    Text {
        mark: "no killable processes",
        pattern: r"(?i)no killable processes",
        make: |_| Some(About::NobodyToKill),
    },
    Text {
        mark: "panic - not syncing",
        pattern: r"System is deadlocked on memory",
        make: |_| Some(About::NobodyToKill),
    },
    Text {
        mark: "systemd-oomd",
        pattern: r"(systemd-oomd)\[\d+\]: (?:Killed|Marked) (?<task>.+?) (?:due to|for killing)",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "sending SIG",
        pattern: r"(earlyoom|nohang)?(?:\[\d+\])?:? ?sending SIG(?:TERM|KILL) to process (?:group )?\d+(?: uid \d+)? \x22(?<task>.+?)\x22",
        make: |found| {
            Some(About::KilledBy(words(found, 1).unwrap_or_else(|| "earlyoom".to_owned())))
        },
    },
    Text {
        mark: "lowmemorykiller",
        pattern: r"(lowmemorykiller): ?Kill(?:ing)? '(?<task>[^']+)'",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "Kill '",
        pattern: r"^Kill '(?<task>[^']+)' \(\d+\), uid",
        make: |_| Some(About::KilledBy("lowmemorykiller".to_owned())),
    },
    Text {
        mark: "killed by the OOM killer",
        pattern: r"(?<task>[^ :]+): A process of this unit has been killed by the OOM killer",
        make: |_| Some(About::Node),
    },
    Text {
        mark: "result 'oom-kill'",
        pattern: r"(?<task>[^ :]+): Failed with result 'oom-kill'",
        make: |_| Some(About::Node),
    },
    Text { mark: "OOMKilled", pattern: r"OOMKilled", make: |_| Some(About::Node) },
    Text {
        mark: "cma: Failed to reserve",
        pattern: r"cma: Failed to reserve (\d+) MiB",
        make: |found| Some(About::CmaReserve(number(found, 1)?)),
    },
    Text {
        mark: "execmem: unable to allocate",
        pattern: r"execmem: unable to allocate memory",
        make: |_| Some(About::ExecMem),
    },
    Text {
        mark: "panic - not syncing",
        pattern: r"panic - not syncing: .*panic_on_oom is enabled",
        make: |_| Some(About::PanicOnOom),
    },
    Text {
        mark: "System OOM encountered",
        pattern: r"System OOM encountered, victim process: (?<task>[^,]+), pid: \d+",
        make: |_| Some(About::Node),
    },
];

/// Such a line contains at least one of these strings.
pub(in crate::log) static MARKS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| TEXTS.iter().map(|text| text.mark).collect());

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |text: &Text| Regex::new(text.pattern).expect("the pattern is valid");
    TEXTS.iter().map(compile).collect()
});

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
            Self::Slab { cgroup: None, .. }
            | Self::Graphics(_)
            | Self::Node
            | Self::Zfs(_)
            | Self::Xfs(None)
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
            | (Self::Graphics(_), Self::Graphics(_)) => self == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Takes the size of another line about the same, if it is larger.
    pub(super) fn enlarge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Xfs(size), Self::Xfs(new)) => *size = (*size).max(*new),
            (Self::Zfs(size), Self::Zfs(new))
            | (Self::Cma(size, _), Self::Cma(new, _))
            | (Self::PerCpu(size), Self::PerCpu(new))
            | (Self::Swiotlb(size), Self::Swiotlb(new))
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
            assert!(MARKS.iter().any(|mark| text.contains(mark)), "{text}");
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
                About::Xfs(None),
                Some("runc:[1:CHILD]"),
            ),
            (
                "XFS: possible memory allocation deadlock in kmem_alloc (mode:0x250)",
                About::Xfs(None),
                None,
            ),
            ("Possible memory allocation deadlock: size=48 lflags=0x4210", About::Zfs(48), None),
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
                "[TTM] Buffer eviction failed",
                About::Graphics("[TTM] Buffer eviction failed".into()),
                None,
            ),
            (
                "zram: Error allocating memory for compressed page: 4233, size=2720",
                About::Zram(2720),
                None,
            ),
            ("TCP: out of memory -- consider tuning tcp_mem", About::Tcp, None),
            (
                "nommu: Allocation of length 131072 from process 77 (nc) failed",
                About::NoMmu(131_072),
                Some("nc"),
            ),
            ("cma: Failed to reserve 512 MiB", About::CmaReserve(512), None),
            ("execmem: unable to allocate memory", About::ExecMem, None),
        ]);
    }

    #[test]
    fn who_was_killed_is_known() {
        known(&[
            ("Out of memory and no killable processes...", About::NobodyToKill, None),
            (
                "Kernel panic - not syncing: System is deadlocked on memory",
                About::NobodyToKill,
                None,
            ),
            (
                "systemd-oomd[612]: Killed /user.slice/app.scope due to memory pressure for /user.slice being 61.23% > 50.00%",
                About::KilledBy("systemd-oomd".into()),
                Some("/user.slice/app.scope"),
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
            (
                "web.service: A process of this unit has been killed by the OOM killer.",
                About::Node,
                Some("web.service"),
            ),
            ("web.service: Failed with result 'oom-kill'.", About::Node, Some("web.service")),
            ("      Reason:       OOMKilled", About::Node, None),
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
        ] {
            assert_eq!(About::find(text), None, "{text}");
        }
    }
}
