//! Messages of parts of the kernel that lacked memory, or whose own rules refused it.

use super::{Text, number, words};
use crate::log::find::about::About;

/// The smallest page size: XFS takes less than that from a slab cache.
const PAGE: u64 = 4096;

pub(super) static TEXTS: [Text; 18] = [
    (
        "ossible memory allocation deadlock",
        r"XFS: (?:(?:(?<task>.{1,15})\(\d+\)|\w{1,15}) )?possible memory allocation deadlock(?: size (\d+))?(?: in (\w+))?",
        |found| {
            let size = number(found, 2);
            let is_object = found.get(3).is_some_and(|from| from.as_str() == "kmem_zone_alloc");
            let is_page = size.is_some_and(|bytes: u64| bytes <= PAGE);
            Some(if is_object || is_page { About::XfsObject } else { About::Xfs(size) })
        },
    ),
    (
        "ossible memory allocation deadlock",
        r"Possible memory allocation deadlock: size=(\d+)",
        |found| Some(About::Zfs(number(found, 1)?)),
    ),
    ("Large kmem_alloc(", r"Large kmem_alloc\((\d+), ", |found| {
        Some(About::ZfsLarge(number(found, 1)?))
    }),
    (
        "Only allocated",
        r"allocating (\d+) of page size (.+?) failed.*Only allocated (\d+) hugepages",
        |found| Some(About::Hugetlb(number(found, 1)?, number(found, 3)?, words(found, 2)?)),
    ),
    (
        "mm/page_alloc.c",
        r"at \S*mm/page_alloc\.c:\d+(?:.* (?:__)?alloc_(?:pages|frozen)\w*\+0x|\s*$)",
        |_| Some(About::TooLarge),
    ),
    (
        "mm/page_alloc.c",
        r"WARNING: mm/page_alloc\.c:\d+ at (?:__)?alloc_(?:pages|frozen)\w*\+0x\S+, CPU#\d+: (?<task>.{1,15})/\d+",
        |_| Some(About::TooLarge),
    ),
    (
        "mm/page_alloc.c",
        r"at \S*mm/page_alloc\.c:\d+.* (?:rmqueue|get_page_from_freelist)\w*\+0x",
        |_| Some(About::NoFail),
    ),
    (
        ": allocation failed, size=",
        r"(?i)percpu: allocation failed, size=(\d+) align=\d+ atomic=1",
        |found| Some(About::PerCpuAtomic(number(found, 1)?)),
    ),
    (": allocation failed, size=", r"(?i)percpu: allocation failed, size=(\d+)", |found| {
        Some(About::PerCpu(number(found, 1)?))
    }),
    (
        "for percpu allocation",
        r"illegal size \((\d+)\) or align \(\d+\) for percpu allocation",
        |found| Some(About::PerCpuSize(number(found, 1)?)),
    ),
    ("ut of socket memory", r"Out of socket memory", |_| Some(About::Tcp)),
    ("TCP: out of memory", r"TCP: out of memory -- consider tuning tcp_mem", |_| Some(About::Tcp)),
    ("TCP: out of memory", r"MPTCP: out of memory: force closing", |_| Some(About::Tcp)),
    ("orphaned sockets", r"too many (?:of )?orphaned sockets", |_| Some(About::Tcp)),
    (
        "Allocation of length ",
        r"Allocation of length (\d+) from process \d+ \((?<task>.*?)\) failed",
        |found| Some(About::NoMmu(number(found, 1)?)),
    ),
    ("Initramfs unpacking failed", r"Initramfs unpacking failed: write error", |_| {
        Some(About::Initramfs)
    }),
    (
        "__vm_enough_memory:",
        r"__vm_enough_memory: pid: \d+, comm: (?<task>.{1,15}?), (?:bytes: (\d+) )?not? enough memory",
        |found| Some(About::Overcommit(number(found, 2).unwrap_or(0))),
    ),
    ("execmem: unable to allocate", r"execmem: unable to allocate memory", |_| {
        Some(About::ExecMem)
    }),
];

#[cfg(test)]
mod tests {
    use super::super::tests::known;

    #[test]
    fn what_the_kernel_lacked_is_known() {
        known(
            r#"
Xfs(Some(65728)) | fs_mark | XFS: fs_mark(1300) possible memory allocation deadlock size 65728 in kmem_realloc (mode:0x2408240)
XfsObject | runc:[1:CHILD] | XFS: runc:[1:CHILD](3580) possible memory allocation deadlock in kmem_zone_alloc (mode:0x82d0)
XfsObject | java | XFS: java(7) possible memory allocation deadlock size 144 in kmem_alloc (mode:0x2400240)
Xfs(None) | - | XFS: possible memory allocation deadlock in kmem_alloc (mode:0x250)
Zfs(48) | - | Possible memory allocation deadlock: size=48 lflags=0x4210
ZfsLarge(42672) | - | Large kmem_alloc(42672, 0x1000), please file an issue at:
Cma(62864, -12) | - | cma: cma_alloc: linux,cma: alloc failed, req-size: 62864 pages, ret: -12
ContigRange | - | alloc_contig_range: [a5a80, a5ade) PFNs busy
Hugetlb(51200, 47611, "2.00 MiB") | - | HugeTLB: allocating 51200 of page size 2.00 MiB failed.  Only allocated 47611 hugepages.
TooLarge | - | WARNING: CPU: 3 PID: 19257 at mm/page_alloc.c:4724 __alloc_pages_nodemask+0x1ee/0x320
TooLarge | - | WARNING: CPU: 0 PID: 12299 at /usr/src//mm/page_alloc.c:3725
TooLarge | app one | WARNING: mm/page_alloc.c:5219 at __alloc_frozen_pages_noprof+0x30d/0x370, CPU#6: app one/815
NoFail | - | WARNING: CPU: 3 PID: 192 at mm/page_alloc.c:3125 get_page_from_freelist+0x92/0x320
"#,
        );
    }

    #[test]
    fn what_was_lacked_at_boot_or_by_rules_is_known() {
        known(
            r#"
CmaReserve(512) | - | cma: Failed to reserve 512 MiB
Tcp | - | TCP: too many orphaned sockets
Tcp | - | MPTCP: out of memory: force closing socket
Initramfs | - | Initramfs unpacking failed: write error
CrashKernel | - | crashkernel reservation failed - No suitable area found.
CmaReserve(0) | - | OF: reserved mem: failed to allocate memory for node 'linux,cma'
ExecMem | - | execmem: unable to allocate memory
Overcommit(4294967296) | java | __vm_enough_memory: pid: 812, comm: java, bytes: 4294967296 not enough memory for the allocation
Overcommit(0) | java | __vm_enough_memory: pid: 812, comm: java, no enough memory for the allocation
"#,
        );
    }
}
