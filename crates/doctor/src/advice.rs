//! What helps against a kind of failure, and what is often advised and does not.

use serde::Serialize;

use crate::class::{COSTLY_ORDER, Class};
use crate::gfp::{Flags, Version};

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

/// Returns what helps, best first, with what this version of the kernel has.
#[must_use]
pub fn helps(class: Class, order: u32, flags: Flags, version: Option<Version>) -> Vec<Advice> {
    let has = |since: Version| version.is_none_or(|version| version >= since);
    let mut all = Vec::new();
    match class {
        Class::Burst => {
            if has((4, 6)) {
                all.push(advice(
                    "sysctl vm.watermark_scale_factor=100",
                    "kswapd starts earlier and leaves more free, which is what a burst lives on",
                ));
            }
            all.push(advice(
                "a larger vm.min_free_kbytes, for bursts that are larger than the reserve",
                "callers that cannot wait may go below the min watermark only by a part of it",
            ));
            all.push(advice(
                "nothing, if it is rare: network and USB drivers retry or drop one packet",
                "the message is a warning, and the caller must handle it",
            ));
        }
        Class::Fragmentation => {
            if flags.direct_reclaim {
                all.push(advice(
                    "echo 1 > /proc/sys/vm/compact_memory, once, and look again",
                    "compaction joins free memory where the pages between are movable; if it does not help, unmovable \
                     pages hold the blocks",
                ));
            }
            if has((5, 9)) {
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
        }
        Class::OnlyCma => all.push(advice(
            "a smaller cma= on the kernel's command line",
            "free CMA memory serves movable requests only, and counts as free all the same",
        )),
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
        Class::Cgroup => all.push(advice(
            "a larger memory.max, or less memory in the cgroup",
            "the limit of the cgroup was reached, whatever the machine has",
        )),
        Class::Shortage => all.push(advice(
            "more memory or swap, or less load: find who has it by the list of tasks below the report",
            "memory is used up, and next to nothing of it can be reclaimed",
        )),
        Class::SlowReclaim => all.push(advice(
            "find what holds reclaim up: dirty pages and writeback in the report, a slow disk or swap",
            "memory that could be reclaimed was there and was not freed in time",
        )),
        Class::Changed | Class::NoRequest | Class::Unknown => {}
    }
    all
}

/// Returns what is often advised for such a failure and does nothing about it.
#[must_use]
pub fn does_not_help(class: Class, order: u32, flags: Flags) -> Vec<Advice> {
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
            if !flags.direct_reclaim {
                all.push(advice("more swap", "the request cannot wait for reclaim"));
            }
            all
        }
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
