//! Advice against a class of failures, and common advice that does not help.

mod blocks;
mod holder;
mod notice;

use pageblock::layout::ZoneKind;
use pageblock::request::Gfp;
use pageblock_recording::KernelVersion;
use serde::Serialize;

use crate::class::{COSTLY_ORDER, Class};
use crate::gfp::is_optional;
use crate::holders::Holding;
use crate::interfaces::has_sysctl;
use crate::log::{Cgroup, Lack, Purpose, Share};

use self::blocks::{of_fragmentation, of_only_cma};
use self::holder::of_holder;
pub use self::notice::is_reached;
pub(crate) use self::notice::{of_notice, of_stack};

/// A piece of advice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Advice {
    /// The advice, or the common advice that does not help.
    pub what: String,
    /// The reason why it helps or does not.
    pub why: &'static str,
}

fn advice(what: impl Into<String>, why: &'static str) -> Advice {
    Advice { what: what.into(), why }
}

/// The properties of a failure, beside its class, on which advice depends.
#[derive(Clone, Copy, Default)]
pub struct Case<'v> {
    /// The requested order.
    pub order: u32,
    /// The permissions of the request.
    pub flags: Gfp,
    /// The kernel's version, if it is known.
    pub version: Option<&'v KernelVersion>,
    /// The largest holder of memory.
    pub holding: Option<Holding>,
    /// The process, or the number and the name of several, with the most memory, if that is much.
    pub largest: Option<&'v str>,
    /// The largest slab cache.
    pub cache: Option<&'v str>,
    /// The cgroup at its limit.
    pub cgroup: Option<&'v Cgroup>,
    /// The resource that `vmalloc` lacked.
    pub lack: Option<Lack>,
    /// Whether the request would pass without the boost of a watermark.
    pub is_boosted: bool,
    /// The purpose of the request.
    pub purpose: Option<Purpose>,
    /// Whether a stack tells who asked.
    pub has_caller: bool,
    /// Whether it happened while the machine booted.
    pub is_at_boot: bool,
    /// The sum of the min watermarks without boosts: about `vm.min_free_kbytes`.
    pub min_free_kb: Option<u64>,
    /// Whether high memory is free, which only some requests may use.
    pub is_high_memory_free: bool,
    /// Whether the state of memory is in the log.
    pub has_state: bool,
    /// Whether a fifth of memory is available without swapping.
    pub is_available: bool,
    /// Whether the request is in the log.
    pub has_request: bool,
    /// Whether the page is for a file that is being written.
    pub is_of_write: bool,
    /// Whether memory is full even without the boost: reclaim failed repeatedly before the OOM killer was called,
    /// and most of the memory that must stay free is not boost.
    pub has_filled: bool,
}

impl Case<'_> {
    /// Returns the setting that keeps twice as much memory free.
    fn min_free(&self) -> String {
        match self.min_free_kb.filter(|kb| *kb > 0) {
            Some(kb) => {
                format!("sysctl vm.min_free_kbytes={} (about {kb} now)", kb.saturating_mul(2))
            }
            None => "sysctl vm.min_free_kbytes=N, twice of what it is".to_owned(),
        }
    }

    fn has_mmu(&self) -> bool {
        self.purpose != Some(Purpose::NoMmu)
    }
}

/// Returns the advice that helps, best first, with the settings of this kernel's version.
#[must_use]
pub fn helps(class: Class, case: Case<'_>) -> Vec<Advice> {
    let Case { order, flags, version, is_boosted, .. } = case;
    if (is_optional(flags, order) || case.purpose == Some(Purpose::HugePage))
        && class != Class::Asked
    {
        return vec![advice(
            "nothing, if the program works: the caller takes smaller pages by itself",
            "huge pages and buffers of graphics drivers are asked for with __GFP_NORETRY, and do without",
        )];
    }
    let has = |name: &str| has_sysctl(version, name);
    let mut all = Vec::new();
    let is_of_request = matches!(class, Class::Burst | Class::Fragmentation | Class::OnlyCma);
    let is_likely =
        is_of_request || matches!(class, Class::Shortage | Class::SlowReclaim | Class::ZoneMask);
    let lacks_state = !case.has_state && case.has_request && is_likely;
    // If no holder is known, it must be found first; other requests determine the advice by themselves.
    let collects = lacks_state
        && matches!(class, Class::Shortage | Class::SlowReclaim)
        && case.holding.is_none()
        && case.largest.is_none();
    if collects {
        all.extend(to_collect(Class::Unknown, &case));
    }
    if case.is_at_boot && is_of_request {
        all.push(advice(
            "what the kernel's command line sets, or a driver that is loaded earlier or asks for less",
            "at this time of the boot /etc/sysctl.d is not read yet",
        ));
    }
    let is_low = matches!(
        class,
        Class::Fragmentation | Class::Shortage | Class::SlowReclaim | Class::ZoneMask
    );
    if case.is_high_memory_free && is_low && case.holding != Some(Holding::File) {
        all.push(advice(
            "a 64-bit kernel",
            "high memory is free, but on 32 bits the kernel's own memory must lie in the low 896 MiB or less; the more \
             memory, the more of that its tables take",
        ));
    }
    let boost = || {
        advice(
            "sysctl vm.watermark_boost_factor=0",
            "fragmentation raised the watermark; kswapd lowers it again when it has reclaimed as much",
        )
    };
    // The holder of memory comes before a boost, which only holds memory back.
    let has_holder = !matches!(case.holding, None | Some(Holding::File));
    let is_filled = match class {
        Class::Shortage => case.has_filled,
        _ => class == Class::NoRequest && has_holder,
    };
    if is_boosted && !is_filled {
        all.push(boost());
    }
    all.extend(of_class(class, &case, &has));
    if is_boosted && is_filled {
        all.push(boost());
    }
    if lacks_state && !collects {
        all.extend(to_collect(Class::Unknown, &case));
    }
    all
}

/// Returns the advice against a class of failures.
fn of_class(class: Class, case: &Case<'_>, has: &impl Fn(&str) -> bool) -> Vec<Advice> {
    match class {
        Class::Burst => of_burst(case, has),
        Class::Fragmentation => of_fragmentation(case, has),
        Class::OnlyCma => of_only_cma(case),
        Class::OnlyHighatomic => vec![advice(
            "a newer kernel (6.12 and later return the reserve sooner)",
            "the reserve is for requests that cannot wait; others get it back under pressure only",
        )],
        Class::ZoneMask if case.purpose == Some(Purpose::DmaPool) => vec![advice(
            "nothing, if the devices work; else coherent_pool=SIZE, and for a crash kernel more low memory (crashkernel=SIZE,low)",
            "the pool is taken from low zones at boot, which a crash kernel may not have at all",
        )],
        Class::ZoneMask if case.holding == Some(Holding::File) => vec![advice(
            "find what keeps reclaim from the page cache of these zones: dirty pages (writepending in the report, iostat -x 1; \
             vm.dirty_bytes), or memory.min and memory.low of cgroups",
            "the zones that the request may use are full of page cache, which can be freed unless it waits to be written or \
             is protected",
        )],
        Class::ZoneMask if case.flags.highest_zone() >= ZoneKind::Normal => vec![advice(
            "less of the kernel's own memory: slabtop -o -s c for caches of names and inodes, and page tables of many processes",
            "on 32 bits it must lie in low memory, however much high memory is free",
        )],
        Class::ZoneMask => vec![advice(
            "in the driver, a larger DMA mask, or an IOMMU",
            "the request may use low zones only, which other requests fill as well",
        )],
        Class::NodeMask => vec![advice(
            "a wider cpuset.mems or memory policy, or work that is spread over nodes",
            "other nodes have memory that this request may not use",
        )],
        Class::Cgroup => of_cgroup(case.cgroup, case.is_of_write),
        Class::Shortage => vec![of_holder(case)],
        Class::SlowReclaim => of_slow_reclaim(case),
        Class::FaultOom => vec![advice(
            "find what the page fault asked for: the limit of a memory cgroup (memory.max, memory.limit_in_bytes), or \
             the failure above this report",
            "the fault returned VM_FAULT_OOM, and the OOM killer was called without a request",
        )],
        Class::Asked => vec![advice(
            "nothing: find who pressed SysRq-f or wrote f to /proc/sysrq-trigger",
            "no request for memory failed",
        )],
        Class::Vmalloc => {
            case.lack.map(|lack| of_vmalloc(lack, case.purpose)).into_iter().collect()
        }
        Class::Changed | Class::NoRequest | Class::Unknown => collect(class, case),
        Class::Notice => Vec::new(),
    }
}

/// Returns the advice if memory was not reclaimed in time.
fn of_slow_reclaim(case: &Case<'_>) -> Vec<Advice> {
    if matches!(case.purpose, Some(Purpose::SwapOut)) {
        return vec![
            nothing_if_rare(case),
            advice(
                "more memory, or less load: memory was used up to the reserves as pages were swapped out",
                "swapping a page out takes a little memory itself",
            ),
        ];
    }
    vec![match case.has_state {
        false => advice(
            "look at it as it happens: vmstat 1, iostat -x 1, grep -e Dirty -e Writeback -e Swap /proc/meminfo",
            "memory is used up, or what could be freed waits: for a disk, for swap, or for a task",
        ),
        true => advice(
            "find what holds reclaim up: iostat -x 1, vmstat 1, and dirty pages and writeback in the report",
            "memory that could be reclaimed was there and was not freed in time: a slow disk or swap, or a burst",
        ),
    }]
}

/// Returns commands that collect what the log lacks, after the advice that follows from a state of memory alone.
fn collect(class: Class, case: &Case<'_>) -> Vec<Advice> {
    let mut all = match (class, case.holding) {
        (
            Class::NoRequest,
            Some(Holding::Anonymous | Holding::File | Holding::SlabReclaimable) | None,
        ) if case.is_available => {
            vec![advice(
                "nothing for memory at that moment: look for a limit (memory.high and memory.max of the cgroup), a lock or a disk",
                "what is available can be had at once; a state from the time of the failure would tell more",
            )]
        }
        (Class::NoRequest, Some(holding)) if holding != Holding::File => vec![of_holder(case)],
        (Class::Unknown, None) if case.largest.is_some() && !case.has_state => {
            vec![of_holder(case)]
        }
        _ => Vec::new(),
    };
    all.extend(to_collect(class, case));
    all
}

fn to_collect(class: Class, case: &Case<'_>) -> Vec<Advice> {
    let record = advice(
        "pageblock flight --ring /var/tmp/flight.ring --on-failure, and pageblock flight bundle after the next one",
        "the state is needed from before the failure; the kernel prints one from after it",
    );
    match class {
        Class::Changed => vec![nothing_if_rare(case), record],
        Class::NoRequest if case.has_request => vec![advice(
            "nothing, if somebody asked for it: SysRq-m prints the state of memory",
            "no request for memory failed",
        )],
        _ => vec![
            advice(
                "journalctl -k --no-pager -o short-precise > log, or dmesg > log, and pageblock explain log",
                "the whole report has the request, the version, and every line from Mem-Info to `pages RAM`; grep keeps \
                 too few",
            ),
            record,
        ],
    }
}

/// Returns the advice if a burst used the free memory before kswapd could free more. `has` returns whether the kernel has
/// a sysctl.
fn of_burst(case: &Case<'_>, has: &dyn Fn(&str) -> bool) -> Vec<Advice> {
    let mut all = Vec::new();
    if case.order == 0 || case.purpose.is_some() {
        all.push(nothing_if_rare(case));
    }
    if has("watermark_scale_factor") {
        all.push(advice(
            "sysctl vm.watermark_scale_factor=100",
            "kswapd starts earlier and leaves more free, which is what a burst lives on",
        ));
    }
    all.push(advice(
        case.min_free(),
        "callers that cannot wait may go below the min watermark only by a part of it",
    ));
    all
}

/// Returns the advice for a cgroup that reached its limit.
fn of_cgroup(cgroup: Option<&Cgroup>, is_of_write: bool) -> Vec<Advice> {
    let mut all = Vec::new();
    let dirty = cgroup.and_then(Cgroup::dirty_percent);
    if is_of_write && dirty.is_none() {
        all.push(advice(
            "look at file_dirty in memory.stat of the cgroup (dirty in version 1): if it is most, vm.dirty_background_bytes and \
             vm.dirty_bytes below the limit",
            "the page was for a file that is being written, and pages that wait for a slow disk cannot be freed",
        ));
    }
    let waits = dirty.is_some_and(|percent| percent >= 50);
    if waits && cgroup.is_some_and(|cgroup| cgroup.version == Some(2)) {
        all.push(advice(
            "less dirty page cache: vm.dirty_background_bytes and vm.dirty_bytes below the limit, or a larger limit",
            "what fills the cgroup is to be written first, and the disk is slower than the writer",
        ));
    } else if waits {
        all.push(advice(
            "less dirty page cache: vm.dirty_background_bytes and vm.dirty_bytes below the limit, or cgroups of version 2",
            "what fills the cgroup is to be written first; version 1 does not slow down writers by their cgroup",
        ));
    }
    match cgroup.and_then(Cgroup::largest) {
        Some(Share::Kernel) => all.push(advice(
            "find the kernel's memory: slab and others in memory.stat; /proc/slabinfo, for dentries and inodes of many files",
            "most of the limit is the kernel's memory for the cgroup, which no process shows as its own",
        )),
        Some(Share::Shmem) => all.push(advice(
            "less in tmpfs: /dev/shm and emptyDir volumes of medium Memory are charged to who wrote them",
            "only swap takes tmpfs",
        )),
        _ => {}
    }
    let version = cgroup.and_then(|cgroup| cgroup.version);
    let file = match version {
        Some(1) => "memory.limit_in_bytes",
        Some(_) => "memory.max",
        None => "memory.max (memory.limit_in_bytes in version 1)",
    };
    let path = cgroup.and_then(|cgroup| cgroup.path.as_deref()).unwrap_or_default();
    let by = match () {
        () if path.contains("kubepods") => {
            ": resources.limits.memory of the container in Kubernetes"
        }
        () if path.contains("docker") => ": docker update --memory",
        () if path.ends_with(".service") => ": MemoryMax= of the unit (systemctl set-property)",
        () => "",
    };
    all.push(advice(
        format!("a larger {file}, or less memory in the cgroup{by}"),
        "the limit of the cgroup was reached, whatever the machine has",
    ));
    all
}

fn of_vmalloc(lack: Lack, purpose: Option<Purpose>) -> Advice {
    match lack {
        Lack::Addresses if purpose == Some(Purpose::Module) => advice(
            "fewer modules and BPF programs, or a kernel that may place them elsewhere (CONFIG_ARM_MODULE_PLTS on ARM)",
            "the range of addresses for modules is small, and full, whatever memory is free",
        ),
        Lack::Addresses => advice(
            "find who maps so much: /proc/vmallocinfo; on 32 bits a larger vmalloc= on the command line",
            "the range of addresses for vmalloc is full, whatever memory is free",
        ),
        Lack::Blocks => advice(
            "nothing, if no line of order 0 follows: vmalloc goes on with single pages",
            "large blocks only make the mapping faster; from 6.4 on the kernel does not report that there are none",
        ),
        Lack::Pages => advice(
            "with __GFP_ACCOUNT, the limit of the task's memory cgroup; else more free memory",
            "vmalloc takes single pages: fragmentation is not what it fails of",
        ),
        Lack::Machine => advice(
            "look at the size: the caller asked for more than the machine has, or for nothing",
            "no setting makes such a request pass",
        ),
    }
}

fn nothing_if_rare(case: &Case<'_>) -> Advice {
    let what = match case.purpose {
        Some(Purpose::Packet | Purpose::Usb) => {
            "nothing, if it is rare: network and USB drivers retry or drop one packet"
        }
        // Nothing tells who asked, and drivers of networks do most.
        None if !case.has_caller => {
            "nothing, if it is rare: network and USB drivers retry or drop one packet"
        }
        _ => "nothing, if it is rare and nothing else fails at that time",
    };
    advice(what, "the message is a warning, and the caller must handle it")
}

/// Returns whether a request is for a few contiguous pages, of a caller that only takes free memory.
const fn is_small_and_cannot_wait(order: u32, flags: Gfp) -> bool {
    order > 0 && order <= COSTLY_ORDER && !flags.has(Gfp::DIRECT_RECLAIM)
}

const fn is_single_and_cannot_wait(order: u32, flags: Gfp) -> bool {
    order == 0 && !flags.has(Gfp::DIRECT_RECLAIM)
}

/// Returns common advice that does nothing about such a failure.
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
            let mut all =
                if is_small_and_cannot_wait(order, flags) { Vec::new() } else { vec![min_free()] };
            all.extend([
                drop_caches(
                    "it frees scattered pages; large blocks come back only where whole pageblocks were cache",
                ),
            ]);
            if !flags.has(Gfp::DIRECT_RECLAIM) {
                all.push(advice("more swap", "the request cannot wait for reclaim"));
            }
            all
        }
        Class::OnlyCma if is_single_and_cannot_wait(order, flags) => vec![compact()],
        // Compaction is what helps first here.
        Class::OnlyCma if order > 0 && flags.has(Gfp::DIRECT_RECLAIM) => vec![min_free()],
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
            vec![
                compact(),
                min_free(),
                drop_caches("the kernel drops clean cache by itself when memory is short"),
            ]
        }
        _ => Vec::new(),
    }
}
