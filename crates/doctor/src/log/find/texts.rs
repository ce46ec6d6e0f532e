//! The table of those texts: what a line contains, its pattern, and what it is about.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::about::About;

/// The smallest page: XFS gets less than that from a slab cache.
const PAGE: u64 = 4096;

/// The largest mapping that bounce buffers can serve: 128 slots of 2 KiB (`IO_TLB_SEGSIZE`).
const MOST_BOUNCED: u64 = 256 << 10;

type Make = fn(&Captures<'_>) -> Option<About>;

/// A text: what a line must contain, its pattern, and what it is about. A group `task` is the task.
pub(super) struct Text {
    pub(super) mark: &'static str,
    pattern: &'static str,
    pub(super) make: Make,
}

fn number<T: std::str::FromStr>(found: &Captures<'_>, group: usize) -> Option<T> {
    found.get(group)?.as_str().parse().ok()
}

fn words(found: &Captures<'_>, group: usize) -> Option<String> {
    found.get(group).map(|words| words.as_str().trim().to_owned())
}

/// Returns what a request of this many bytes to the bounce buffers failed for.
const fn swiotlb(bytes: u64) -> About {
    if bytes > MOST_BOUNCED { About::SwiotlbSize(bytes) } else { About::Swiotlb(bytes) }
}

pub(super) const TEXTS: [Text; 65] = [
    Text {
        mark: "ossible memory allocation deadlock",
        pattern: r"XFS: (?:(?<task>.{1,15})\(\d+\) )?possible memory allocation deadlock(?: size (\d+))?(?: in (\w+))?",
        make: |found| {
            let size = number(found, 2);
            let is_object = found.get(3).is_some_and(|from| from.as_str() == "kmem_zone_alloc");
            let is_page = size.is_some_and(|bytes: u64| bytes <= PAGE);
            Some(if is_object || is_page { About::XfsObject } else { About::Xfs(size) })
        },
    },
    Text {
        mark: "ossible memory allocation deadlock",
        pattern: r"Possible memory allocation deadlock: size=(\d+)",
        make: |found| Some(About::Zfs(number(found, 1)?)),
    },
    Text {
        mark: "Large kmem_alloc(",
        pattern: r"Large kmem_alloc\((\d+), ",
        make: |found| Some(About::ZfsLarge(number(found, 1)?)),
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
        mark: "for percpu allocation",
        pattern: r"illegal size \((\d+)\) or align \(\d+\) for percpu allocation",
        make: |found| Some(About::PerCpuSize(number(found, 1)?)),
    },
    Text {
        mark: "swiotlb buffer is full",
        pattern: r"swiotlb buffer is full(?: \(sz: (\d+) bytes\))?",
        make: |found| Some(swiotlb(number(found, 1).unwrap_or(0))),
    },
    Text {
        mark: "Out of SW-IOMMU space",
        pattern: r"Out of SW-IOMMU space for (\d+) bytes",
        make: |found| Some(swiotlb(number(found, 1)?)),
    },
    Text {
        mark: "pool for atomic",
        pattern: r"failed to allocate (\d+) KiB .*pool for atomic (?:coherent )?allocation",
        make: |found| Some(About::AtomicPool(number(found, 1)?)),
    },
    Text {
        mark: "NVRM: ",
        pattern: r"NVRM: .*can't alloc VA space for mapping",
        make: |_| Some(About::GpuSpace),
    },
    Text {
        mark: "NVRM: ",
        pattern: r"NVRM: .*(?i:out of memory|failed to allocate|no memory|insufficient)",
        make: |found| words(found, 0).map(About::Graphics),
    },
    Text {
        mark: "Failed to allocate NVKMS",
        pattern: r"Failed to allocate NVKMS (?:video )?memory for GEM object",
        make: |found| words(found, 0).map(About::Graphics),
    },
    Text {
        mark: "ot enough memory",
        pattern: r"(Not enough memory for command submission)",
        make: |found| words(found, 1).map(About::Graphics),
    },
    Text {
        mark: "*ERROR*",
        pattern: r"\[drm(?::[^\]]*\]?)?\]? ?\*ERROR\* .*(?:\(-12\)|error -12|ENOMEM|out of memory|[Ff]ailed to (?:allocate(?: from CMA)?|get memory))",
        // Memory in one piece has words of its own.
        make: |found| words(found, 0).filter(|said| !said.ends_with("CMA")).map(About::Graphics),
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
        mark: "ut of socket memory",
        pattern: r"Out of socket memory",
        make: |_| Some(About::Tcp),
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
        // Not of a memory cgroup: for one the kernel does not panic.
        mark: "panic - not syncing",
        pattern: r"panic - not syncing: (?:Out of memory and no killable processes|System is deadlocked on memory)",
        make: |_| Some(About::NobodyLeft),
    },
    Text {
        mark: "no killable processes",
        pattern: r"(?i)no killable processes",
        make: |_| Some(About::NobodyToKill),
    },
    Text {
        mark: "systemd-oomd",
        pattern: r"(systemd-oomd)\[\d+\]: (?:Killed|Marked) (?<task>/\S+)",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "systemd-oomd",
        pattern: r"(?<task>[^ :]+): (systemd-oomd) killed ",
        make: |found| words(found, 2).map(About::KilledBy),
    },
    Text {
        mark: "Sending SIGKILL to cgroup",
        pattern: r"\[(talos)\] Sending SIGKILL to cgroup .*\x22cgroup\x22: \x22(?<task>[^\x22]+)",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "Write-error on swap-device",
        pattern: r"Write-error on swap-device \((\d+:\d+)",
        make: |found| words(found, 1).map(About::SwapWrite),
    },
    Text {
        // As older versions of earlyoom say it.
        mark: "illing process ",
        pattern: r"(?:(earlyoom)\[\d+\]: )?[Kk]illing process (?:\d+ )?[\x22'](?<task>[^\x22']+)[\x22'] with signal",
        make: |found| {
            Some(About::KilledBy(words(found, 1).unwrap_or_else(|| "earlyoom".to_owned())))
        },
    },
    Text {
        mark: "illing process ",
        pattern: r"(earlyoom)\[\d+\]: Killing process \d+ (?<task>[^\x22'\s].*)$",
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
        mark: "ow memory! ",
        pattern: r"[Ll]ow memory! (?:mem avail:|at or below SIG)",
        make: |_| Some(About::KilledBy("earlyoom".to_owned())),
    },
    Text {
        mark: "Memory hot add failed",
        pattern: r"Memory hot add failed|hot_add memory failed",
        make: |_| Some(About::HotAdd),
    },
    Text {
        mark: "add_memory() failed",
        pattern: r"balloon: reserve_additional_memory: add_memory\(\) failed",
        make: |_| Some(About::HotAdd),
    },
    Text {
        mark: "crashkernel",
        pattern: r"(?i)crashkernel(?: reservation|:.* allocation) failed|(?:cannot|unable to|failed to) (?:allocate|reserve)\b.*crash ?kernel",
        make: |_| Some(About::CrashKernel),
    },
    Text {
        mark: "for crash kernel",
        pattern: r"(?i)no memory reserved for crash kernel",
        make: |_| Some(About::CrashKernel),
    },
    Text {
        mark: "Initramfs unpacking failed",
        pattern: r"Initramfs unpacking failed: write error",
        make: |_| Some(About::Initramfs),
    },
    Text {
        mark: "OOM Killed",
        pattern: r"[Rr]eason\W+OOM Killed",
        make: |_| Some(About::Container),
    },
    Text {
        mark: "kB rss",
        pattern: r"(?:Reclaim|Kill) '(?<task>[^']+)' \(\d+\), uid \d+, .* to free \d+kB rss",
        make: |_| Some(About::KilledBy("lowmemorykiller".to_owned())),
    },
    Text {
        mark: "reserved mem: ",
        pattern: r"reserved mem: failed to (?:allocate|reserve) memory for node",
        make: |_| Some(About::CmaReserve(0)),
    },
    Text {
        mark: "OOM killed process",
        pattern: r"OOM killed process (?:\d+ )?\(?(?<task>[^ ()]+)",
        make: |_| Some(About::Container),
    },
    Text {
        mark: "lowmemorykiller",
        pattern: r"(lowmemorykiller): ?Kill(?:ing)? '(?<task>[^']+)'",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        // The program's name may be a part of what the logger put before it.
        mark: "Kill '",
        pattern: r"^Kill '(?<task>[^']+)' \(\d+\), uid",
        make: |_| Some(About::KilledBy("lowmemorykiller".to_owned())),
    },
    Text {
        mark: "Killing '",
        pattern: r"^Killing '(?<task>[^']+)' \(\d+\), (?:uid|adj)",
        make: |_| Some(About::KilledBy("lowmemorykiller".to_owned())),
    },
    Text {
        mark: "killed by the OOM killer",
        pattern: r"(?<task>[^ :]+): A process of this unit has been killed by the OOM killer",
        make: |_| Some(About::Node),
    },
    Text { mark: "esult: oom-kill", pattern: r"\(Result: oom-kill\)", make: |_| Some(About::Node) },
    Text {
        mark: "result 'oom-kill'",
        pattern: r"(?<task>[^ :]+): Failed with result 'oom-kill'",
        make: |_| Some(About::Node),
    },
    Text {
        mark: "OOMKilled",
        pattern: r"OOMKilled(?:\x22?: *(\w+))?",
        make: |found| (words(found, 1).as_deref() != Some("false")).then_some(About::Container),
    },
    Text {
        mark: "an OOM event in container",
        pattern: r"Created an OOM event in container \x22/\x22",
        make: |_| Some(About::Node),
    },
    Text {
        mark: "an OOM event in container",
        pattern: r"Created an OOM event in container \x22(?<task>[^\x22]+)\x22",
        make: |_| Some(About::Container),
    },
    Text {
        mark: "low on resource: memory",
        pattern: r"low on resource: memory",
        make: |_| Some(About::Evicted),
    },
    Text {
        mark: "eviction manager: ",
        pattern: r"eviction manager: .*(?:\[signal=memory\.available|observed: \[MemoryPressure)",
        make: |_| Some(About::Evicted),
    },
    Text {
        mark: "Purging GPU memory",
        pattern: r"Purging GPU memory, \d+ pages freed",
        make: |_| Some(About::GpuPurge),
    },
    Text {
        mark: "systemd-oomd",
        pattern: r"(systemd-oomd)\[\d+\]: Memory pressure for (?<task>/\S+) is ",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "Running Action=kill",
        pattern: r"(oomd)\[\d+\]: .*Running Action=kill",
        make: |found| words(found, 1).map(About::KilledBy),
    },
    Text {
        mark: "cgroups for killing",
        pattern: r"Considered \d+ cgroups for killing, top candidates",
        make: |_| Some(About::KilledBy("systemd-oomd".to_owned())),
    },
    Text {
        mark: "Manual OOM execution",
        pattern: r"(?i)sysrq.* Manual OOM execution",
        make: |_| Some(About::Asked),
    },
    Text {
        mark: "__vm_enough_memory:",
        pattern: r"__vm_enough_memory: pid: \d+, comm: (?<task>.{1,15}?), (?:bytes: (\d+) )?not? enough memory",
        make: |found| Some(About::Overcommit(number(found, 2).unwrap_or(0))),
    },
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
        pattern: r"System OOM encountered(?:, victim process: (?<task>[^,]+), pid: \d+)?",
        make: |_| Some(About::Node),
    },
];

/// Such a line contains at least one of these strings.
pub(in crate::log) static MARKS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| TEXTS.iter().map(|text| text.mark).collect());

pub(super) static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |text: &Text| Regex::new(text.pattern).expect("the pattern is valid");
    TEXTS.iter().map(compile).collect()
});
