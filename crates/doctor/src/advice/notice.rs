//! Advice for failures that a part of the kernel reports by itself.

use super::{Advice, advice};
use crate::log::{About, Notice, Told};

/// Returns the advice for a notice.
pub(crate) fn of_notice(about: &About, is_at_boot: bool) -> Vec<Advice> {
    let (what, why) = match about {
        About::Hugetlb(..) if is_at_boot => (
            "a smaller hugepages= on the kernel's command line, by node where there are several (hugepages=0:N,1:N)",
            "at boot nothing is fragmented yet: the machine, or one of its nodes, has no room for more",
        ),
        About::Compaction(_) | About::Reclaim(_) | About::Isolation(_) => waits(about),
        About::Swiotlb(_)
        | About::NoSwiotlb
        | About::SwiotlbSize(_)
        | About::AtomicPool(_)
        | About::Cma(..)
        | About::CmaReserve(_)
        | About::ContigRange => of_dma(about),
        About::NobodyLeft if is_at_boot => of_part(&About::Initramfs),
        About::NobodyToKill
        | About::NobodyLeft
        | About::KilledBy(_)
        | About::Node
        | About::Container
        | About::Evicted
        | About::GpuPurge
        | About::Asked
        | About::PanicOnOom => of_kill(about),
        About::Words(told, _) => of_words(*told),
        About::Overcommit(_) => of_words(Told::Refused),
        About::Pressure { .. } => (
            "vmstat 1 and /proc/meminfo at that time (pageblock doctor reads both), and memory.high of the cgroups, which slows down its own",
            "tasks that wait for memory reclaim it, or wait for swap: pressure says how long, not who has the memory",
        ),
        About::Usage { limit, usage, peak, .. } => of_usage(*limit, (*usage).max(*peak)),
        other => of_part(other),
    };
    vec![advice(what, why)]
}

type Words = (&'static str, &'static str);

/// Returns the advice for the control files of a memory cgroup.
fn of_usage(limit: u64, most: Option<u64>) -> Words {
    match is_reached(limit, most) {
        true => (
            "memory.stat of the cgroup: anon, shmem and slab need a larger limit, or less of them; file (cache) is dropped before a kill",
            "the limit counts page cache, which `kubectl top` and `docker stats` leave out in part (working set)",
        ),
        false => (
            "memory.events (or memory.failcnt) of the cgroup, and of those above it, for whose limit was met",
            "a limit above holds too, and a peak that was not printed may have been higher",
        ),
    }
}

/// Returns whether nearly all of a limit was used, in kB: the kernel charges in batches.
#[must_use]
pub fn is_reached(limit: u64, most: Option<u64>) -> bool {
    most.is_some_and(|most| most.saturating_mul(100) >= limit.saturating_mul(99))
}

fn of_part(about: &About) -> Words {
    match about {
        About::Xfs(_) | About::XfsObject | About::Zfs(_) | About::ZfsLarge(_) => {
            of_file_system(about)
        }
        About::Hugetlb(..) => (
            "hugepages= on the kernel's command line, or ask again after echo 1 > /proc/sys/vm/compact_memory",
            "fragmentation: huge pages are got most surely at boot",
        ),
        About::Slab { cgroup: Some(_), .. } => (
            "the limit of this memory cgroup, its kernel memory too (memory.max; memory.limit_in_bytes and \
             memory.kmem.limit_in_bytes in version 1)",
            "the cache is a cgroup's own: its limit refuses pages whatever the machine has; kernels before 4.19 also leak \
             such caches (cgroup.memory=nokmem)",
        ),
        About::Slab { .. } => (
            "journalctl -k around these lines, for the `page allocation failure` of the same second",
            "the page allocator refused a page to the cache: its report says why, and is left out where there are many",
        ),
        About::TooLarge => (
            "a smaller request (queue depth, buffer size, number of descriptors), or kvmalloc, vmalloc or CMA in the driver",
            "no setting makes the allocator's largest block larger (4 MiB on x86-64), however much is free",
        ),
        About::NoFail => (
            "a report to the authors of the caller, with the stack",
            "__GFP_NOFAIL is for single pages and pairs; the kernel only warns, and goes on",
        ),
        About::Balloon(_) => (
            "a smaller balloon, in the hypervisor: the guest has no page left to give",
            "the balloon asks without trying hard, and tries again by itself",
        ),
        About::PerCpu(_) => (
            "fewer modules, cgroups, network devices or BPF maps; percpu_alloc=page on 32 bits; Percpu in /proc/meminfo",
            "memory for every CPU comes from its own area, by the number of CPUs",
        ),
        About::PerCpuAtomic(_) => (
            "the same command again after a moment; fewer rules, maps or counters in one transaction if it repeats",
            "a worker enlarges the area as soon as it may wait",
        ),
        About::PerCpuSize(_) => (
            "less in the BPF map or driver that asks: at most 32 KiB a piece for every CPU (PCPU_MIN_UNIT_SIZE)",
            "no setting makes it larger",
        ),
        About::HotAdd => (
            "a fixed size of the guest (no dynamic memory), or CONFIG_MEMORY_HOTPLUG in the guest's kernel; dmesg before the line",
            "what a hypervisor adds must be whole blocks of memory (128 MiB on x86-64), and takes memory for its page structs",
        ),
        About::CrashKernel => (
            "a smaller crashkernel= on the kernel's command line, or crashkernel=SIZE,high; without kdump take it away",
            "it must be one range of memory, mostly below 4 GiB",
        ),
        About::Initramfs => (
            "more memory, or a smaller initramfs (MODULES=dep, fewer files)",
            "it is unpacked into memory before any disk is there, and nothing can be killed or swapped for it",
        ),
        About::GpuSpace => (
            "close programs that use the card (nvidia-smi), Resizable BAR in the firmware's setup, or another version of the driver",
            "the driver maps buffers through a window (BAR1, nvidia-smi -q -d MEMORY), and may leak mappings",
        ),
        About::Graphics(_) => (
            "more free memory or swap, and less in the graphics card's buffers",
            "a graphics driver says it in its own words; the report of the page allocator near it says why",
        ),
        About::Zram(_) | About::SwapWrite(_) => of_zram(about),
        About::ExecMem => (
            "fewer modules and BPF programs (net.core.bpf_jit_limit limits the latter)",
            "code has a range of addresses of its own, which is small on some machines",
        ),
        About::Tcp => (
            "sysctl net.ipv4.tcp_mem='MIN PRESSURE MAX' (pages), for orphaned sockets net.ipv4.tcp_max_orphans=N; ss -s, for who has so \
             many sockets",
            "it is a limit of TCP's own, whatever memory is free",
        ),
        _ => (
            "smaller mappings and stacks, made early",
            "without an MMU a mapping is one block, rounded up to a power of two, and nothing can be moved or swapped",
        ),
    }
}

/// Returns the advice for file systems that wait for memory.
fn of_file_system(about: &About) -> Words {
    match about {
        About::Xfs(_) => (
            "a kernel from 4.17 on, which needs fewer such pieces; before it xfs_fsr, or a copy of the files with very many extents",
            "XFS keeps lists of extents, and changes of large directory blocks, in one piece, and waits until it gets one",
        ),
        About::XfsObject => (
            "the limit of the kernel's memory of the task's memory cgroup (memory.kmem.limit_in_bytes; cgroup.memory=nokmem on \
             the command line of kernels before 4.19, which leak such caches), or more free memory",
            "less than a page was asked for, of a slab cache: fragmentation is not what it waits for",
        ),
        About::ZfsLarge(_) => (
            "nothing, if nothing else fails; spl_kmem_alloc_warn sets the size from which it warns",
            "ZFS warns of large pieces because they may be hard to get; it got this one",
        ),
        _ => (
            "free memory: a smaller ARC (zfs_arc_max), or more memory; an order above 0 also needs compaction",
            "ZFS asks again until it gets the memory, and holds its locks meanwhile",
        ),
    }
}

/// Returns the advice for compressed swap, and for failed writes to swap, which zram's are without memory.
fn of_zram(about: &About) -> Words {
    match about {
        About::SwapWrite(_) => (
            "if the device is zram (major 252 to 254: zramctl, cat /proc/devices): more free memory, or a larger mem_limit; else \
             look at the disk's errors",
            "zram refuses a page when it gets no memory for it, or is at its own limit",
        ),
        _ => (
            "a smaller zram (zramctl), or a limit (mem_limit) below what the machine can spare",
            "compressed swap needs free pages to take a page out of memory",
        ),
    }
}

fn of_dma(about: &About) -> Words {
    match about {
        About::NoSwiotlb => (
            "swiotlb=force on the kernel's command line, without iommu=off or swiotlb=noforce; a report to the driver's authors (its DMA mask)",
            "with memory that every device reaches, or an IOMMU, the kernel sets none aside; a mask that became too small needs them",
        ),
        About::SwiotlbSize(_) => (
            "smaller transfers in the driver or program, an IOMMU, memory of CMA for the device (cma=), or a larger DMA mask",
            "a larger swiotlb= adds buffers, and leaves the limit of one mapping as it is",
        ),
        About::Cma(_, -12) => (
            "a larger cma= on the kernel's command line",
            "-12: the area has no free range that is long enough",
        ),
        About::Cma(_, -16) => (
            "try again later, and look for who pins pages there (page_owner)",
            "-16: the range has pages that could not be moved out",
        ),
        About::Cma(..) => (
            "look the error up by its number (errno), and report the device",
            "it is neither -12 (no room) nor -16 (busy)",
        ),
        About::ContigRange => (
            "nothing, if no `cma_alloc: alloc failed` follows: the next range is tried; else look for who pins pages \
             (page_owner)",
            "the range has pages that could not be moved out",
        ),
        About::CmaReserve(_) => (
            "a smaller cma= on the kernel's command line, or another place for it (cma=SIZE@START)",
            "the area must be one range, aligned to a pageblock: with large pages that is up to 512 MiB",
        ),
        About::AtomicPool(_) => (
            "coherent_pool= on the kernel's command line, or a larger zone DMA (more of crashkernel= above 4 GiB)",
            "at boot the pool is taken from low zones, which may be small or full, as in a crash kernel",
        ),
        _ => (
            "swiotlb=N on the kernel's command line (slots of 2 KiB), an IOMMU, or a driver that leaks no mappings",
            "bounce buffers are set aside at boot: how much memory is free does not matter",
        ),
    }
}

fn of_kill(about: &About) -> Words {
    match about {
        About::NobodyToKill | About::NobodyLeft => (
            "look at what the kernel itself holds (the report above), and at oom_score_adj=-1000",
            "every process is exempt or gone, and memory is still short",
        ),
        About::PanicOnOom => (
            "sysctl vm.panic_on_oom=0, and the report above for who has the memory",
            "the setting makes a panic of what would be the kill of one process",
        ),
        About::Container => (
            "a larger limit of the container (resources.limits.memory, docker run --memory), or less memory in it; journalctl -k on \
             its machine, for the report of this kill",
            "only the kernel's own report says which limit was reached, and who had the memory",
        ),
        About::Evicted => (
            "kubectl describe node, for requests against what the node has; requests.memory for every container; evictionHard and \
             evictionSoft (memory.available) of the kubelet",
            "pods that use more than they requested are evicted first, and a request of 0 is always exceeded",
        ),
        About::GpuPurge => (
            "journalctl -k, for `invoked oom-killer` after these lines; if none follows and they repeat, free memory by hand (SysRq-f)",
            "while the driver finds a page to give, the kernel tries again and kills nobody",
        ),
        About::Asked => (
            "nothing: find who pressed SysRq-f or wrote f to /proc/sysrq-trigger",
            "no request for memory failed",
        ),
        About::Node => (
            "journalctl -k on that machine, for the report of this kill (`invoked oom-killer`)",
            "systemd and Kubernetes pass on that a process was killed, and not why: the kernel's own report says it",
        ),
        _ => (
            "its limits (systemd-oomd: ManagedOOM*= and oomctl; earlyoom: -m and -s; Android: lmkd; Ray: RAY_memory_usage_threshold), or less load",
            "a program that watches memory killed it before the kernel had to: no request failed",
        ),
    }
}

/// Returns the advice for failures that drivers and programs report in their own words.
const fn of_words(told: Told) -> Words {
    match told {
        Told::OwnHeap => (
            "a larger limit (node --max-old-space-size=MiB, java -Xmx, memory_limit of PHP), or a dump of the heap for who fills it",
            "the runtime counts its own heap, whatever the machine has",
        ),
        Told::Card => (
            "nvidia-smi or its like for who has the card's memory; a smaller batch, model or texture",
            "the card's memory is its own: neither swap nor the machine's memory helps",
        ),
        Told::Threads => (
            "ulimit -u, pids.max and pids.current of the cgroup, sysctl kernel.threads-max kernel.pid_max vm.max_map_count",
            "the number of threads and of mappings is limited apart from memory",
        ),
        Told::HugePages => (
            "grep Huge /proc/meminfo, and by node /sys/devices/system/node/node*/hugepages/*/free_hugepages; then more of them (sysctl vm.nr_hugepages=N, hugepages= at boot), or delete files that were left \
             in /dev/hugepages",
            "huge pages are set aside by number; what a program left in a file of hugetlbfs stays used",
        ),
        Told::Hardware => (
            "ras-mc-ctl --errors, edac-util -v or the firmware's log for the module, and replace it; memtest86+",
            "the kernel gives up the page, and ends who used it",
        ),
        Told::Shared => (
            "df -h /dev/shm, and a larger one (docker run --shm-size=, an emptyDir of medium Memory, mount -o remount,size=); for \
             System V sysctl kernel.shmmax=BYTES kernel.shmall=PAGES, ipcs -m",
            "/dev/shm has 64 MB in a container and half of memory elsewhere; kernel.shmmax was 32 MiB before 3.16",
        ),
        Told::HugeFaults => (
            "cat /sys/kernel/mm/transparent_hugepage/defrag and /proc/buddyinfo; pageblock doctor, for who fragments memory; madvise \
             with defrag=defer+madvise for programs that gain by huge pages",
            "a fault takes a huge page if a free block of its size is there, or may be made while it waits",
        ),
        Told::Mappings => (
            "sysctl vm.max_map_count=262144 on the host, and the same in /etc/sysctl.d",
            "a process may have 65,530 mappings unless this is set; memory does not matter to it",
        ),
        Told::Cgroups => (
            "grep memory /proc/cgroups against find /sys/fs/cgroup -type d | wc -l: a larger number are cgroups that were deleted and still \
             hold memory; kernels before 4.19 leak them (cgroup.memory=nokmem), and a restart frees them",
            "there may be 65,535 memory cgroups, and each takes percpu memory for every CPU; the limit of the container does not matter",
        ),
        Told::Limit => (
            "a larger limit (docker run --memory, resources.limits.memory, MemoryMax=, --mem of Slurm), or less memory in it",
            "a container needs some MiB for its start alone; what the machine has free does not count",
        ),
        Told::Killed => (
            "journalctl -k, for `Killed process`: the machine (Out of memory) or a limit (Memory cgroup); then fewer jobs at once \
             (make -j, cargo -j), more memory or swap, or a larger limit",
            "137 is 128 + 9: SIGKILL comes from the OOM killer, or from whoever stopped it (docker stop, a timeout)",
        ),
        Told::Fork => (
            "sysctl vm.overcommit_memory=1 (Redis asks for it), or swap; then memory.max and pids.max of the cgroup",
            "fork promises a second copy of the process's writable memory; compare CommitLimit and Committed_AS in /proc/meminfo",
        ),
        Told::Guest => (
            "free -m on the host (xl info on Xen); a smaller guest, or fewer of them; vm.overcommit_memory and ulimit -v",
            "QEMU maps all of a guest's memory at its start, before it is used; Xen needs it free, and other guests' balloons return it",
        ),
        Told::Locked => (
            "ulimit -l of the process (limits.conf, LimitMEMLOCK=, docker run --ulimit memlock=-1); smaller queues or buffers",
            "RDMA, io_uring (before 5.12), VFIO and BPF (before 5.11) count what they pin against it; the default is 64 kB to 8 MB",
        ),
        Told::Contiguous | Told::Packet | Told::FileSystem | Told::Probe | Told::Driver => {
            of_kernel_words(told)
        }
        Told::Refused => (
            "compare CommitLimit and Committed_AS in /proc/meminfo; ulimit -v; memory.max of the cgroup; sysctl vm.overcommit_memory \
             vm.max_map_count",
            "a shortage of pages would end in the OOM killer: what is refused at once is beyond a limit, or more than overcommit \
             allows, as the fork of a large process is",
        ),
        Told::Nothing => (
            "journalctl -k, for what the kernel says at that time: `page allocation failure`, `invoked oom-killer`, `killed as \
             a result of limit`",
            "these words tell neither how much was free nor what was asked for; without a line of the kernel it is a limit: \
             ulimit -a, memory.max, vm.overcommit_memory, vm.max_map_count",
        ),
    }
}

/// Returns the advice for failures that parts of the kernel report in their own words.
const fn of_kernel_words(told: Told) -> Words {
    match told {
        Told::Contiguous => (
            "grep Cma /proc/meminfo, dmesg for `cma_alloc` and `page allocation failure`; a larger cma= (or coherent_pool=), fewer \
             or smaller buffers",
            "devices without an IOMMU need one piece of memory, which comes from an area that is set aside at boot",
        ),
        Told::Packet => (
            "sysctl vm.min_free_kbytes=N, twice of what it is; dmesg for `page allocation failure`; on a router fewer clients or \
             services",
            "a driver takes buffers in interrupts, from what is free at that moment",
        ),
        Told::FileSystem => (
            "journalctl -k around it, for `page allocation failure`; memory.max (and memory.kmem.limit_in_bytes) of the cgroup; \
             then look whether it went read-only",
            "a file system that gets no memory in the middle of a change gives the change up",
        ),
        Told::Probe => (
            "dmesg just before it; grep -e Cma -e Vmalloc /proc/meminfo; cma=, coherent_pool= or vmalloc= on the command line",
            "a driver takes its memory once, at its start, and in large pieces",
        ),
        _ => (
            "dmesg at that time, for `page allocation failure`, `vmalloc`, `cma_alloc` or the driver's own lines; memory.max of the \
             cgroup; ulimit -l; for USB usbcore.usbfs_memory_mb",
            "what the kernel takes for a program is from areas of its own (CMA, DMA, percpu, vmalloc), from large blocks, or limited",
        ),
    }
}

/// Returns the advice for a task that reclaims, by the rest of its stack.
pub(crate) fn of_stack(notice: &Notice) -> Option<Advice> {
    if notice.of_write_out {
        return Some(advice(
            "a newer kernel: the task asks for memory while it writes a file out, and reclaim waits for such pages (GFP_NOFS is \
             missing)",
            "it can wait for itself: a fault of the file system or of reclaim, not a lack of memory",
        ));
    }
    notice.of_cgroup.then(|| {
        advice(
            "look at the limit of the task's memory cgroup (memory.max, memory.limit_in_bytes) and at its dirty page cache",
            "it reclaims for that limit, by its stack, whatever the machine has",
        )
    })
}

fn waits(about: &About) -> Words {
    match about {
        About::Compaction(_) => (
            "look at the stack for what it waits for: a page that is being read or written holds compaction up",
            "a task that asked for several pages side by side moves others' pages first",
        ),
        About::Isolation(_) => (
            "look at the stack for what it waits for: work on every CPU (a CPU that never sleeps holds it up), or a page that is \
             pinned or written",
            "a device wants a range of CMA: pages in it are moved out first, and the lists of each CPU emptied",
        ),
        _ => (
            "look for a slow disk or swap: what is reclaimed is written first",
            "a task that asked for memory frees others' pages first",
        ),
    }
}
