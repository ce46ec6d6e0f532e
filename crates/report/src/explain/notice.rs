//! What a part of the kernel said by itself.

use pageblock_doctor::Explanation;
use pageblock_doctor::log::{About, Notice, Told};

/// Returns what was said, and how often.
pub(super) fn notice(of: &Explanation) -> String {
    let Some(Notice { about, last_line, count, .. }) = &of.report.notice else {
        return String::new();
    };
    let task = of.report.task.as_deref().unwrap_or("a task");
    let text = what(about, task);
    match count {
        1 => text,
        count => format!("{text}; {count} times, last in line {last_line}"),
    }
}

fn what(about: &About, task: &str) -> String {
    match about {
        About::Xfs(Some(bytes)) => {
            format!("XFS waits for memory in one piece, first for {task}, up to {bytes} bytes")
        }
        About::Xfs(None) => format!("XFS waits for memory, first for {task}"),
        About::XfsObject => format!("XFS waits for memory, less than a page, first for {task}"),
        About::ZfsLarge(bytes) => format!("ZFS warns: it asked for {bytes} bytes in one piece"),
        About::Words(told, words) => format!("{} ({words})", who(*told)),
        About::Isolation(seconds) => {
            format!(
                "{task} is blocked for more than {seconds} s until a range of pages is empty (CMA)"
            )
        }
        About::Zfs(bytes) => format!("ZFS waits for memory, first for {task}, up to {bytes} bytes"),
        About::Cma(pages, error) => format!("CMA could not allocate {pages} pages (error {error})"),
        About::ContigRange => {
            "a range of pages could not be emptied (alloc_contig_range)".to_owned()
        }
        About::Hugetlb(wanted, got, size) => {
            format!("{got} of {wanted} huge pages of {size} were allocated")
        }
        About::Compaction(seconds) => {
            format!("{task} is blocked for more than {seconds} s in compaction")
        }
        About::Reclaim(seconds) => {
            format!("{task} is blocked for more than {seconds} s in reclaim")
        }
        About::Slab { cache, cgroup, order, flags } => {
            let cache = cache.as_deref().unwrap_or("?");
            let of = cgroup
                .as_ref()
                .map_or(String::new(), |group| format!(" of the memory cgroup {group}"));
            let order = order.map_or(String::new(), |order| format!(": order {order} or larger"));
            format!("the slab cache {cache}{of} got no page{order}, flags {flags}")
        }
        About::TooLarge => format!("{task} asked for more than the allocator's largest block"),
        About::NoFail => format!("{task} asked for several pages with __GFP_NOFAIL"),
        About::Balloon(pages) => {
            format!("the balloon could not take {pages} pages from this guest")
        }
        About::PerCpu(bytes) => format!("{bytes} bytes for every CPU were not had (percpu)"),
        About::Swiotlb(0) => "the bounce buffers for DMA (swiotlb) are full".to_owned(),
        About::Swiotlb(bytes) => {
            format!("the bounce buffers for DMA (swiotlb) have no {bytes} bytes in one piece")
        }
        About::AtomicPool(kib) => format!("a pool of {kib} KiB for DMA was not had"),
        About::Graphics(words) => format!("a graphics driver got no memory ({words})"),
        About::Zram(bytes) => format!("zram got no {bytes} bytes for a compressed page"),
        About::SwapWrite(device) => {
            format!("a page could not be written to the swap device {device}")
        }
        About::Tcp => "TCP reached its own limit of memory".to_owned(),
        About::NoMmu(bytes) => format!("{task} got no block of {bytes} bytes, without an MMU"),
        About::NobodyToKill => "the OOM killer found nobody to kill".to_owned(),
        About::KilledBy(program) if program == "lowmemorykiller" => {
            format!("the low memory killer of Android killed {task}")
        }
        About::KilledBy(program) => format!("{program}, not the kernel, killed {task}"),
        About::Node => format!("the kernel killed {task}, as systemd or Kubernetes says"),
        About::Container => {
            "a process of a container was killed, as Docker or Kubernetes says".to_owned()
        }
        About::Evicted => "the kubelet evicts pods, or is about to".to_owned(),
        About::GpuPurge => "a graphics driver (i915) gave pages back".to_owned(),
        About::Asked => "somebody asked for a kill (SysRq-f)".to_owned(),
        About::Overcommit(0) => format!("{task} was refused memory by the rules of overcommit"),
        About::Overcommit(bytes) => {
            format!("{task} was refused {bytes} bytes by the rules of overcommit")
        }
        About::CmaReserve(mib) => format!("an area of {mib} MiB for CMA was not had at boot"),
        About::ExecMem => {
            "there was no room for the code of a module or of a BPF program".to_owned()
        }
        About::PanicOnOom => "the kernel panicked instead of killing a process".to_owned(),
    }
}

/// Returns what it means.
pub(super) fn said(about: &About) -> String {
    match about {
        About::Xfs(_) => "Fragmentation: XFS asks again until a free block is large enough.",
        About::XfsObject => {
            "A slab cache got no page: memory is used up, or the limit of the task's memory cgroup; XFS asks again until it gets it."
        }
        About::ZfsLarge(_) => "Nothing failed: ZFS says that it asked for a large piece.",
        About::Words(told, _) => meaning(*told),
        About::Isolation(_) => "CMA: the task waits until pages are moved out of the range that a device wants.",
        About::Zfs(_) => "Memory, or a free block of this size, is short: ZFS asks again until it gets it.",
        About::Cma(_, -12) => "CMA: no range of the area is free and long enough.",
        About::Cma(_, -16) => "CMA: pages in the range could not be moved out of it.",
        About::Cma(..) => "CMA: the area could not be used.",
        About::ContigRange => "Nothing failed yet: some pages of the range are pinned or under I/O, and the next range is tried.",
        About::Hugetlb(..) => {
            "Fragmentation, or a shortage: the kernel found no more free blocks of this size."
        }
        About::Compaction(_) => {
            "Compaction: the task moves pages to get a large block, and waits for one of them."
        }
        About::Reclaim(_) => {
            "Reclaim: the task frees pages to get memory, and waits for one of them."
        }
        About::Slab { cgroup: Some(_), .. } => {
            "Memory cgroup: the cache is the cgroup's own, and its limit refused the page."
        }
        About::Slab { .. } => "The page allocator had no page for it; these lines alone do not say why.",
        About::TooLarge => "A fault of the caller: no block is so large, however much memory is free. The request failed.",
        About::NoFail => "A warning: such a request may try for ever.",
        About::Balloon(_) => "Memory of the guest is used up: the hypervisor wants more back than can be had.",
        About::PerCpu(_) => "The area for percpu memory is full, or could not be enlarged.",
        About::Swiotlb(_) => "Bounce buffers are used up: a device that cannot reach all memory got no mapping.",
        About::AtomicPool(_) => "Low memory is short at boot: the zone that the pool comes from has too little.",
        About::Graphics(_) => "Memory for buffers of the graphics card is short; these lines alone do not say why.",
        About::Zram(_) => "Memory is used up: a page could not be swapped out, as that takes memory too.",
        About::SwapWrite(_) => "The page stays in memory: the device refused it; zram does if memory is used up.",
        About::Tcp => "Not the machine's memory: net.ipv4.tcp_mem limits what all sockets have together.",
        About::NoMmu(_) => "Fragmentation, or a shortage: the mapping must be one block of a power of two.",
        About::NobodyToKill => "No process may be killed for the memory that is short: the machine's, or that of a memory cgroup, which these words do not say.",
        About::KilledBy(_) => "No request failed: it kills before memory is used up.",
        About::CmaReserve(_) => "No range of low memory is free, long and aligned enough for it.",
        About::ExecMem => "The range of addresses for code is full; free pages do not matter.",
        About::PanicOnOom => "Memory is used up, and vm.panic_on_oom is set.",
        About::Node => "Only that a process was killed is in the log, not why.",
        About::Container => "Most likely the container's own limit; a machine that is short kills the same way.",
        About::Evicted => "No request failed: less memory was available than the kubelet wants to keep on the node.",
        About::GpuPurge => "Memory is used up: the kernel does this before it calls the OOM killer.",
        About::Asked => "Nobody lacked memory.",
        About::Overcommit(_) => "Addresses, not pages: all that was promised is more than vm.overcommit_memory allows.",
    }
    .to_owned()
}

/// Returns who speaks, of what.
const fn who(told: Told) -> &'static str {
    match told {
        Told::OwnHeap => "a program's runtime ran out of its own heap",
        Told::Card => "a program got no memory of a graphics card",
        Told::Threads => "a program could not start a thread or a process",
        Told::HugePages => "a program found no free huge page",
        Told::Compiler => "a process of a compiler was killed",
        Told::Driver => "a part of the kernel got no memory for a program",
        Told::Refused => "a program was refused memory",
        Told::Nothing => "a driver or a program says that it could not allocate something",
    }
}

/// Returns what such words mean.
const fn meaning(told: Told) -> &'static str {
    match told {
        Told::OwnHeap => {
            "Not the machine's memory: the runtime limits its heap, and the limit was reached."
        }
        Told::Card => {
            "Not the machine's memory: that of the card is used up, by this program or by others."
        }
        Told::Threads => {
            "A limit on their number, most often (ulimit -u, pids.max); seldom memory."
        }
        Told::HugePages => {
            "HugeTLB: none was set aside, or others have them; what else is free does not matter."
        }
        Told::Compiler => {
            "By SIGKILL, as the OOM killer does it: most likely memory was used up; the kernel's log says it."
        }
        Told::Driver => {
            "ENOMEM from a driver, BPF or the like: an area of its own, a large block, or a limit; the kernel's log says which."
        }
        Told::Refused => {
            "The kernel refused it at once (ENOMEM) and killed nobody: a limit or overcommit, more often than a machine \
                          that is full."
        }
        Told::Nothing => {
            "Nothing of the kernel's page allocator is in the log; these words alone do not say why."
        }
    }
}
