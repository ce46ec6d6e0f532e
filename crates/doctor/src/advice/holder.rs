//! Advice for memory that is used up.

use super::{Advice, Case, advice};
use crate::holders::Holding;

/// Returns the advice for memory that is used up, by its largest holder.
pub(super) fn of_holder(case: &Case<'_>) -> Advice {
    match (case.holding, case.cache, case.largest) {
        (Some(Holding::SlabUnreclaimable), Some(cache), _) => advice(
            format!(
                "find what fills the slab cache {cache} (its name says which part of the kernel): slabtop -o -s c, twice"
            ),
            "what it cannot free and only grows is a leak, of the kernel or of a program that holds its objects",
        ),
        (Some(Holding::Anonymous) | None, _, Some(largest)) => advice(
            format!(
                "less memory for {largest} (heap, caches, number of workers, MemoryMax= of its unit), or more memory or swap"
            ),
            "memory is used up, and of the processes that are known this has most",
        ),
        (holding, ..) => of_kind(holding),
    }
}

/// Returns the advice against a kind of holder.
fn of_kind(holding: Option<Holding>) -> Advice {
    match holding {
        Some(Holding::Mlocked) => advice(
            "less locked memory: find it by VmLck in /proc/*/status, and limit it (ulimit -l)",
            "neither reclaim nor swap takes locked memory",
        ),
        Some(Holding::Unevictable) => advice(
            "find what reclaim may not take: ramfs, secret memory, or pages of a driver",
            "neither reclaim nor swap takes unevictable memory",
        ),
        Some(Holding::SlabReclaimable) => advice(
            "nothing for this slab, if nothing failed; else slabtop -o -s c, and vm.vfs_cache_pressure=200 for dentries and inodes",
            "it is cache, of names and inodes mostly, which the kernel frees as memory gets short",
        ),
        Some(Holding::SlabUnreclaimable | Holding::Slab) => advice(
            "slabtop -o -s c, for the cache that has it",
            "the kernel holds the memory, so that no process of the list of tasks has it",
        ),
        Some(Holding::KernelStack | Holding::PageTables) => advice(
            "fewer tasks or mappings: ps -eLf | wc -l counts tasks",
            "the kernel holds the memory for them, and the list of tasks does not show it",
        ),
        Some(Holding::Shmem) => advice(
            "less in tmpfs and shared memory: df -t tmpfs, ipcs -m; what neither shows are buffers of a graphics driver, or memfd",
            "only swap takes it, and the list of tasks shows it only where it is mapped",
        ),
        Some(Holding::Hugetlb) => advice(
            "fewer huge pages: sysctl vm.nr_hugepages=N; `grep Huge /proc/meminfo` says how many are free",
            "huge pages that were set aside serve who asks for huge pages only, used or not",
        ),
        Some(Holding::Arc) => advice(
            "a smaller ARC: zfs_arc_max=BYTES (/sys/module/zfs/parameters), and what else is to run beside it",
            "ZFS counts its cache apart from page cache, and gives it back more slowly than the kernel does",
        ),
        Some(Holding::Balloon) => advice(
            "a smaller balloon: give the machine its memory back in the hypervisor",
            "the hypervisor took the memory, so that no process has it",
        ),
        Some(Holding::Zspages) => advice(
            "less in zram or zswap: zramctl; a limit (mem_limit of zram, max_pool_percent of zswap)",
            "compressed swap lives in memory itself",
        ),
        Some(Holding::Uncounted) => advice(
            "find who has it: VmallocUsed and Percpu in /proc/meminfo, /proc/vmallocinfo, arcstats of ZFS, buffers of GPUs \
             (/sys/kernel/debug/dri), a balloon; page_owner=on says it page by page",
            "pages that drivers take straight from the allocator are in no counter, and no process has them",
        ),
        Some(Holding::Unprinted) => advice(
            "grep -e Slab -e SUnreclaim -e Vmalloc -e Percpu -e Huge /proc/meminfo, and slabtop -o -s c",
            "the text ends before the fields of the kernel's own memory",
        ),
        Some(Holding::NeverGiven) => advice(
            "look for crashkernel=, mem= and reservations in the boot messages, and for memory that is not yet online",
            "most of the memory was never given to the allocator, so that no process has it",
        ),
        Some(Holding::Anonymous | Holding::File) | None => advice(
            "more memory or swap, or less load: ps -eo rss,pid,comm --sort=-rss | head, and the list of tasks of an OOM report",
            "memory is used up: only more of it, or less use of it, lasts",
        ),
    }
}
