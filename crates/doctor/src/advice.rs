//! What helps against a kind of failure, and what is often advised and does not.

use pageblock::request::Gfp;
use pageblock_recording::KernelVersion;
use serde::Serialize;

use crate::class::{COSTLY_ORDER, Class};
use crate::gfp::is_optional;
use crate::holders::Holding;
use crate::interfaces::has_sysctl;
use crate::log::{About, Lack};

/// A piece of advice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Advice {
    /// What to do, or what is often advised.
    pub what: String,
    /// Why it helps or does not.
    pub why: &'static str,
}

fn advice(what: impl Into<String>, why: &'static str) -> Advice {
    Advice { what: what.into(), why }
}

/// What a failure's advice depends on beside its class.
#[derive(Clone, Copy, Default)]
pub struct Case<'v> {
    /// The order that was asked for.
    pub order: u32,
    /// What the request may do.
    pub flags: Gfp,
    /// The kernel's version, if it is known.
    pub version: Option<&'v KernelVersion>,
    /// Who has most of the memory.
    pub holding: Option<Holding>,
    /// The version of cgroups, of the OOM killer of one.
    pub cgroup_version: Option<u32>,
    /// Whether most of what a cgroup has waits to be written.
    pub waits_for_writeback: bool,
    /// What `vmalloc` lacked.
    pub lack: Option<Lack>,
    /// Whether the request would pass without the boost of a watermark.
    pub is_boosted: bool,
}

/// Returns what helps, best first, with what this version of the kernel has.
#[must_use]
pub fn helps(class: Class, case: Case<'_>) -> Vec<Advice> {
    let Case { order, flags, version, holding, is_boosted, .. } = case;
    if is_optional(flags, order) && class != Class::Asked {
        return vec![advice(
            "nothing, if the program works: the caller takes smaller pages by itself",
            "huge pages and buffers of graphics drivers are asked for with __GFP_NORETRY, and do without",
        )];
    }
    let has = |name: &str| has_sysctl(version, name);
    let mut all = Vec::new();
    if is_boosted {
        all.push(advice(
            "sysctl vm.watermark_boost_factor=0",
            "fragmentation raised the watermark; kswapd lowers it again when it has reclaimed as much",
        ));
    }
    match class {
        Class::Burst => all.extend(of_burst(&has)),
        Class::Fragmentation => all.extend(of_fragmentation(order, flags, &has)),
        Class::OnlyCma => all.extend(of_only_cma(order, flags)),
        Class::OnlyHighatomic => all.push(advice(
            "a newer kernel (6.12 and later return the reserve sooner)",
            "the reserve is for requests that cannot wait; others get it back under pressure only",
        )),
        Class::ZoneMask => all.push(advice(
            "in the driver, a larger DMA mask, or an IOMMU",
            "the request may use low zones only, which other requests fill as well",
        )),
        Class::NodeMask => all.push(advice(
            "a wider cpuset.mems or memory policy, or work that is spread over nodes",
            "other nodes have memory that this request may not use",
        )),
        Class::Cgroup => all.extend(of_cgroup(case)),
        Class::Shortage => all.push(of_holder(holding)),
        Class::SlowReclaim => all.push(advice(
            "find what holds reclaim up: dirty pages and writeback in the report, a slow disk or swap",
            "memory that could be reclaimed was there and was not freed in time",
        )),
        Class::FaultOom => all.push(advice(
            "find what the page fault asked for: the limit of a memory cgroup (memory.max, memory.limit_in_bytes), or \
             the failure above this report",
            "the fault returned VM_FAULT_OOM, and the OOM killer was called without a request",
        )),
        Class::Asked => all.push(advice(
            "nothing: find who pressed SysRq-f or wrote f to /proc/sysrq-trigger",
            "no request for memory failed",
        )),
        Class::Vmalloc => all.extend(case.lack.map(of_vmalloc)),
        Class::Changed | Class::NoRequest | Class::Unknown | Class::Notice => {}
    }
    all
}

/// Returns what helps where a burst took what was free before kswapd could free more. `has` says whether the kernel has
/// a sysctl.
fn of_burst(has: &dyn Fn(&str) -> bool) -> Vec<Advice> {
    let mut all = Vec::new();
    if has("watermark_scale_factor") {
        all.push(advice(
            "sysctl vm.watermark_scale_factor=100",
            "kswapd starts earlier and leaves more free, which is what a burst lives on",
        ));
    }
    all.push(advice(
        "a larger vm.min_free_kbytes, for bursts that are larger than the reserve",
        "callers that cannot wait may go below the min watermark only by a part of it",
    ));
    all.push(nothing_if_rare());
    all
}

/// Returns what helps where memory is free, but not in blocks of this order.
fn of_fragmentation(order: u32, flags: Gfp, has: &dyn Fn(&str) -> bool) -> Vec<Advice> {
    let mut all = Vec::new();
    if flags.has(Gfp::DIRECT_RECLAIM) {
        all.push(advice(
            "echo 1 > /proc/sys/vm/compact_memory, once, and look again",
            "compaction joins free memory where the pages between are movable; if it does not help, unmovable \
             pages hold the blocks",
        ));
    }
    if has("compaction_proactiveness") {
        all.push(advice(
            "sysctl vm.compaction_proactiveness=40 (the default is 20)",
            "kcompactd keeps large blocks free before somebody asks",
        ));
    }
    if order > COSTLY_ORDER {
        all.push(advice(
            "kvmalloc, scatter-gather or CMA in the driver that asks for this order",
            "above order 3 the kernel gives up early by design, and may fail at any time",
        ));
    }
    all
}

/// Returns what helps where only CMA is free.
fn of_only_cma(order: u32, flags: Gfp) -> Vec<Advice> {
    let mut all = Vec::new();
    all.push(advice(
        "a smaller cma= on the kernel's command line",
        "free CMA memory serves movable requests only, and counts as free all the same",
    ));
    if is_single_and_cannot_wait(order, flags) {
        all.push(advice(
            "a larger vm.min_free_kbytes",
            "kswapd leaves CMA out of what it keeps free, so that more single pages are there for callers \
             that cannot wait",
        ));
        all.push(nothing_if_rare());
    }
    all
}

/// Returns what helps where a cgroup's limit was reached.
fn of_cgroup(case: Case<'_>) -> Vec<Advice> {
    let mut all = Vec::new();
    if case.waits_for_writeback {
        all.push(advice(
            "less dirty page cache: vm.dirty_background_bytes and vm.dirty_bytes below the limit, or cgroups of version 2",
            "what fills the cgroup is to be written first; version 1 does not slow down writers by their cgroup",
        ));
    }
    let file = match case.cgroup_version {
        Some(1) => "memory.limit_in_bytes",
        Some(_) => "memory.max",
        None => "memory.max (memory.limit_in_bytes in version 1)",
    };
    all.push(advice(
        format!("a larger {file}, or less memory in the cgroup"),
        "the limit of the cgroup was reached, whatever the machine has",
    ));
    all
}

fn of_vmalloc(lack: Lack) -> Advice {
    match lack {
        Lack::Addresses => advice(
            "find who maps so much: /proc/vmallocinfo; on 32 bits a larger vmalloc= on the command line",
            "the range of addresses for vmalloc is full, whatever memory is free",
        ),
        Lack::Pages => advice(
            "with __GFP_ACCOUNT, the limit of the task's memory cgroup; else more free memory",
            "vmalloc takes single pages: fragmentation is not what it fails of",
        ),
        Lack::Machine => advice(
            "look at the size: the caller asked for more than the machine has",
            "no setting makes such a request pass",
        ),
    }
}

/// Returns what helps a part of the kernel that says by itself what it lacks.
pub(crate) fn of_notice(about: &About) -> Vec<Advice> {
    let one = match about {
        About::Xfs(_) => advice(
            "xfs_fsr, or a copy of the files with very many extents",
            "XFS keeps lists of extents in one piece, and waits until it gets one: fragmentation",
        ),
        About::Cma(_, -12) => advice(
            "a larger cma= on the kernel's command line",
            "-12: the area has no free range that is long enough",
        ),
        About::Cma(..) => advice(
            "try again later, and look for who pins pages there (page_owner)",
            "-16: the range has pages that could not be moved out",
        ),
        About::Hugetlb(..) => advice(
            "hugepages= on the kernel's command line, or ask again after echo 1 > /proc/sys/vm/compact_memory",
            "fragmentation: huge pages are got most surely at boot",
        ),
        About::Compaction(_) => advice(
            "look at the stack for what it waits for: a page that is being read or written holds compaction up",
            "a task that asked for several pages side by side moves others' pages first",
        ),
        About::Reclaim(_) => advice(
            "look for a slow disk or swap: what is reclaimed is written first",
            "a task that asked for memory frees others' pages first",
        ),
    };
    vec![one]
}

/// Returns what helps where memory is used up, by who has most of it.
fn of_holder(holding: Option<Holding>) -> Advice {
    match holding {
        Some(Holding::Mlocked) => advice(
            "less locked memory: find it by VmLck in /proc/*/status, and limit it (ulimit -l)",
            "neither reclaim nor swap takes locked memory",
        ),
        Some(Holding::Unevictable) => advice(
            "find what reclaim may not take: ramfs, secret memory, or pages of a driver",
            "neither reclaim nor swap takes unevictable memory",
        ),
        Some(Holding::SlabUnreclaimable | Holding::SlabReclaimable) => advice(
            "slabtop -o -s c, for the cache that has it",
            "the kernel holds the memory, so that no process of the list of tasks has it",
        ),
        Some(Holding::KernelStack | Holding::PageTables) => advice(
            "fewer tasks or mappings: ps -eLf | wc -l counts tasks",
            "the kernel holds the memory for them, and the list of tasks does not show it",
        ),
        Some(Holding::Shmem) => advice(
            "less in tmpfs and shared memory: df -t tmpfs, ipcs -m",
            "only swap takes it, and the list of tasks shows it only where it is mapped",
        ),
        Some(Holding::NeverGiven) => advice(
            "look for crashkernel=, mem= and reservations in the boot messages, and for memory that is not yet online",
            "most of the memory was never given to the allocator, so that no process has it",
        ),
        Some(Holding::Anonymous | Holding::File) | None => advice(
            "more memory or swap, or less load: find who has it by the list of tasks below the report",
            "memory is used up, and next to nothing of it can be reclaimed",
        ),
    }
}

fn nothing_if_rare() -> Advice {
    advice(
        "nothing, if it is rare: network and USB drivers retry or drop one packet",
        "the message is a warning, and the caller must handle it",
    )
}

const fn is_single_and_cannot_wait(order: u32, flags: Gfp) -> bool {
    order == 0 && !flags.has(Gfp::DIRECT_RECLAIM)
}

/// Returns what is often advised for such a failure and does nothing about it.
#[must_use]
pub fn does_not_help(class: Class, order: u32, flags: Gfp) -> Vec<Advice> {
    let compact = || {
        advice(
            "echo 1 > /proc/sys/vm/compact_memory",
            "compaction joins free memory; it does not make more of it",
        )
    };
    let min_free = || {
        advice(
            "a larger vm.min_free_kbytes",
            "it keeps more memory free, not larger blocks, and takes it from everybody",
        )
    };
    let drop_caches = |why| advice("echo 3 > /proc/sys/vm/drop_caches", why);
    match class {
        Class::Burst => vec![
            compact(),
            drop_caches(
                "it frees once what kswapd frees anyway, and the next burst finds the same reserve",
            ),
        ],
        Class::Fragmentation if order > 0 => {
            let mut all = vec![
                min_free(),
                drop_caches(
                    "it frees scattered pages; large blocks come back only where whole pageblocks were cache",
                ),
            ];
            if !flags.has(Gfp::DIRECT_RECLAIM) {
                all.push(advice("more swap", "the request cannot wait for reclaim"));
            }
            all
        }
        Class::OnlyCma if is_single_and_cannot_wait(order, flags) => vec![compact()],
        Class::OnlyCma => vec![compact(), min_free()],
        Class::ZoneMask | Class::NodeMask => vec![
            advice(
                "more memory",
                "what is added lies in zones or nodes that the request may not use",
            ),
            compact(),
        ],
        Class::Cgroup => vec![advice("more memory in the machine", "the limit is the cgroup's")],
        Class::Shortage => {
            vec![compact(), min_free(), drop_caches("there is next to no cache to drop")]
        }
        _ => Vec::new(),
    }
}
