//! What a part of the kernel said by itself.

use pageblock_doctor::Explanation;
use pageblock_doctor::advice::is_reached;
use pageblock_doctor::log::{About, Notice, Told};

use super::more::size;

/// Returns what was said, and how often.
pub(super) fn notice(of: &Explanation) -> String {
    let Some(Notice { about, last_line, count, .. }) = &of.report.notice else {
        return String::new();
    };
    let text = what(about, of.report.task.as_deref());
    match count {
        1 => text,
        count => format!("{text}; {count} times, last in line {last_line}"),
    }
}

fn what(about: &About, known: Option<&str>) -> String {
    let task = known.unwrap_or("a task");
    match about {
        About::Xfs(Some(bytes)) => {
            format!("XFS waits for memory in one piece, first for {task}, up to {bytes} bytes")
        }
        About::Xfs(None) => format!("XFS waits for memory, first for {task}"),
        About::XfsObject => format!("XFS waits for memory, less than a page, first for {task}"),
        About::ZfsLarge(bytes) => format!("ZFS warns: it asked for {bytes} bytes in one piece"),
        About::Words(told, words) => format!("{} ({words})", who(*told)),
        About::Compaction(0) => format!("{task} is in compaction, by its stack"),
        About::Reclaim(0) => format!("{task} is in reclaim, by its stack"),
        About::Isolation(0) => format!("{task} empties a range of pages (CMA), by its stack"),
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
        About::Compaction(seconds) => blocked(task, *seconds, "compaction"),
        About::Reclaim(seconds) => blocked(task, *seconds, "reclaim"),
        About::Slab { cache, cgroup, order, flags } => {
            of_slab((cache.as_deref(), cgroup.as_deref()), *order, flags)
        }
        About::TooLarge => format!("{task} asked for more than the allocator's largest block"),
        About::NoFail => format!("{task} asked for several pages with __GFP_NOFAIL"),
        About::Balloon(pages) => {
            format!("the balloon could not take {pages} pages from this guest")
        }
        About::PerCpu(bytes) | About::PerCpuAtomic(bytes) => {
            format!("{bytes} bytes for every CPU were not had (percpu)")
        }
        About::PerCpuSize(bytes) => {
            format!("{task} asked for {bytes} bytes for every CPU (percpu), more than may be")
        }
        About::SwiotlbSize(bytes) => {
            format!("a mapping of {bytes} bytes is too large for the bounce buffers (swiotlb)")
        }
        About::NoSwiotlb => "there are no bounce buffers for DMA (swiotlb)".to_owned(),
        About::GpuSpace => "a graphics driver (nvidia) has no addresses to map a buffer".to_owned(),
        About::HotAdd => "memory that the hypervisor offered was not added".to_owned(),
        About::CrashKernel => "no memory was set aside for a crash kernel".to_owned(),
        About::Initramfs => "the initramfs did not fit into memory".to_owned(),
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
        About::Overcommit(0) => format!("{task} was refused memory by the rules of overcommit"),
        About::Overcommit(bytes) => {
            format!("{task} was refused {bytes} bytes by the rules of overcommit")
        }
        About::CmaReserve(0) => "an area for CMA or a device was not had at boot".to_owned(),
        About::CmaReserve(mib) => format!("an area of {mib} MiB for CMA was not had at boot"),
        About::Pressure { some, full } => {
            let [some, full] = [some, full].map(|of| format!("{}.{:02} %", of / 100, of % 100));
            format!("tasks waited for memory {some} of the time, all of them {full} (pressure)")
        }
        About::Usage { limit, usage, peak, .. } => of_usage(*limit, *usage, *peak),
        About::ExecMem => {
            "there was no room for the code of a module or of a BPF program".to_owned()
        }
        kill => killed(kill, known),
    }
}

/// Says which slab cache got no page, and what it asked for.
fn of_slab(
    (cache, cgroup): (Option<&str>, Option<&str>),
    order: Option<u64>,
    flags: &str,
) -> String {
    let cache = cache.unwrap_or("?");
    let of = cgroup.map_or(String::new(), |group| format!(" of the memory cgroup {group}"));
    let order = order.map_or(String::new(), |order| format!(": order {order} or larger"));
    format!("the slab cache {cache}{of} got no page{order}, flags {flags}")
}

/// Returns the control files of a memory cgroup, in kB.
fn of_usage(limit: u64, usage: Option<u64>, peak: Option<u64>) -> String {
    let most = peak.map_or(String::new(), |kb| format!(", at most {} were used", size(kb)));
    let now = usage.map_or(String::new(), |kb| format!(", {} at that moment", size(kb)));
    format!("a memory cgroup with a limit of {}{most}{now}", size(limit))
}

fn blocked(task: &str, seconds: u64, place: &str) -> String {
    format!("{task} is blocked for more than {seconds} s in {place}")
}

/// Returns who was killed, by whom.
fn killed(about: &About, known: Option<&str>) -> String {
    let task = known.unwrap_or("a task");
    match about {
        About::NobodyToKill => "the OOM killer found nobody to kill".to_owned(),
        About::KilledBy(program) if program == "lowmemorykiller" => {
            format!("the low memory killer of Android killed {task}")
        }
        About::KilledBy(program) => match known {
            Some(task) => format!("{program}, not the kernel, killed {task}"),
            None => format!("{program}, not the kernel, was about to kill"),
        },
        About::Node => format!("the kernel killed {task}, as systemd or Kubernetes says"),
        About::Container => {
            "a process of a container was killed, as Docker or Kubernetes says".to_owned()
        }
        About::Evicted => "the kubelet evicts pods, or is about to".to_owned(),
        About::GpuPurge => "a graphics driver (i915) gave pages back".to_owned(),
        About::NobodyLeft => "the kernel panicked: it found nobody to kill".to_owned(),
        About::PanicOnOom => "the kernel panicked instead of killing a process".to_owned(),
        _ => "somebody asked for a kill (SysRq-f)".to_owned(),
    }
}

/// Returns what it means, with what follows it in the log.
pub(super) fn meaning_of(notice: &Notice) -> String {
    let mut text = said(&notice.about);
    let is_free = |numbers: &String| {
        let free = numbers.split("HugePages_Free ").nth(1);
        free.is_some_and(|free| free.starts_with(|first: char| ('1'..='9').contains(&first)))
    };
    if matches!(notice.about, About::Words(Told::HugePages, _))
        && notice.numbers.as_ref().is_some_and(is_free)
    {
        text = "HugeTLB: some are free, but fewer than were asked for, on another node, or beyond the program's own limit (DPDK: \
                --socket-mem)."
            .to_owned();
    }
    if let (Some((free, all)), About::Cma(pages, error)) = (notice.area_pages, &notice.about) {
        let shape = match error {
            _ if free < *pages => ", fewer than were asked for",
            -12 => ", not in one piece",
            _ => "",
        };
        text += &format!(" Of the area's {all} pages {free} were free{shape}.");
    }
    if let Some(numbers) = &notice.numbers {
        text += &format!(" It says: {numbers}.");
    }
    if let Some(kb) = notice.buffers_kb {
        text += &format!(" The graphics driver's own buffers had {}.", size(kb));
    }
    if let About::Usage { limit, usage, peak, refused, kills } = &notice.about {
        let most = usage.max(peak);
        text = match is_reached(*limit, *most) {
            true => "Memory cgroup: its limit was reached, whatever the machine has.",
            false => "Memory cgroup: by these numbers its limit was not reached.",
        }
        .to_owned();
        let counted = |count: &Option<u64>, what: &str| {
            count.filter(|n| *n > 0).map_or(String::new(), |n| format!(" {what} {n} times."))
        };
        text += &counted(refused, "It was met");
        text += &counted(kills, "A process of it was killed");
    }
    text
}

/// Returns what it means.
fn said(about: &About) -> String {
    match about {
        About::Usage { .. } => "",
        About::Pressure { some: ..1000, .. } => "Little: tasks hardly waited for memory in these seconds.",
        About::Pressure { .. } => "Memory is short: tasks that wait free it, or wait for swap; who has it the file does not say.",
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
        About::Compaction(0) => "It moves pages to get a large block; how long it has waited, and whether it failed, is above the stack, which is not in the log.",
        About::Reclaim(0) => "It frees pages, as memory is short; how long it has waited, and whether it failed, is above the stack, which is not in the log.",
        About::Compaction(_) => {
            "Compaction: the task moves pages to get a large block, and waits for one of them."
        }
        About::Reclaim(_) => {
            "Reclaim: the task frees pages to get memory, and waits for one of them."
        }
        About::Slab { cgroup: Some(_), .. } => {
            "Memory cgroup: the cache is the cgroup's own, and its limit refused the page."
        }
        About::Slab { order: Some(0), .. } => {
            "Most likely a shortage at that moment: not a single page was had; for a caller that cannot wait, the reserve was used up."
        }
        About::Slab { order: Some(_), .. } => {
            "Most likely fragmentation: the cache takes several pages in one piece, and a caller that cannot wait finds none."
        }
        About::Slab { .. } => "The page allocator had no page for it; these lines alone do not say why.",
        About::TooLarge => "A fault of the caller: no block is so large, however much memory is free. The request failed.",
        About::NoFail => "A warning: such a request may try for ever.",
        About::Balloon(_) => "Memory of the guest is used up: the hypervisor wants more back than can be had.",
        About::PerCpuSize(_) => "A fault of the caller: a piece has at most 32 KiB, however much memory is free. The request failed.",
        About::SwiotlbSize(_) => "Not the number of buffers: one mapping has at most 256 KiB (128 slots), however many are free.",
        About::NoSwiotlb => "Not their size: the kernel set none aside, and a device was to use them: its DMA mask says that it cannot reach all memory.",
        About::GpuSpace => "Addresses, not memory: the range by which the card's memory is reached (VA space, BAR1) is used up.",
        About::NobodyLeft => "Memory of the machine is used up, and every process is exempt or gone.",
        About::HotAdd => "The guest stays as large as it is; no request failed by this line.",
        About::CrashKernel => "crashkernel= is missing, or no free range was large enough at boot: kdump does not work; nothing else lacks memory.",
        About::Initramfs => "Memory is used up at boot: the machine has too little for what the initramfs unpacks to.",
        About::PerCpu(_) => "The area for percpu memory is full, or could not be enlarged; for a module's own variables it is 8 KiB (reserved chunk), whatever is free.",
        About::PerCpuAtomic(_) => "A burst: the caller cannot wait until the area for percpu memory is enlarged, which follows at once; how much is free does not matter.",
        About::Swiotlb(_) => "Bounce buffers are used up: a device that cannot reach all memory got no mapping.",
        About::AtomicPool(_) => "Low memory is short at boot: the zone that the pool comes from has too little.",
        About::Graphics(_) => "Memory for buffers of the graphics card is short; these lines alone do not say why.",
        About::Zram(_) => "Memory is used up: a page could not be swapped out, as that takes memory too.",
        About::SwapWrite(_) => "The page stays in memory: the device refused it; zram does if memory is used up.",
        About::Tcp => "Not the machine's memory: net.ipv4.tcp_mem limits what all sockets have together, and net.ipv4.tcp_max_orphans those without a process.",
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
        Told::Hardware => "the hardware reports that memory is damaged",
        Told::OwnHeap => "a program's runtime ran out of its own heap",
        Told::Card => "a program got no memory of a graphics card",
        Told::Threads => "a program could not start a thread or a process",
        Told::HugePages => "a program found no free huge page",
        Told::Shared => "a program was refused shared memory",
        Told::HugeFaults => "page faults took small pages instead of a huge one",
        Told::Mappings => "a program may not have as many mappings as it wants",
        Told::Cgroups => "the kernel could not make another cgroup",
        Told::Limit => "a container or a job met its limit of memory",
        Told::Killed => "a process was killed (SIGKILL)",
        Told::Fork => "a process could not be copied (fork)",
        Told::Guest => "a virtual machine got no memory of its host",
        Told::Locked => "a program was refused memory that stays in place (locked)",
        Told::Contiguous => "a device got no memory in one piece",
        Told::Packet => "a network driver got no buffer for a packet",
        Told::FileSystem => "a file system or block device got no memory of the kernel",
        Told::Probe => "a driver got no memory to start its device",
        Told::Driver => "a part of the kernel got no memory for a program",
        Told::Refused => "a program was refused memory",
        Told::Nothing => "a driver or a program says that it could not allocate something",
    }
}

/// Returns what such words mean.
const fn meaning(told: Told) -> &'static str {
    match told {
        Told::Hardware => {
            "No shortage: a memory module has an error that could not be corrected; the page is lost."
        }
        Told::OwnHeap => {
            "Not the machine's memory: the runtime limits its heap, and the limit was reached."
        }
        Told::Card => {
            "The card's memory is used up, by this program or by others; it is the machine's only where both share it (Jetson, integrated graphics)."
        }
        Told::Threads => {
            "A limit on their number, most often (ulimit -u, pids.max); seldom memory."
        }
        Told::HugePages => {
            "HugeTLB: none was set aside, fewer could be made than asked for (fragmentation), or others have them; what else is free does not matter."
        }
        Told::Shared => {
            "A limit, not a shortage: the size of /dev/shm (64 MB in a container), or kernel.shmmax and kernel.shmall."
        }
        Told::HugeFaults => {
            "Not a failure: no free block of that size was there (fragmentation), or making one was not allowed (defrag)."
        }
        Told::Mappings => {
            "Not memory: vm.max_map_count limits the number of mappings of a process."
        }
        Told::Cgroups => {
            "Not the limit of the container: their number is used up (no space left), or memory for another was not had \
             (deleted cgroups that still hold memory)."
        }
        Told::Limit => "Memory cgroup: its limit is too low, whatever the machine has.",
        Told::Killed => {
            "Most likely by the OOM killer: the machine's memory, or the limit of a container, was used up; the kernel's log says \
             which, or that it was somebody else."
        }
        Told::Fork => {
            "Overcommit, most often: a copy of a large process is more than vm.overcommit_memory allows, though it would take \
             little; or a limit of a cgroup."
        }
        Told::Guest => {
            "The host refused it at once: the guest's memory is more than the host has free, or than overcommit or a limit allows."
        }
        Told::Locked => {
            "A limit, not a shortage: RLIMIT_MEMLOCK (ulimit -l), or the device's own; for BPF from 5.11 on the memory cgroup."
        }
        Told::Contiguous => {
            "DMA: the area that it comes from (CMA, a coherent pool, or free blocks) is too small or in pieces; how much is free \
             in all does not matter."
        }
        Told::Packet => {
            "It could not wait, and free memory was at its reserve, or in pieces: the packet is lost, which matters if it is frequent."
        }
        Told::FileSystem => {
            "Memory of the kernel: a shortage, a large block, or the limit of the task's memory cgroup; the lines before it in the \
             kernel's log say which."
        }
        Told::Probe => {
            "ENOMEM: most often memory in one piece for DMA (CMA, coherent pool), or addresses (vmalloc, ioremap); the device does \
             not work."
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
